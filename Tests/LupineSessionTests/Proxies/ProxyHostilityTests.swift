import HTTPTypes
import LupineSession
import LupineTesting
import Testing

/// What hostile proxies, callers' texts and redirects have done to other clients. By name; the table is in Docs/Proxies.md.
@Suite(.timeLimit(.minutes(2))) struct ProxyHostilityTests {
  private static let established = ScriptBytes("HTTP/1.1 200 Connection established\r\n\r\n")

  private func withProxy(
    _ scripts: [[ScriptStep]], scheme: String = "http", userinfo: String = "",
    _ body: (Session, ScriptedServer) async throws -> Void
  ) async throws {
    let server = try ScriptedServer(scripts)
    defer { server.shutdown() }
    var proxy = try Proxy("\(scheme)://\(userinfo)127.0.0.1:\(server.port)")
    proxy.tunnelsPlaintext = true
    let chosen = proxy
    try await withSession(ports: [server.port]) {
      $0.proxy = .proxy(chosen)
    } _: { session in
      try await body(session, server)
    }
  }

  /// curl CVE-2023-38545: a name that does not fit its field. Not a byte goes to the proxy, whoever resolves names.
  @Test(arguments: ["socks5h", "socks5"]) func cve202338545(_ scheme: String) async throws {
    for count in [254, 255, 256, 70_000] {
      let name =
        String(repeating: String(repeating: "a", count: 49) + ".", count: count / 50 + 1).prefix(count - 1) + "a"
      try await withProxy([[.expectNothing]], scheme: scheme) { session, server in
        let error = try await failure { try await session.text("http://\(name)/") }
        #expect([.badURL, .badRequest, .cannotFindHost].contains(error.code), "\(error)")
        #expect(server.bytesReceived(connection: 1) == [])
        #expect(server.problems == [])
      }
    }
  }

  /// RFC 9110 section 11.7.2: what is for the proxy is not told to an origin that is reached past it.
  @Test func anExceptionDoesNotHearWhatIsForTheProxy() async throws {
    try await withServer { configuration in
      // Port 9 is nobody's.
      if let proxy = try? Proxy("http://127.0.0.1:9") { configuration.proxy = .proxy(proxy, except: "127.0.0.0/8") }
      configuration.additionalFields[.proxyAuthorization] = "Basic c2VjcmV0"
    } _: { session, server in
      _ = try await session.text(server.url("/hello"))
      for proxy: ProxyConfiguration in [.none, .choose { _ in nil }] {
        var request = try Request(server.url("/hello"))
        request.proxy = proxy
        request.fields[.proxyAuthorization] = "Basic b3du"
        _ = try await session.text(request)
      }
      #expect(server.requestCount == 3)
      for request in server.recordedRequests { #expect(request.fields.first("proxy-authorization") == nil) }
    }
  }

  /// Go CVE-2025-4673, CVE-2023-45289, urllib3 CVE-2024-37891 and GHSA-qccp-gfcp-xxvc: `Proxy-*` fields of the caller's followed a redirect to
  /// another origin.
  @Test func cve20254673() async throws {
    let second = try LoopbackServer { _, connection in try connection.respond(text: "second") }
    defer { second.shutdown() }
    let target = second.url("/")
    let first = try LoopbackServer { request, connection in
      if request.target == "/here" {
        try connection.respond(302, fields: ["Location": "/there"])
      } else {
        try connection.respond(302, fields: ["Location": target])
      }
    }
    defer { first.shutdown() }
    let names = try ["Proxy-Authorization", "Proxy-Authenticate", "Proxy-Connection", "Proxy-Authentication-Info"].map {
      try #require(HTTPField.Name($0))
    }
    try await withSession(ports: [first.port, second.port]) { session in
      var request = try Request(first.url("/here"))
      for name in names { request.fields[name] = "secret" }
      try await session.expect("second", from: request)
    }
    // The one who was named has them; whoever comes after a change of origin has not.
    #expect(first.recordedRequests.first?.fields.first("Proxy-Authorization") == "secret")
    #expect(second.recordedRequests.count == 1)
    for name in names { #expect(second.recordedRequests.first?.fields.first(name.rawName) == nil, "\(name)") }
  }

  /// AsyncHTTPClient CVE-2023-0040, swift-nio CVE-2022-3215: line ends in what the caller says. Here in the user of a proxy's URL, which is
  /// percent-decoded: it becomes a field's value by Digest.
  @Test(arguments: ["Digest realm=\"p\", nonce=\"n\", qop=\"auth\"", "Basic realm=\"p\""])
  func cve20230040(_ challenge: String) async throws {
    let asks = ScriptBytes("HTTP/1.1 407 Who\r\nProxy-Authenticate: \(challenge)\r\nContent-Length: 0\r\n\r\n")
    try await withProxy(
      [[.readHead, .send(asks), .waitForClose]], userinfo: "u%0D%0AX-Evil:%201%0D%0A:p@"
    ) { session, server in
      _ = try await failure { try await session.text("http://a.example/") }
      let heads = server.recordedRequests
      #expect(heads.allSatisfy { $0.fields.first("x-evil") == nil })
      #expect(!String(decoding: server.bytesReceived(connection: 1), as: UTF8.self).contains("X-Evil"))
    }
  }

  /// Go CVE-2026-42507: text of a stranger in errors and logs, with what a terminal obeys.
  @Test(arguments: ["\u{1B}[31mred\u{7}", "\u{9B}31m", "fine\u{202E}"]) func cve202642507(_ reason: String) async throws
  {
    let answer = ScriptBytes("HTTP/1.1 403 \(reason)\r\nContent-Length: 0\r\n\r\n")
    try await withProxy([[.readHead, .send(answer), .waitForClose]]) { session, _ in
      let error = try await failure { try await session.text("http://a.example/") }
      #expect([.proxyRefused, .proxyFailed].contains(error.code))
      for text in [error.message, "\(error)"] {
        #expect(
          text.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control && $0 != "\u{202E}" },
          "\(error.code)")
      }
    }
  }

  /// curl CVE-2022-27780, Go CVE-2025-47912 and CVE-2026-25679: hosts that are others once they are decoded. In the URL of a proxy they would send
  /// everything to a stranger.
  @Test(arguments: [
    "http://proxy.example%2F127.0.0.1:80", "http://proxy.example%2fx", "http://[proxy.example]:80", "http://[::1]x:80",
    "http://::1:80", "http://proxy.example\\@evil.example", "http://a@b@proxy.example", "http://proxy.example:80:81",
    "http://proxy .example", "http://proxy.example\u{0}.evil.example", "socks5://%00.example", "http://[::1%25]:80",
  ]) func cve202227780(_ url: String) throws {
    do {
      let proxy = try Proxy(url)
      Issue.record("\(url) is \(proxy)")
    } catch {
      #expect(error.code == .badProxy)
    }
  }

  /// curl CVE-2023-38039, Go CVE-2023-24534, swift-nio CVE-2026-28980: fields without end, in the answer to CONNECT.
  @Test func cve202338039() async throws {
    let field = "X-A: \(String(repeating: "a", count: 1000))\r\n"
    let flood = ScriptBytes("HTTP/1.1 200 OK\r\n" + String(repeating: field, count: 600))
    try await withProxy([[.readHead, .send(flood), .waitForClose]]) { session, _ in
      try await expectFailure(.proxyFailed) { try await session.text("http://a.example/") }
    }
  }

  /// urllib3 CVE-2026-21441, CVE-2025-66471: what nobody wants to see was unpacked while it was drained. The body of a 407 is dropped as it comes,
  /// and not waited for: the next question goes over another connection.
  @Test func cve202621441() async throws {
    let bomb = try Compression.gzip.encode([UInt8](repeating: 0, count: 4 << 20))
    let head =
      "HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic realm=p\r\nContent-Encoding: gzip\r\nContent-Length: 1000000000\r\n\r\n"
    try await withProxy(
      [
        [.readHead, .send(ScriptBytes(Array(head.utf8) + bomb)), .sendPattern(100_000), .waitForClose],
        [.readHead, .send(Self.established), .readHead, .send(reply("hi")), .waitForClose],
      ], userinfo: "u:p@"
    ) { session, server in
      try await session.expect("hi", from: "http://a.example/")
      #expect(server.connectionCount == 2)
    }
  }

  /// llhttp CVE-2024-27982, async-h1 CVE-2020-26281: what follows an answer was taken for the next one. Behind a tunnel's 200 it would be the
  /// origin's answer, whatever a length or a coding says of it.
  @Test(arguments: [
    "", "Content-Length: 4\r\n", "Transfer-Encoding: chunked\r\n",
    "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
  ]) func cve202427982(_ fields: String) async throws {
    let answer = ScriptBytes("HTTP/1.1 200 OK\r\n\(fields)\r\n") + reply("evil")
    try await withProxy([[.readHead, .send(answer), .waitForClose]]) { session, _ in
      try await expectFailure(.proxyFailed) { try await session.text("http://a.example/") }
    }
  }
}
