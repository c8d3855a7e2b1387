import LupineSession
import LupineTesting
import Testing

@Suite struct ResumptionTests {
  /// One request on each of several connections.
  @Test(arguments: [true, false]) func sessionsAreResumedWhenAllowed(_ allowsResumption: Bool) async throws {
    let authority = try CertificateAuthority()
    let server = try LoopbackServer(tls: .minted(by: authority)) { _, connection in
      try connection.respond(200, body: Array("hello".utf8))
    }
    defer { server.shutdown() }
    var configuration = SessionConfiguration()
    configuration.maximumUsesPerConnection = 1
    configuration.tls.roots = .certificates([authority.rootDER])
    configuration.tls.allowsResumption = allowsResumption
    let session = try Session(configuration)
    let request = try Request(server.url("/"))
    var resumed: [Bool?] = []
    for _ in 0..<4 {
      let (_, response) = try await session.data(for: request)
      resumed.append(response.metrics.transactions.last?.isTLSResumed)
    }
    #expect(resumed == [false, allowsResumption, allowsResumption, allowsResumption])
  }

  /// What is said of the proxy's TLS counts there, whatever the session says of its own.
  @Test(arguments: [true, false]) func proxiesAreResumedWhenAllowed(_ allowsResumption: Bool) async throws {
    let server = try ScriptedServer(
      [[.readHead, .send(reply("hi", "Connection: close\r\n")), .waitForClose]], surplus: .repeatLast,
      tls: try TestIdentity.server())
    defer { server.shutdown() }
    var proxy = try TestIdentity.proxy(server.port)
    proxy.tls?.allowsResumption = allowsResumption
    let chosen = proxy
    try await withSession(ports: [server.port]) {
      $0.proxy = .proxy(chosen)
      $0.tls.allowsResumption = !allowsResumption
    } _: { session in
      for _ in 0..<3 { try await session.expect("hi", from: "http://a.example/") }
    }
    server.shutdown()
    #expect(server.tlsSummaries.mapValues(\.resumed) == [1: false, 2: allowsResumption, 3: allowsResumption])
    #expect(server.problems == [])
  }

  enum HangUp: CaseIterable { case finish, reset, silence }

  /// A session of TLS 1.2 serves again and again: one that the server, or something before it, cannot bear would fail every connection.
  @Test(arguments: HangUp.allCases, [false, true])
  func sessionsThatMakeTheServerHangUpAreNotOfferedAgain(_ hangUp: HangUp, _ isProxy: Bool) async throws {
    var tls = try TestIdentity.server()
    tls.maximumVersion = .tls12
    // Up to the length of the session's identifier in a ClientHello, which has one when a session is offered.
    let length = 44
    let end: [ScriptStep] =
      switch hangUp {
      case .finish: [.finishSending, .waitForClose]
      case .reset: [.reset]
      case .silence: [.stall(nil)]
      }
    let server = try ScriptedServer([
      [.startTLS(tls), .readHead, .send(reply("hi")), .waitForClose], [.read(length)] + end, [.read(length), .reset],
    ])
    defer { server.shutdown() }
    let url = isProxy ? "http://a.example/" : "https://localhost:\(server.port)/"
    let authority = try TestIdentity.authority.get()
    try await withSession(ports: [server.port]) {
      $0.maximumUsesPerConnection = 1
      $0.tls.maximumVersion = .tls12
      if isProxy, var proxy = try? Proxy("https://localhost:\(server.port)") {
        proxy.tls = TLSConfiguration()
        proxy.tls?.roots = .certificates([authority.rootDER])
        proxy.tls?.maximumVersion = .tls12
        $0.proxy = .proxy(proxy)
      }
      if hangUp == .silence {
        $0.tlsTimeout = .seconds(2)
        $0.proxyTimeout = .seconds(2)
      }
    } _: { session in
      try await session.expect("hi", from: url)
      for _ in 0..<2 { _ = try await failure { try await session.text(url) } }
    }
    #expect(server.waitUntilPlayed(3, seconds: 60))
    let offers = (2...3).map { server.bytesReceived(connection: $0).dropFirst(length - 1).first }
    #expect(offers == [32, 0])
    #expect(server.problems == [])
  }
}
