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

  /// The nonce that the proxy names next is used from its first count on; an answer that comes late says nothing of what follows a later one.
  @Test func theNextNonceTakesItsPlace() throws {
    var memory = ProxyMemory()
    memory.accepted(try answer("1"), nextNonce: "2", route)
    let first = try next(&memory)
    #expect(first.nonce == "2" && first.count == 1)
    // One that went out unasked too.
    memory.accepted(try #require(first.answer), nextNonce: "3", route)
    let second = try next(&memory)
    #expect(second.nonce == "3" && second.count == 1)
    memory.accepted(try #require(first.answer), nextNonce: "late", route)
    memory.accepted(try #require(second.answer), nextNonce: "3", route)
    memory.accepted(try #require(second.answer), nextNonce: nil, route)
    let third = try next(&memory)
    #expect(third.nonce == "3" && third.count == 2)
    memory.forget(route)
    memory.accepted(try #require(third.answer), nextNonce: "4", route)
    let none = try next(&memory)
    #expect(none.nonce == nil)
  }

  /// Basic has no nonce that another could follow.
  @Test func basicHasNoNextNonce() throws {
    var memory = ProxyMemory()
    memory.accepted(ChallengeAnswer(challenge: .basic(realm: "r"), secret: secret), nextNonce: "n", route)
    let after = try next(&memory)
    #expect(after.answer?.challenge == .basic(realm: "r"))
  }
}
