internal import LupineBase

/// What one task has tried, and what came of it.
///
/// States, and their legal successors:
///
///     open -> sent          `sent(_:)`: a request with credentials is under way
///     sent -> open          `challenged(by:)`: it came back with 401
///     sent -> accepted      `accepted()`: it came back with anything else
///     open -> exhausted     after `maximumRounds` answers: nothing is tried any more, until `startOver()`
///
/// Invariants: a secret that a party refused for a realm is never chosen for it again, except that a nonce was stale (RFC 7616
/// section 3.3), or was remembered and is replaced; what went out by Basic or Bearer and was refused is not sent again at all, nor is what a party
/// refused in the name of another realm than it had asked by (RFC 9110 section 15.5.2); between two beginnings (a redirect, the task being sent
/// again) there are never more than `maximumRounds` answers.
package struct AuthenticationAttempts: Sendable {
  /// Answers to challenges until it begins anew, stale ones included.
  package static let maximumRounds = 6

  /// What a challenge says about the request that it answers.
  package enum Verdict: Hashable, Sendable {
    /// Nothing was sent that it could judge.
    case unjudged
    /// The secret is not wrong: answer again with this nonce.
    case stale(DigestChallenge)
    /// The secret need not be wrong: it went out with a nonce of before, that the server may not know any more.
    case outdated
    /// The secret is wrong here. It went out unasked, and the realm that it was remembered for is another one, which has not judged it.
    case refusedHere
    case refused
  }

  /// For how much of a server something has proved good.
  package enum Extent: Hashable, Sendable {
    /// For the realm by which the server asked.
    case realm
    /// For whatever the server may ask by the scheme: it has not asked.
    case everyRealm
  }

  private struct Refusal: Hashable {
    enum Extent: Hashable {
      case everyRealm
      case realm(ByteExact<String?>)
      case everyRealmBut(ByteExact<String?>)
    }

    var party: AuthenticationParty
    var secret: CredentialSecret
    var extent: Extent

    func concerns(_ realm: String?) -> Bool {
      switch extent {
      case .everyRealm: true
      case .realm(let refused): refused.wrappedValue.hasBytes(of: realm)
      case .everyRealmBut(let excepted): !excepted.wrappedValue.hasBytes(of: realm)
      }
    }
  }

  /// What the request under way carries.
  package private(set) var current: ChallengeAnswer?
  private var currentIsBlind = false
  /// Answers given.
  package private(set) var rounds = 0
  /// Credentials refused, by whom.
  private var failures: [AuthenticationParty: Int] = [:]
  private var refusals: Set<Refusal> = []

  package init() {}

  /// Whether another answer may be given.
  package var mayAnswer: Bool { rounds < Self.maximumRounds }

  /// How many credentials a server or proxy has refused.
  package func failureCount(of party: AuthenticationParty) -> Int { failures[party] ?? 0 }

  /// A request goes out.
  ///
  /// - Parameters:
  ///   - answer: what it carries; nil if nothing.
  ///   - isBlind: sent without ever having seen a challenge: its realm is not known.
  package mutating func sent(_ answer: ChallengeAnswer?, isBlind: Bool = false) {
    current = answer
    currentIsBlind = isBlind
  }

  /// It came back with 401.
  package mutating func challenged(by challenges: [AnswerableChallenge], party: AuthenticationParty) -> Verdict {
    guard let answer = current else { return .unjudged }
    current = nil
    let scheme = answer.challenge.scheme
    let offered = challenges.filter { $0.scheme == scheme }
    // A scheme that this server does not have: nobody looked at the secret.
    guard !offered.isEmpty else { return .unjudged }
    let same = offered.filter { currentIsBlind || $0.realm.hasBytes(of: answer.challenge.realm) }
    guard !same.isEmpty else { return judge(answer, byAnotherRealmOf: party) }
    for case .digest(let digest) in same where digest.isStale && !answer.nonce.hasBytes(of: digest.nonce) {
      return .stale(digest)
    }
    if answer.isRemembered {
      for case .digest(let digest) in same where !answer.nonce.hasBytes(of: digest.nonce) { return .outdated }
    }
    // What is sent of a secret depends on the realm with Digest only.
    let realm = ByteExact(wrappedValue: answer.challenge.realm)
    refuse(answer.secret, party, scheme == .digest ? .realm(realm) : .everyRealm)
    return .refused
  }

  /// No challenge names the realm that was answered. Whoever had asked by that name has seen the answer all the same: otherwise a server that never
  /// says the same name twice would be sent the secret again and again.
  private mutating func judge(_ answer: ChallengeAnswer, byAnotherRealmOf party: AuthenticationParty) -> Verdict {
    guard answer.isRemembered else {
      refuse(answer.secret, party, .everyRealm)
      return .refused
    }
    // The realm is a part of what Digest proves: this one could not have accepted it.
    if answer.challenge.scheme == .digest { return .unjudged }
    refuse(answer.secret, party, .everyRealmBut(ByteExact(wrappedValue: answer.challenge.realm)))
    return .refusedHere
  }

  private mutating func refuse(_ secret: CredentialSecret, _ party: AuthenticationParty, _ extent: Refusal.Extent) {
    failures[party, default: 0] += 1
    refusals.insert(Refusal(party: party, secret: secret, extent: extent))
  }

  /// For how much of the server what the request under way carries has proved good. To be asked before `accepted()`.
  ///
  /// - Parameter status: of the response, which is not 401.
  /// - Returns: nil for nothing: it carries nothing, or the response says nothing of that: who is too busy or broken, stands before the server, or dislikes
  ///   the request itself, may not have looked at it; 403 finds it insufficient (RFC 9110 section 15.5.4); and what nobody had asked for is known by success
  ///   alone, as a redirect may be anybody's.
  package func extent(acceptedWith status: Int) -> Extent? {
    guard current != nil else { return nil }
    return switch status {
    case 200..<300: currentIsBlind ? .everyRealm : .realm
    case 400, 403, 407, 408, 421, 429, 431, 500...: nil
    default: currentIsBlind ? nil : .realm
    }
  }

  /// It came back with anything else.
  ///
  /// - Returns: what was accepted, to be learned.
  package mutating func accepted() -> ChallengeAnswer? {
    defer { current = nil }
    return currentIsBlind ? nil : current
  }

  /// Whether the secret may be tried for this challenge.
  ///
  /// A password that one scheme refused is not tried with another scheme of the same realm: it would be refused, and less protected. Basic without a
  /// realm may be of any.
  package func mayTry(
    _ secret: CredentialSecret, for challenge: AnswerableChallenge, party: AuthenticationParty
  ) -> Bool {
    guard mayAnswer, secret.fits(challenge.scheme) else { return false }
    let isOfAnyRealm = challenge.scheme == .basic && challenge.realm == ""
    return !refusals.contains {
      $0.party == party && $0.secret == secret && (isOfAnyRealm || $0.concerns(challenge.realm))
    }
  }

  /// Chooses an answer.
  ///
  /// - Returns: false if it may not be tried.
  package mutating func choose(
    _ secret: CredentialSecret, for challenge: AnswerableChallenge, party: AuthenticationParty
  ) -> Bool {
    guard mayTry(secret, for: challenge, party: party) else { return false }
    rounds += 1
    return true
  }

  /// Chooses to repeat an answer whose nonce was stale.
  package mutating func chooseAgain() -> Bool {
    guard mayAnswer else { return false }
    rounds += 1
    return true
  }

  /// Another URL comes, or the task is sent again: answers are counted anew, refusals stay.
  package mutating func startOver() {
    rounds = 0
    current = nil
  }
}
