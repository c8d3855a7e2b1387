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

  private func asking(_ nonce: String) -> [UInt8] {
    Array(#"Digest realm="r", nonce="\#(nonce)", qop="auth", algorithm=SHA-256"#.utf8)
  }

  private func answer(_ nonce: String) throws -> ChallengeAnswer {
    let challenge = try DigestChallenge(#require(ChallengeReader.read([asking(nonce)]).challenges.first))
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

  /// A proxy may name a nonce again, in whatever way: its counts go on (RFC 7616 section 3.4).
  @Test func aNonceThatIsNamedAgainCountsOn() throws {
    var memory = ProxyMemory()
    var accepted = try answer("1")
    var uses: [String] = []
    for nonce in ["2", "1", "2", "1"] {
      memory.accepted(accepted, nextNonce: nonce, route)
      accepted = try #require(try next(&memory).answer)
      uses.append("\(accepted.nonce ?? "-"):\(accepted.count)")
    }
    #expect(uses == ["2:1", "1:2", "2:2", "1:3"])
    memory.forget(route)
    memory.accepted(try answer("3"), nextNonce: "1", route)
    let named = try next(&memory)
    #expect(named.nonce == "1" && named.count == 4)
    memory.learn(try answer("2"), route)
    let asked = try next(&memory)
    #expect(asked.nonce == "2" && asked.count == 3)
  }

  /// A request that goes out again after the memory has moved on says what a new one would, and uses nobody's count.
  @Test func aRepeatedRequestUsesNobodysCount() throws {
    var memory = ProxyMemory()
    memory.learn(try answer("1"), route)
    var repeated = memory.authentication(for: route)
    _ = try repeated.field(method: "GET", target: "/")
    let other = try #require(try next(&memory).answer)
    #expect(repeated.sent?.count == 2 && other.nonce == "1" && other.count == 3)
    memory.accepted(other, nextNonce: "2", route)
    memory.countAnew(&repeated, for: route)
    _ = try repeated.field(method: "GET", target: "/")
    #expect(repeated.sent?.nonce == "2" && repeated.sent?.count == 1)
    // Nor once the answer is forgotten.
    let last = try next(&memory)
    #expect(last.nonce == "2" && last.count == 2)
    memory.forget(route)
    memory.countAnew(&repeated, for: route)
    _ = try repeated.field(method: "GET", target: "/")
    #expect(repeated.sent?.nonce == "2" && repeated.sent?.count == 3)
  }

  /// Who was asked answers with the nonce of the challenge, whatever is known, each time with a count that nobody has used.
  @Test func anAnswerToAChallengeKeepsItsNonce() throws {
    var memory = ProxyMemory()
    memory.learn(try answer("1"), route)
    var asked = memory.authentication(for: route)
    _ = try asked.field(method: "GET", target: "/")
    #expect(try next(&memory).count == 3)
    memory.learn(try answer("2"), route)
    let isAnswered = asked.challenged(by: [asking("1")])
    #expect(isAnswered)
    for count: UInt32 in [4, 5] {
      memory.countAnew(&asked, for: route)
      _ = try asked.field(method: "GET", target: "/")
      #expect(asked.sent?.nonce == "1" && asked.sent?.count == count)
    }
  }

  /// What is learnt of a proxy that is known takes no room.
  @Test func aKnownProxyMakesNoOtherForgotten() throws {
    var memory = ProxyMemory()
    let routes = (0..<ProxyMemory.limit).map { number -> ProxyRoute in
      var other = route
      other.endpoint = .unixSocket(path: "/\(number)")
      return other
    }
    for route in routes { memory.learn(try answer("1"), route) }
    memory.learn(try answer("2"), routes[0])
    var nonces: [String] = []
    for route in routes {
      var authentication = memory.authentication(for: route)
      _ = try authentication.field(method: "GET", target: "/")
      nonces.append(authentication.sent?.nonce ?? "-")
    }
    #expect(nonces == ["2"] + Array(repeating: "1", count: ProxyMemory.limit - 1))
  }

  /// Without a count that is left the proxy is to ask, for the first time of a request and later.
  @Test func anExhaustedNonceIsNotSent() throws {
    var memory = ProxyMemory()
    var last = try answer("1")
    last.count = .max - 1
    memory.learn(last, route)
    var repeated = memory.authentication(for: route)
    let value = try repeated.field(method: "GET", target: "/")
    #expect(value != nil && repeated.sent?.count == .max)
    memory.countAnew(&repeated, for: route)
    let none = try repeated.field(method: "GET", target: "/")
    #expect(none == nil)
    #expect(try next(&memory).nonce == nil)
  }

  /// Basic has no nonce that another could follow.
  @Test func basicHasNoNextNonce() throws {
    var memory = ProxyMemory()
    memory.accepted(ChallengeAnswer(challenge: .basic(realm: "r"), secret: secret), nextNonce: "n", route)
    let after = try next(&memory)
    #expect(after.answer?.challenge == .basic(realm: "r"))
  }
}
