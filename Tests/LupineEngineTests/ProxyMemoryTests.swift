import LupineIO
import LupineRules
import Testing

@testable import LupineEngine

@Suite struct ProxyMemoryTests {
  private let secret = CredentialSecret.password(user: "u", password: "p")

  private var route: ProxyRoute {
    var route = ProxyRoute(kind: .http, endpoint: .unixSocket(path: "/proxy"), tunnels: false)
    route.credentials = ProxyCredentials(secret)
    return route
  }

  private func answer(_ nonce: String) throws -> ChallengeAnswer {
    let field = #"Digest realm="r", nonce="\#(nonce)", qop="auth", algorithm=SHA-256"#
    let challenge = try DigestChallenge(#require(ChallengeReader.read([Array(field.utf8)]).challenges.first))
    return ChallengeAnswer(challenge: .digest(challenge), secret: secret, clientNonce: "c")
  }

  /// What the next request says: its nonce and count.
  private func next(_ memory: inout ProxyMemory) throws -> (nonce: String?, count: UInt32?, answer: ChallengeAnswer?) {
    var authentication = memory.authentication(for: route)
    _ = try authentication.field(method: "GET", target: "/")
    return (authentication.sent?.nonce, authentication.sent?.count, authentication.sent)
  }

  /// Each use takes the next count, and being accepted changes nothing about it.
  @Test func countsUses() throws {
    var memory = ProxyMemory()
    memory.learn(try answer("1"), route)
    let first = try next(&memory)
    let second = try next(&memory)
    #expect(first.nonce == "1" && first.count == 2 && second.count == 3)
    memory.learn(try #require(first.answer), route)
    #expect(try next(&memory).count == 4)
  }

  /// An old use that is accepted late does not bring its nonce back, neither over a later one nor once it was forgotten: its counts were used.
  @Test func anOldNonceStaysAway() throws {
    var memory = ProxyMemory()
    memory.learn(try answer("1"), route)
    let late = try #require(try next(&memory).answer)
    memory.learn(try answer("2"), route)
    memory.learn(late, route)
    #expect(try next(&memory).nonce == "2")
    memory.forget(route)
    memory.learn(late, route)
    #expect(try next(&memory).nonce == nil)
  }
}
