/// The server's side of TLS: its identity and what it allows.
public struct ServerTLS: Sendable, Equatable {
  /// A TLS version.
  public enum Version: Int, Sendable, Comparable {
    /// TLS 1.2, RFC 5246.
    case tls12 = 0x0303
    /// TLS 1.3, RFC 8446.
    case tls13 = 0x0304

    /// Orders versions by age.
    public static func < (left: Version, right: Version) -> Bool { left.rawValue < right.rawValue }
  }

  /// The leaf and any intermediates, PEM, leaf first.
  public var certificateChain: String
  /// The leaf's private key, PEM, not encrypted.
  public var privateKey: String
  /// Authorities whose client certificates are accepted, PEM. Nil: no client certificate is asked for.
  public var clientAuthorities: String?
  /// With `clientAuthorities`: whether a client without a certificate is refused. Default true.
  public var requiresClientCertificate = true
  /// The oldest version accepted. Default TLS 1.2.
  public var minimumVersion = Version.tls12
  /// The newest version accepted. Default TLS 1.3.
  public var maximumVersion = Version.tls13
  /// Whether sessions can be resumed. Default true.
  public var allowsResumption = true
  /// Protocols selected by ALPN, in order of preference; an empty list selects nothing. Default `http/1.1`.
  public var applicationProtocols = ["http/1.1"]

  /// Makes a configuration from PEM text. It is read when a server starts with it.
  public init(certificateChain: String, privateKey: String) {
    self.certificateChain = certificateChain
    self.privateKey = privateKey
  }

  /// Makes a configuration from a minted certificate, its intermediates and its key.
  public init(_ identity: MintedCertificate) {
    self.init(certificateChain: identity.chainPEM, privateKey: identity.privateKeyPEM)
  }

  /// A configuration with a certificate for `localhost`, 127.0.0.1 and ::1 (or what the order says), issued on the spot.
  ///
  /// Throws `MintError` when OpenSSL refuses the order.
  public static func minted(
    by authority: CertificateAuthority, _ order: CertificateOrder = .loopback
  ) throws(MintError) -> ServerTLS {
    ServerTLS(try authority.issue(order))
  }
}

/// What TLS negotiated on one connection.
public struct TLSSummary: Sendable, Equatable {
  /// For example `TLSv1.3`.
  public var version: String
  /// OpenSSL's name of the cipher suite.
  public var cipher: String
  /// Whether the session was resumed from a ticket.
  public var resumed: Bool
  /// The server name that the client asked for (SNI).
  public var serverName: String?
  /// The protocol selected by ALPN.
  public var applicationProtocol: String?
  /// The subject of the client's certificate in OpenSSL's one-line form, for example `/CN=client`.
  public var clientSubject: String?
}
