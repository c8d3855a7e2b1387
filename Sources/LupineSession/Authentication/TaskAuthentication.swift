internal import Synchronization
internal import LupineBase
internal import LupineRules

/// One exchange of a task, as far as authentication is concerned.
struct AuthenticationHop: Sendable {
  let party: AuthenticationParty
  let url: ParsedURL
  let method: String
  /// The credential that the request or its URL names, as long as the chain has not left its origin.
  let explicit: Credential?
  /// The caller sets the field itself: nothing is answered then.
  let hasOwnField: Bool
  let hasBody: Bool
  /// Redirects that led here: with another number it is another URL.
  let redirects: Int
}

/// What one task sends to prove who it is, and what it makes of the answers. Used by one thread at a time.
///
/// The decisions are those of `AuthenticationAttempts` and `AuthenticationMemory`; this finds the credentials for them.
final class TaskAuthentication: Sendable {
  /// What follows a 401.
  enum Step: Sendable {
    /// The response is the answer.
    case deliver
    /// The request goes out again; `field(_:)` has the credentials.
    case again
    /// The delegate has the word.
    case ask(Question)
    case fail(SessionError)
  }

  /// A challenge that the delegate is asked about.
  struct Question: Sendable {
    let challenge: AnswerableChallenge
    let space: ProtectionSpace
    let proposed: Credential?
    let failureCount: Int
    /// What the server offers besides, weaker.
    let rest: [AnswerableChallenge]
  }

  private struct State: Sendable {
    var attempts = AuthenticationAttempts()
    /// Chosen, and to be sent with the next exchange.
    var next: ChallengeAnswer?
    /// Where to put what was chosen once it is accepted.
    var toStore: (Credential, ProtectionSpace)?
    var bodyHash: [UInt8]?
    /// What went with the exchange under way.
    var taken: (next: ChallengeAnswer, bodyHash: [UInt8]?)?
    var redirects = 0

    /// What was meant for another URL is void.
    mutating func follow(_ hop: AuthenticationHop) {
      guard redirects != hop.redirects else { return }
      redirects = hop.redirects
      startOver()
    }

    mutating func startOver() {
      attempts.startOver()
      next = nil
      taken = nil
      toStore = nil
    }
  }

  private let session: SessionAuthentication
  private let state = LockedStorage(State())

  init(_ session: SessionAuthentication) {
    self.session = session
  }

  /// The task is sent again, as if it had just begun: it may answer as many challenges as then. What was refused is not sent again.
  func startOver() { state.withLock { $0.startOver() } }

  /// The exchange that has begun never left: what was chosen for it goes with the next one.
  func unsent() {
    state.withLock { state in
      guard let taken = state.taken.take() else { return }
      (state.next, state.bodyHash) = (taken.next, taken.bodyHash)
    }
  }

  // MARK: The request

  /// The field of the exchange that begins; nil if it goes without.
  ///
  /// - Throws: `SessionError` with `.cannotAuthenticate` for credentials that cannot be sent.
  func field(_ hop: AuthenticationHop) throws(SessionError) -> (name: String, value: String)? {
    let (answer, bodyHash) = state.withLock { state -> (ChallengeAnswer?, [UInt8]?) in
      state.follow(hop)
      state.taken = state.next.map { ($0, state.bodyHash) }
      defer {
        state.next = nil
        state.bodyHash = nil
      }
      if hop.hasOwnField {
        state.attempts.sent(nil)
      } else if let next = state.next {
        state.attempts.sent(next)
      } else if let blind = blind(hop, state.attempts) {
        state.attempts.sent(blind, isBlind: true)
      } else {
        state.attempts.sent(remembered(hop, state.attempts))
      }
      return (state.attempts.current, state.bodyHash)
    }
    guard let answer else { return nil }
    return ("Authorization", try Self.value(answer, hop, bodyHash))
  }

