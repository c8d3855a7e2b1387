internal import CLupineOpenSSL
import Glibc

/// The shared context of a TLS server: made once, then only read, from the threads of all its connections.
@safe
final class TLSServerContext: @unchecked Sendable {
  fileprivate let pointer: OpaquePointer
  /// What ALPN offers in its wire form; the C callback points at it.
  private let protocols: ALPNList

  init(_ configuration: ServerTLS) throws(LoopbackError) {
    lupine_initialise()
    ERR_clear_error()
    guard let pointer = unsafe SSL_CTX_new(TLS_server_method()) else { throw OpenSSLFailure.make("SSL_CTX_new") }
    unsafe self.pointer = pointer
    protocols = ALPNList(configuration.applicationProtocols)
    // From here on `deinit` frees the context, also when one of these throws.
    try setIdentity(configuration)
    try setClientAuthorities(configuration)
    unsafe lupine_ctx_set_min_version(pointer, Int32(configuration.minimumVersion.rawValue))
    unsafe lupine_ctx_set_max_version(pointer, Int32(configuration.maximumVersion.rawValue))
    // One read call a record instead of two: header and payload together. A macro of SSL_CTX_ctrl.
    unsafe SSL_CTX_ctrl(pointer, SSL_CTRL_SET_READ_AHEAD, 1, nil)
    unsafe lupine_ctx_set_session_cache_mode(pointer, Int(SSL_SESS_CACHE_OFF))  // sessions live in tickets
    let name: [UInt8] = Array("lupine".utf8)
    unsafe SSL_CTX_set_session_id_context(pointer, name, UInt32(name.count))
    if !configuration.allowsResumption {
      unsafe SSL_CTX_set_options(pointer, UInt64(1) << 14)  // SSL_OP_NO_TICKET, a macro that Swift cannot import
      unsafe SSL_CTX_set_num_tickets(pointer, 0)
    }
    if !protocols.wire.isEmpty {
      unsafe SSL_CTX_set_alpn_select_cb(pointer, selectProtocol, Unmanaged.passUnretained(protocols).toOpaque())
    }
  }

  deinit {
    unsafe SSL_CTX_free(pointer)
  }

  private func setIdentity(_ configuration: ServerTLS) throws(LoopbackError) {
    let chain = Certificate.read(configuration.certificateChain)
    guard let leaf = chain.first else { throw .tls("no certificate in the chain") }
    guard unsafe SSL_CTX_use_certificate(pointer, leaf.pointer) == 1 else { throw OpenSSLFailure.make("certificate") }
    for certificate in chain.dropFirst() { unsafe lupine_ctx_add_chain_cert(pointer, certificate.pointer) }

    let text = Array(configuration.privateKey.utf8)
    let source = unsafe BIO_new_mem_buf(text, Int32(text.count))
    defer {
      unsafe BIO_free(source)
      // It reads from there.
      withExtendedLifetime(text) {}
    }
    guard let key = unsafe PEM_read_bio_PrivateKey(source, nil, nil, nil) else { throw OpenSSLFailure.make("key") }
    defer { unsafe EVP_PKEY_free(key) }
    guard unsafe SSL_CTX_use_PrivateKey(pointer, key) == 1 else { throw OpenSSLFailure.make("key") }
  }

  private func setClientAuthorities(_ configuration: ServerTLS) throws(LoopbackError) {
    guard let text = configuration.clientAuthorities else { return }
    for authority in Certificate.read(text) {
      unsafe X509_STORE_add_cert(SSL_CTX_get_cert_store(pointer), authority.pointer)
      unsafe SSL_CTX_add_client_CA(pointer, authority.pointer)
    }
    let required = configuration.requiresClientCertificate ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0
    unsafe SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER | required, nil)
  }
}

/// A certificate of OpenSSL's, freed with this object.
@safe
private final class Certificate {
  let pointer: OpaquePointer

  init(_ pointer: OpaquePointer) { unsafe self.pointer = pointer }

  deinit { unsafe X509_free(pointer) }

  /// All certificates of a PEM text.
  static func read(_ text: String) -> [Certificate] {
    let bytes = Array(text.utf8)
    guard let source = unsafe BIO_new_mem_buf(bytes, Int32(bytes.count)) else { return [] }
    defer {
      unsafe BIO_free(source)
      // It reads from there.
      withExtendedLifetime(bytes) {}
    }
    var certificates: [Certificate] = []
    while let certificate = unsafe PEM_read_bio_X509(source, nil, nil, nil) {
      unsafe certificates.append(Certificate(certificate))
    }
    ERR_clear_error()  // the end of the text is reported as an error
    return certificates
  }
}

private final class ALPNList: Sendable {
  let wire: [UInt8]
  init(_ names: [String]) {
    wire = names.flatMap { [UInt8(truncatingIfNeeded: $0.utf8.count)] + Array($0.utf8) }
  }
}

