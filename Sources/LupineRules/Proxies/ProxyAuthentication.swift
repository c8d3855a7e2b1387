package import LupineBase

/// Who is asking an HTTP proxy, and how that may be shown. Part of a connection's identity: credentials of one proxy are never used for
/// another (curl CVE-2026-6253, CVE-2026-9079), and a connection made with some is never used with others (CVE-2026-3784).
package struct ProxyCredentials: Hashable, Sendable {
  package var secret: CredentialSecret
  package var allowsBasic = true
  package var allowsDigest = true
  package var policy = AuthenticationPolicy()
  /// Sent before the proxy has asked: Basic or Bearer.
  package var isPreemptive = false
  /// The only realm that gets them; nil: every one.
  @ByteExact package var realm: String? = nil

  package init(_ secret: CredentialSecret) {
    self.secret = secret
  }

  func fit(_ challenge: AnswerableChallenge) -> Bool {
    (realm == nil || realm.hasBytes(of: challenge.realm))
      && secret.fits(challenge.scheme, allowsBasic: allowsBasic, allowsDigest: allowsDigest)
  }
}

/// What computing an answer needs from outside.
package struct ProxyAuthenticationTools: Sendable {
  package var hash: DigestHasher
  /// Unpredictable, of visible ASCII; nil if the machine has no entropy.
  package var clientNonce: @Sendable () -> String?

  package init(hash: @escaping DigestHasher, clientNonce: @escaping @Sendable () -> String?) {
    self.hash = hash
    self.clientNonce = clientNonce
  }
}

/// What one request, or one CONNECT, says to a proxy about who is asking (RFC 9110 section 11.7), pure.
///
///     silent | remembered | blind -> answered (407) -> answered (407, the nonce was stale) …, at most `maximumRounds` times
///
/// Invariants: what was sent in answer to a challenge and came back with 407 is wrong, and is not sent again, unless the nonce was stale;
/// what was sent before anybody asked (an earlier answer, or Basic) may be answered once more.
package struct ProxyAuthentication: Sendable {
  /// Answers to challenges, stale nonces included.
  package static let maximumRounds = 3

  private let credentials: ProxyCredentials?
  private let isSecure: Bool
  private let tools: ProxyAuthenticationTools
  /// What goes out next.
  package private(set) var next: ChallengeAnswer?
  private var isBlind = false
  private var rounds = 0
  /// What went out last: once it was accepted, worth remembering.
  package private(set) var sent: ChallengeAnswer?

  /// - Parameters:
  ///   - isSecure: the proxy is spoken to over TLS.
  ///   - remembered: what it accepted before, from the same credentials, with the next count of its nonce.
  package init(
    _ credentials: ProxyCredentials?, isSecure: Bool, remembered: ChallengeAnswer?, tools: ProxyAuthenticationTools
  ) {
    self.credentials = credentials
    self.isSecure = isSecure
    self.tools = tools
    guard let credentials else { return }
    isBlind = true
    if let remembered, remembered.secret == credentials.secret {
      next = remembered
    } else if credentials.isPreemptive {
      switch credentials.secret {
      case .token: next = ChallengeAnswer(challenge: .bearer(realm: nil), secret: credentials.secret)
      case .password where credentials.allowsBasic && (isSecure || credentials.policy.allowsBasicOverPlaintext):
        next = ChallengeAnswer(challenge: .basic(realm: ""), secret: credentials.secret)
      case .password: break
      }
    }
  }

  /// The value of `Proxy-Authorization` for the request that goes out now; nil: it goes without.
  ///
  /// - Throws: `CredentialsRefusal` or `DigestRefusal`: the credentials cannot be sent.
  package mutating func field(method: String, target: String, hasBody: Bool = false) throws -> String? {
    sent = next
    guard let next else { return nil }
    // The same request may go out once more on another connection: a count is used once.
    if next.nonce != nil { self.next?.count = next.count &+ 1 }
    switch (next.challenge, next.secret) {
    case (.digest(let challenge), .password(let user, let password)):
      let request = DigestRequest(
        method: method, target: target, user: user, password: password, clientNonce: next.clientNonce,
        count: next.count, bodyHash: hasBody ? nil : tools.hash(challenge.hash, []), sessionKey: next.sessionKey)
      return try DigestRule.credentials(challenge, request, hash: tools.hash)
    case (_, .password(let user, let password)):
      return try BasicRule.credentials(user: user, password: password)
    case (_, .token(let token)):
      return try BearerRule.credentials(token: token)
    }
  }

  /// The request goes out once more, with this: its count was given to nobody else.
  ///
  /// - Parameter answer: nil: it goes without, so that the proxy asks. One with another secret than that of the credentials is not sent either.
  package mutating func goesOutAgain(with answer: ChallengeAnswer?) {
    next = answer?.secret == credentials?.secret ? answer : nil
  }

  /// It came back with 407.
  ///
  /// - Parameter values: of `Proxy-Authenticate`.
  /// - Returns: whether to send it again, with another answer.
  package mutating func challenged(by values: [[UInt8]]) -> Bool {
    guard let credentials, rounds < Self.maximumRounds else { return false }
    let challenges = ChallengePreference.order(
      ChallengeReader.read(values).challenges, isSecure: isSecure, policy: credentials.policy,
      has: { tools.hash($0, []) != nil })
    let chosen = challenges.first { challenge in
      guard credentials.fit(challenge) else { return false }
      guard let sent else { return true }
      guard case .digest(let digest) = challenge else { return isBlind && sent.challenge.scheme != challenge.scheme }
      return isBlind || digest.isStale && sent.nonce != nil && !sent.nonce.hasBytes(of: digest.nonce)
    }
    guard let chosen else { return false }
    var answer = ChallengeAnswer(challenge: chosen, secret: credentials.secret)
    if case .digest(let digest) = chosen {
      guard let nonce = tools.clientNonce() else { return false }
      answer.clientNonce = nonce
      // Of this nonce, also where the proxy names others to follow it (RFC 7616 section 3.4.2).
      if digest.isSession, case .password(let user, let password) = credentials.secret {
        let request = DigestRequest(
          method: "", target: "", user: user, password: password, clientNonce: nonce, count: answer.count)
        answer.sessionKey = try? DigestRule.sessionKey(digest, request, hash: tools.hash)
      }
    }
    rounds += 1
    isBlind = false
    next = answer
    return true
  }
}