  /// What the caller wants sent before anybody has asked.
  private func blind(_ hop: AuthenticationHop, _ attempts: AuthenticationAttempts) -> ChallengeAnswer? {
    guard let credential = hop.explicit, credential.isPreemptive else { return nil }
    let challenge: AnswerableChallenge
    switch credential.secret {
    case .token: challenge = .bearer(realm: nil)
    case .password:
      guard credential.schemes.contains(.basic), allowsBasic(hop) else { return nil }
      challenge = .basic(realm: "")
    }
    guard attempts.mayTry(credential.secret, for: challenge, party: hop.party) else { return nil }
    return ChallengeAnswer(challenge: challenge, secret: credential.secret)
  }

  /// What an earlier request shows to be wanted.
  private func remembered(_ hop: AuthenticationHop, _ attempts: AuthenticationAttempts) -> ChallengeAnswer? {
    session.use(hop.party, target: hop.url.target) { answer in
      guard attempts.mayTry(answer.secret, for: answer.challenge, party: hop.party) else { return false }
      // The hash of a body takes time that there is only after a challenge.
      if hop.hasBody, answer.digest?.quality == .integrity { return false }
      if answer.challenge.scheme == .basic, !allowsBasic(hop) { return false }
      return candidates(answer.challenge, hop).contains { $0.secret == answer.secret }
    }
  }

  private func allowsBasic(_ hop: AuthenticationHop) -> Bool {
    hop.url.scheme == .https || session.configuration.allowsBasicOverPlaintext
  }

  /// What may be sent without a word of the caller's.
  private func proposals(_ challenge: AnswerableChallenge, _ hop: AuthenticationHop) -> [Credential] {
    // The storage is not asked where the caller has said who it is.
    if let explicit = hop.explicit { return explicit.fits(challenge) ? [explicit] : [] }
    let space = ProtectionSpace(hop.party, challenge)
    // The default of its kind: one that may not answer this scheme makes no room for another user.
    let found = session.storage?.proposals(for: space) { $0.secret.fits(challenge.scheme) } ?? []
    return found.filter { $0.fits(challenge) }
  }

  /// What may have been chosen.
  private func candidates(_ challenge: AnswerableChallenge, _ hop: AuthenticationHop) -> [Credential] {
    let found =
      hop.explicit.map { [$0] } ?? session.storage?.candidates(for: ProtectionSpace(hop.party, challenge)) ?? []
    return found.filter { $0.fits(challenge) }
  }

  private static func value(
    _ answer: ChallengeAnswer, _ hop: AuthenticationHop, _ bodyHash: [UInt8]?
  ) throws(SessionError) -> String {
    do {
      switch (answer.challenge, answer.secret) {
      case (.digest(let challenge), .password(let user, let password)):
        let hash = hop.hasBody ? bodyHash : SessionAuthentication.hasher(challenge.hash, [])
        let request = DigestRequest(
          method: hop.method, target: hop.url.target, user: user, password: password, clientNonce: answer.clientNonce,
          count: answer.count, bodyHash: hash, sessionKey: answer.sessionKey)
        return try DigestRule.credentials(challenge, request, hash: SessionAuthentication.hasher)
      case (_, .password(let user, let password)):
        return try BasicRule.credentials(user: user, password: password)
      case (_, .token(let token)):
        return try BearerRule.credentials(token: token)
      }
    } catch {
      throw SessionError(authentication: error, url: hop.url)
    }
  }

  // MARK: The response

  /// The request came back with anything but 401: what it carried was not refused. It is stored only if the response shows that it was accepted.
  ///
  /// - Parameters:
  ///   - status: of the response; nil: a cache had it, and the server may have seen nothing.
  ///   - info: the values of `Authentication-Info`.
  func accepted(_ hop: AuthenticationHop, status: Int?, info: [[UInt8]]) {
    let (answer, toStore, toKeep) = state.withLock { state in
      defer { state.toStore = nil }
      let toKeep = named(hop, state.attempts, status: status)
      // Who was too busy to look, or was not asked at all, has accepted nothing that could take the place of what is stored.
      let isProved = status.flatMap { state.attempts.extent(acceptedWith: $0) } != nil
      return (state.attempts.accepted(), isProved ? state.toStore : nil, toKeep)
    }
    if let (credential, space) = toKeep { session.storage?.accepted(credential, for: space) }
    guard let answer else { return }
    if let (credential, space) = toStore { session.storage?.learn(credential, for: space) }
    session.learn(answer, hop.party, url: hop.url)
    if let next = AuthenticationInfo.nextNonce(info) { session.replaceNonce(of: answer, by: next, hop.party) }
  }

