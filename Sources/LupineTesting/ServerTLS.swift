internal import CLupineOpenSSL

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

/// The shared context of a TLS server, made once when the server starts.
@safe
final class TLSServerContext: @unchecked Sendable {
  init(_ configuration: ServerTLS) throws(LoopbackError) {
    throw .tls("not built yet")
  }
}

/// The server's side of TLS on one socket.
final class TLSEndpoint {
  let summary: TLSSummary
  init(_ context: TLSServerContext, _ descriptor: Int32) throws(LoopbackError) {
    throw .tls("not built yet")
  }
  func receive(into buffer: UnsafeMutableRawBufferPointer) throws(LoopbackError) -> Int { 0 }
  func send(_ bytes: UnsafeRawBufferPointer) throws(LoopbackError) {}
  func notifyClose() {}
}
