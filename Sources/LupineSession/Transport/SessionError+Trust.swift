internal import LupineEngine
internal import LupineTLS

/// What a certificate that is not trusted lacks, as far as something can be done about it.
package enum TrustFault: Sendable, Hashable {
  /// An authority that is trusted.
  case authority
  /// The name of the host.
  case name
  /// A key that is pinned.
  case key
  /// Anything else: it has expired, for example.
  case other
}

extension SessionError {
  /// Nil unless the certificate was the reason.
  package var trustFault: TrustFault? {
    guard case .tls(.untrusted(let problem)) = underlying as? EngineError else { return nil }
    return switch problem {
    case .selfSigned, .unknownIssuer: .authority
    case .hostMismatch: .name
    case .pinMismatch: .key
    default: .other
    }
  }
}
