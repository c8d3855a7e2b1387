import FoundationEssentials
import HTTPTypes
import LupineBase
import LupineSession
import LupineTesting
import Testing

/// A server that names one nonce to everybody, and takes each count of it once (RFC 7616 section 3.4).
@Suite(.timeLimit(.minutes(1))) struct NonceCountTests {
  private func withOneNonce(
    quality: String = "auth", parameters: String = "", configure: (inout SessionConfiguration) -> Void = { _ in },
    _ body: (Session, LoopbackServer, Locked<[String]>) async throws -> Void
  ) async throws {
    let counts = Locked<[String]>([])
    let server = try LoopbackServer { request, connection in
      _ = try connection.readBody()
      let field = request.fields.first("Authorization") ?? ""
      let count = field.split(separator: ", ").first { $0.hasPrefix("nc=") }.map { String($0.dropFirst(3)) }
      let isNew = counts.withLock { counts in
        guard let count, !counts.contains(count) else { return false }
        counts.append(count)
        return true
      }
      if isNew { return try connection.respond(text: "welcome") }
      try connection.respond(
        401,
        fields: ["WWW-Authenticate": "Digest realm=\"r\", nonce=\"n\", qop=\"\(quality)\"\(parameters)"], text: "who?")
    }
    defer { server.shutdown() }
    try await withSession(ports: [server.port], configure: configure) { try await body($0, server, counts) }
  }

  private func request(_ url: String, body: [UInt8] = []) throws -> Request {
    var request = try Request(url, method: body.isEmpty ? .get : .post, body: body.isEmpty ? .none : .bytes(body))
    request.credential = .password(user: "Mufasa", password: "Circle of Life")
    return request
  }

  private let expected = ["00000001", "00000002", "00000003"]

  @Test func ofRequestsThatAreAlwaysAsked() async throws {
    try await withOneNonce(configure: { $0.authentication.isPreemptive = false }) { session, server, counts in
      for _ in 0..<3 { try await session.expect("welcome", from: request(server.url("/a"))) }
      #expect(counts.withLock { $0 } == expected && server.requestCount == 6)
    }
  }

  @Test func ofBodiesThatAreHashed() async throws {
    try await withOneNonce(quality: "auth-int") { session, server, counts in
      for _ in 0..<3 {
        try await session.expect("welcome", from: request(server.url("/a"), body: Array("hello".utf8)))
      }
      #expect(counts.withLock { $0 } == expected)
    }
  }

  /// Within its `domain` a nonce is sent unasked, and outside it again when it is asked for.
  @Test func ofPathsOutsideTheDomain() async throws {
    try await withOneNonce(parameters: ", domain=\"/in\"") { session, server, counts in
      for path in ["/in", "/in/a", "/out"] { try await session.expect("welcome", from: request(server.url(path))) }
      #expect(counts.withLock { $0 } == expected && server.requestCount == 5)
    }
  }

  @Test func ofTasksThatAreChallengedAtOnce() async throws {
    try await withOneNonce { session, server, counts in
      try await withThrowingTaskGroup(of: Void.self) { group in
        for number in 0..<8 {
          group.addTask { try await session.expect("welcome", from: request(server.url("/\(number)"))) }
        }
        try await group.waitForAll()
      }
      #expect(Set(counts.withLock { $0 }).count == 8)
    }
  }
}
