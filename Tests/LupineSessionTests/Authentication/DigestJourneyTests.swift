import FoundationEssentials
import HTTPTypes
import LupineSession
import LupineTesting
import Testing

extension Credential {
  static let mufasa = Credential.password(user: "Mufasa", password: "Circle of Life")
}

/// A server behind a `DigestAuthority`, which has its own idea of RFC 7616.
func withDigest(
  _ options: DigestAuthority.Options = DigestAuthority.Options(), user: String = "Mufasa",
  password: String = "Circle of Life", configure: (inout SessionConfiguration) -> Void = { _ in },
  _ body: (Session, LoopbackServer, DigestAuthority) async throws -> Void
) async throws {
  let authority = DigestAuthority(user: user, password: password, options: options)
  let server = try LoopbackServer { request, connection in
    guard let fields = try authority.check(request, connection) else { return }
    if request.path == "/away", let target = request.query("to") {
      var fields = fields
      fields.append("Location", target)
      return try connection.respond(302, fields: fields)
    }
    while try connection.readBodyPart() != nil {}
    try connection.respond(fields: fields, body: Array("\(request.method) \(connection.bodyLength)".utf8))
  }
  defer { server.shutdown() }
  try await withSession(ports: [server.port], configure: configure) { session in
    try await body(session, server, authority)
  }
}

private func request(
  _ url: String, method: HTTPRequest.Method = .get, credential: Credential? = .mufasa, body: Request.Body = .none
) throws -> Request {
  var request = try Request(url, method: method, body: body)
  request.credential = credential
  return request
}

