/// The facts about a peer's certificates, each apart, so that whoever decides can combine them as they must.
package struct TrustReport: Hashable, Sendable {
  /// Whether anything was checked: false under `TLSPolicy.Verification.none`.
  package var isVerified: Bool

  /// DER as the peer sent it, leaf first. Filled for a deferred decision and by `verify`; otherwise ask the connection.
  package var chainSent: [[UInt8]] = []

  /// DER of the path that was built from the leaf towards an anchor, as far as it goes. Filled like `chainSent`.
  package var chainBuilt: [[UInt8]] = []

  /// What is wrong with the path, leaving names and clocks aside; nil: it leads to an anchor and is sound.
  package var path: TrustProblem?

  /// Whether a certificate of the path has expired or is not valid yet.
  package var time: TrustProblem?

  /// Whether the leaf names another host, or an authority of the path, which is sound, may not vouch for it: `nameConstraintViolated`. OpenSSL's
  /// own refusal of names that break a constraint, whoever is meant, is of the path. nil also when no host was given.
  package var host: TrustProblem?

  /// Whether none of the pins matches; nil also when there are none.
  package var pins: TrustProblem?

  /// The first problem in the order path, time, host, pins; nil: trusted.
  package var verdict: TrustProblem? { path ?? time ?? host ?? pins }

  package init(isVerified: Bool) {
    self.isVerified = isVerified
  }
}

/// How a decision that somebody else made ends a pending handshake.
package enum TrustDecision: Hashable, Sendable {
  case accept
  /// The handshake fails with this problem, and the peer gets an alert.
  case reject(TrustProblem)
}
