import FoundationEssentials
import HTTPTypes
import LupineRules
import LupineSession
import LupineTesting
import Testing

/// Changes of a request that is made already.
@Suite struct RequestChangeTests {
  // MARK: The URL

  struct Move: Sendable, CustomTestStringConvertible {
    var from: String
    var to: String
    /// The URL with its userinfo.
    var userinfo: String?
    /// Whether what is a secret of the former origin stays.
    var keeps: Bool
    var testDescription: String { "\(from) → \(to)" }
  }

  static let moves = [
    Move(from: "https://a.example/x", to: "https://a.example/y?q#f", keeps: true),
    Move(from: "https://a.example/x", to: "https://A.EXAMPLE:443/y", keeps: true),
    Move(from: "https://u:p@a.example/x", to: "https://a.example/y", userinfo: "u:p", keeps: true),
    Move(from: "https://u:p@a.example/x", to: "https://v@a.example/y", userinfo: "v", keeps: true),
    Move(from: "https://a.example/x", to: "https://v@a.example/y", userinfo: "v", keeps: true),
    Move(from: "https://u:p@a.example/x", to: "https://b.example/x", keeps: false),
    Move(from: "https://u:p@a.example/x", to: "https://v:q@b.example/x", userinfo: "v:q", keeps: false),
    Move(from: "https://a.example/x", to: "https://a.example:8443/x", keeps: false),
    Move(from: "https://a.example/x", to: "http://a.example/x", keeps: false),
    Move(from: "http://a.example/x", to: "https://a.example/x", keeps: false),
    Move(from: "https://a.example/x", to: "https://sub.a.example/x", keeps: false),
    Move(from: "http://[fe80::1%25eth0]/", to: "http://[fe80::1%25eth1]/", keeps: false),
  ]

