import HTTPTypes
import LupineSession
import LupineTesting
import Testing

/// Proxies that ask who it is, and are told what the storage has for them.
@Suite(.timeLimit(.minutes(2))) struct StoredProxyCredentialTests {
  private static let refusal = ScriptBytes(
    "HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic realm=\"p\"\r\nContent-Length: 0\r\n\r\n")
  private static let established = ScriptBytes("HTTP/1.1 200 Connection established\r\n\r\n")
  private static let user = Credential.password(user: "user", password: "pass")
  private static let field = "Basic dXNlcjpwYXNz"

  /// A session whose only proxy plays the scripts, and whose storage is what `store` makes of it, given the URL of the proxy.
  private func withProxy(
    _ scripts: [[ScriptStep]], change: (inout Proxy) -> Void = { _ in },
    storing store: (CredentialStorage, String) throws -> Void,
    _ body: (Session, ScriptedServer) async throws -> Void
  ) async throws {
    let server = try ScriptedServer(scripts)
    defer { server.shutdown() }
    let url = "http://127.0.0.1:\(server.port)"
    var proxy = try Proxy(url)
    change(&proxy)
    let chosen = proxy
    let storage = CredentialStorage()
    try store(storage, url)
    try await withSession(ports: [server.port]) { configuration in
      configuration.proxy = .proxy(chosen)
      configuration.credentialStorage = storage
    } _: { session in
      try await body(session, server)
    }
    server.shutdown()
    #expect(server.problems == [])
  }

  private func fields(_ server: ScriptedServer) -> [String?] {
    server.recordedRequests.map { $0.fields.first("proxy-authorization") }
  }

  @Test(arguments: [nil, "p"]) func aForwardedRequest(_ realm: String?) async throws {
    try await withProxy(
      [
        [
          .readHead, .send(Self.refusal), .readHead, .send(reply("one")), .readHead, .send(reply("two")),
          .waitForClose,
        ]
      ],
      storing: { $0.set(Self.user, for: try ProtectionSpace($1, realm: realm, isProxy: true)) }
    ) { session, proxy in
      try await session.expect("one", from: "http://a.example/")
      try await session.expect("two", from: "http://b.example/")
      // Once it was accepted it goes along.
      #expect(fields(proxy) == [nil, Self.field, Self.field])
      #expect(proxy.recordedRequests.allSatisfy { $0.fields.first("authorization") == nil })
    }
  }

  /// Who says to a forwarding proxy himself who is asking is not overruled.
  @Test func aFieldOfTheCallersGoesFirst() async throws {
    try await withProxy(
      [[.readHead, .send(reply("one")), .readHead, .send(Self.refusal), .waitForClose]],
      storing: { $0.set(Self.user, for: try ProtectionSpace($1, isProxy: true)) }
    ) { session, proxy in
      for status in [200, 407] {
        var request = try Request("http://a.example/")
        request.fields[.proxyAuthorization] = "Bearer own"
        #expect(try await session.data(for: request).1.statusCode == status)
      }
      #expect(fields(proxy) == ["Bearer own", "Bearer own"])
    }
  }

  /// The origin behind the tunnel asks in the same words, and is told nothing.
  @Test func aTunnel() async throws {
    let who = ScriptBytes(
      "HTTP/1.1 401 Who\r\nWWW-Authenticate: Basic realm=\"p\"\r\nProxy-Authenticate: Basic realm=\"p\"\r\n"
        + "Content-Length: 0\r\n\r\n")
    try await withProxy(
      [
        [
          .readHead, .send(Self.refusal), .readHead, .send(Self.established), .readHead, .send(who), .readHead,
          .send(Self.refusal), .waitForClose,
        ]
      ], change: { $0.tunnelsPlaintext = true },
      storing: { $0.set(Self.user, for: try ProtectionSpace($1, isProxy: true)) }
    ) { session, proxy in
      for status in [401, 407] {
        let response = try await session.text("http://a.example/").1
        #expect(response.statusCode == status)
      }
      #expect(fields(proxy) == [nil, Self.field, nil, nil])
      #expect(proxy.recordedRequests.allSatisfy { $0.fields.first("authorization") == nil })
    }
  }

  /// Of another proxy, of the server at the same address, of another realm or method: none of it is told, and the 407 is the answer.
  @Test(
    arguments: [
      ("http://127.0.0.1:9", nil, nil, true), ("https://127.0.0.1:PORT", nil, nil, true),
      ("http://localhost:PORT", nil, nil, true), ("http://127.0.0.1:PORT", nil, nil, false),
      ("http://a.example", nil, nil, false), ("http://127.0.0.1:PORT", "q", nil, true),
      ("http://127.0.0.1:PORT", nil, "digest", true), ("http://127.0.0.1:PORT", nil, "negotiate", true),
    ] as [(String, String?, String?, Bool)]) func whatIsForOthers(_ row: (String, String?, String?, Bool)) async throws
  {
    try await withProxy(
      [[.readHead, .send(Self.refusal), .waitForClose]],
      storing: { storage, url in
        let port = url.split(separator: ":").last ?? ""
        let space = try ProtectionSpace(
          row.0.replacing("PORT", with: port), realm: row.1, method: row.2.map { AuthenticationMethod(rawValue: $0) },
          isProxy: row.3)
        storage.set(Self.user, for: space)
      }
    ) { session, proxy in
      let response = try await session.text("http://a.example/").1
      #expect(response.statusCode == 407)
      #expect(fields(proxy) == [nil])
    }
  }

  @Test func theProxysOwnCredentialComesFirst() async throws {
    try await withProxy(
      [[.readHead, .send(Self.refusal), .readHead, .send(Self.refusal), .waitForClose]],
      change: { $0.credential = .password(user: "own", password: "p") },
      storing: { $0.set(Self.user, for: try ProtectionSpace($1, isProxy: true)) }
    ) { session, proxy in
      let response = try await session.text("http://a.example/").1
      #expect(response.statusCode == 407)
      #expect(fields(proxy) == [nil, "Basic b3duOnA="])
    }
  }

  /// A connection that was opened for one user serves no other, and none whom the storage does not know any more.
  @Test func anotherCredentialIsAnotherConnection() async throws {
    let script: [ScriptStep] = [
      .readHead, .send(Self.refusal), .readHead, .send(Self.established), .readHead, .send(reply("hi")), .waitForClose,
    ]
    try await withProxy(
      [script, script, [.readHead, .send(Self.established), .readHead, .send(reply("hi")), .waitForClose]],
      change: { $0.tunnelsPlaintext = true },
      storing: { $0.set(Self.user, for: try ProtectionSpace($1, isProxy: true)) }
    ) { session, proxy in
      let storage = try #require(session.configuration.credentialStorage)
      #expect(try await !session.expect("hi", from: "http://a.example/").wasReused)
      let space = try ProtectionSpace("http://127.0.0.1:\(proxy.port)", isProxy: true)
      storage.setDefault(.password(user: "other", password: "p"), for: space)
      #expect(try await !session.expect("hi", from: "http://a.example/").wasReused)
      storage.removeAll()
      #expect(try await !session.expect("hi", from: "http://a.example/").wasReused)
      #expect(proxy.connectionCount == 3)
      #expect(fields(proxy) == [nil, Self.field, nil, nil, "Basic b3RoZXI6cA==", nil, nil, nil])
    }
  }
}
