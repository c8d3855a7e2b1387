import CLupineOpenSSL

@testable import LupineTesting

/// A TLS client over a raw one, from OpenSSL's calls alone.
@safe
final class RawTLSClient {
  private let raw: RawClient
  private let context: OpaquePointer
  private let ssl: OpaquePointer

  init(
    _ raw: RawClient, trusting authority: CertificateAuthority, name: String = "localhost",
    identity: MintedCertificate? = nil, resuming session: RawTLSSession? = nil, offering: String? = "http/1.1"
  ) throws {
    self.raw = raw
    guard let context = unsafe SSL_CTX_new(TLS_client_method()), let ssl = unsafe SSL_new(context) else {
      throw LoopbackError.tls("SSL_new")
    }
    unsafe self.context = context
    unsafe self.ssl = ssl
    let root = authority.rootDER
    let certificate = unsafe root.withUnsafeBufferPointer { buffer in
      var pointer = buffer.baseAddress
      return unsafe d2i_X509(nil, &pointer, buffer.count)
    }
    unsafe X509_STORE_add_cert(SSL_CTX_get_cert_store(context), certificate)
    unsafe X509_free(certificate)
    unsafe SSL_set_verify(ssl, SSL_VERIFY_PEER, nil)
    if let identity {
      let der = identity.certificateDER
      unsafe SSL_use_certificate_ASN1(ssl, der, Int32(der.count))
      let key = unsafe identity.privateKeyDER.withUnsafeBufferPointer { buffer in
        var pointer = buffer.baseAddress
        return unsafe d2i_AutoPrivateKey(nil, &pointer, buffer.count)
      }
      unsafe SSL_use_PrivateKey(ssl, key)
      unsafe EVP_PKEY_free(key)
    }
    unsafe lupine_ssl_set_host_name(ssl, name)
    unsafe SSL_set1_host(ssl, name)
    if let offering {
      let wire = [UInt8(offering.utf8.count)] + Array(offering.utf8)
      unsafe SSL_set_alpn_protos(ssl, wire, UInt32(wire.count))
    }
    if let session { unsafe SSL_set_session(ssl, session.pointer) }
    unsafe SSL_set_fd(ssl, raw.descriptor)
    guard unsafe SSL_connect(ssl) == 1 else { throw OpenSSLFailure.make("connect") }
  }

  deinit {
    unsafe SSL_free(ssl)
    unsafe SSL_CTX_free(context)
  }

  /// The session, once bytes were received.
  func session() -> RawTLSSession? {
    guard let session = unsafe SSL_get1_session(ssl) else { return nil }
    return unsafe RawTLSSession(session)
  }

  func send(_ text: String) throws {
    let bytes = Array(text.utf8)
    var count = 0
    guard unsafe SSL_write_ex(ssl, bytes, bytes.count, &count) == 1 else { throw OpenSSLFailure.make("write") }
  }

  /// One record's bytes, or how the stream ended.
  func receive() throws -> Result<[UInt8], RawTLSEnd> {
    var bytes = [UInt8](repeating: 0, count: 65536)
    var count = 0
    ERR_clear_error()
    let code = unsafe SSL_read_ex(ssl, &bytes, bytes.count, &count)
    if code == 1 { return .success(Array(bytes[..<count])) }
    switch unsafe SSL_get_error(ssl, code) {
    case SSL_ERROR_ZERO_RETURN: return .failure(.notified)
    default:
      let isTruncation = lupine_err_reason(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING
      if isTruncation { return .failure(.truncated) }
      throw OpenSSLFailure.make("read")
    }
  }

  /// Everything up to the end, and how it ended.
  func receiveAll() throws -> (text: String, records: Int, end: RawTLSEnd) {
    var all: [UInt8] = []
    var records = 0
    while true {
      switch try receive() {
      case .success(let more):
        all += more
        records += 1
      case .failure(let end): return (String(decoding: all, as: UTF8.self), records, end)
      }
    }
  }
}

enum RawTLSEnd: Error, Equatable { case notified, truncated }

/// A client's session, freed with this object.
@safe
final class RawTLSSession {
  let pointer: OpaquePointer

  init(_ pointer: OpaquePointer) { unsafe self.pointer = pointer }

  deinit { unsafe SSL_SESSION_free(pointer) }
}