  /// What was meant for an origin stays there; everything else goes along.
  @Test(arguments: moves) func movingToAnotherURL(_ move: Move) throws {
    let secret = try #require(HTTPField.Name("X-Own-Key"))
    let host = try #require(HTTPField.Name("Host"))
    let proxy = try #require(HTTPField.Name("Proxy-Authorization"))
    var request = try Request(move.from, method: .put, body: .bytes([1, 2]))
    request.fields = [
      .authorization: "Bearer t", .cookie: "a=b", secret: "k", proxy: "Basic eA==", .accept: "text/plain",
    ]
    request.fields[host] = "virtual.example"
    request.sensitiveFields = [secret]
    request.credential = .password(user: "u", password: "p")
    request.timeoutInterval = .seconds(5)
    request.handlesCookies = false
    try request.setMainDocument("https://document.example/")
    try request.setURL(move.to)
    let parsed = try Request(move.to).parsedURL
    #expect(request.parsedURL == parsed.replacingUserinfo(move.userinfo))
    let secrets: [HTTPField.Name] = [.authorization, .cookie, secret, proxy, host]
    #expect(secrets.map { request.fields.contains($0) } == secrets.map { _ in move.keeps })
    #expect((request.credential != nil) == move.keeps)
    #expect(request.fields[.accept] == "text/plain" && request.method == .put && request.sensitiveFields == [secret])
    #expect(request.timeoutInterval == .seconds(5) && !request.handlesCookies)
    #expect(request.mainDocumentURLString == "https://document.example/")
    guard case .bytes([1, 2]) = request.body else { return #expect(Bool(false), "the body is gone") }
  }

  /// Another origin hears of the page that led to the former one what it hears behind a redirect (RFC 9110 section 10.1.3).
  @Test(
    arguments: [
      ("https://a.example/y", "https://a.example/p?q"), ("https://b.example/x", "https://a.example/"),
      ("https://a.example:8443/x", "https://a.example/"), ("http://a.example/x", nil),
    ] as [(String, String?)]) func theRefererOfAMovedRequest(_ url: String, _ expected: String?) throws
  {
    var request = try Request("https://a.example/x")
    request.fields[.referer] = "https://a.example/p?q"
    try request.setURL(url)
    #expect(request.fields[.referer] == expected)
  }

  /// What a request says of its URL puts it where it is.
  @Test func theURLThatItShows() throws {
    var request = try Request("https://u:p@a.example/x?y=%20")
    let before = request.parsedURL
    try request.setURL(request.urlString)
    #expect(request.parsedURL == before)
    try request.setURL(try #require(request.url))
    #expect(request.parsedURL == before)
  }

  @Test(arguments: ["", "/relative", "ftp://a.example/", "http://a b/", "http://a.example/\n"])
  func aURLThatIsNone(_ text: String) throws {
    var request = try Request("https://a.example/x")
    request.fields[.authorization] = "Bearer t"
    let error = #expect(throws: SessionError.self) { try request.setURL(text) }
    #expect(error?.code == .badURL && error?.phase == .prepare)
    #expect(request.urlString == "https://a.example/x" && request.fields[.authorization] == "Bearer t")
  }

  /// Another server of the same kind is asked, in the name of itself and without the token of the first.
  @Test func theOtherServerIsAsked() async throws {
    let other = try LoopbackServer(routes: ServerRoute.standard())
    defer { other.shutdown() }
    try await withServer { session, server in
      var request = try Request(server.url("/hello"))
      request.fields[.authorization] = "Bearer t"
      request.fields[try #require(HTTPField.Name("Host"))] = "virtual.example"
      _ = try await session.data(for: request)
      try request.setURL(other.url("/hello"))
      _ = try await session.data(for: request)
      let (first, second) = (server.recordedRequests.first?.fields, other.recordedRequests.first?.fields)
      #expect(first?.first("Host") == "virtual.example" && first?.first("Authorization") == "Bearer t")
      #expect(second?.first("Host") == "127.0.0.1:\(other.port)" && second?.first("Authorization") == nil)
    }
  }

  // MARK: The query

  struct Query: Sendable, CustomTestStringConvertible {
    var url: String
    var items: [(name: String, value: String)]
    var target: String
    var testDescription: String { target }
  }

  static let queries = [
    Query(url: "http://a/p", items: [], target: "/p"),
    Query(url: "http://a/p", items: [("b", "1"), ("a", "2"), ("b", "1")], target: "/p?b=1&a=2&b=1"),
    Query(url: "http://a/p?x=1#f", items: [("y", "2")], target: "/p?x=1&y=2"),
    Query(url: "http://a/p?", items: [("y", "2")], target: "/p?y=2"),
    Query(url: "http://a", items: [("", "")], target: "/?="),
    Query(
      url: "http://a/p", items: [("a&b=c#", "1+1 = 2?/%41")],
      target: "/p?a%26b%3Dc%23=1%2B1%20%3D%202?/%2541"),
    Query(url: "http://a/p", items: [("é", "\r\n\0")], target: "/p?%C3%A9=%0D%0A%00"),
  ]

  @Test(arguments: queries) func appendingToTheQuery(_ one: Query) throws {
    var request = try Request(one.url)
    try request.appendQuery(one.items)
    #expect(request.parsedURL.target == one.target)
    #expect(request.parsedURL.fragment == (try Request(one.url).parsedURL.fragment))
  }

  @Test func aQueryThatIsTooLong() throws {
    var request = try Request("http://a/p")
    let limit = 64 * 1024 - "http://a/p?a=".utf8.count
    let error = #expect(throws: SessionError.self) {
      try request.appendQuery([("a", String(repeating: "b", count: limit + 1))])
    }
    #expect(error?.code == .badURL && error?.message.contains("65536") == true && request.urlString == "http://a/p")
    try request.appendQuery([("a", String(repeating: "b", count: limit))])
    #expect(request.urlString.utf8.count == 64 * 1024)
  }

  // MARK: Forms

  @Test func namesAndValuesAsAForm() async throws {
    try await withServer { session, server in
      var request = try Request(server.url("/echo"), method: .post)
      request.fields[.contentLength] = "1"
      request.fields[.contentEncoding] = "gzip"
      request.fields[.transferEncoding] = "chunked"
      request.setForm([("user", "é"), ("password", "1+1 = 2&c"), ("empty", "")])
      let (body, _) = try await session.data(for: request)
      #expect(String(decoding: body, as: UTF8.self) == "user=%C3%A9&password=1%2B1%20%3D%202%26c&empty=")
      let fields = server.recordedRequests.last?.fields
      #expect(fields?.first("Content-Type") == "application/x-www-form-urlencoded")
      #expect(fields?.first("Content-Encoding") == nil)
      request.fields[.contentType] = "application/x-www-form-urlencoded; charset=utf-8"
      request.setForm([])
      #expect(request.fields[.contentType] == "application/x-www-form-urlencoded; charset=utf-8")
      #expect(request.body.knownLength == 0)
    }
  }

  // MARK: JSON

  struct Order: Encodable {
    var count: Double
    var note: String
  }

  @Test func valuesAsJSON() async throws {
    try await withServer { session, server in
      let encoder = JSONEncoder()
      encoder.outputFormatting = .sortedKeys
      var request = try Request(server.url("/echo"), method: .post)
      request.fields[.contentLength] = "1"
      try request.setJSON(Order(count: 1.5, note: "é/"), encoder: encoder)
      let (body, _) = try await session.data(for: request)
      #expect(String(decoding: body, as: UTF8.self) == #"{"count":1.5,"note":"é\/"}"#)
      #expect(server.recordedRequests.last?.fields.first("Content-Type") == "application/json")
    }
  }

  /// The request's own media type stays; a value that JSON lacks changes nothing, and is not told.
  @Test func mediaTypesAndFailures() throws {
    var request = try Request("http://a/", method: .post)
    request.fields[.contentType] = "application/vnd.api+json"
    try request.setJSON(["a"])
    #expect(request.fields[.contentType] == "application/vnd.api+json")
    let error = #expect(throws: SessionError.self) { try request.setJSON(Order(count: .nan, note: "S3CRET")) }
    #expect(
      error?.code == .badRequest && error?.underlying is EncodingError && error?.message.contains("Order") == true)
    #expect("\(error.map { "\($0)" } ?? "")".contains("S3CRET") == false)
    guard case .bytes(let body) = request.body else { return #expect(Bool(false), "the body is gone") }
    #expect(body == Array(#"["a"]"#.utf8))
  }

  /// What was said of the body before is no longer so.
  @Test func theCodingOfTheFormerBodyGoes() throws {
    var request = try Request("http://a/", method: .post)
    for number in 0..<2 {
      try request.setJSON(["number": number])
      #expect(request.fields[.contentEncoding] == nil)
      try request.compressBody()
      #expect(request.fields[.contentEncoding] == "gzip")
    }
  }
}
