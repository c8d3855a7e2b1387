import FoundationEssentials
import HTTPTypes
import LupineEngine
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// When a connection serves again, when it must not, and what happens when it died meanwhile.
@Suite(.timeLimit(.minutes(5))) struct ReuseTests {
  @Test(arguments: [false, true]) func oneConnectionServesAll(_ isSecure: Bool) async throws {
    try await withServer(isSecure: isSecure) { session, server in
      for index in 0..<10 {
        let (_, response) = try await session.data(from: server.url("/hello"))
        #expect(response.wasReused == (index > 0))
      }
      #expect(server.connectionCount == 1)
      let statistics = await session.poolStatistics()
      #expect(statistics.opened == 1)
      #expect(statistics.reused == 9)
    }
  }

  /// Every reason against another use: the second request goes over a second connection.
  @Test(arguments: [
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: Foo, CLOSE\r\n\r\nx",
    "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\nKeep-Alive: timeout=0\r\n\r\nx",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5, max=0\r\n\r\nx",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxgarbage",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\nrest",
    "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.1 304 Not Modified\r\n\r\nbody",
  ]) func connectionIsNotReused(after response: String) async throws {
    try await withScript([
      [.readHead, .send(ScriptBytes(response)), .waitForClose], [.readHead, .send(reply("second")), .waitForClose],
    ]) { session, server in
      let (body, _) = try await session.text(server.url())
      #expect(body == "x" || body == "")
      let (second, answer) = try await session.text(server.url())
      #expect(second == "second")
      #expect(!answer.wasReused)
      #expect(server.connectionCount == 2)
    }
  }

  /// Where a `Connection` field of ours comes from.
  enum Origin: CaseIterable, Sendable {
    case request, shared, session, forwarded
  }

  /// RFC 9112 section 9.6: who says `close` sends nothing more over the connection, even where the server would keep it.
  @Test(arguments: Origin.allCases, [["close"], ["x, \tCLOSE"], ["keep-alive", "close"]])
  func aConnectionThatTheRequestClosesIsNotReused(_ origin: Origin, _ values: [String]) async throws {
    try await withField(
      values, from: origin,
      [[.readHead, .send(reply("1")), .expectNothing], [.readHead, .send(reply("2")), .expectNothing]]
    ) { session, url, request in
      try await session.expect("1", from: request)
      let response = try await session.expect("2", from: Request(url))
      #expect(!response.wasReused)
      #expect(response.metrics.transactions.last?.retryCount == 0)
    }
  }

  /// What else the field may say leaves the connection as it is.
  @Test(arguments: Origin.allCases, [["keep-alive"], ["TE, closed", "x-close"], [""]])
  func otherConnectionOptionsCloseNothing(_ origin: Origin, _ values: [String]) async throws {
    try await withField(
      values, from: origin, [[.readHead, .send(reply("1")), .readHead, .send(reply("2")), .expectNothing]]
    ) { session, url, request in
      try await session.expect("1", from: request)
      #expect(try await session.expect("2", from: Request(url)).wasReused)
    }
  }

  private func withField(
    _ values: [String], from origin: Origin, _ scripts: [[ScriptStep]],
    _ body: (Session, String, Request) async throws -> Void
  ) async throws {
    let server = try ScriptedServer(scripts)
    defer { server.shutdown() }
    let name = try #require(HTTPField.Name("Connection"))
    let fields = HTTPFields(values.map { HTTPField(name: name, value: $0) })
    let proxy = try Proxy("http://127.0.0.1:\(server.port)")
    let url = origin == .forwarded ? "http://a.example/" : server.url()
    try await withSession(
      ports: [server.port],
      configure: {
        if origin == .session { $0.additionalFields = fields }
        if origin == .forwarded { $0.proxy = .proxy(proxy) }
      }
    ) { session in
      var request = try Request(url)
      if origin != .session { request.fields.append(contentsOf: fields) }
      if origin == .shared { request.encodedFields = EncodedFields() }
      try await body(session, url, request)
    }
    server.shutdown()
    #expect(server.problems == [])
  }

  @Test func keepAliveOfHTTP10IsHonoured() async throws {
    try await withScript([
      [
        .readHead, .send("HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\n1"), .readHead,
        .send(reply("2")), .waitForClose,
      ]
    ]) { session, server in
      _ = try await session.data(from: server.url())
      #expect(try await session.text(server.url()).1.wasReused)
    }
  }

  @Test func usesAndLifetimeAreLimits() async throws {
    try await withServer(configure: { $0.maximumUsesPerConnection = 2 }) { session, server in
      for _ in 0..<4 { _ = try await session.data(from: server.url("/hello")) }
      #expect(server.connectionCount == 2)
      #expect(await session.poolStatistics().closes["uses"] == 2)
    }
    try await withServer(configure: { $0.connectionLifetime = .zero }) { session, server in
      for _ in 0..<3 { _ = try await session.data(from: server.url("/hello")) }
      #expect(server.connectionCount == 3)
    }
  }

  @Test func idleConnectionsAreClosedInTime() async throws {
    try await withScript(
      [[.readHead, .send(reply("x")), .expectNothing]], configure: { $0.connectionIdleTimeout = .milliseconds(20) }
    ) { session, server in
      _ = try await session.data(from: server.url())
      #expect(await eventually { await session.poolStatistics().closes["idleTimeout"] == 1 })
      #expect(await eventually { ClientSockets.count(to: server.port) == 0 })
    }
  }

  @Test(arguments: [false, true]) func idleCloseByTheServerIsNoticed(_ isSecure: Bool) async throws {
    try await withScript(
      [[.readHead, .send(reply("1")), .close], [.readHead, .send(reply("2")), .waitForClose]], isSecure: isSecure
    ) { session, server in
      try await session.expect("1", from: server.url())
      #expect(await eventually { await session.poolStatistics().closes.values.reduce(0, +) == 1 })
      let (body, response) = try await session.text(server.url())
      #expect(body == "2")
      #expect(!response.wasReused)
      #expect(response.metrics.transactions.last?.retryCount == 0)
    }
  }

  @Test(arguments: [false, true]) func unsolicitedBytesWhileIdleCloseTheConnection(_ isSecure: Bool) async throws {
    let idle = try Latch()
    try await withScript(
      [
        [
          .readHead, .send(reply("1")), .stall(idle),
          .send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"), .waitForClose,
        ],
        [.readHead, .send(reply("2")), .waitForClose],
      ], isSecure: isSecure
    ) { session, server in
      try await session.expect("1", from: server.url())
      idle.release()
      #expect(await eventually { await session.poolStatistics().closes["unsolicitedBytes"] == 1 })
      try await session.expect("2", from: server.url())
    }
  }

  /// The race: the server closes a kept-alive connection upon the next request, without a byte. GET is repeated, POST is not (engines 0.1,
  /// 1.2; curl sends such a POST twice, URLSession stalls for 60 s).
  @Test(arguments: [ScriptStepKind.close, .reset]) func getSurvivesADeadReusedConnection(_ end: ScriptStepKind)
    async throws
  {
    try await withScript([
      [.readHead, .send(reply("1")), .readHead, end.step], [.readHead, .send(reply("2")), .waitForClose],
    ]) { session, server in
      try await session.expect("1", from: server.url("/1"))
      let (body, response) = try await session.text(server.url("/2"))
      #expect(body == "2")
      #expect(response.metrics.transactions.last?.retryCount == 1)
      #expect(server.recordedRequests.map { $0.target } == ["/1", "/2", "/2"])
    }
  }

  @Test(arguments: [ScriptStepKind.close, .reset], [Request.Body.none, .bytes([1, 2, 3])])
  func postOnADeadReusedConnectionFailsAtOnce(_ end: ScriptStepKind, _ body: Request.Body) async throws {
    try await withScript([
      [.readHead, .send(reply("1")), .readHead, .readBody, end.step], [.readHead, .send(reply("2")), .waitForClose],
    ]) { session, server in
      try await session.expect("1", from: server.url("/1"))
      let start = ContinuousClock.now
      let error = try await failure {
        try await session.data(for: Request(server.url("/2"), method: .post, body: body))
      }
      #expect(error.code == .connectionLost)
      #expect(error.requestBytesSent)
      #expect(ContinuousClock.now - start < .seconds(50))
      #expect(server.recordedRequests.map { $0.target } == ["/1", "/2"])
      try await session.expect("2", from: server.url("/3"))
    }
  }

  @Test func postWithAnIdempotencyKeyIsRepeated() async throws {
    try await withScript([
      [.readHead, .send(reply("1")), .readHead, .readBody, .close],
      [.readHead, .readBody, .send(reply("2")), .waitForClose],
    ]) { session, server in
      _ = try await session.data(from: server.url("/1"))
      var request = try Request(server.url("/2"), method: .post, body: .bytes(Array("same".utf8)))
      request.fields[try #require(HTTPField.Name("Idempotency-Key"))] = "k"
      try await session.expect("2", from: request)
      #expect(server.recordedRequests.last?.text == "same")
    }
  }

  @Test(arguments: [ScriptStepKind.close, .reset, .finish]) func aFreshConnectionThatDiesIsNotRepeated(
    _ end: ScriptStepKind
  ) async throws {
    try await withScript([[.readHead, end.step, .waitForClose]]) { session, server in
      let error = try await failure { try await session.data(from: server.url()) }
      #expect(error.code == .connectionLost)
      #expect(error.requestBytesSent)
      #expect(server.connectionCount == 1)
    }
  }

  @Test func acceptThenCloseFailsAtOnce() async throws {
    try await withScript([[.close]]) { session, server in
      let error = try await failure { try await session.data(from: server.url()) }
      #expect(error.code == .connectionLost)
      #expect(server.connectionCount == 1)
    }
  }

  @Test func deadReuseAfterResponseBytesIsNotRepeated() async throws {
    try await withScript([
      [.readHead, .send(reply("1")), .readHead, .send("HTTP/1.1 200 OK\r\nContent-"), .close]
    ]) { session, server in
      _ = try await session.data(from: server.url())
      let error = try await failure { try await session.data(from: server.url()) }
      #expect(error.code == .truncatedResponse)
      #expect(server.connectionCount == 1)
    }
  }

  /// A server that speaks first is answered by our request all the same; what it says later finds no request and is refused.
  @Test func responseBeforeTheRequestServesOneRequestOnly() async throws {
    // A client that sees the early bytes before it sends refuses them, and the server may find its connection reset.
    try await withScript(
      [
        [.send(reply("early")), .readHead, .send(reply("poison")), .waitForClose],
        [.readHead, .send(reply("2")), .waitForClose],
      ], expectsProblems: true
    ) { session, server in
      let first = try? await session.text(server.url("/1")).0
      #expect(first == "early" || first == nil)
      _ = try server.waitForRequests(first == nil ? 0 : 1)
      #expect(await eventually { ClientSockets.count(to: server.port) == 0 })
      try await session.expect("2", from: server.url("/2"))
    }
  }

  /// An endless tail after a complete response keeps nobody waiting.
  @Test func endlessGarbageAfterAResponseEndsIt() async throws {
    try await withScript(
      [
        [.readHead, .send(reply("x")), .sendPattern(64 << 20), .waitForClose]
      ], expectsProblems: true
    ) { session, server in
      try await session.expect("x", from: server.url())
    }
  }

  @Test func refusedConnectionFailsAtOnce() async throws {
    let refusing = try RefusingPort()
    try await withSession(configure: { $0.connectTimeout = .seconds(1000) }) { session in
      let start = ContinuousClock.now
      let error = try await failure { try await session.data(from: refusing.url + "/") }
      #expect(error.code == .cannotConnect)
      #expect(error.phase == .connect)
      #expect(!error.requestBytesSent)
      #expect(ContinuousClock.now - start < .seconds(50))
    }
    withExtendedLifetime(refusing) {}
  }

  /// Both sessions are on the engine of the process, which remembers TLS sessions for all.
  @Test func otherTrustMeansOtherConnections() async throws {
    try await withServer(isSecure: true, configure: { $0.engine = .shared }) { session, server in
      _ = try await session.data(from: server.url("/hello"))
      try await withSession(configure: {
        $0.engine = .shared
        $0.tls.verifiesServer = false
      }) { other in
        let response = try await other.expect("Hello, world!", from: server.url("/hello"))
        #expect(!response.wasReused)
      }
      #expect(server.connectionCount == 2)
      #expect(server.tlsSummaries.values.allSatisfy { !$0.resumed })
      // What the first one trusts is resumed by whoever trusts the same.
      try await withSession(configure: { $0.engine = .shared }) { other in
        try await other.expect("Hello, world!", from: server.url("/hello"))
      }
      #expect(server.tlsSummaries[3]?.resumed == true)
    }
  }

  /// The same host and port, but what is secret does not go over the connection that is not (curl CVE-2026-4873).
  @Test func anotherSchemeMeansAnotherConnection() async throws {
    let (plain, secure): (ScriptStep, ScriptStep) = (.send(reply("plain")), .send(reply("secure")))
    try await withScript([
      [.readHead, plain, .readHead, plain, .waitForClose],
      [.startTLS(try TestIdentity.server()), .readHead, secure, .readHead, secure, .waitForClose],
    ]) { session, server in
      for round in 0..<2 {
        for (scheme, text) in [("http", "plain"), ("https", "secure")] {
          let response = try await session.expect(text, from: "\(scheme)://127.0.0.1:\(server.port)/")
          #expect(response.wasReused == (round > 0))
        }
      }
      #expect(server.connectionCount == 2)
    }
  }

  /// curl CVE-2022-27775: an address of one link is another host than the same address of another link.
  @Test func anotherZoneMeansAnotherConnection() async throws {
    let answer: [ScriptStep] = [.readHead, .send(reply("x")), .readHead, .send(reply("x")), .waitForClose]
    let server = try ScriptedServer([answer, answer])
    defer { server.shutdown() }
    let port = server.port
    try await withSession(
      ports: [port], configure: { $0.nameOverrides = ["[fe80::1]:\(port)": "127.0.0.1:\(port)"] }
    ) { session in
      for round in 0..<2 {
        for zone in ["one", "two"] {
          let response = try await session.expect("x", from: "http://[fe80::1%25\(zone)]:\(port)/")
          #expect(response.wasReused == (round > 0))
        }
      }
      #expect(server.connectionCount == 2)
    }
    server.shutdown()
    #expect(server.problems == [])
  }

  /// Nor is it offered a TLS session of the other, though no certificate and no server name tells the two apart.
  @Test func anotherZoneMeansAnotherTLSSession() async throws {
    let server = try LoopbackServer(tls: try TestIdentity.server()) { _, connection in
      connection.closeAfterResponse()
      try connection.respond(text: "x")
    }
    defer { server.shutdown() }
    let port = server.port
    try await withSession(
      ports: [port],
      configure: {
        $0.tls.verifiesServer = false
        $0.nameOverrides = ["[fe80::1]:\(port)": "127.0.0.1:\(port)"]
      }
    ) { session in
      for isKnown in [false, true] {
        for zone in ["one", "two"] {
          let response = try await session.expect("x", from: "https://[fe80::1%25\(zone)]:\(port)/")
          #expect(response.metrics.transactions.first?.isTLSResumed == isKnown, "\(zone)")
        }
      }
    }
  }

  /// curl CVE-2022-32221, CVE-2023-28322: what an upload had set was taken for that of the next request. The same value asks four times, over one connection.
  @Test func nothingIsLeftOfTheRequestBefore() async throws {
    try await withServer { session, server in
      var request = try Request(server.url("/echo"), method: .post, body: .bytes(Array("first".utf8)))
      request.fields[.contentType] = "text/plain"
      request.expectsContinue = true
      try await session.expect("first", from: request)
      request.expectsContinue = false
      request.fields = [:]
      request.method = .put
      request.body = .sequence(AsyncStream<[UInt8]> { $0.finish() })
      try await session.expect("", from: request)
      request.method = .get
      request.body = .none
      try await session.expect("", from: request)
      request.method = .post
      request.body = .bytes(Array("last".utf8))
      try await session.expect("last", from: request)
      let names = ["Content-Length", "Transfer-Encoding", "Expect", "Content-Type"]
      let sent = server.recordedRequests.map { received in
        [received.method] + names.map { received.fields.first($0) ?? "-" } + [received.text]
      }
      #expect(
        sent == [
          ["POST", "5", "-", "100-continue", "text/plain", "first"], ["PUT", "-", "chunked", "-", "-", ""],
          ["GET", "-", "-", "-", "-", ""], ["POST", "4", "-", "-", "-", "last"],
        ])
      #expect(server.connectionCount == 1)
    }
  }
}

/// How a script ends a connection.
enum ScriptStepKind: Sendable {
  case close, reset, finish

  var step: ScriptStep {
    switch self {
    case .close: .close
    case .reset: .reset
    case .finish: .finishSending
    }
  }
}