@Suite(.timeLimit(.minutes(5))) struct DigestJourneyTests {
  @Test(arguments: [nil, "MD5", "MD5-sess", "SHA-256", "SHA-256-sess", "SHA-512-256", "SHA-512-256-sess"])
  func everyAlgorithm(_ algorithm: String?) async throws {
    var options = DigestAuthority.Options()
    options.algorithms = [algorithm]
    try await withDigest(options) { session, server, authority in
      for _ in 0..<3 { try await session.expect("GET 0", from: request(server.url("/a?b=c,d"))) }
      #expect(authority.refusals == [])
      #expect(authority.admitted == 3)
      // One challenge, then the counts of its nonce.
      #expect(authority.nonceCounts == ["nonce1": [1, 2, 3]])
      #expect(server.requestCount == 4)
      #expect(server.connectionCount == 1)
    }
  }

  @Test(
    arguments: [
      (nil, "", "u"), (nil, "charset=UTF-8", "Jäsøn \"D\\e\""), ("auth", "", "Jäsøn \"D\\e\""),
      ("auth", "charset=UTF-8", "Jäsøn Doe"), ("auth", "charset=UTF-8, userhash=true", "Jäsøn Doe"),
      ("auth", "userhash=true", "a:b"), ("auth-int", "", "u"), ("auth,auth-int", "", "u"), ("auth-int, auth", "", "u"),
      ("auth", "domain=\"/ /b\"", "u"),
    ] as [(String?, String, String)])
  func everyOption(_ row: (String?, String, String)) async throws {
    var options = DigestAuthority.Options()
    options.quality = row.0
    options.parameters = row.1
    options.realm = "a \"realm\" \\ with, commas"
    try await withDigest(options, user: row.2) { session, server, authority in
      let credential = Credential.password(user: row.2, password: "Circle of Life")
      for _ in 0..<2 {
        try await session.expect("GET 0", from: request(server.url("/"), credential: credential))
        try await session.expect(
          "PUT 5",
          from: request(server.url("/"), method: .put, credential: credential, body: .bytes(Array("hello".utf8))))
      }
      #expect(authority.refusals == [])
    }
  }

  @Test func theStrongestChallengeIsAnswered() async throws {
    var options = DigestAuthority.Options()
    options.algorithms = ["MD5", "SHA-256"]
    options.otherChallenges = ["Basic realm=\"x\", Negotiate"]
    try await withDigest(options) { session, server, authority in
      try await session.expect("GET 0", from: request(server.url("/")))
      let field = try #require(server.recordedRequests.last?.fields.first("Authorization"))
      #expect(field.contains("algorithm=SHA-256"))
      #expect(authority.refusals == [])
    }
  }

  @Test func aStaleNonceIsRenewedAtOnce() async throws {
    var options = DigestAuthority.Options()
    options.usesPerNonce = 2
    try await withDigest(options) { session, server, authority in
      for _ in 0..<5 { try await session.expect("GET 0", from: request(server.url("/"))) }
      #expect(authority.admitted == 5)
      #expect(authority.refusals == ["stale", "stale"])
      #expect(authority.nonceCounts == ["nonce1": [1, 2], "nonce2": [1, 2], "nonce3": [1]])
    }
  }

  @Test func theNextNonceIsTaken() async throws {
    var options = DigestAuthority.Options()
    options.usesBeforeNextNonce = 2
    try await withDigest(options) { session, server, authority in
      for _ in 0..<5 { try await session.expect("GET 0", from: request(server.url("/"))) }
      #expect(authority.refusals == [])
      #expect(server.requestCount == 6)
      #expect(authority.nonceCounts == ["nonce1": [1, 2], "nonce2": [1, 2], "nonce3": [1]])
    }
  }

  /// What a stored response says of nonces was said to an earlier request, and they have gone on since.
  @Test func aStoredResponseNamesNoNonce() async throws {
    var options = DigestAuthority.Options()
    options.usesBeforeNextNonce = 1
    let authority = DigestAuthority(user: "Mufasa", password: "Circle of Life", options: options)
    let server = try LoopbackServer { request, connection in
      guard var fields = try authority.check(request, connection) else { return }
      if request.path == "/stored" { fields.append("Cache-Control", "public, max-age=600") }
      try connection.respond(fields: fields, body: Array("in".utf8))
    }
    defer { server.shutdown() }
    try await withSession(ports: [server.port], configure: { $0.responseCache = ResponseCache() }) { session in
      for path in ["/stored", "/a", "/stored", "/b"] { try await session.expect("in", from: request(server.url(path))) }
      #expect(server.requestCount == 4)
      #expect(authority.refusals == [])
      // The first count of the third nonce went with what the cache answered.
      #expect(authority.nonceCounts == ["nonce1": [1], "nonce2": [1], "nonce3": [2]])
    }
  }

  /// Every nonce is called stale: the 401 is the answer after a few rounds.
  @Test func aServerThatIsNeverSatisfiedEnds() async throws {
    var options = DigestAuthority.Options()
    options.isNeverSatisfied = true
    try await withDigest(options) { session, server, authority in
      let response = try await session.data(for: request(server.url("/"))).1
      #expect(response.statusCode == 401)
      #expect(server.requestCount == 7)
    }
  }

  @Test func aWrongPasswordIsSentOnce() async throws {
    try await withDigest { session, server, authority in
      let wrong = Credential.password(user: "Mufasa", password: "wrong")
      let (text, response) = try await session.text(request(server.url("/"), credential: wrong))
      #expect(response.statusCode == 401)
      #expect(text == "Who are you?\n")
      #expect(authority.refusals == ["response"])
      #expect(server.requestCount == 2)
      // The right one is not held back by it.
      try await session.expect("GET 0", from: request(server.url("/")))
    }
  }

  @Test func counts8TasksAtOnce() async throws {
    try await withDigest { session, server, authority in
      try await session.expect("GET 0", from: request(server.url("/")))
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<40 {
          let one = try request(server.url("/"))
          group.addTask { try await session.expect("GET 0", from: one) }
        }
        try await group.waitForAll()
      }
      #expect(authority.refusals == [])
      #expect(authority.nonceCounts["nonce1"]?.sorted() == Array(1...41))
    }
  }

  /// A server that was started again knows no nonce of before, and not every one calls them stale.
  @Test func aServerThatForgetsItsNonces() async throws {
    let authorities = (0..<2).map { _ in DigestAuthority(user: "Mufasa", password: "Circle of Life") }
    let server = try LoopbackServer { request, connection in
      let authority = authorities[request.path == "/old" ? 0 : 1]
      if try authority.admit(request, connection) { try connection.respond(text: "in") }
    }
    defer { server.shutdown() }
    try await withSession(ports: [server.port]) { session in
      for path in ["/old", "/old", "/new"] {
        _ = try await session.data(for: request(server.url(path), credential: nil))
      }
      try await session.expect("in", from: request(server.url("/old")))
      try await session.expect("in", from: request(server.url("/new")))
      #expect(authorities[0].refusals == [] && authorities[1].refusals == ["nonce"])
      #expect(authorities[1].nonceCounts == ["nonce2": [1]])
    }
  }

  /// `auth-int` covers the body: of bytes, of a file, of nothing.
  @Test(arguments: [0, 5, 100_000, 3_000_000]) func bodiesAreHashed(_ count: Int) async throws {
    var options = DigestAuthority.Options()
    options.quality = "auth-int"
    let folder = try ScratchDirectory()
    let path = try folder.write(PatternBody.bytes(count), to: "body")
    try await withDigest(options) { session, server, authority in
      let bytes = try request(server.url("/"), method: .post, body: .bytes(PatternBody.bytes(count)))
      try await session.expect("POST \(count)", from: bytes)
      let file = try request(server.url("/"), method: .post, body: .file(path: path))
      try await session.expect("POST \(count)", from: file)
      if count > 100 {
        let part = try request(server.url("/"), method: .post, body: .file(path: path, offset: 10, length: 50))
        try await session.expect("POST 50", from: part)
      }
      #expect(authority.refusals == [])
    }
  }

  @Test func aStreamCannotBeHashed() async throws {
    var options = DigestAuthority.Options()
    options.quality = "auth-int"
    try await withDigest(options) { session, server, authority in
      let stream = Request.Body.stream(length: 3, isReplayable: true) { BodyStream([[1, 2, 3]]) }
      let error = try await failure {
        try await session.data(for: request(server.url("/"), method: .post, body: stream))
      }
      #expect(error.code == .cannotAuthenticate)
      #expect(error.response?.statusCode == 401)
    }
  }

  @Test func aFileThatIsGone() async throws {
    var options = DigestAuthority.Options()
    options.quality = "auth-int"
    let folder = try ScratchDirectory()
    let path = try folder.write([1, 2, 3], to: "body")
    let authority = DigestAuthority(user: "Mufasa", password: "Circle of Life", options: options)
    let server = try LoopbackServer { request, connection in
      _ = try connection.readBody()
      try TextFile.remove(path)
      _ = try authority.admit(request, connection)
    }
    defer { server.shutdown() }
    try await withSession(ports: [server.port]) { session in
      let error = try await failure {
        try await session.data(for: request(server.url("/"), method: .post, body: .file(path: path)))
      }
      #expect(error.code == .fileFailed)
    }
  }

  @Test func aStreamedBody() async throws {
    try await withDigest { session, server, authority in
      let once = Request.Body.stream(length: 3, isReplayable: false) { BodyStream([[1, 2, 3]]) }
      let error = try await failure {
        try await session.data(for: request(server.url("/"), method: .post, body: once))
      }
      #expect(error.code == .bodyNotReplayable)
      #expect(error.response?.statusCode == 401)
      let again = Request.Body.stream(length: 3, isReplayable: true) { BodyStream([[1, 2, 3]]) }
      try await session.expect("POST 3", from: request(server.url("/"), method: .post, body: again))
      // By now the nonce is known, and the body is sent once.
      try await session.expect("POST 3", from: request(server.url("/"), method: .post, body: once))
      #expect(authority.refusals == [])
    }
  }

  /// curl CVE-2026-11856, CVE-2026-8927, CVE-2026-7168: the state of Digest stays with its origin.
  @Test func anotherOriginLearnsNothing() async throws {
    let other = try LoopbackServer { request, connection in
      let text = #"Digest realm="lupine", nonce="nonce1", qop="auth", algorithm=SHA-256"#
      try connection.respond(401, fields: ["WWW-Authenticate": text], text: "other")
    }
    defer { other.shutdown() }
    try await withDigest { session, server, authority in
      try await session.expect("GET 0", from: request(server.url("/")))
      let (text, response) = try await session.text(request(server.url("/away?to=\(other.url("/"))")))
      #expect(response.statusCode == 401)
      #expect(text == "other")
      #expect(other.authorizations == [nil])
      #expect(authority.refusals == [])
    }
  }
}
