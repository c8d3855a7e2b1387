import HTTPTypes
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// What went wrong in other clients, by name; see also SOCKS5Tests, ProxyURLTests and NoProxyListTests of LupineRules.
@Suite(.timeLimit(.minutes(2))) struct ProxyAdvisoryTests {
  private static let digest =
    "HTTP/1.1 407 Who\r\nProxy-Authenticate: Digest realm=\"p\", nonce=\"NONCE\", qop=\"auth\", algorithm=SHA-256\r\n"
    + "Content-Length: 0\r\n\r\n"

  private func proxy(_ server: ScriptedServer, _ userinfo: String = "") throws -> Proxy {
    try Proxy("http://\(userinfo)127.0.0.1:\(server.port)")
  }

  /// curl CVE-2026-3784: a connection to a proxy was used again with other credentials.
  @Test func cve20263784() async throws {
    let script: [ScriptStep] = [
      .readHead, .send("HTTP/1.1 200 OK\r\n\r\n"), .readHead, .send(reply("hi")), .waitForClose,
    ]
    let server = try ScriptedServer([script, script])
    defer { server.shutdown() }
    try await withSession(ports: [server.port]) { session in
      for user in ["one", "two"] {
        var request = try Request("http://a.example/")
        var proxy = try self.proxy(server, "\(user):p@")
        proxy.tunnelsPlaintext = true
        proxy.credential?.isPreemptive = true
        request.proxy = .proxy(proxy)
        #expect(try await !session.expect("hi", from: request).wasReused)
      }
      #expect(server.connectionCount == 2)
      let fields = server.recordedRequests.map { $0.fields.first("proxy-authorization") }
      #expect(fields == ["Basic b25lOnA=", nil, "Basic dHdvOnA=", nil])
    }
  }

  /// curl CVE-2026-6253, CVE-2026-9079, urllib3 CVE-2024-37891, reqwest: credentials of one proxy went to another, or to the origin, after a redirect.
  @Test func cve20266253() async throws {
    let location = "HTTP/1.1 302 Go\r\nLocation: http://b.example/\r\nContent-Length: 0\r\n\r\n"
    let first = try ScriptedServer([
      [
        .readHead, .send("HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic realm=p\r\nContent-Length: 0\r\n\r\n"),
        .readHead,
        .send(ScriptBytes(location)), .waitForClose,
      ]
    ])
    let second = try ScriptedServer([
      [
        .readHead, .send("HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic realm=p\r\nContent-Length: 0\r\n\r\n"),
        .waitForClose,
      ]
    ])
    defer { first.shutdown() }
    defer { second.shutdown() }
    let (one, two) = (try self.proxy(first, "user:secret@"), try self.proxy(second))
    try await withSession(ports: [first.port, second.port]) { configuration in
      configuration.proxy = .choose { $0.contains("a.example") ? one : two }
    } _: { session in
      let response = try await session.text("http://a.example/").1
      #expect(response.statusCode == 407)
      #expect(first.recordedRequests.map { $0.fields.first("proxy-authorization") != nil } == [false, true])
      #expect(second.recordedRequests.map { $0.fields.first("proxy-authorization") } == [nil])
    }
  }

  /// The bytes of an answer that nobody reads to its end are those of its own transaction.
  @Test func largeRefusalIsCountedOnce() async throws {
    let head = "HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic realm=p\r\nContent-Length: 300000\r\n\r\n"
    let refusal = ScriptBytes(head + String(repeating: "x", count: 300_000))
    let server = try ScriptedServer([
      [.readHead, .send(refusal), .waitForClose], [.readHead, .send(reply("hi")), .waitForClose],
    ])
    defer { server.shutdown() }
    let proxy = try proxy(server, "user:secret@")
    try await withSession(ports: [server.port], configure: { $0.proxy = .proxy(proxy) }) { session in
      let (text, response) = try await session.text("http://a.example/")
      #expect(text == "hi")
      let transactions = response.metrics.transactions
      #expect(transactions.count == 2)
      #expect(transactions.first?.responseHeaderBytes == Int64(head.utf8.count))
      #expect(transactions.last?.responseHeaderBytes == Int64(reply("hi").bytes.count - 2))
    }
  }

  /// curl CVE-2026-11856, CVE-2026-8927, CVE-2026-7168: the state of Digest outlived the proxy that it was made for.
  @Test func cve202611856() async throws {
    func script(_ nonce: String) -> [ScriptStep] {
      [
        .readHead, .send(ScriptBytes(Self.digest.replacing("NONCE", with: nonce))), .readHead, .send(reply("hi")),
        .readHead, .send(reply("hi")), .waitForClose,
      ]
    }
    let servers = [try ScriptedServer([script("first")]), try ScriptedServer([script("second")])]
    defer { for server in servers { server.shutdown() } }
    try await withSession(ports: servers.map(\.port)) { session in
      for server in servers {
        for _ in 0..<2 {
          var request = try Request("http://a.example/")
          request.proxy = .proxy(try self.proxy(server, "user:secret@"))
          try await session.expect("hi", from: request)
        }
      }
      for (server, nonce) in zip(servers, ["first", "second"]) {
        let fields = server.recordedRequests.map { $0.fields.first("proxy-authorization") ?? "-" }
        #expect(fields.count == 3)
        #expect(fields[0] == "-")
        #expect(fields[1].contains("nonce=\"\(nonce)\"") && fields[1].contains("nc=00000001"))
        #expect(fields[2].contains("nonce=\"\(nonce)\"") && fields[2].contains("nc=00000002"))
        #expect(fields[1].contains("uri=\"http://a.example/\""))
      }
    }
  }

  /// Of one nonce every request has a count of its own, also one that goes out once more while others do.
  @Test func aRepeatedRequestHasACountOfItsOwn() async throws {
    let isRepeated = try Latch()
    let mayAnswer = try Latch()
    let server = try ScriptedServer([
      [
        .readHead, .send(ScriptBytes(Self.digest.replacing("NONCE", with: "n"))), .readHead, .send(reply("one")),
        .readHead, .close,
      ],
      [.readHead, .release(isRepeated), .stall(mayAnswer), .send(reply("two")), .waitForClose],
      [.readHead, .send(reply("three")), .waitForClose],
    ])
    defer { server.shutdown() }
    let proxy = try self.proxy(server, "user:secret@")
    try await withSession(ports: [server.port]) {
      $0.proxy = .proxy(proxy)
    } _: { session in
      try await session.expect("one", from: "http://a.example/")
      async let repeated = session.text("http://a.example/").0
      let hasCome = await eventually { isRepeated.isReleased }
      #expect(hasCome)
      try await session.expect("three", from: "http://a.example/")
      mayAnswer.release()
      let answer = try await repeated
      #expect(answer == "two")
      let fields = server.recordedRequests.compactMap { $0.fields.first("proxy-authorization") }
      let counts = fields.map { $0.firstMatch(of: /nc=([0-9]+)/).map { Int($0.1) } }
      #expect(counts == [1, 2, 3, 4])
    }
  }

  /// Go CVE-2023-45289 and its kin, seen from the proxy: the origin's credentials stay inside the tunnel, and the proxy's outside.
  @Test func credentialsStayOnTheirSideOfTheTunnel() async throws {
    let identity = try TestIdentity.server()
    let server = try ScriptedServer([
      [
        .readHead, .send("HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic realm=p\r\nContent-Length: 0\r\n\r\n"),
        .readHead,
        .send("HTTP/1.1 200 OK\r\n\r\n"), .startTLS(identity), .readHead, .send(reply("hi")), .waitForClose,
      ]
    ])
    defer { server.shutdown() }
    let proxy = try self.proxy(server, "proxy:secret@")
    try await withSession(ports: [server.port]) {
      $0.proxy = .proxy(proxy)
    } _: { session in
      var request = try Request("https://localhost/")
      request.fields[.authorization] = "Bearer origin"
      request.fields[.cookie] = "a=b"
      try await session.expect("hi", from: request)
      let requests = server.recordedRequests
      for connect in requests.prefix(2) {
        #expect(connect.fields.first("authorization") == nil)
        #expect(connect.fields.first("cookie") == nil)
      }
      #expect(requests[2].fields.first("authorization") == "Bearer origin")
      #expect(requests[2].fields.first("proxy-authorization") == nil)
    }
  }

  /// RFC 9110 section 15.5.8, curl CVE-2021-22890 and others took the one for the other: a 407 of an origin gets nothing.
  @Test func anOriginThatSays407GetsNothing() async throws {
    let identity = try TestIdentity.server()
    let server = try ScriptedServer([
      [
        .readHead, .send("HTTP/1.1 200 OK\r\n\r\n"), .startTLS(identity), .readHead,
        .send("HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic realm=p\r\nContent-Length: 0\r\n\r\n"), .waitForClose,
      ]
    ])
    defer { server.shutdown() }
    let proxy = try self.proxy(server, "proxy:secret@")
    try await withSession(ports: [server.port]) {
      $0.proxy = .proxy(proxy)
    } _: { session in
      let status = try await session.text("https://localhost/").1.statusCode
      #expect(status == 407)
      #expect(server.recordedRequests.count == 2)
    }
  }
}
