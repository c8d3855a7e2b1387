import FoundationEssentials
import HTTPTypes
import LupineRules
import LupineSession
import LupineTesting
import LupineWire
import Testing

/// RFC 9110 section 15.4 end to end, and what a redirect must not carry along.
@Suite(.timeLimit(.minutes(5))) struct RedirectTests {
  struct Row: Sendable, CustomTestStringConvertible {
    let status: Int
    let method: String
    let expected: String
    let keepsBody: Bool
    var testDescription: String { "\(status) \(method)" }

    static let all: [Row] = [
      Row(status: 301, method: "GET", expected: "GET", keepsBody: false),
      Row(status: 301, method: "HEAD", expected: "HEAD", keepsBody: false),
      Row(status: 301, method: "POST", expected: "GET", keepsBody: false),
      Row(status: 301, method: "PUT", expected: "PUT", keepsBody: true),
      Row(status: 301, method: "DELETE", expected: "DELETE", keepsBody: true),
      Row(status: 302, method: "POST", expected: "GET", keepsBody: false),
      Row(status: 302, method: "PUT", expected: "PUT", keepsBody: true),
      Row(status: 303, method: "GET", expected: "GET", keepsBody: false),
      Row(status: 303, method: "HEAD", expected: "HEAD", keepsBody: false),
      Row(status: 303, method: "POST", expected: "GET", keepsBody: false),
      Row(status: 303, method: "PUT", expected: "GET", keepsBody: false),
      Row(status: 307, method: "POST", expected: "POST", keepsBody: true),
      Row(status: 307, method: "GET", expected: "GET", keepsBody: false),
      Row(status: 308, method: "POST", expected: "POST", keepsBody: true),
      Row(status: 308, method: "PATCH", expected: "PATCH", keepsBody: true),
    ]
  }

  /// swift-corelibs-foundation #3267: in small letters the field was not seen there.
  @Test(arguments: ["location", "LOCATION", "lOCATION"]) func theFieldIsKnownInAnyCase(_ name: String) async throws {
    let redirect = ScriptBytes("HTTP/1.1 302 Found\r\n\(name): /next\r\ncontent-length: 0\r\n\r\n")
    try await withScript([[.readHead, .send(redirect), .readHead, .send(reply("there")), .waitForClose]]) {
      session, server in
      let response = try await session.expect("there", from: server.url("/from"))
      #expect(response.urlString == server.url("/next"))
    }
  }

  @Test(arguments: Row.all) func methodAndBody(_ row: Row) async throws {
    try await withServer([
      ServerRoute(nil, "/from") { _, connection in
        _ = try connection.readBody()
        try connection.respond(row.status, fields: ["Location": "to?x=1"])
      },
      ServerRoute(nil, "/to") { _, connection in
        _ = try connection.readBody()
        try connection.respond(text: "there")
      },
    ]) { session, server in
      var request = try Request(server.url("/from"), method: try #require(HTTPRequest.Method(row.method)))
      if !["GET", "HEAD"].contains(row.method) { request.body = .bytes(Array("body".utf8)) }
      request.fields[.contentType] = "text/plain"
      let (_, response) = try await session.data(for: request)
      #expect(response.statusCode == 200)
      #expect(response.urlString == server.url("/to?x=1"))
      #expect(response.redirects.map { $0.head.status } == [row.status])
      #expect(response.redirects.map { $0.urlString } == [server.url("/from")])
      #expect(response.metrics.transactions.count == 2)
      let last = try #require(server.recordedRequests.last)
      #expect(last.method == row.expected)
      #expect(last.text == (row.keepsBody ? "body" : ""))
      let dropsContent = row.expected != row.method
      #expect((last.fields.first("Content-Type") == nil) == dropsContent)
      if dropsContent { #expect(last.fields.first("Content-Length") == nil) }
    }
  }

  @Test(arguments: [300, 304, 305, 306, 399]) func otherStatusesAreAnswers(_ status: Int) async throws {
    try await withServer { session, server in
      let (_, response) = try await session.data(from: server.url("/redirect?status=\(status)&to=/hello"))
      #expect(response.statusCode == status)
      #expect(server.requestCount == 1)
    }
  }

  @Test func withoutLocationOrWhenDisabledTheRedirectIsTheAnswer() async throws {
    try await withServer { session, server in
      let (_, bare) = try await session.data(from: server.url("/status?code=302"))
      #expect(bare.statusCode == 302)
      var request = try Request(server.url("/redirect"))
      request.redirects = .disabled
      let (body, response) = try await session.text(request)
      #expect(response.statusCode == 302)
      #expect(body == "Moved to /hello\n")
    }
  }

  @Test(arguments: [
    ("/a/b/rel", "target", "/a/b/target"), ("/a/b/rel", "../x?y", "/a/x?y"), ("/a/b/rel?q", "?z", "/a/b/rel?z"),
    ("/a/b/rel", "/x/./y/../z", "/x/z"), ("/a", "#part", "/a"),
  ]) func relativeLocations(_ row: (String, String, String)) async throws {
    try await withScript([
      [
        .readHead, .send(ScriptBytes("HTTP/1.1 302 F\r\nLocation: \(row.1)\r\nContent-Length: 0\r\n\r\n")), .readHead,
        .send(reply("ok")), .waitForClose,
      ]
    ]) { session, server in
      try await session.expect("ok", from: server.url(row.0))
      #expect(server.recordedRequests.map { $0.target } == [row.0, row.2])
    }
  }

  @Test func limitIsTwenty() async throws {
    try await withServer { session, server in
      let (body, response) = try await session.text(server.url("/redirect?n=20"))
      #expect(body == "Hello, world!")
      #expect(response.redirects.count == 20)
      let error = try await failure { try await session.data(from: server.url("/redirect?n=21")) }
      #expect(error.code == .tooManyRedirects)
      #expect(error.phase == .redirect)
      #expect(error.response?.statusCode == 302)
      #expect(error.response?.redirects.count == 20)
      #expect(server.requestCount == 21 + 21)
    }
  }

  /// Secrets are gone after the first foreign origin, and do not come back with the chain's return (Go CVE-2024-45336).
  @Test func secretsAreStrippedForTheWholeChain() async throws {
    let home = try LoopbackServer(routes: ServerRoute.standard())
    let away = try LoopbackServer(routes: ServerRoute.standard())
    defer {
      home.shutdown()
      away.shutdown()
    }
    try await withSession(ports: [home.port, away.port]) { session in
      let there = "\(away.url("/redirect"))%3Fto=\(home.url("/hello"))"
      let secret = try #require(HTTPField.Name("X-Secret"))
      var request = try Request(home.url("/redirect?to=\(there)"))
      request.fields[.authorization] = "Bearer token"
      request.fields[.cookie] = "a=b"
      request.fields[secret] = "s"
      request.fields[.acceptLanguage] = "de"
      request.fields[try #require(HTTPField.Name("Host"))] = "given.example"
      request.sensitiveFields = [secret]
      try await session.expect("Hello, world!", from: request)
      let first = try #require(home.recordedRequests.first)
      #expect(first.fields.first("Authorization") == "Bearer token")
      #expect(first.fields.first("Host") == "given.example")
      let later = away.recordedRequests + home.recordedRequests.dropFirst()
      #expect(later.count == 2)
      for request in later {
        for name in ["Authorization", "Cookie", "X-Secret"] { #expect(request.fields.first(name) == nil, "\(name)") }
        #expect(request.fields.first("Accept-Language") == "de")
        #expect(request.fields.first("Host")?.hasPrefix("127.0.0.1:") == true)
      }
    }
  }

  @Test func secretsStayWithinTheOrigin() async throws {
    try await withServer { session, server in
      var request = try Request(server.url("/redirect"))
      request.fields[.authorization] = "Bearer token"
      _ = try await session.data(for: request)
      #expect(server.authorizations == ["Bearer token", "Bearer token"])
    }
  }

  /// One of several servers at an address, whose redirect says nothing of the host.
  @Test func ownHostStaysWithinTheOrigin() async throws {
    try await withServer { session, server in
      var request = try Request(server.url("/redirect?n=2"))
      request.fields[try #require(HTTPField.Name("Host"))] = "virtual.example"
      _ = try await session.data(for: request)
      #expect(
        server.recordedRequests.map { $0.fields.first("Host") } == [
          "virtual.example", "virtual.example", "virtual.example",
        ])
    }
  }

  @Test func httpsToHTTPIsRefusedUnlessAllowed() async throws {
    let plain = try LoopbackServer(routes: ServerRoute.standard())
    defer { plain.shutdown() }
    for allows in [false, true] {
      try await withServer(isSecure: true, configure: { $0.redirects.allowsDowngrade = allows }) { session, server in
        let url = server.url("/redirect?to=\(plain.url("/hello"))")
        if allows {
          try await session.expect("Hello, world!", from: url)
        } else {
          let error = try await failure { try await session.data(from: url) }
          #expect(error.code == .redirectRefused)
          #expect(error.response?.statusCode == 302)
          #expect(plain.requestCount == 0)
        }
      }
    }
  }

  @Test(arguments: ["file:///etc/passwd", "ftp://127.0.0.1/", "http://", "http://a b/", "javascript:alert(1)"])
  func strangeTargetsAreRefused(_ target: String) async throws {
    try await withScript([
      [
        .readHead, .send(ScriptBytes("HTTP/1.1 302 F\r\nLocation: \(target)\r\nContent-Length: 0\r\n\r\n")),
        .waitForClose,
      ]
    ]) { session, server in
      let error = try await failure { try await session.data(from: server.url()) }
      #expect(error.code == .redirectRefused)
      #expect(error.response?.statusCode == 302)
    }
  }

  @Test func differingLocationsAreRefused() async throws {
    try await withScript([
      [.readHead, .send("HTTP/1.1 302 F\r\nLocation: /a\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n"), .waitForClose]
    ]) { session, server in
      try await expectFailure(.redirectRefused) { try await session.data(from: server.url()) }
    }
  }

  /// A small body of a redirect is read to keep the connection; a large, endless or slow one costs the connection and no time.
  @Test(
    arguments: [
      ([], "Content-Length: 60000", 1), ([.sendPattern(200_000)], "Content-Length: 200000", 2),
      ([.stall(nil)], "Content-Length: 5", 2), ([.sendAndFinish("tail")], "X: until-close", 2),
      ([.send("XYZ\r\n")], "Transfer-Encoding: chunked", 2),
    ] as [([ScriptStep], String, Int)]) func bodyOfARedirect(_ row: ([ScriptStep], String, Int)) async throws
  {
    let answer: [ScriptStep] = [.readHead, .send(reply("there")), .waitForClose]
    let head = ScriptBytes("HTTP/1.1 302 F\r\nLocation: /to\r\n\(row.1)\r\n\r\n")
    // Head and small body in one piece: however busy the machine, nothing of it is late.
    let small = row.2 == 1 ? ScriptBytes([UInt8](repeating: 0x78, count: 60_000)) : ScriptBytes("")
    let first: [ScriptStep] = [.readHead, .send(head + small)] + row.0
    try await withScript(
      row.2 == 1 ? [first + answer] : [first + [.waitForClose], answer], expectsProblems: true
    ) { session, server in
      try await session.expect("there", from: server.url())
      #expect(server.connectionCount == row.2)
    }
  }

  /// urllib3 CVE-2026-21441: the body of a redirect is never decompressed.
  @Test func redirectBombIsNotDecompressed() async throws {
    let bomb = try Compression.gzip.encode([UInt8](repeating: 0, count: 20 << 20), level: 9)
    try await withScript(
      [
        [
          .readHead,
          .send(
            ScriptBytes(
              "HTTP/1.1 302 F\r\nLocation: /to\r\nContent-Encoding: gzip\r\nContent-Length: \(bomb.count)\r\n\r\n")
              + ScriptBytes(bomb)), .readHead, .send(reply("there")), .waitForClose,
        ],
        [.readHead, .send(reply("there")), .waitForClose],
      ], expectsProblems: true
    ) { session, server in
      let response = try await session.expect("there", from: server.url())
      #expect(response.metrics.transactions.first?.responseDecodedBytes == 0)
    }
  }

  // MARK: Referer

  private static func referrers(of server: LoopbackServer) -> [String?] {
    server.recordedRequests.map { $0.fields.first("Referer") }
  }

  /// A user and a fragment go nowhere; the rest goes where the caller wants it, redirects within the origin included.
  @Test func referrerGoesWithoutUserAndFragment() async throws {
    for isOfTheSession in [false, true] {
      let value = "https://user:secret@page.example/path?query#fragment"
      try await withServer(configure: { if isOfTheSession { $0.additionalFields[.referer] = value } }) {
        session, server in
        var request = try Request(server.url("/redirect"))
        if !isOfTheSession { request.fields[.referer] = value }
        try await session.expect("Hello, world!", from: request)
        let shown = "https://page.example/path?query"
        #expect(Self.referrers(of: server) == [shown, shown])
      }
    }
  }

  /// Behind a redirect to another origin each hears of others the origin alone; with the word of a delegate or without.
  @Test(arguments: [false, true]) func referrerToAnotherOrigin(_ isAsked: Bool) async throws {
    let home = try LoopbackServer(routes: ServerRoute.standard())
    let away = try LoopbackServer(routes: ServerRoute.standard())
    defer {
      home.shutdown()
      away.shutdown()
    }
    try await withSession(ports: [home.port, away.port]) { session in
      let there = "\(away.url("/redirect"))%3Fto=\(home.url("/hello"))"
      var request = try Request(home.url("/redirect?to=\(there)"))
      request.fields[.referer] = home.url("/page?query").replacing("http://", with: "http://user:secret@")
      let delegate = RecordingDelegate([.redirection])
      let (body, _) = try await session.data(for: request, delegate: isAsked ? delegate : nil)
      #expect(String(decoding: body, as: UTF8.self) == "Hello, world!")
      #expect(delegate.entries == (isAsked ? ["redirect 302", "redirect 302"] : []))
      #expect(Self.referrers(of: away) == [home.url("/")])
      // What a delegate was shown is all that there is of it from there on.
      let whole = home.url("/page?query")
      #expect(Self.referrers(of: home) == [whole, isAsked ? home.url("/") : whole])
    }
  }

  /// A page that came over https is not named over http.
  @Test func referrerOfADowngrade() async throws {
    let plain = try LoopbackServer(routes: ServerRoute.standard())
    defer { plain.shutdown() }
    let pages = ["https://page.example/path", "http://page.example/path", "/path"]
    for page in pages {
      try await withServer(isSecure: true, configure: { $0.redirects.allowsDowngrade = true }) { session, server in
        var request = try Request(server.url("/redirect?to=\(plain.url("/hello"))"))
        request.fields[.referer] = page
        try await session.expect("Hello, world!", from: request)
        #expect(Self.referrers(of: server) == [page])
      }
    }
    #expect(Self.referrers(of: plain) == [nil, "http://page.example/", nil])
  }
}
