package import LupineRules

/// What proves to a server who is asking: a user with a password, or a token. Never printed.
public struct Credential: Hashable, Sendable {
  /// How long a credential is kept once it was accepted: of those that a delegate answers with, and those of a storage. Of `Request.credential` and of the
  /// user in a URL nothing is kept, whatever this says.
  public enum Persistence: String, Hashable, Sendable {
    /// For the one task that it was given to.
    case none
    /// In the `CredentialStorage` of the session, in memory.
    case forSession
    /// There too, and in the file when the storage is saved.
    case permanent
  }

  /// The schemes that a password may answer.
  public struct Schemes: OptionSet, Hashable, Sendable {
    /// The bits.
    public let rawValue: UInt8

    /// Makes a set of its bits.
    public init(rawValue: UInt8) {
      self.rawValue = rawValue
    }

    /// Basic (RFC 7617): the password itself is sent.
    public static let basic = Schemes(rawValue: 1)
    /// Digest (RFC 7616): a proof is sent.
    public static let digest = Schemes(rawValue: 2)
    /// Whatever the server asks for, the strongest first.
    public static let all: Schemes = [.basic, .digest]
  }

  package let secret: CredentialSecret
  /// How long it is kept; without effect for `Request.credential`.
  public var persistence: Persistence
  /// What a password may answer. Default all; of no meaning for a token.
  public var schemes: Schemes = .all
  /// Whether it goes with the first request already, before the server has asked: a token always does, a password only if this is set, and only as
  /// Basic. For `Request.credential`; a storage never sends what was not asked for. Default false for passwords, true for tokens.
  public var isPreemptive: Bool

  package init(secret: CredentialSecret, persistence: Persistence) {
    self.secret = secret
    self.persistence = persistence
    if case .token = secret { isPreemptive = true } else { isPreemptive = false }
  }

  /// A user and a password. Both are encoded as UTF-8 as they are given, which should be normalisation form C.
  ///
  /// - Parameters:
  ///   - user: control characters make a task fail with `.cannotAuthenticate`, and so does a colon when the server asks for Basic.
  ///   - persistence: default `.forSession`.
  public static func password(user: String, password: String, persistence: Persistence = .forSession) -> Credential {
    Credential(secret: .password(user: user, password: password), persistence: persistence)
  }

  /// A bearer token (RFC 6750).
  ///
  /// - Parameters:
  ///   - token: letters, digits and `-._~+/`, then perhaps `=`; another one makes a task fail with `.cannotAuthenticate`.
  ///   - persistence: default `.forSession`.
  public static func bearer(_ token: String, persistence: Persistence = .forSession) -> Credential {
    Credential(secret: .token(token), persistence: persistence)
  }

  /// The user; nil for a token.
  public var user: String? {
    if case .password(let user, _) = secret { user } else { nil }
  }

  /// The password; nil for a token.
  public var password: String? {
    if case .password(_, let password) = secret { password } else { nil }
  }

  /// The token; nil for a password.
  public var token: String? {
    if case .token(let token) = secret { token } else { nil }
  }

  /// Whether it can answer such a challenge.
  func fits(_ challenge: AnswerableChallenge) -> Bool {
    secret.fits(
      challenge.scheme, allowsBasic: schemes.contains(.basic), allowsDigest: schemes.contains(.digest))
  }
}

extension Credential: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  /// The kind, and nothing else.
  public var description: String { token == nil ? "password (redacted)" : "token (redacted)" }
  /// The same as `description`.
  public var debugDescription: String { description }
  /// Nothing: `dump` shows no secret either.
  public var customMirror: Mirror { Mirror(self, children: []) }
}
