/// A challenge that we could answer, given credentials.
package enum AnswerableChallenge: Hashable, Sendable {
  case basic(realm: String)
  case digest(DigestChallenge)
  /// Servers need not give a realm (RFC 6750 section 3).
  case bearer(realm: String?)

  package enum Scheme: String, Hashable, Sendable {
    case basic
    case digest
    case bearer
  }

  package var scheme: Scheme {
    switch self {
    case .basic: .basic
    case .digest: .digest
    case .bearer: .bearer
    }
  }

  package var realm: String? {
    switch self {
    case .basic(let realm): realm
    case .digest(let challenge): challenge.realm
    case .bearer(let realm): realm
    }
  }

  /// What a credential is at risk of: more is stronger.
  fileprivate var strength: Int {
    switch self {
    case .basic: 0
    case .digest(let challenge): challenge.hash == .md5 ? 1 : 2
    // Takes another kind of credential: never competes.
    case .bearer: 3
    }
  }

  /// - Returns: nil if it is no scheme of ours, or lacks what it must have.
  init?(_ challenge: Challenge) {
    switch challenge.scheme {
    case "basic":
      // RFC 7617 section 2 wants a realm, and what is answered does not depend on it: small servers leave it out.
      self = .basic(realm: challenge["realm"] ?? "")
    case "digest":
      guard let digest = try? DigestChallenge(challenge) else { return nil }
      self = .digest(digest)
    case "bearer":
      self = .bearer(realm: challenge["realm"])
    default: return nil
    }
  }
}

/// What may be answered at all.
package struct AuthenticationPolicy: Hashable, Sendable {
  /// Whether a password may go unprotected over http.
  package var allowsBasicOverPlaintext: Bool
  /// Whether MD5 may protect a password.
  package var allowsMD5: Bool

  package init(allowsBasicOverPlaintext: Bool = true, allowsMD5: Bool = true) {
    self.allowsBasicOverPlaintext = allowsBasicOverPlaintext
    self.allowsMD5 = allowsMD5
  }
}

/// Chooses what to answer (RFC 9110 section 11.3, RFC 7616 section 3.7).
package enum ChallengePreference {
  /// The challenges that can be answered, the strongest first: Digest with SHA-256 or SHA-512-256, with MD5, Basic. Those of equal strength
  /// stay in the server's order.
  ///
  /// - Parameter has: whether the machine computes a hash function, as it does not MD5 in FIPS mode. What cannot be computed is no challenge that
  ///   can be answered: a weaker one is, or none.
  package static func order(
    _ challenges: [Challenge], isSecure: Bool, policy: AuthenticationPolicy = AuthenticationPolicy(),
    has: (DigestHash) -> Bool
  ) -> [AnswerableChallenge] {
    var answerable = challenges.compactMap { AnswerableChallenge($0) }
    answerable.removeAll { challenge in
      switch challenge {
      case .basic: !isSecure && !policy.allowsBasicOverPlaintext
      case .digest(let digest): digest.hash == .md5 && !policy.allowsMD5 || !has(digest.hash)
      case .bearer: false
      }
    }
    // `sort` is not stable by contract.
    return answerable.enumerated()
      .sorted { ($1.element.strength, $0.offset) < ($0.element.strength, $1.offset) }
      .map(\.element)
  }

  /// The challenge that a secret answers which somebody gave for the first of `challenges`: that one if it fits it, else the first of the rest
  /// that it fits. Who is asked may well have another kind of secret than what is asked for first.
  ///
  /// - Parameters:
  ///   - allowsBasic: a password may answer Basic.
  ///   - allowsDigest: a password may answer Digest.
  /// - Returns: nil if it fits none.
  package static func first(
    of challenges: [AnswerableChallenge], for secret: CredentialSecret, allowsBasic: Bool, allowsDigest: Bool
  ) -> AnswerableChallenge? {
    challenges.first { secret.fits($0.scheme, allowsBasic: allowsBasic, allowsDigest: allowsDigest) }
  }
}
