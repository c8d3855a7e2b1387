/// What one task has tried, and what came of it.
///
/// States, and their legal successors:
///
///     open -> sent          `sent(_:)`: a request with credentials is under way
///     sent -> open          `challenged(by:)`: it came back with 401 or 407
///     sent -> accepted      `accepted()`: it came back with anything else
///     open -> exhausted     after `maximumRounds` answers: nothing is tried any more, until `redirected()`
///
/// Invariants: a secret that a party refused for a realm is never chosen for it again, except that a nonce was stale (RFC 7616
/// section 3.3), or was remembered and is replaced; between two redirects there are never more than `maximumRounds` answers.
package struct AuthenticationAttempts: Sendable {
  /// Answers to challenges between two redirects, stale ones included.
  package static let maximumRounds = 6

  /// What a challenge says about the request that it answers.
  package enum Verdict: Hashable, Sendable {
    /// Nothing was sent that it could judge.
    case unjudged
    /// The secret is not wrong: answer again with this nonce.
    case stale(DigestChallenge)
    /// The secret need not be wrong: it went out with a nonce of before, that the server may not know any more.
    case outdated
    case refused
  }

  private struct Refusal: Hashable {
    var party: AuthenticationParty
    /// nil: sent without knowing the realm, so for all.
    var realm: String?
    var secret: CredentialSecret
  }

  /// What the request under way carries.
  package private(set) var current: ChallengeAnswer?
  private var currentIsBlind = false
  /// Answers given.
  package private(set) var rounds = 0
  /// Credentials refused.
  package private(set) var failureCount = 0
  private var refusals: Set<Refusal> = []

  package init() {}

  /// Whether another answer may be given.
  package var mayAnswer: Bool { rounds < Self.maximumRounds }

  /// A request goes out.
  ///
  /// - Parameters:
  ///   - answer: what it carries; nil if nothing.
  ///   - isBlind: sent without ever having seen a challenge: its realm is not known.
  package mutating func sent(_ answer: ChallengeAnswer?, isBlind: Bool = false) {
    current = answer
    currentIsBlind = isBlind
  }

  /// It came back with 401 or 407.
  package mutating func challenged(by challenges: [AnswerableChallenge], party: AuthenticationParty) -> Verdict {
    guard let answer = current else { return .unjudged }
    current = nil
    let scheme = answer.challenge.scheme
    let same = challenges.filter {
      $0.scheme == scheme && (currentIsBlind || $0.realm == answer.challenge.realm)
    }
    // Another realm, or a scheme that this server does not have: nobody looked at the secret.
    guard !same.isEmpty else { return .unjudged }
    for case .digest(let digest) in same where digest.isStale && digest.nonce != answer.nonce {
      return .stale(digest)
    }
    if answer.isRemembered {
      for case .digest(let digest) in same where digest.nonce != answer.nonce { return .outdated }
    }
    failureCount += 1
    refusals.insert(
      Refusal(party: party, realm: currentIsBlind ? nil : answer.challenge.realm, secret: answer.secret))
    return .refused
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
  /// A password that one scheme refused is not tried with another scheme of the same realm: it would be refused, and less protected.
  package func mayTry(
    _ secret: CredentialSecret, for challenge: AnswerableChallenge, party: AuthenticationParty
  ) -> Bool {
    guard mayAnswer, secret.fits(challenge.scheme) else { return false }
    return !refusals.contains {
      $0.party == party && $0.secret == secret && ($0.realm == nil || $0.realm == challenge.realm)
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

  /// Another URL comes: answers are counted anew, refusals stay.
  package mutating func redirected() {
    rounds = 0
    current = nil
  }
}
