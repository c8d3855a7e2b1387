// What people read; of the peer's text only names, which are escaped where they are shown.

extension TrustProblem: CustomStringConvertible {
  package var description: String {
    switch self {
    case .expired: "a certificate has expired"
    case .notYetValid: "a certificate is not valid yet"
    case .selfSigned: "it signed itself, and is not among the trusted roots"
    case .unknownIssuer: "it does not lead to a trusted root"
    case .badSignature: "a signature of the chain does not verify"
    case .invalidAuthority: "a certificate of the chain signed another, and may not do so"
    case .wrongPurpose: "it is not meant for this side of TLS"
    case .weak: "a key or digest of the chain is too weak"
    case .nameConstraintViolated: "its names break a constraint of an authority"
    case .revoked: "a certificate has been revoked"
    case .revocationUnknown: "no current revocation list covers a certificate of the chain"
    case .chainTooLong(let limit): "the chain has more than \(limit) certificates"
    // A name that is the host matches, unless the host is an address: addresses are looked for among addresses only.
    case .hostMismatch(let host, let names) where names.contains(host):
      "it has \(Self.escaped(host)) as a DNS name, not as an address"
    case .hostMismatch(let host, let names): "it is for \(Self.list(names)), not for \(Self.escaped(host))"
    case .pinMismatch: "none of the public keys of the chain is pinned"
    case .missing: "there is no certificate"
    case .rejected(let rejection): rejection.reason
    case .malformed: "a certificate cannot be read"
    case .other(let code): "the verdict of OpenSSL is \(code)"
    }
  }

  private static func list(_ names: [String]) -> String {
    guard let last = names.last else { return "no name that is looked at" }
    let others = names.dropLast().map(escaped)
    return others.isEmpty ? escaped(last) : others.joined(separator: ", ") + " and " + escaped(last)
  }

  private static func escaped(_ text: String) -> String {
    String(String.UnicodeScalarView(text.unicodeScalars.map { (0x20...0x7E).contains($0.value) ? $0 : "?" }))
  }
}

extension TLSError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .untrusted(let problem): "the certificate is not trusted: \(problem)"
    case .noCommonVersion: "the two sides have no version of TLS in common"
    case .notTLS(let byte): "the first byte, \(byte), begins no TLS record"
    case .alert(let alert): "the server refused with alert \(alert)"
    case .badRecord: "a record was changed on its way"
    case .handshakeMessageTooLarge: "a message of the handshake, perhaps the certificates, is too large"
    case .postHandshakeFlood(let limit): "more than \(limit) messages followed the handshake without data"
    case .protocolViolation(let reason): "the server breaks the protocol: \(reason)"
    case .truncated: "the connection was cut without close_notify"
    case .tooMuchWhilePending(let limit): "more than \(limit) bytes came while the decision about trust was pending"
    default: ownText
    }
  }

  /// Of what is not the peer's fault.
  private var ownText: String {
    switch self {
    case .rootsUnreadable(let path, let reason): "the trusted roots cannot be read: \(path): \(reason)"
    case .noSystemRoots: "the system has no trusted roots"
    case .revocationListUnreadable(let path, let reason): "the revocation lists cannot be read: \(path): \(reason)"
    case .identityUnreadable(let reason): "the client identity cannot be read: \(reason)"
    case .identityRefused(let rejection): "no client certificate was chosen: \(rejection)"
    case .keyLogUnwritable(let path, let code): "the key log cannot be written: \(path), errno \(code)"
    case .invalidServerName: "the server's name is neither a DNS name in ASCII nor an address"
    case .invalidPolicy(let setting): "OpenSSL refuses the setting \(setting)"
    case .notNow: "the connection was used while it could not be"
    case .closed: "the connection was used after it was closed"
    case .internalFailure(let text): "OpenSSL failed: \(text)"
    default: "TLS failed"
    }
  }
}

extension TLSAlert: CustomStringConvertible {
  package var description: String { name.map { "\(rawValue), \($0)" } ?? "\(rawValue)" }

  /// As RFC 8446 section 6 has it, in words.
  private var name: String? {
    switch self {
    case .closeNotify: "close notify"
    case .unexpectedMessage: "unexpected message"
    case .badRecordMAC: "bad record MAC"
    case .handshakeFailure: "handshake failure"
    case .badCertificate: "bad certificate"
    case .unsupportedCertificate: "unsupported certificate"
    case .certificateRevoked: "certificate revoked"
    case .certificateExpired: "certificate expired"
    case .certificateUnknown: "certificate unknown"
    case .illegalParameter: "illegal parameter"
    case .unknownAuthority: "unknown CA"
    case .decodeError: "decode error"
    case .protocolVersion: "protocol version"
    case .internalError: "internal error"
    case .noRenegotiation: "no renegotiation"
    case .unrecognisedName: "unrecognized name"
    case .certificateRequired: "certificate required"
    case .noApplicationProtocol: "no application protocol"
    default: nil
    }
  }
}
