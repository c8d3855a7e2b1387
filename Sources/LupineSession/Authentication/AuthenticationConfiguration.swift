internal import LupineRules

/// What a session answers, and when.
public struct AuthenticationConfiguration: Hashable, Sendable {
  /// Whether a password may be sent by Basic over http, where everybody on the way can read it. Default true, as servers on private networks want
  /// it; without it such a challenge is not answered, and the 401 response is the answer.
  public var allowsBasicOverPlaintext = true
  /// Whether Digest with MD5 is answered, which most servers of the scheme still ask for. Default true.
  public var allowsMD5 = true
  /// Whether credentials go along unasked where an earlier answer shows that they are wanted: below a path that Basic was asked for
  /// (RFC 7617 section 2.2), in the domain of a Digest nonce (RFC 7616 section 3.3). Default true; without it every request is asked anew.
  public var isPreemptive = true

  /// The defaults.
  public init() {}

  var policy: AuthenticationPolicy {
    AuthenticationPolicy(allowsBasicOverPlaintext: allowsBasicOverPlaintext, allowsMD5: allowsMD5)
  }
}
