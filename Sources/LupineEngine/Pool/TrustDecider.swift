package import LupineTLS

/// Code that decides whom connections trust and what they show for themselves, beside the policy.
///
/// Every pool with a decider needs a trust domain of its own (`ConnectionIdentity.trustDomain`), raised when what it decided is to be
/// forgotten: connections and TLS sessions are shared within a domain only.
///
/// Both methods are called on the loop's thread and must not wait: pass the question on, and answer once, from any thread. A second
/// answer, and one that comes too late, does nothing. Connections that stop at the same question (same place, same chain) ask once. While
/// nobody has answered, not a byte leaves; after `PoolConfiguration.trustNanoseconds` the connection fails with `.deadline(.tls)`.
/// Whoever resumes a TLS session is not asked: the session carries the answer that it was made under.
package protocol TrustDecider: Sendable {
  /// Whether `decideTrust` wants to be asked; read once for each connection.
  var decidesTrust: Bool { get }
  /// Whether `chooseIdentity` wants to be asked; read once for each connection.
  var choosesIdentity: Bool { get }
  /// A server has shown its certificates, good or bad.
  func decideTrust(_ question: TrustQuestion, _ answer: @escaping @Sendable (TrustAnswer) -> Void)
  /// A server that is trusted asks for a certificate of ours.
  func chooseIdentity(_ question: IdentityQuestion, _ answer: @escaping @Sendable (IdentityAnswer) -> Void)
}

extension TrustDecider {
  package var decidesTrust: Bool { true }
  package var choosesIdentity: Bool { false }

  package func chooseIdentity(_ question: IdentityQuestion, _ answer: @escaping @Sendable (IdentityAnswer) -> Void) {
    answer(.useDefault)
  }
}

/// Whether this server is trusted.
package struct TrustQuestion: Sendable {
  /// The host as SNI and the certificate check have it.
  package let host: String
  package let port: UInt16
  /// The chain as it was sent (`chainSent`, DER, leaf first) and as far as it could be built, with a verdict on the path, the validity
  /// and the host each; `verdict` is what the policy alone says.
  package let report: TrustReport
}

package enum TrustAnswer: Sendable {
  /// What the policy says.
  case useDefault
  /// Trusted, whatever the policy says.
  case accept
  /// Not trusted, whatever the policy says: the handshake fails with `TrustProblem.rejected` and this reason. `cause`: the error to report.
  case reject(reason: String, cause: (any Error)? = nil)
}

/// What to show to this server.
package struct IdentityQuestion: Sendable {
  package let host: String
  package let port: UInt16
  /// DER names of the authorities that the server accepts; empty: any.
  package let acceptableAuthorities: [[UInt8]]
}

package enum IdentityAnswer: Sendable {
  /// The policy's identity, if it has one.
  case useDefault
  /// No certificate: the server decides what it makes of that.
  case none
  /// This one, read and parsed on a file thread. If it cannot be, the connection fails with `TLSError.identityUnreadable`.
  case identity(TLSIdentity)
  /// Do not connect: the handshake fails with `TLSError.identityRefused` and this reason. `cause`: the error to report.
  case reject(reason: String, cause: (any Error)? = nil)
}
