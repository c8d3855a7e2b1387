import FoundationEssentials
import HTTPTypes
import LupineSession
import LupineTesting
import Testing

/// Who is sent what: Basic, Bearer, storage, URL, redirects, and every known way of sending a credential to the wrong place.
@Suite(.timeLimit(.minutes(5))) struct AuthenticationTests {
  /// Answers 401 with `challenge` until `Authorization` is `expected`.
  static func demanding(_ expected: String, _ challenge: String = "Basic realm=\"lupine\"") -> LoopbackServer.Handler {
    { request, connection in
      let count = try connection.readBody().count
      if request.path == "/away", let target = request.query("to") {
        return try connection.respond(request.number("status") ?? 302, fields: ["Location": target])
      }
      if request.fields.first("Authorization") == expected {
        try connection.respond(text: "welcome \(count)")
      } else {
        try connection.respond(401, fields: ["WWW-Authenticate": challenge], text: "who?")
      }
    }
  }

  static let basic = "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
  static let aladdin = Credential.password(user: "Aladdin", password: "open sesame")

  /// A server that demands, and a session.
  private func withDemand(
    _ expected: String = basic, _ challenge: String = "Basic realm=\"lupine\"",
    configure: (inout SessionConfiguration) -> Void = { _ in },
    _ body: (Session, LoopbackServer) async throws -> Void
  ) async throws {
    let server = try LoopbackServer(handler: Self.demanding(expected, challenge))
    defer { server.shutdown() }
    try await withSession(ports: [server.port], configure: configure) { try await body($0, server) }
  }

  /// swift-corelibs-foundation #5456: this waits for ever there.
  @Test func withoutCredentialsThe401IsTheAnswer() async throws {
    try await withDemand { session, server in
      let (text, response) = try await session.text(server.url("/"))
      #expect(response.statusCode == 401)
      #expect(text == "who?")
      #expect(server.requestCount == 1)
    }
  }

  @Test func ofTheRequest() async throws {
    try await withDemand { session, server in
      var request = try Request(server.url("/docs/index"))
      request.credential = Self.aladdin
      try await session.expect("welcome 0", from: request)
      #expect(server.connectionCount == 1)
      // RFC 7617 2.2: below the same path nobody has to ask again.
      request = try Request(server.url("/docs/other"))
      request.credential = Self.aladdin
      try await session.expect("welcome 0", from: request)
      request = try Request(server.url("/elsewhere"))
      request.credential = Self.aladdin
      try await session.expect("welcome 0", from: request)
      #expect(server.authorizations == [nil, Self.basic, Self.basic, nil, Self.basic])
      // A request that does not name the credential does not get it.
      #expect(try await session.data(from: server.url("/docs/other")).1.statusCode == 401)
    }
  }

  @Test func ofTheURL() async throws {
    try await withDemand { session, server in
      let url = "http://Aladdin:open%20sesame@127.0.0.1:\(server.port)/"
      let response = try await session.expect("welcome 0", from: url)
      #expect(!response.urlString.contains("Aladdin"))
      #expect(server.recordedRequests.allSatisfy { $0.fields.first("Host") == "127.0.0.1:\(server.port)" })
      #expect(server.authorizations == [nil, Self.basic])
      // An explicit credential takes its place.
      var request = try Request("http://Jafar:wrong@127.0.0.1:\(server.port)/")
      request.credential = Self.aladdin
      try await session.expect("welcome 0", from: request)
    }
  }

  @Test func ofTheStorage() async throws {
    try await withDemand { session, server in
      let storage = try #require(session.configuration.credentialStorage)
      storage.set(Self.aladdin, for: try ProtectionSpace(server.url("/"), realm: "another", method: .basic))
      #expect(try await session.data(from: server.url("/")).1.statusCode == 401)
      storage.set(Self.aladdin, for: try ProtectionSpace(server.url("/anything"), realm: "lupine"))
      try await session.expect("welcome 0", from: server.url("/"))
      try await session.expect("welcome 0", from: server.url("/"))
      #expect(server.authorizations == [nil, nil, Self.basic, Self.basic])
      // What is removed is not sent any more.
      storage.removeAll()
      #expect(try await session.data(from: server.url("/")).1.statusCode == 401)
      #expect(server.authorizations.last == .some(nil))
    }
  }

  /// Other users' passwords are for a delegate to choose.
  @Test func onlyTheDefaultOfTheStorageIsSent() async throws {
    try await withDemand { session, server in
      let storage = try #require(session.configuration.credentialStorage)
      let space = try ProtectionSpace(server.url("/"), realm: "lupine", method: .basic)
      storage.set(.password(user: "a", password: "a"), for: space)
      storage.set(Self.aladdin, for: space)
      storage.setDefault(.password(user: "b", password: "b"), for: space)
      #expect(try await session.text(server.url("/")).1.statusCode == 401)
      #expect(server.authorizations == [nil, "Basic Yjpi"])
      // That of every realm is another space's default.
      let every = try ProtectionSpace(server.url("/"))
      storage.setDefault(Self.aladdin, for: every)
      try await session.expect("welcome 0", from: server.url("/"))
      #expect(server.authorizations.dropFirst(2) == [nil, "Basic Yjpi", Self.basic])
    }
  }

  /// Nor where the default may not answer by the scheme that is asked for, or has answered by another one in vain.
  @Test(arguments: [true, false]) func theDefaultOfAnotherSchemeMakesNoRoom(_ offersDigest: Bool) async throws {
    let digest = #"Digest realm="r", nonce="n", qop="auth""#
    let server = try LoopbackServer { _, connection in
      var fields: ServerFields = ["WWW-Authenticate": #"Basic realm="r""#]
      if offersDigest { fields.append("WWW-Authenticate", digest) }
      try connection.respond(401, fields: fields, text: "who?")
    }
    defer { server.shutdown() }
    try await withSession(ports: [server.port]) { session in
      let storage = try #require(session.configuration.credentialStorage)
      let space = try ProtectionSpace(server.url("/"), realm: "r")
      var alice = Credential.password(user: "alice", password: "a")
      alice.schemes = .digest
      storage.setDefault(alice, for: space)
      storage.set(.password(user: "bob", password: "b"), for: space)
      #expect(try await session.text(server.url("/")).1.statusCode == 401)
      #expect(server.authorizations.map { $0?.hasPrefix("Digest") } == (offersDigest ? [nil, true] : [nil]))
    }
  }

  @Test func preemptively() async throws {
    try await withDemand { session, server in
      var request = try Request(server.url("/"))
      request.credential = Self.aladdin
      request.credential?.isPreemptive = true
      try await session.expect("welcome 0", from: request)
      request.credential = .password(user: "a", password: "a")
      request.credential?.isPreemptive = true
      #expect(try await session.data(for: request).1.statusCode == 401)
      // The refused one was sent once.
      #expect(server.authorizations == [Self.basic, "Basic YTph"])
    }
  }

  @Test func withoutMemory() async throws {
    try await withDemand(configure: { $0.authentication.isPreemptive = false }) { session, server in
      var request = try Request(server.url("/"))
      request.credential = Self.aladdin
      for _ in 0..<2 { try await session.expect("welcome 0", from: request) }
      #expect(server.authorizations == [nil, Self.basic, nil, Self.basic])
    }
  }

  @Test func bearer() async throws {
    try await withDemand("Bearer abc", "Bearer realm=\"x\", Basic realm=\"x\"") { session, server in
      var request = try Request(server.url("/"))
      request.credential = .bearer("abc")
      try await session.expect("welcome 0", from: request)
      request.credential = .bearer("wrong")
      #expect(try await session.data(for: request).1.statusCode == 401)
      // A password is no answer to Bearer, but one to Basic.
      request.credential = Self.aladdin
      #expect(try await session.data(for: request).1.statusCode == 401)
      let storage = try #require(session.configuration.credentialStorage)
      storage.set(.bearer("abc"), for: try ProtectionSpace(server.url("/")))
      try await session.expect("welcome 0", from: server.url("/"))
      #expect(server.authorizations == ["Bearer abc", "Bearer wrong", nil, Self.basic, nil, "Bearer abc"])
    }
  }

  @Test(arguments: [
    Credential.password(user: "a:b", password: ""), .password(user: "a\r\nX: y", password: ""),
    .password(user: "a", password: "\u{0}"),
  ]) func credentialsThatCannotBeSent(_ credential: Credential) async throws {
    try await withDemand { session, server in
      var request = try Request(server.url("/"))
      request.credential = credential
      let asked = try await failure { try await session.data(for: request) }
      #expect(asked.code == .cannotAuthenticate)
      request.credential?.isPreemptive = true
      let unasked = try await failure { try await session.data(for: request) }
      #expect(unasked.code == .cannotAuthenticate)
      #expect(!unasked.requestBytesSent)
      #expect(server.authorizations == [nil])
    }
  }

  @Test(arguments: ["", "a b", "a\r\nX: y"]) func tokensThatCannotBeSent(_ token: String) async throws {
    try await withDemand { session, server in
      var request = try Request(server.url("/"))
      request.credential = .bearer(token)
      let error = try await failure { try await session.data(for: request) }
      #expect(error.code == .cannotAuthenticate)
      #expect(server.requestCount == 0)
    }
  }

  @Test func basicOverPlaintextCanBeForbidden() async throws {
    try await withDemand(configure: { $0.authentication.allowsBasicOverPlaintext = false }) { session, server in
      var request = try Request(server.url("/"))
      request.credential = Self.aladdin
      request.credential?.isPreemptive = true
      #expect(try await session.data(for: request).1.statusCode == 401)
      #expect(server.authorizations == [nil])
    }
  }

  @Test func schemesCanBeChosen() async throws {
    try await withDemand { session, server in
      var request = try Request(server.url("/"))
      request.credential = Self.aladdin
      request.credential?.schemes = .digest
      #expect(try await session.data(for: request).1.statusCode == 401)
      #expect(server.authorizations == [nil])
    }
  }

  @Test func bodiesAreSentAgain() async throws {
    let folder = try ScratchDirectory()
    let path = try folder.write(Array(repeating: 65, count: 70_000), to: "body")
    try await withDemand { session, server in
      for body in [
        Request.Body.bytes([1, 2, 3]), .file(path: path),
        .stream(length: nil, isReplayable: true) { BodyStream([[1], [2, 3]]) },
      ] {
        let fresh = try Request(server.url("/\(server.requestCount)/"), method: .put, body: body)
        var request = fresh
        request.credential = Self.aladdin
        let response = try await session.data(for: request).1
        #expect(response.statusCode == 200)
        #expect(response.metrics.transactions.count == 2)
      }
      #expect(server.recordedRequests.map(\.bodyLength) == [3, 3, 70_000, 70_000, 3, 3])
    }
  }

  /// A field of the caller's own is neither replaced nor repeated.
  @Test func theCallersFieldIsLeftAlone() async throws {
    try await withDemand { session, server in
      var request = try Request(server.url("/"))
      request.fields[.authorization] = "Custom x"
      request.credential = Self.aladdin
      #expect(try await session.data(for: request).1.statusCode == 401)
      #expect(server.authorizations == ["Custom x"])
    }
    var fields = HTTPFields()
    fields[.authorization] = "Custom y"
    try await withDemand(configure: { $0.additionalFields = fields }) { session, server in
      var request = try Request(server.url("/"))
      request.credential = Self.aladdin
      #expect(try await session.data(for: request).1.statusCode == 401)
      #expect(server.authorizations == ["Custom y"])
    }
  }

  /// A proxy's status from a server: no proxy asks, so nothing is told (curl CVE-2026-6253, urllib3 CVE-2024-37891).
  @Test func aServerIsNoProxy() async throws {
    let server = try LoopbackServer { request, connection in
      let fields: ServerFields = ["Proxy-Authenticate": "Basic realm=x", "WWW-Authenticate": "Basic realm=x"]
      try connection.respond(407, fields: fields, text: "proxy?")
    }
    defer { server.shutdown() }
    try await withSession(ports: [server.port]) { session in
      var request = try Request(server.url("/"))
      request.credential = Self.aladdin
      let (text, response) = try await session.text(request)
      #expect(response.statusCode == 407 && text == "proxy?")
      #expect(server.authorizations == [nil])
      #expect(server.recordedRequests[0].fields.first("Proxy-Authorization") == nil)
    }
  }

  @Test func malformedChallengesAreAnswers() async throws {
    for challenge in ["", "Basic realm=\"x", "realm=x", "Negotiate abc", "Digest realm=x"] {
      try await withDemand(Self.basic, challenge) { session, server in
        var request = try Request(server.url("/"))
        request.credential = Self.aladdin
        #expect(try await session.data(for: request).1.statusCode == 401)
        #expect(server.requestCount == 1)
      }
    }
  }

  /// RFC 7617 section 2 wants a realm; curl and browsers do without. What was stored for a realm is not for whoever names none.
  @Test(arguments: ["Basic", "Basic charset=\"UTF-8\""]) func basicWithoutRealm(_ challenge: String) async throws {
    try await withDemand(Self.basic, challenge) { session, server in
      let storage = try #require(session.configuration.credentialStorage)
      storage.set(Self.aladdin, for: try ProtectionSpace(server.url("/"), realm: "lupine", method: .basic))
      #expect(try await session.data(from: server.url("/")).1.statusCode == 401)
      storage.set(Self.aladdin, for: try ProtectionSpace(server.url("/")))
      try await session.expect("welcome 0", from: server.url("/"))
    }
    try await withDemand(Self.basic, challenge) { session, server in
      var request = try Request(server.url("/"))
      request.credential = Self.aladdin
      try await session.expect("welcome 0", from: request)
      #expect(server.requestCount == 2)
    }
  }

  /// What is no token belongs in quotes, and some servers do without.
  @Test func aRealmOfSeveralWordsNeedsNoQuotes() async throws {
    try await withDemand(Self.basic, "Basic realm=my site, charset=UTF-8") { session, server in
      let storage = try #require(session.configuration.credentialStorage)
      storage.set(Self.aladdin, for: try ProtectionSpace(server.url("/"), realm: "my site", method: .basic))
      try await session.expect("welcome 0", from: server.url("/"))
    }
  }

  @Test func secretsAreNotPrinted() throws {
    let storage = CredentialStorage()
    let space = try ProtectionSpace("https://a/")
    storage.set(Self.aladdin, for: space)
    var request = try Request("http://a/")
    request.credential = .bearer("sesame")
    var text = "\(storage) \(Self.aladdin) \(String(reflecting: Self.aladdin)) \([Self.aladdin])"
    dump(Self.aladdin, to: &text)
    dump(request, to: &text)
    dump(storage, to: &text)
    #expect(!text.contains("sesame") && !text.contains("Aladdin"))
  }

  @Test func nginx() async throws {
    try await withTool {
      let folder = try ScratchDirectory()
      let passwords = try folder.write(Array("Aladdin:{PLAIN}open sesame\n".utf8), to: "passwords")
      let server = try NginxServer(
        files: ["closed/a.txt": Array("treasure".utf8)],
        directives: "location /closed/ { auth_basic \"The cave, sesame\"; auth_basic_user_file \(passwords); }")
      defer { server.stop() }
      try await withSession(ports: [server.port]) { session in
        var request = try Request(server.url("/closed/a.txt"))
        #expect(try await session.data(for: request).1.statusCode == 401)
        request.credential = .password(user: "Aladdin", password: "wrong")
        #expect(try await session.data(for: request).1.statusCode == 401)
        request.credential = Self.aladdin
        let response = try await session.expect("treasure", from: request)
        #expect(response.metrics.transactions.count == 2)
        #expect(response.wasReused)
        #expect(try await session.expect("treasure", from: request).metrics.transactions.count == 1)
      }
    }
  }
}
