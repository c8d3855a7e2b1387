import LupineBase
import LupineEngine
import LupineIO
import LupineRules
import LupineTesting
import LupineWire
import Testing

/// A SOCKS proxy that is given addresses gets to some of them, or to none.
@Suite(.timeLimit(.minutes(2))) struct SOCKSAddressTests {
  /// One connection's script: the proxy is asked for an address of so many bytes, and says this.
  private static func script(_ count: Int, _ reply: UInt8) -> [ScriptStep] {
    [
      .read(3), .send(ScriptBytes([5, 0])), .read(4 + count + 2),
      .send(ScriptBytes([5, reply, 0, 1, 0, 0, 0, 0, 0, 0])),
    ]
  }

  private static let answer: [ScriptStep] = [
    .readHead, .send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"), .waitForClose,
  ]

  private func fetch(
    _ scripts: [[ScriptStep]], _ addresses: [String], proxyNanoseconds: Int64? = nil
  ) async throws -> (outcome: Recorder.Outcome, targets: [[UInt8]]) {
    let server = try ScriptedServer(scripts)
    defer { server.shutdown() }
    var configuration = PoolConfiguration()
    configuration.resolver = TableResolver([
      "127.0.0.1": [try #require(SocketAddress(literal: "127.0.0.1", port: UInt16(server.port)))],
      "many.example": try addresses.map { try #require(SocketAddress(literal: $0, port: 81)) },
    ])
    if let proxyNanoseconds { configuration.proxyNanoseconds = proxyNanoseconds }
    let route = ProxyRoute(
      kind: .socks5, endpoint: try ProxyURLReader.read("socks5://127.0.0.1:\(server.port)").endpoint, tunnels: true)
    let made = Locked<Recorder.Outcome?>(nil)
    try await withPool(configuration) { pool in
      let outcome = await pool.run(try request(through: route))
      made.withLock { $0 = outcome }
    }
    let targets = (1...max(1, server.connectionCount)).map {
      Array(server.bytesReceived(connection: $0).dropFirst(7).prefix(4))
    }
    return (try #require(made.withLock { $0 }), targets)
  }

  private func request(through route: ProxyRoute) throws -> TransferRequest {
    var head: [UInt8] = []
    try RequestEncoder.head(method: "GET", target: "/", fields: [("Host", "many.example:81")], into: &head)
    var identity = ConnectionIdentity(host: "many.example", serverName: "many.example", port: 81, tls: nil)
    identity.route = .proxy(route)
    return TransferRequest(
      key: PoolKey(identity), method: "GET", head: head, context: RequestContext(), body: .none, deadlines: Deadlines(),
      priority: .default)
  }

  /// Each address is asked for on a connection of its own, families in turn, until one is reached.
  @Test func theNextAddressIsTried() async throws {
    let (outcome, targets) = try await fetch(
      [Self.script(4, 5), Self.script(16, 8), Self.script(4, 0) + Self.answer],
      ["192.0.2.1", "192.0.2.2", "2001:db8::1"])
    #expect(outcome.status == 200 && outcome.body == Array("hi".utf8))
    #expect(targets == [[192, 0, 2, 1], [0x20, 1, 0x0D, 0xB8], [192, 0, 2, 2]])
  }

  /// The last word is that of the last address.
  @Test func noneIsReached() async throws {
    let (outcome, targets) = try await fetch([Self.script(4, 4), Self.script(4, 5)], ["192.0.2.1", "192.0.2.2"])
    guard case .proxy(.socks(.refused(.connectionRefused)))? = outcome.failure?.error else {
      Issue.record("\(outcome)")
      return
    }
    #expect(targets.count == 2)
  }

  /// What is wrong with the proxy itself is wrong for every address.
  @Test func whatIsNoFaultOfTheAddressEndsIt() async throws {
    let (outcome, targets) = try await fetch([Self.script(4, 7)], ["192.0.2.1", "192.0.2.2"])
    guard case .proxy(.socks(.refused(.commandNotSupported)))? = outcome.failure?.error else {
      Issue.record("\(outcome)")
      return
    }
    #expect(targets.count == 1)
  }

  /// One deadline for all addresses together.
  @Test func theDeadlineIsForAllOfThem() async throws {
    let stalled: [ScriptStep] = [.read(3), .stall(nil)]
    let (outcome, _) = try await fetch(
      [Self.script(4, 4), stalled], ["192.0.2.1", "192.0.2.2", "192.0.2.3"], proxyNanoseconds: 100_000_000)
    guard case .deadline(.proxy)? = outcome.failure?.error else {
      Issue.record("\(outcome)")
      return
    }
  }
}
