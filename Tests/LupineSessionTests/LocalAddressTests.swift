import LupineIO
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// The address of this machine that connections are made from. Linux answers to all of 127.0.0.0/8.
@Suite(.timeLimit(.minutes(2))) struct LocalAddressTests {
  /// The server sees it, also where the host is a name that has addresses of both families, and it is that session's alone.
  @Test(arguments: ["127.0.0.1", "localhost"]) func theServerSeesIt(_ host: String) async throws {
    try await withServer(configure: { $0.localAddress = "127.0.0.2" }) { session, server in
      let url = "http://\(host):\(server.port)/hello"
      let response = try await session.expect("Hello, world!", from: url)
      // The kernel's table is read in pieces, and may change between two of them.
      #expect(await eventually { ClientSockets.peers(of: server.port) == ["127.0.0.2"] })
      let metrics = try #require(response.metrics.transactions.last)
      #expect(metrics.localAddress?.hasPrefix("127.0.0.2:") == true)
      #expect(try await session.text(url).1.wasReused)
      try await withSession { other in
        try await other.expect("Hello, world!", from: url)
        #expect(await eventually { ClientSockets.peers(of: server.port) == ["127.0.0.1", "127.0.0.2"] })
      }
    }
  }

  @Test(arguments: ["::1", "[::1]"]) func addressesOfSix(_ text: String) async throws {
    try await withServer(address: .ipv6, configure: { $0.localAddress = text }) { session, server in
      let response = try await session.expect("Hello, world!", from: server.url("/hello"))
      #expect(response.metrics.transactions.last?.localAddress?.hasPrefix("[::1]:") == true)
    }
  }

  /// It is this machine's side, whoever is on the other: a proxy that forwards, or one that opens a tunnel.
  @Test(arguments: [false, true]) func proxiesSeeItToo(_ tunnels: Bool) async throws {
    let opening: [ScriptStep] = tunnels ? [.readHead, .send("HTTP/1.1 200 OK\r\n\r\n")] : []
    let server = try ScriptedServer([opening + [.readHead, .send(reply("hi")), .waitForClose]])
    defer { server.shutdown() }
    var proxy = try Proxy("http://127.0.0.1:\(server.port)")
    proxy.tunnelsPlaintext = tunnels
    try await withSession(
      ports: [server.port],
      configure: {
        $0.localAddress = "127.0.0.3"
        $0.proxy = .proxy(proxy)
      }
    ) { session in
      try await session.expect("hi", from: "http://a.example/")
      #expect(await eventually { ClientSockets.peers(of: server.port) == ["127.0.0.3"] })
    }
  }

  /// Nothing is connected to from another address than the one that was asked for.
  @Test(arguments: [("127.0.0.1", "http://[::1]:1/"), ("::1", "http://127.0.0.1:1/")])
  func theOtherFamilyIsNotReached(_ local: String, _ url: String) async throws {
    try await withSession(configure: { $0.localAddress = local }) { session in
      let error = try await failure { try await session.data(from: url) }
      #expect(error.code == .cannotConnect && error.phase == .connect && !error.requestBytesSent, "\(error)")
      #expect(error.message.contains("no address of the same family as the local address \(local);"), "\(error)")
    }
  }

  /// Addresses for documentation are nobody's (RFC 5737, RFC 3849).
  @Test(arguments: [("192.0.2.1", "http://127.0.0.1:1/"), ("2001:db8::1", "http://[::1]:1/")])
  func anAddressThatIsNotOurs(_ local: String, _ url: String) async throws {
    try await withSession(configure: { $0.localAddress = local }) { session in
      let error = try await failure { try await session.data(from: url) }
      #expect(error.code == .cannotConnect && error.phase == .connect, "\(error)")
      #expect(error.message.hasPrefix("the local address \(local) cannot be connected from: "), "\(error)")
      #expect(error.message.contains("SessionConfiguration.localAddress"))
    }
  }

  @Test(arguments: [
    "", "lo", "localhost", "127.1", "127.0.0.1:80", "127.0.0.1 ", "[127.0.0.1]", "[::1]:80", "[::1", "fe80::1%no-such",
  ]) func whatIsNoAddress(_ text: String) throws {
    var configuration = SessionConfiguration()
    configuration.localAddress = text
    let refused = configuration
    let error = #expect(throws: SessionError.self) { _ = try Session(refused) }
    #expect(error?.code == .badRequest && error?.phase == .prepare)
    #expect(error?.message.contains("SessionConfiguration.localAddress") == true)
  }

  static let four = SocketAddress.v4(.loopback, port: 0)
  static let six = SocketAddress.v6(.loopback, port: 0)
  static let file = SocketAddress.unix(path: "/run/s")
  static let ways = [
    (four, four, true), (four, six, false), (six, four, false), (six, six, true), (four, file, true), (six, file, true),
  ]

  @Test func whatIsReached() {
    for (local, remote, isReached) in Self.ways {
      #expect(local.reaches(remote) == isReached, "\(remote) from \(local)")
    }
  }

  @Test func theTextOfAnAddress() {
    let scoped = SocketAddress.v6(.loopback, port: 80, scope: 2)
    let texts = [Self.four, Self.six, scoped, Self.file].map(\.addressText)
    #expect(texts == ["127.0.0.1", "::1", "::1%2", "unix:/run/s"])
  }
}
