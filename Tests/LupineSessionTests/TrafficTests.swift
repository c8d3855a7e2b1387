import FoundationEssentials
import Glibc
import LupineBase
import LupineEngine
import LupineIO
import LupineRules
import LupineSession
import LupineTesting
import Testing

/// What a request asks of the network: a mark on its packets, and no mobile network.
@Suite(.timeLimit(.minutes(2))) struct TrafficTests {
  /// Requests of different kinds do not share a connection, those of one kind do; the sockets have the marks.
  @Test func kindsOfServiceAreMarkedAndKeptApart() async throws {
    try await withServer { session, server in
      var call = try Request(server.url("/hello"))
      call.networkServiceType = .voice
      #expect(!(try await session.text(server.url("/hello")).1.wasReused))
      #expect(!(try await session.text(call).1.wasReused))
      #expect(ConnectedSockets.options(IPPROTO_IP, IP_TOS, to: server.port) == [0, 184])
      #expect(try await session.text(call).1.wasReused)
      #expect(try await session.text(server.url("/hello")).1.wasReused)
      #expect(server.connectionCount == 2)
    }
  }

  /// The session's kind is that of requests that have none.
  @Test func theSessionHasAKind() async throws {
    try await withServer(configure: { $0.networkServiceType = .background }) { session, server in
      _ = try await session.text(server.url("/hello"))
      #expect(ConnectedSockets.options(IPPROTO_IP, IP_TOS, to: server.port) == [4])
      var plain = try Request(server.url("/hello"))
      plain.networkServiceType = .default
      _ = try await session.text(plain)
      #expect(ConnectedSockets.options(IPPROTO_IP, IP_TOS, to: server.port) == [0, 4])
    }
  }

  private static let probes: [(TCPKeepAlive?, [Int32])] = [
    (nil, [0]),
    (TCPKeepAlive(), [1, 60, 15, 4]),
    (TCPKeepAlive(idleTime: .milliseconds(7_001), interval: .seconds(3), probes: 2), [1, 8, 3, 2]),
    (TCPKeepAlive(idleTime: .zero, interval: .seconds(-5), probes: 0), [1, 1, 1, 1]),
    (TCPKeepAlive(idleTime: .seconds(100_000), interval: .seconds(Int64.max), probes: .max), [1, 32_767, 32_767, 127]),
  ]

  /// Nothing is probed unless it is asked for; what Linux would refuse is brought within its limits.
  @Test(arguments: probes)
  func silentConnectionsAreProbed(_ keepAlive: TCPKeepAlive?, _ expected: [Int32]) async throws {
    try await withServer(configure: { $0.tcpKeepAlive = keepAlive }) { session, server in
      _ = try await session.text(server.url("/hello"))
      let seen =
        ConnectedSockets.options(SOL_SOCKET, SO_KEEPALIVE, to: server.port)
        + ConnectedSockets.options(IPPROTO_TCP, TCP_KEEPIDLE, to: server.port)
        + ConnectedSockets.options(IPPROTO_TCP, TCP_KEEPINTVL, to: server.port)
        + ConnectedSockets.options(IPPROTO_TCP, TCP_KEEPCNT, to: server.port)
      // The times of a socket that does not probe are the system's, and may be set otherwise there.
      #expect(keepAlive == nil ? seen.first == expected.first : seen == expected)
    }
  }

  /// A request that may not use a mobile network is refused where there is nothing else, and uses no connection that another one made.
  @Test func mobileNetworksAreRefused() async throws {
    let configure: (inout SessionConfiguration) -> Void = {
      $0.routes = { _ in NetworkInterface(name: "wwan0", medium: .cellular) }
    }
    try await withServer(configure: configure) { session, server in
      _ = try await session.text(server.url("/hello"))
      var request = try Request(server.url("/hello"))
      request.allowsCellularAccess = false
      let error = try await failure { [request] in try await session.text(request) }
      #expect(error.code == .cellularAccessRefused && error.phase == .connect && !error.requestBytesSent)
      #expect(error.message.contains("wwan0"))
      #expect(server.connectionCount == 1)
    }
  }

  /// The session's word counts more than the request's.
  @Test func theSessionMayRefuse() async throws {
    let configure: (inout SessionConfiguration) -> Void = {
      $0.allowsCellularAccess = false
      $0.routes = { _ in NetworkInterface(name: "wwan0", medium: .cellular) }
    }
    try await withServer(configure: configure) { session, server in
      var request = try Request(server.url("/hello"))
      request.allowsCellularAccess = true
      try await expectFailure(.cellularAccessRefused) { [request] in try await session.text(request) }
    }
  }

  /// Addresses that are reached otherwise are used; so are those that nobody knows anything of.
  @Test(arguments: [LinkMedium.wired, .wireless, .loopback, nil]) func otherMediaServe(_ medium: LinkMedium?)
    async throws
  {
    let configure: (inout SessionConfiguration) -> Void = {
      $0.allowsCellularAccess = false
      $0.routes = { _ in medium.map { NetworkInterface(name: "if0", medium: $0) } }
    }
    try await withServer(configure: configure) { session, server in
      try await session.expect("Hello, world!", from: server.url("/hello"))
    }
  }

  /// Of the addresses of a host, those over a mobile network are left out.
  @Test func oneAddressIsEnough() async throws {
    let configure: (inout SessionConfiguration) -> Void = {
      $0.allowsCellularAccess = false
      $0.routes = { NetworkInterface(name: "any", medium: $0.family == .v6 ? .cellular : .wired) }
    }
    try await withServer(configure: configure) { session, server in
      try await session.expect("Hello, world!", from: "http://localhost:\(server.port)/hello")
    }
  }

  /// A session that waits for connectivity waits for another network.
  @Test func anotherNetworkIsWaitedFor() async throws {
    let asked = Locked(0)
    try await withServer(configure: { $0.waitForNetwork(asked) { $0 > 1 } }) { session, server in
      let response = try await session.expect("Hello, world!", from: server.url("/hello"))
      #expect(asked.withLock { $0 } == 2)
      // However long it takes, the attempts leave nothing.
      #expect(response.metrics.transactions.count == 1)
    }
  }

  /// What was sent before the network went stays in the metrics, and the last attempt in vain with it.
  @Test func whatWasSentBeforeTheWaitIsKept() async throws {
    let asked = Locked(0)
    let server = try LoopbackServer { _, connection in
      try connection.respond(302, fields: ["Location": "/next", "Connection": "close"])
    }
    defer { server.shutdown() }
    try await withSession(configure: { $0.waitForNetwork(asked) { $0 == 1 } }) { session in
      var request = try Request(server.url("/first"))
      request.totalTimeout = .seconds(2)
      let error = try await failure { [request] in try await session.data(for: request) }
      #expect(asked.withLock { $0 } > 2)
      let transactions = error.metrics?.transactions ?? []
      #expect(transactions.map(\.urlString) == [server.url("/first"), server.url("/next")])
      #expect(transactions.map(\.statusCode) == [302, nil])
    }
  }

  /// The kernel's own answer, for the way to this machine.
  @Test func theKernelIsAsked() async throws {
    #expect(
      RouteLookup.interface(to: .v4(.loopback, port: 80)) == NetworkInterface(name: "lo", medium: .loopback))
    #expect(RouteLookup.interface(to: .abstract(name: [1])) == nil)
    // From where the socket is bound: there is no way from an address that is not this machine's.
    let far = SocketAddress.v4(IPv4Address(bits: 0xC000_0207), port: 0)
    #expect(RouteLookup.interface(to: .v4(.loopback, port: 80), from: far) == nil)
    #expect(RouteLookup.interface(to: .v4(.loopback, port: 80), from: .v4(.loopback, port: 0))?.name == "lo")
    #expect(RouteLookup.interface(to: .v4(.loopback, port: 80), from: .v4(IPv4Address(bits: 0), port: 0))?.name == "lo")
    try await withServer(configure: { $0.allowsCellularAccess = false }) { session, server in
      try await session.expect("Hello, world!", from: server.url("/hello"))
    }
  }

  /// Code points fit their six bits, and only the default has none.
  @Test func codePoints() {
    let points = NetworkServiceType.allCases.map(\.codePoint)
    #expect(points.allSatisfy { $0 < 64 } && points.count { $0 == 0 } == 1)
  }
}

/// The sockets of this process that are connected to a port of 127.0.0.1.
private enum ConnectedSockets {
  /// The values of an option, in ascending order.
  static func options(_ level: some BinaryInteger, _ name: Int32, to port: Int) -> [Int32] {
    let numbers = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
    return numbers.compactMap { Int32($0) }.compactMap { option(Int32(level), name, of: $0, ifConnectedTo: port) }
      .sorted()
  }

  private static func option(_ level: Int32, _ name: Int32, of number: Int32, ifConnectedTo port: Int) -> Int32? {
    var address = sockaddr_in()
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let code = unsafe withUnsafeMutablePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe getpeername(number, $0, &length) }
    }
    guard code == 0, address.sin_family == sa_family_t(AF_INET), Int(UInt16(bigEndian: address.sin_port)) == port else {
      return nil
    }
    var value: Int32 = 0
    var size = socklen_t(MemoryLayout<Int32>.size)
    return unsafe getsockopt(number, level, name, &value, &size) == 0 ? value : nil
  }
}