  /// What the caller names, if it was accepted and there is a storage for it, and for what.
  private func named(
    _ hop: AuthenticationHop, _ attempts: AuthenticationAttempts, status: Int?
  ) -> (Credential, ProtectionSpace)? {
    guard session.storage?.followsServers ?? false, let credential = hop.explicit, let sent = attempts.current,
      sent.secret == credential.secret, let status,
      let extent = attempts.extent(acceptedWith: status)
    else { return nil }
    let space = ProtectionSpace(hop.party, sent.challenge)
    return (credential, extent == .realm ? space : space.ofEveryRealm)
  }

  /// The request came back with 401.
  ///
  /// - Parameters:
  ///   - values: of `WWW-Authenticate`.
  ///   - asks: a delegate wants to be asked.
  func challenged(_ hop: AuthenticationHop, by values: [[UInt8]], asks: Bool) -> Step {
    guard !hop.hasOwnField else { return .deliver }
    let challenges = ChallengePreference.order(
      ChallengeReader.read(values).challenges, isSecure: hop.url.scheme == .https,
      policy: session.configuration.policy, has: { SessionAuthentication.hasher($0, []) != nil })
    let (sent, verdict) = state.withLock { state in
      state.follow(hop)
      let sent = state.attempts.current
      let verdict = state.attempts.challenged(by: challenges, party: hop.party)
      // A stale nonce is no refusal: what the delegate gave may be accepted yet.
      if case .stale = verdict, sent != nil { return (sent, verdict) }
      state.toStore = nil
      return (sent, verdict)
    }
    switch verdict {
    case .unjudged, .refusedHere: break
    case .outdated:
      if let sent { session.forget(sent, hop.party) }
    case .refused:
      guard let sent else { break }
      session.forget(sent, hop.party)
      // Behind the choice: otherwise another user would be the default by then.
      defer { session.storage?.refused(sent.secret, for: ProtectionSpace(hop.party, sent.challenge)) }
      return consider(challenges, hop, asks: asks)
    case .stale(let digest):
      guard let sent else { break }
      session.forget(sent, hop.party)
      let isRepeated = state.withLock { state in
        if state.attempts.chooseAgain() { return true }
        state.toStore = nil
        return false
      }
      guard isRepeated else { return .deliver }
      return answer(.digest(digest), sent.secret, hop)
    }
    return consider(challenges, hop, asks: asks)
  }

  /// The delegate has answered.
  func decided(_ disposition: ChallengeDisposition, _ question: Question, _ hop: AuthenticationHop) -> Step {
    switch disposition {
    case .useCredential(nil): return .deliver
    case .useCredential(let credential?):
      let fitting = ChallengePreference.first(
        of: [question.challenge] + question.rest, for: credential.secret,
        allowsBasic: credential.schemes.contains(.basic), allowsDigest: credential.schemes.contains(.digest))
      guard let challenge = fitting, choose(credential, challenge, hop) else { return .deliver }
      let space = ProtectionSpace(hop.party, challenge)
      state.withLock { $0.toStore = (credential, space) }
      return answer(challenge, credential.secret, hop)
    case .performDefaultHandling:
      if let proposed = question.proposed, choose(proposed, question.challenge, hop) {
        return answer(question.challenge, proposed.secret, hop)
      }
      return consider(question.rest, hop, asks: true)
    case .rejectProtectionSpace: return consider(question.rest, hop, asks: true)
    case .cancelAuthenticationChallenge:
      return .fail(
        SessionError(
          .cancelled, phase: .authentication, message: "the delegate cancelled an authentication challenge",
          failingURL: hop.url.requestString, requestBytesSent: true))
    }
  }

