import FoundationEssentials
import HTTPTypes
import LupineSession
import LupineTestSupport
import LupineTesting
import LupineWire
import Testing

/// Proxies that play scripts. In a tunnel the script goes on as the origin, which is never asked otherwise.
@Suite(.timeLimit(.minutes(2))) struct ScriptedProxyTests {
  private static let established = ScriptBytes("HTTP/1.1 200 Connection established\r\n\r\n")
  private static let basic = ScriptBytes(
    "HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic realm=\"p\"\r\nContent-Length: 3\r\n\r\nwho")

  /// A session whose only proxy plays the scripts.
  private func withProxy(
    _ scripts: [[ScriptStep]], scheme: String = "http", userinfo: String = "", isSecure: Bool = false,
    expectsProblems: Bool = false, configure: (inout SessionConfiguration) -> Void = { _ in },
    change: (inout Proxy) -> Void = { _ in }, _ body: (Session, ScriptedServer) async throws -> Void
  ) async throws {
    let server = try ScriptedServer(scripts, tls: isSecure ? try TestIdentity.server() : nil)
    defer { server.shutdown() }
    var proxy = try Proxy("\(scheme)://\(userinfo)\(isSecure ? "localhost" : "127.0.0.1"):\(server.port)")
    change(&proxy)
    let chosen = proxy
    try await withSession(ports: [server.port]) { configuration in
      configuration.proxy = .proxy(chosen)
      configure(&configuration)
    } _: { session in
      try await body(session, server)
    }
    server.shutdown()
    if !expectsProblems { #expect(server.problems == []) }
  }

  @Test func plaintextGoesInAbsoluteFormOverOneConnection() async throws {
    try await withProxy([[.readHead, .send(reply("one")), .readHead, .send(reply("two")), .waitForClose]]) {
      session, proxy in
      let first = try await session.expect("one", from: "http://a.example/x?y#z")
      #expect(first.metrics.transactions.first?.isProxyConnection == true)
      // Another origin, the same place: the proxy.
      #expect(try await session.expect("two", from: "http://b.example:81/").wasReused)
      let requests = proxy.recordedRequests
      #expect(requests.map(\.target) == ["http://a.example/x?y", "http://b.example:81/"])
      #expect(requests.map { $0.fields.first("host") } == ["a.example", "b.example:81"])
    }
  }

  /// Who frames chunks otherwise than the proxy finds bytes of one origin where the next one's answer should be (CVE-2025-22871): what only a
  /// leniency makes a body is the last on its connection.
  @Test func anOriginThatNeedsALeniencyIsTheLastOnItsConnection() async throws {
    let body = String(repeating: "A", count: 47)
    let evil = ScriptBytes("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2f;\n\(body)\r\n0\r\n\r\n")
    try await withProxy([
      [.readHead, .send(evil), .waitForClose], [.readHead, .send(reply("bank")), .waitForClose],
    ]) { configuration in
      configuration.leniency = .bareLineFeedInChunks
    } _: { session, proxy in
      try await session.expect(body, from: "http://evil.example/")
      #expect(try await session.expect("bank", from: "http://bank.example/").wasReused == false)
      #expect(proxy.connectionCount == 2)
      #expect(proxy.recordedRequests.map(\.target) == ["http://evil.example/", "http://bank.example/"])
    }
  }

  /// Six that wait for one origin hold up nobody who asks the proxy for another.
  @Test func requestsThatWaitLeaveTheProxyToOthers() async throws {
    let waiting = [[ScriptStep]](repeating: [.readHead, .waitForClose], count: 6)
    try await withProxy(waiting + [[.readHead, .send(reply("fast")), .waitForClose]]) { session, proxy in
      let tasks = try (0..<6).map { number in
        let task = session.dataTask(with: try Request("http://slow.example/\(number)"))
        task.resume()
        return task
      }
      #expect(await eventually { proxy.recordedRequests.count == 6 })
      _ = try await session.expect("fast", from: "http://fast.example/")
      #expect(tasks.allSatisfy { $0.state == .running } && proxy.recordedRequests.count == 7)
      for task in tasks { task.cancel() }
    }
  }

  @Test func https() async throws {
    let identity = try TestIdentity.server()
    let script: [ScriptStep] = [
      .readHead, .send(Self.established), .startTLS(identity), .readHead, .send(reply("one")), .readHead,
      .send(reply("two")), .waitForClose,
    ]
    let name = try #require(HTTPField.Name("X-Trace"))
    try await withProxy([script], change: { $0.connectFields[name] = "1" }) { session, proxy in
      let first = try await session.expect("one", from: "https://localhost:7443/x")
      #expect(first.metrics.transactions.first?.tlsVersion == "TLSv1.3")
      #expect(try await session.expect("two", from: "https://localhost:7443/y").wasReused)
      let requests = proxy.recordedRequests
      #expect(requests.map(\.target) == ["localhost:7443", "/x", "/y"])
      #expect(requests.map { $0.fields.first("x-trace") } == ["1", nil, nil])
      let metrics = try #require(first.metrics.transactions.first)
      let phases = metrics.phases.map(\.name)
      #expect(phases.contains("proxy"))
      #expect(phases.contains("tls"))
      let (start, end) = (try #require(metrics.proxyStart), try #require(metrics.proxyEnd))
      let connected = try #require(metrics.connectEnd)
      let secured = try #require(metrics.secureConnectionStart)
      #expect(connected <= start && start <= end && end <= secured)
    }
  }

  @Test func aTunnelForPlaintextIsOpenedOnRequest() async throws {
    let script: [ScriptStep] = [
      .readHead, .send(Self.established), .readHead, .send(reply("hi")), .waitForClose,
    ]
    try await withProxy([script], change: { $0.tunnelsPlaintext = true }) { session, proxy in
      // What is meant for a proxy does not reach the origin through its tunnel.
      var request = try Request("http://a.example/")
      request.fields[.proxyAuthorization] = "Basic c2VjcmV0"
      try await session.expect("hi", from: request)
      #expect(proxy.recordedRequests.map(\.target) == ["a.example:80", "/"])
      #expect(proxy.recordedRequests.allSatisfy { $0.fields.first("proxy-authorization") == nil })
    }
  }

  @Test func a407ToConnectIsAnsweredOnTheSameConnection() async throws {
    let identity = try TestIdentity.server()
    try await withProxy(
      [
        [
          .readHead, .send(Self.basic), .readHead, .send(Self.established), .startTLS(identity), .readHead,
          .send(reply("hi")), .waitForClose,
        ]
      ], userinfo: "us%65r:pass@"
    ) { session, proxy in
      try await session.expect("hi", from: "https://localhost/")
      #expect(
        proxy.recordedRequests.map { $0.fields.first("proxy-authorization") } == [nil, "Basic dXNlcjpwYXNz", nil])
    }
  }

  @Test func a407ToConnectThatClosesIsAnsweredOnAnother() async throws {
    let identity = try TestIdentity.server()
    try await withProxy(
      [
        [.readHead, .sendAndFinish("HTTP/1.0 407 Who\r\nProxy-Authenticate: Basic realm=p\r\n\r\nwho"), .waitForClose],
        [.readHead, .send(Self.established), .startTLS(identity), .readHead, .send(reply("hi")), .waitForClose],
      ], userinfo: "user:pass@"
    ) { session, proxy in
      try await session.expect("hi", from: "https://localhost/")
      #expect(proxy.connectionCount == 2)
    }
  }

  /// The length of the body says that the connection goes on, and then it does not: as goproxy refuses.
  @Test func a407ToConnectThatClosesUnannouncedIsAnsweredOnAnother() async throws {
    let identity = try TestIdentity.server()
    let refusal = ScriptBytes(
      "HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic realm=p\r\nProxy-Connection: close\r\nContent-Length: 3\r\n\r\nwho"
    )
    try await withProxy(
      [
        [.readHead, .sendAndFinish(refusal), .waitForClose],
        [.readHead, .send(Self.established), .startTLS(identity), .readHead, .send(reply("hi")), .waitForClose],
      ], userinfo: "user:pass@"
    ) { session, proxy in
      try await session.expect("hi", from: "https://localhost/")
      #expect(proxy.connectionCount == 2)
    }
    // Once: a proxy that hangs up on an answer that was all it got means it.
    try await withProxy(
      [[.readHead, .sendAndFinish(refusal), .waitForClose], [.readHead, .reset]],
      userinfo: "user:pass@"
    ) { session, proxy in
      let error = try await failure { try await session.data(from: "https://localhost/") }
      #expect(error.code == .proxyFailed)
      #expect(proxy.connectionCount == 2)
    }
  }

  @Test func a407ToAForwardedRequestIsAnsweredOnceAndRemembered() async throws {
    try await withProxy(
      [
        [
          .readHead, .readBody, .send(Self.basic), .readHead, .readBody, .send(reply("one")), .readHead,
          .send(reply("two")), .waitForClose,
        ]
      ], userinfo: "user:pass@"
    ) { session, proxy in
      var request = try Request("http://a.example/", method: .put)
      request.body = .bytes(Array("body".utf8))
      let first = try await session.expect("one", from: request)
      #expect(first.metrics.transactions.count == 2)
      try await session.expect("two", from: "http://b.example/")
      let requests = proxy.recordedRequests
      #expect(
        requests.map { $0.fields.first("proxy-authorization") } == [
          nil, "Basic dXNlcjpwYXNz", "Basic dXNlcjpwYXNz",
        ])
      #expect(requests[0].text == "body" && requests[1].text == "body")
    }
  }

  private static let digest = ScriptBytes(
    "HTTP/1.1 407 Who\r\nProxy-Authenticate: Digest realm=\"p\", nonce=\"n1\", qop=\"auth\", algorithm=SHA-256\r\n"
      + "Content-Length: 0\r\n\r\n")

  /// Whether each request names this nonce for the first time; nil: it is to name none.
  private func expectNonces(
    _ nonces: [String?], _ proxy: ScriptedServer, sourceLocation: SourceLocation = #_sourceLocation
  ) {
    let fields = proxy.recordedRequests.map { $0.fields.first("proxy-authorization") }
    #expect(fields.count == nonces.count, sourceLocation: sourceLocation)
    for (field, nonce) in zip(fields, nonces) {
      guard let nonce else {
        #expect(field == nil, sourceLocation: sourceLocation)
        continue
      }
      let isFirst = field.map { $0.contains("nonce=\"\(nonce)\"") && $0.contains("nc=00000001") } ?? false
      #expect(isFirst, "\(field ?? "nothing") for \(nonce)", sourceLocation: sourceLocation)
    }
  }

  /// A proxy whose nonces are good for one request says which comes next: only the first request is asked.
  @Test func nextNoncesOfForwardedRequests() async throws {
    func next(_ nonce: String) -> String { "Proxy-Authentication-Info: nextnonce=\"\(nonce)\"\r\n" }
    try await withProxy(
      [
        [
          .readHead, .send(Self.digest), .readHead, .send(reply("one", next("n2"))), .readHead,
          .send(reply("two", next("n3"))), .readHead, .send(reply("three")), .waitForClose,
        ]
      ], userinfo: "user:pass@"
    ) { session, proxy in
      for text in ["one", "two", "three"] { try await session.expect(text, from: "http://\(text).example/") }
      expectNonces([nil, "n1", "n2", "n3"], proxy)
    }
  }

  @Test func nextNoncesOfTunnels() async throws {
    let established = ScriptBytes("HTTP/1.1 200 OK\r\nProxy-Authentication-Info: nextnonce=\"n2\"\r\n\r\n")
    try await withProxy(
      [
        [
          .readHead, .send(Self.digest), .readHead, .send(established), .readHead, .send(reply("one")), .waitForClose,
        ],
        [.readHead, .send(Self.established), .readHead, .send(reply("two")), .waitForClose],
      ], userinfo: "user:pass@", change: { $0.tunnelsPlaintext = true }
    ) { session, proxy in
      for text in ["one", "two"] { try await session.expect(text, from: "http://\(text).example/") }
      expectNonces([nil, "n1", nil, "n2", nil], proxy)
    }
  }

  @Test func wrongCredentialsAreSaidToBeWrong() async throws {
    try await withProxy(
      [[.readHead, .send(Self.basic), .readHead, .send(Self.basic), .waitForClose]], userinfo: "u:x@"
    ) {
      session, _ in
      let error = try await failure { try await session.text("https://localhost/") }
      #expect(error.code == .proxyAuthenticationRequired)
      #expect(error.proxyRefusal?.statusCode == 407)
      #expect(error.phase == .proxy)
      #expect(!error.requestBytesSent)
    }
    // To a request in absolute form the proxy's word is the answer.
    try await withProxy(
      [[.readHead, .send(Self.basic), .readHead, .send(Self.basic), .waitForClose]], userinfo: "u:x@"
    ) {
      session, _ in
      let status = try await session.text("http://a.example/").1.statusCode
      #expect(status == 407)
    }
  }

  @Test func aRefusedTunnelIsAnErrorOfItsOwn() async throws {
    try await withProxy([
      [.readHead, .send("HTTP/1.1 403 Not there\r\nX-Why: policy\r\nContent-Length: 4\r\n\r\nevil"), .waitForClose]
    ]) { session, _ in
      let error = try await failure { try await session.text("https://localhost/") }
      #expect(error.code == .proxyRefused)
      #expect(error.response == nil)
      let refusal = try #require(error.proxyRefusal)
      #expect(refusal.statusCode == 403)
      #expect(refusal.reason == "Not there")
      let name = try #require(HTTPField.Name("X-Why"))
      #expect(refusal.fields[name] == "policy")
    }
  }

  /// That a tunnel is refused says nothing of who was asking: what was accepted goes along from then on.
  @Test func aRefusedTunnelIsNoRefusalOfTheCredentials() async throws {
    try await withProxy(
      [
        [.readHead, .send(Self.basic), .readHead, .send(reply("one")), .waitForClose],
        [.readHead, .send("HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n"), .waitForClose],
        [.readHead, .send(Self.established), .read(1), .close],
      ], userinfo: "user:pass@"
    ) { session, proxy in
      try await session.expect("one", from: "http://a.example/")
      for _ in 0..<2 { _ = try await failure { try await session.text("https://localhost/") } }
      let fields = proxy.recordedRequests.map { $0.fields.first("proxy-authorization") != nil }
      #expect(fields == [false, true, true, true])
    }
  }

  @Test func aProxyThatStallsIsLeft() async throws {
    try await withProxy([[.readHead, .stall(nil)]]) { configuration in
      configuration.proxyTimeout = .milliseconds(500)
    } _: { session, _ in
      let error = try await failure { try await session.text("https://localhost/") }
      #expect(error.code == .timedOut)
      #expect(error.phase == .proxy)
    }
  }

  @Test func aProxyThatDripsIsUnderstood() async throws {
    let identity = try TestIdentity.server()
    try await withProxy(
      [
        [
          .readHead, .drip(Self.basic), .readHead, .drip(Self.established), .startTLS(identity), .readHead,
          .send(reply("hi")), .waitForClose,
        ]
      ], userinfo: "user:pass@"
    ) { session, _ in
      try await session.expect("hi", from: "https://localhost/")
    }
  }

  @Test(arguments: ["", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\n"]) func aProxyThatHangsUp(_ said: String) async throws {
    let bytes = ScriptBytes(said)
    try await withProxy([[.readHead, .sendAndFinish(bytes), .waitForClose]]) { session, _ in
      let error = try await failure { try await session.text("https://localhost/") }
      #expect(error.code == .proxyFailed)
      #expect(error.phase == .proxy)
    }
  }

  /// What follows the head of a 200 would be taken for the origin's.
  @Test func bytesBehindThe200AreRefused() async throws {
    let script: [ScriptStep] = [.readHead, .send(Self.established + reply("evil")), .waitForClose]
    try await withProxy([script], change: { $0.tunnelsPlaintext = true }) { session, _ in
      let error = try await failure { try await session.text("http://a.example/") }
      #expect(error.code == .proxyFailed)
    }
  }

  @Test func aProxyThatIsNotThere() async throws {
    let refusing = try RefusingPort()
    let proxy = try Proxy(refusing.url)
    try await withSession {
      $0.proxy = .proxy(proxy)
    } _: { session in
      for url in ["http://a.example/", "https://a.example/"] {
        let error = try await failure { try await session.text(url) }
        #expect(error.code == .proxyFailed)
      }
    }
    withExtendedLifetime(refusing) {}
  }

  @Test func exceptionsAndRequestsOfTheirOwn() async throws {
    try await withServer { configuration in
      // Port 9 is nobody's.
      if let proxy = try? Proxy("http://127.0.0.1:9") { configuration.proxy = .proxy(proxy, except: "127.0.0.0/8") }
    } _: { session, server in
      #expect(try await session.text(server.url("/hello")).1.statusCode > 0)
      var request = try Request(server.url("/hello"))
      request.proxy = .proxy(try Proxy("http://127.0.0.1:9"))
      let error = try await failure { try await session.text(request) }
      #expect(error.code == .proxyFailed)
      request.proxy = .choose { _ in nil }
      #expect(try await session.text(request).1.statusCode > 0)
    }
  }

  @Test(arguments: ["ftp://h", "http://h:0", "", "http://u:p@"]) func whatIsNoProxyIsRefused(_ text: String) {
    do {
      _ = try Proxy(text)
      Issue.record("\(text) is a proxy")
    } catch {
      #expect(error.code == .badProxy)
      #expect(!"\(error)".contains("u:p"))
    }
  }

  // MARK: SOCKS

  private static let granted = ScriptBytes([5, 0, 0, 1, 0, 0, 0, 0, 0, 0])

  @Test func socksResolvesNamesThere() async throws {
    let identity = try TestIdentity.server()
    try await withProxy(
      [
        [
          .read(3), .send(ScriptBytes([5, 0])), .read(5 + 9 + 2), .send(Self.granted), .startTLS(identity), .readHead,
          .send(reply("hi")), .waitForClose,
        ]
      ], scheme: "socks5h"
    ) { session, proxy in
      try await session.expect("hi", from: "https://localhost:7443/")
      let sent = proxy.bytesReceived(connection: 1)
      #expect(Array(sent.prefix(19)) == [5, 1, 0, 5, 1, 0, 3, 9] + Array("localhost".utf8) + [0x1D, 0x13])
    }
  }

  @Test func socksResolvesNamesHere() async throws {
    try await withProxy(
      [
        [
          .read(4), .send(ScriptBytes([5, 2])), .read(3 + 4 + 4), .send(ScriptBytes([1, 0])), .read(4 + 4 + 2),
          .send(Self.granted), .readHead, .send(reply("hi")), .waitForClose,
        ]
      ], scheme: "socks5", userinfo: "user:pass@"
    ) { configuration in
      configuration.nameOverrides = ["a.example:80": "192.0.2.7:81"]
    } _: { session, proxy in
      try await session.expect("hi", from: "http://a.example/")
      let sent = proxy.bytesReceived(connection: 1)
      #expect(Array(sent[4..<15]) == [1, 4] + Array("user".utf8) + [4] + Array("pass".utf8))
      #expect(Array(sent[15..<25]) == [5, 1, 0, 1, 192, 0, 2, 7, 0, 81])
    }
  }

  @Test(
    arguments: [
      ([5, 0xFF], "proxyAuthenticationRequired"), ([4, 0], "proxyFailed"), ([5, 0, 5, 5], "proxyRefused"),
    ] as [([UInt8], String)]) func socksRefuses(_ answer: [UInt8], _ code: String) async throws
  {
    var steps: [ScriptStep] = [.read(3), .send(ScriptBytes(Array(answer.prefix(2))))]
    if answer.count > 2 { steps += [.read(5 + 9 + 2), .send(ScriptBytes(Array(answer.dropFirst(2))))] }
    steps.append(.waitForClose)
    try await withProxy([steps], scheme: "socks5h") { session, _ in
      let error = try await failure { try await session.text("http://a.example/") }
      #expect(error.code.rawValue == code)
      #expect(error.phase == .proxy)
    }
  }
}