/// OpenSSL's callback: our order of preference decides; without a common protocol the extension is ignored.
private func selectProtocol(
  _ ssl: OpaquePointer?, _ chosen: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
  _ chosenLength: UnsafeMutablePointer<UInt8>?, _ offered: UnsafePointer<UInt8>?, _ offeredLength: UInt32,
  _ context: UnsafeMutableRawPointer?
) -> Int32 {
  guard let context = unsafe context, let chosen = unsafe chosen, let chosenLength = unsafe chosenLength,
    let offered = unsafe offered
  else { return SSL_TLSEXT_ERR_NOACK }
  let ours = unsafe Unmanaged<ALPNList>.fromOpaque(context).takeUnretainedValue().wire
  var remaining = ours[...]
  while let length = remaining.first {
    let name = remaining.dropFirst().prefix(Int(length))
    var index = 0
    while index < Int(offeredLength) {
      let size = Int(unsafe offered[index])
      let candidate = unsafe UnsafeBufferPointer(start: offered + index + 1, count: size)
      if unsafe candidate.elementsEqual(name) {
        // The answer must point into memory that lives on: the client's own list.
        unsafe chosen.pointee = offered + index + 1
        unsafe chosenLength.pointee = UInt8(size)
        return SSL_TLSEXT_ERR_OK
      }
      index += size + 1
    }
    remaining = remaining.dropFirst(Int(length) + 1)
  }
  return SSL_TLSEXT_ERR_NOACK
}

/// The server's side of TLS on one blocking socket.
@safe
final class TLSEndpoint {
  private let ssl: OpaquePointer
  private(set) var summary: TLSSummary

  /// Does the handshake.
  init(_ context: TLSServerContext, _ descriptor: Int32) throws(LoopbackError) {
    ERR_clear_error()
    guard let ssl = unsafe SSL_new(context.pointer) else { throw OpenSSLFailure.make("SSL_new") }
    unsafe self.ssl = ssl
    summary = TLSSummary(version: "", cipher: "", resumed: false)
    unsafe SSL_set_fd(ssl, descriptor)
    let code = unsafe SSL_accept(ssl)
    guard code == 1 else { throw unsafe OpenSSLFailure.make("handshake", ssl, code) }
    summary = unsafe Self.summary(of: ssl)
  }

  deinit {
    unsafe SSL_free(ssl)
  }

  /// Receives plaintext; 0 at the peer's end, with or without its close_notify.
  func receive(into buffer: UnsafeMutableRawBufferPointer) throws(LoopbackError) -> Int {
    ERR_clear_error()
    var count = 0
    let code = unsafe SSL_read_ex(ssl, buffer.baseAddress, buffer.count, &count)
    if code == 1 { return count }
    let failure = unsafe OpenSSLFailure.make("read", ssl, code)
    if failure == .peerClosed { return 0 }
    throw failure
  }

  /// Sends everything.
  func send(_ bytes: UnsafeRawBufferPointer) throws(LoopbackError) {
    ERR_clear_error()
    var count = 0
    let code = unsafe SSL_write_ex(ssl, bytes.baseAddress, bytes.count, &count)
    guard code == 1 else { throw unsafe OpenSSLFailure.make("write", ssl, code) }
  }

  /// A ticket goes out with what is sent next.
  func queueTicket() throws(LoopbackError) {
    ERR_clear_error()
    guard unsafe SSL_new_session_ticket(ssl) == 1 else { throw OpenSSLFailure.make("SSL_new_session_ticket") }
  }

  /// Sends close_notify; does not wait for the peer's.
  func notifyClose() {
    ERR_clear_error()
    _ = unsafe SSL_shutdown(ssl)
    ERR_clear_error()
  }

  private static func summary(of ssl: OpaquePointer) -> TLSSummary {
    var protocolName: UnsafePointer<UInt8>?
    var protocolLength: UInt32 = 0
    unsafe SSL_get0_alpn_selected(ssl, &protocolName, &protocolLength)
    let serverName = unsafe SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name)
    return unsafe TLSSummary(
      version: String(cString: SSL_get_version(ssl)), cipher: String(cString: lupine_ssl_cipher_name(ssl)),
      resumed: SSL_session_reused(ssl) == 1, serverName: serverName.map { unsafe String(cString: $0) },
      applicationProtocol: protocolName.map {
        unsafe String(decoding: UnsafeBufferPointer(start: $0, count: Int(protocolLength)), as: UTF8.self)
      },
      clientSubject: clientSubject(of: ssl))
  }

  private static func clientSubject(of ssl: OpaquePointer) -> String? {
    guard let certificate = unsafe SSL_get0_peer_certificate(ssl),
      let line = unsafe X509_NAME_oneline(X509_get_subject_name(certificate), nil, 0)
    else { return nil }
    defer { unsafe CRYPTO_free(line, nil, 0) }
    return unsafe String(cString: line)
  }
}

/// OpenSSL's errors in this module's words.
enum OpenSSLFailure {
  /// The error of a call outside of a connection.
  static func make(_ operation: String) -> LoopbackError {
    let code = ERR_get_error()
    ERR_clear_error()
    guard code != 0, let reason = unsafe ERR_reason_error_string(code) else { return .tls(operation) }
    return unsafe .tls("\(operation): \(String(cString: reason))")
  }

  /// The error of a call on a connection; an end of stream is `peerClosed`, whether notified or not.
  static func make(_ operation: String, _ ssl: OpaquePointer, _ result: Int32) -> LoopbackError {
    let code = errno
    switch unsafe SSL_get_error(ssl, result) {
    case SSL_ERROR_ZERO_RETURN: return .peerClosed
    case SSL_ERROR_SYSCALL:
      ERR_clear_error()
      return code == 0 ? .peerClosed : SystemCalls.failure(operation, code)
    default:
      if lupine_err_reason(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING {
        ERR_clear_error()
        return .peerClosed
      }
      return make(operation)
    }
  }
}