  /// The first of the challenges, strongest first, that there is a credential for, or that the delegate is to be asked about.
  private func consider(_ challenges: [AnswerableChallenge], _ hop: AuthenticationHop, asks: Bool) -> Step {
    let attempts = state.withLock { $0.attempts }
    guard attempts.mayAnswer else { return .deliver }
    for (index, challenge) in challenges.enumerated() {
      let proposed = proposals(challenge, hop).first {
        attempts.mayTry($0.secret, for: challenge, party: hop.party)
      }
      if asks {
        return .ask(
          Question(
            challenge: challenge, space: ProtectionSpace(hop.party, challenge), proposed: proposed,
            failureCount: attempts.failureCount(of: hop.party), rest: Array(challenges[(index + 1)...])))
      }
      if let proposed, choose(proposed, challenge, hop) { return answer(challenge, proposed.secret, hop) }
    }
    return .deliver
  }

  private func choose(_ credential: Credential, _ challenge: AnswerableChallenge, _ hop: AuthenticationHop) -> Bool {
    guard credential.fits(challenge) else { return false }
    return state.withLock { $0.attempts.choose(credential.secret, for: challenge, party: hop.party) }
  }

  private func answer(
    _ challenge: AnswerableChallenge, _ secret: CredentialSecret, _ hop: AuthenticationHop
  ) -> Step {
    var answer = ChallengeAnswer(challenge: challenge, secret: secret)
    if case .digest(let digest) = challenge, case .password(let user, let password) = secret {
      guard let nonce = SessionAuthentication.clientNonce() else {
        return .fail(
          SessionError(
            .system, phase: .authentication, message: "OpenSSL has no random bytes", failingURL: hop.url.requestString,
            requestBytesSent: true))
      }
      answer.clientNonce = nonce
      // The server may have named this nonce before.
      answer.count = session.nextCount(of: digest.nonce, hop.party)
      if digest.isSession {
        let request = DigestRequest(
          method: hop.method, target: hop.url.target, user: user, password: password, clientNonce: nonce,
          count: answer.count)
        do throws(DigestRefusal) {
          answer.sessionKey = try DigestRule.sessionKey(digest, request, hash: SessionAuthentication.hasher)
        } catch {
          return .fail(SessionError(authentication: error, url: hop.url))
        }
      }
    }
    state.withLock { [answer] in $0.next = answer }
    return .again
  }

  // MARK: The body

  /// The function by which the body must be hashed before the next exchange begins, if it has one.
  var wantsBodyHash: DigestHash? {
    state.withLock { state in
      guard let digest = state.next?.digest, digest.quality == .integrity, state.bodyHash == nil else { return nil }
      return digest.hash
    }
  }

  func give(bodyHash: [UInt8]) {
    state.withLock { $0.bodyHash = bodyHash }
  }
}

extension ChallengeAnswer {
  var digest: DigestChallenge? {
    if case .digest(let digest) = challenge { digest } else { nil }
  }
}

extension ProtectionSpace {
  init(_ party: AuthenticationParty, _ challenge: AnswerableChallenge) {
    let method: AuthenticationMethod =
      switch challenge.scheme {
      case .basic: .basic
      case .digest: .digest
      case .bearer: .bearer
      }
    self.init(party: party, realm: challenge.realm, method: method)
  }
}

extension SessionError {
  /// - Parameter error: a refusal of the rules, which never holds a secret.
  init(authentication error: any Error, url: ParsedURL) {
    self.init(
      .cannotAuthenticate, phase: .authentication,
      message: "the credentials cannot be sent: \((error as? any CustomStringConvertible)?.description ?? "\(error)")",
      failingURL: url.requestString, underlying: error)
  }
}
