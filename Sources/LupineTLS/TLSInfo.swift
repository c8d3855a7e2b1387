internal import CLupineOpenSSL

/// What two sides agreed on.
package struct TLSInfo: Equatable, Sendable {
  package var version: TLSVersion?
  /// OpenSSL's name, for example `TLS_AES_256_GCM_SHA384`.
  package var cipher: String
  /// Whether an earlier session was resumed: no certificate was shown, and the verdict is the earlier one's.
  package var isResumed: Bool
  /// What ALPN chose; nil: the server took no part in it.
  package var applicationProtocol: String?
}

extension TLSConnection {
  /// What is agreed on so far; meaningful once the handshake is done.
  package var info: TLSInfo {
    var name: UnsafePointer<UInt8>?
    var length: UInt32 = 0
    unsafe SSL_get0_alpn_selected(ssl, &name, &length)
    let selected = unsafe name.map {
      unsafe String(decoding: UnsafeBufferPointer(start: $0, count: Int(length)), as: UTF8.self)
    }
    let cipher = unsafe lupine_ssl_cipher_name(ssl).map { unsafe String(cString: $0) }
    return TLSInfo(
      version: TLSVersion(rawValue: UInt16(truncatingIfNeeded: unsafe SSL_version(ssl))), cipher: cipher ?? "",
      isResumed: unsafe SSL_session_reused(ssl) == 1, applicationProtocol: selected)
  }

  /// DER of the certificates that the peer sent, leaf first; of a resumed connection, those of the first one.
  package var peerChain: [[UInt8]] {
    let chain = unsafe CertificateReader.der(of: SSL_get_peer_cert_chain(ssl))
    // A server's view of the chain leaves the client's leaf out.
    guard context.isServer, let leaf = unsafe SSL_get0_peer_certificate(ssl) else { return chain }
    return [unsafe CertificateReader.der(leaf)] + chain
  }

  /// What the client asked for by SNI; for a server.
  package var indicatedName: String? {
    unsafe SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name).map { unsafe String(cString: $0) }
  }
}
