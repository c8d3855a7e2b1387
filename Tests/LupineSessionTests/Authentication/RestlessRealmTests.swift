import FoundationEssentials
import HTTPTypes
import LupineBase
import LupineSession
import LupineTesting
import Testing

/// A server gets a credential that it has refused never again in the same task, whatever it calls its realm.
@Suite(.timeLimit(.minutes(5))) struct RestlessRealmTests {
  /// Answers every request with 401, by a realm that it has never named before.
  private func withRestlessRealm(
    _ scheme: String, _ body: (Session, LoopbackServer) async throws -> Void
  ) async throws {
    let realms = Locked(0)
    let server = try LoopbackServer { _, connection in
      let realm = realms.withLock { realms in
        realms += 1
        return realms
      }
      let nonce = scheme == "Digest" ? ", nonce=\"n\(realm)\"" : ""
      try connection.respond(401, fields: ["WWW-Authenticate": "\(scheme) realm=\"\(realm)\"\(nonce)"], text: "who?")
    }
    defer { server.shutdown() }
    try await withSession(ports: [server.port]) { try await body($0, server) }
  }

  @Test(arguments: ["Basic", "Digest"]) func aPasswordIsSentOnce(_ scheme: String) async throws {
    try await withRestlessRealm(scheme) { session, server in
      var request = try Request(server.url("/"))
      request.credential = AuthenticationTests.aladdin
      #expect(try await session.data(for: request).1.statusCode == 401)
      #expect(server.requestCount == 2)
      #expect(server.authorizations.map { $0?.hasPrefix(scheme) } == [nil, true])
    }
  }

  @Test func aTokenIsSentOnce() async throws {
    try await withRestlessRealm("Bearer") { session, server in
      let storage = try #require(session.configuration.credentialStorage)
      storage.set(.bearer("abc"), for: try ProtectionSpace(server.url("/")))
      #expect(try await session.data(from: server.url("/")).1.statusCode == 401)
      #expect(server.authorizations == [nil, "Bearer abc"])
    }
  }

  @Test(arguments: ["Basic", "Digest"]) func eachPasswordIsSentOnce(_ scheme: String) async throws {
    try await withRestlessRealm(scheme) { session, server in
      let storage = try #require(session.configuration.credentialStorage)
      // The defaults of two spaces.
      for (user, method) in [("a", AuthenticationMethod(rawValue: scheme.lowercased())), ("b", nil)] {
        let space = try ProtectionSpace(server.url("/"), method: method)
        storage.set(.password(user: user, password: user), for: space)
      }
      #expect(try await session.data(from: server.url("/")).1.statusCode == 401)
      #expect(server.requestCount == 3)
      #expect(Set(server.authorizations).count == 3)
    }
  }

  /// Below a path that one realm has opened there may be another one: its refusal takes nothing from the first.
  @Test func anotherRealmBelowTheSamePath() async throws {
    let bob = Credential.password(user: "b", password: "b")
    let server = try LoopbackServer { request, connection in
      let isInner = request.path == "/inner"
      let credentials = request.fields.first("Authorization")
      if credentials == (isInner ? "Basic Yjpi" : AuthenticationTests.basic) {
        let fields: ServerFields = isInner ? ["Location": "/last"] : [:]
        return try connection.respond(isInner ? 302 : 200, fields: fields, text: "welcome")
      }
      let realm = isInner ? "inner" : "outer"
      try connection.respond(401, fields: ["WWW-Authenticate": "Basic realm=\"\(realm)\""], text: "who?")
    }
    defer { server.shutdown() }
    try await withSession(ports: [server.port]) { session in
      let storage = try #require(session.configuration.credentialStorage)
      storage.set(AuthenticationTests.aladdin, for: try ProtectionSpace(server.url("/"), realm: "outer"))
      try await session.expect("welcome", from: server.url("/first"))
      #expect(try await session.data(from: server.url("/inner")).1.statusCode == 401)
      storage.set(bob, for: try ProtectionSpace(server.url("/"), realm: "inner"))
      try await session.expect("welcome", from: server.url("/inner"))
      #expect(
        server.authorizations == [
          nil, AuthenticationTests.basic, AuthenticationTests.basic, AuthenticationTests.basic, "Basic Yjpi",
          AuthenticationTests.basic,
        ])
    }
  }
}
