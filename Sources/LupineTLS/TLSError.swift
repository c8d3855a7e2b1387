/// What is wrong with the certificate chain a peer showed, or with the decision about it.
package enum TrustProblem: Error, Hashable, Sendable {
  /// Not after has passed for some certificate of the chain.
  case expired
  /// Not before has not come yet for some certificate of the chain.
  case notYetValid
  /// The leaf signed itself and is not among the anchors.
  case selfSigned
  /// The chain does not lead to an anchor.
  case unknownIssuer
  /// A signature in the chain does not verify.
  case badSignature
  /// A certificate that signed another may not do so (basic constraints, key usage or path length).
  case invalidAuthority
  /// The certificate is not meant for this side of TLS (extended key usage).
  case wrongPurpose
  /// A key or digest is too weak for security level 2.
  case weak
  /// The names of the chain break a name constraint of an authority, or the host does, for which a wildcard stands.
  case nameConstraintViolated
  /// On a revocation list.
  case revoked
  /// Revocation was to be checked and no current list covers a certificate of the chain.
  case revocationUnknown
  /// More certificates than the limit allows.
  case chainTooLong(limit: Int)
  /// None of the subject alternative names is the host. At most 16 of the names are told.
  case hostMismatch(host: String, names: [String])
  /// No certificate of the chain has a pinned public key. `found`: the SHA-256 digests of the keys that it has, the leaf's first.
  case pinMismatch(found: [[UInt8]])
  /// The peer showed no certificate.
  case missing
  /// Whoever was asked to decide said no.
  case rejected(TrustRejection)
  /// Not a certificate, or one with contents that nobody here understands.
  case malformed
  /// Another verdict of OpenSSL's, `X509_V_ERR_…`.
  case other(code: Int32)
}

/// Why somebody who was asked about trust said no. Compared by the reason.
package struct TrustRejection: Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
  package let reason: String
  /// The error to report, if there is more to it than the reason.
  package let cause: (any Error)?

  package init(reason: String, cause: (any Error)? = nil) {
    self.reason = reason
    self.cause = cause
  }

  package init(stringLiteral reason: String) {
    self.init(reason: reason)
  }

  package static func == (left: TrustRejection, right: TrustRejection) -> Bool { left.reason == right.reason }

  package func hash(into hasher: inout Hasher) { hasher.combine(reason) }

  package var description: String { reason }
}

/// An alert of RFC 8446, 6.
package struct TLSAlert: Hashable, Sendable, RawRepresentable {
  package var rawValue: UInt8

  package init(rawValue: UInt8) {
    self.rawValue = rawValue
  }

  package static let closeNotify = TLSAlert(rawValue: 0)
  package static let unexpectedMessage = TLSAlert(rawValue: 10)
  package static let badRecordMAC = TLSAlert(rawValue: 20)
  package static let handshakeFailure = TLSAlert(rawValue: 40)
  package static let badCertificate = TLSAlert(rawValue: 42)
  package static let unsupportedCertificate = TLSAlert(rawValue: 43)
  package static let certificateRevoked = TLSAlert(rawValue: 44)
  package static let certificateExpired = TLSAlert(rawValue: 45)
  package static let certificateUnknown = TLSAlert(rawValue: 46)
  package static let illegalParameter = TLSAlert(rawValue: 47)
  package static let unknownAuthority = TLSAlert(rawValue: 48)
  package static let decodeError = TLSAlert(rawValue: 50)
  package static let protocolVersion = TLSAlert(rawValue: 70)
  package static let internalError = TLSAlert(rawValue: 80)
  package static let noRenegotiation = TLSAlert(rawValue: 100)
  package static let unrecognisedName = TLSAlert(rawValue: 112)
  package static let certificateRequired = TLSAlert(rawValue: 116)
  package static let noApplicationProtocol = TLSAlert(rawValue: 120)
}

/// Why TLS cannot go on. After one of these a connection is dead: it throws the same error again, and only its
/// `output` (perhaps an alert for the peer) is still of use.
package enum TLSError: Error, Equatable, Sendable {
  // The peer is not who it should be.
  /// Its certificate, or the decision about it.
  case untrusted(TrustProblem)

  // The peer wants what we lack.
  /// The two sides have no protocol version in common.
  case noCommonVersion

  // The peer misbehaved.
  /// The first byte of the answer begins no TLS record.
  case notTLS(firstByte: UInt8)
  /// The peer gave up and said why.
  case alert(TLSAlert)
  /// A record was changed on its way, or made with another key.
  case badRecord
  /// A handshake message, usually the one with the certificates, is larger than we accept.
  case handshakeMessageTooLarge
  /// More KeyUpdates, tickets or other handshake messages after the handshake than its data justifies.
  case postHandshakeFlood(limit: Int)
  /// Bytes that break the protocol, in OpenSSL's words.
  case protocolViolation(reason: String)
  /// The transport ended without `close_notify`.
  case truncated
  /// More bytes arrived while the decision about trust was pending than are kept (`TLSConnection.heldInputLimit`).
  case tooMuchWhilePending(limit: Int)

  // The environment failed.
  case rootsUnreadable(path: String, reason: String)
  case noSystemRoots
  case revocationListUnreadable(path: String, reason: String)
  case identityUnreadable(reason: String)
  /// Whoever was asked for a client certificate said not to connect at all.
  case identityRefused(TrustRejection)
  case keyLogUnwritable(path: String, code: Int32)

  // The caller misused us.
  /// Neither a DNS name in ASCII nor an IP literal.
  case invalidServerName(String)
  /// A setting that OpenSSL refuses.
  case invalidPolicy(setting: String)
  /// Data before the handshake ended, a decision that nobody waits for, a call from within a sink.
  case notNow
  /// Data after `close()`.
  case closed

  // Our own bug, or no memory.
  case internalFailure(String)
}
