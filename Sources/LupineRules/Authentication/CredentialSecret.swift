internal import LupineBase

/// What is known by whoever may enter. Never printed: not by `print`, string interpolation or `dump`.
package enum CredentialSecret: Hashable, Sendable {
  case password(user: String, password: String)
  case token(String)

  /// By the bytes that are sent: a password that a server refused may be right in the other spelling of its letters, and a connection that was made with one
  /// is not one that was made with the other.
  package static func == (left: CredentialSecret, right: CredentialSecret) -> Bool {
    switch (left, right) {
    case (.password(let user, let password), .password(let otherUser, let otherPassword)):
      user.hasBytes(of: otherUser) && password.hasBytes(of: otherPassword)
    case (.token(let token), .token(let other)): token.hasBytes(of: other)
    case (.password, .token), (.token, .password): false
    }
  }

  /// Whether it is the kind that answers such a challenge.
  package func fits(_ scheme: AnswerableChallenge.Scheme) -> Bool {
    switch self {
    case .password: scheme != .bearer
    case .token: scheme == .bearer
    }
  }

  /// The same, where a password may answer these schemes alone.
  package func fits(_ scheme: AnswerableChallenge.Scheme, allowsBasic: Bool, allowsDigest: Bool) -> Bool {
    guard fits(scheme) else { return false }
    switch scheme {
    case .basic: return allowsBasic
    case .digest: return allowsDigest
    case .bearer: return true
    }
  }
}

extension CredentialSecret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  package var description: String { "(redacted)" }
  package var debugDescription: String { description }
  package var customMirror: Mirror { Mirror(self, children: []) }
}

/// Who asks: a server, or a proxy on the way. Credentials and nonces of one are never used for another (curl CVE-2026-11856).
package struct AuthenticationParty: Hashable, Sendable {
  package var origin: Origin
  package var isProxy: Bool

  package init(origin: Origin, isProxy: Bool = false) {
    self.origin = origin
    self.isProxy = isProxy
  }
}
