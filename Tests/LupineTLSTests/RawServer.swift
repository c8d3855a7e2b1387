import CLupineOpenSSL
import LupineTLS
import LupineTesting

/// A server straight on OpenSSL that does what `TLSConnection` refuses to do.
@safe
final class RawServer {
  private let context: OpaquePointer
  private let ssl: OpaquePointer
  private let input: OpaquePointer
  private let output: OpaquePointer
  var received: [UInt8] = []
  var failure: String?

  struct Unavailable: Error {}

  /// - Parameter hasLongTickets: each of its tickets goes over several records.
  init(_ minted: MintedCertificate, version: TLSVersion, hasLongTickets: Bool = false) throws {
    guard let context = unsafe SSL_CTX_new(TLS_server_method()),
      let ssl = unsafe RawServer.make(context, minted, version),
      let input = unsafe BIO_new(BIO_s_mem()), let output = unsafe BIO_new(BIO_s_mem())
    else { throw Unavailable() }
    unsafe self.context = context
    unsafe self.ssl = ssl
    unsafe self.input = input
    unsafe self.output = output
    unsafe SSL_set_bio(ssl, input, output)
    unsafe SSL_set_accept_state(ssl)
    guard hasLongTickets else { return }
    unsafe SSL_ctrl(ssl, SSL_CTRL_SET_MAX_SEND_FRAGMENT, 512, nil)
    unsafe SSL_CTX_set_session_ticket_cb(
      context,
      { ssl, _ in
        let data = [UInt8](repeating: 7, count: 2_000)
        return unsafe SSL_SESSION_set1_ticket_appdata(SSL_get_session(ssl), data, data.count)
      }, nil, nil)
  }

  deinit {
    unsafe SSL_free(ssl)
    unsafe SSL_CTX_free(context)
  }

  private static func make(
    _ context: OpaquePointer, _ minted: MintedCertificate, _ version: TLSVersion
  ) -> OpaquePointer? {
    unsafe lupine_ctx_set_min_version(context, Int(version.rawValue) == 0x0303 ? TLS1_2_VERSION : TLS1_3_VERSION)
    unsafe lupine_ctx_set_max_version(context, Int(version.rawValue) == 0x0303 ? TLS1_2_VERSION : TLS1_3_VERSION)
    for (index, der) in minted.chainDER.enumerated() {
      let parsed = unsafe der.withUnsafeBufferPointer { buffer in
        var cursor = buffer.baseAddress
        return unsafe d2i_X509(nil, &cursor, buffer.count)
      }
      if index == 0 {
        unsafe SSL_CTX_use_certificate(context, parsed)
      } else {
        unsafe lupine_ctx_add_chain_cert(context, parsed)
      }
      unsafe X509_free(parsed)
    }
    let key = unsafe minted.privateKeyDER.withUnsafeBufferPointer { buffer in
      var cursor = buffer.baseAddress
      return unsafe d2i_AutoPrivateKey(nil, &cursor, buffer.count)
    }
    unsafe SSL_CTX_use_PrivateKey(context, key)
    unsafe EVP_PKEY_free(key)
    return unsafe SSL_new(context)
  }

  func feed(_ bytes: [UInt8]) {
    unsafe BIO_write(input, bytes, Int32(bytes.count))
    var buffer = [UInt8](repeating: 0, count: 16_384)
    while true {
      ERR_clear_error()
      let count = unsafe SSL_read(ssl, &buffer, Int32(buffer.count))
      guard count > 0 else {
        if unsafe SSL_get_error(ssl, count) == SSL_ERROR_SSL, let text = unsafe ERR_reason_error_string(ERR_get_error())
        {
          failure = unsafe String(cString: text)
        }
        return
      }
      received += buffer.prefix(Int(count))
    }
  }

  func takeOutput() -> [UInt8] {
    var all: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 16_384)
    while true {
      let count = unsafe BIO_read(output, &buffer, Int32(buffer.count))
      guard count > 0 else { return all }
      all += buffer.prefix(Int(count))
    }
  }

  func write(_ bytes: [UInt8]) {
    unsafe SSL_write(ssl, bytes, Int32(bytes.count))
  }

  func handshake(with client: End) {
    while true {
      let toServer = client.takeOutput()
      feed(toServer)
      let toClient = takeOutput()
      client.feed(toClient)
      if toServer.isEmpty && toClient.isEmpty { return }
    }
  }

  func updateKeys(_ times: Int, requestingAnswer: Bool = false) {
    for _ in 0..<times {
      unsafe SSL_key_update(ssl, requestingAnswer ? SSL_KEY_UPDATE_REQUESTED : SSL_KEY_UPDATE_NOT_REQUESTED)
      unsafe SSL_do_handshake(ssl)
    }
  }

  func renegotiate() {
    unsafe SSL_renegotiate(ssl)
    unsafe SSL_do_handshake(ssl)
  }
}

/// Leaves an error in OpenSSL's queue of this thread, as somebody else's call may have. False: it did not.
func leaveForeignError() -> Bool {
  unsafe BIO_free(BIO_new_file("/nonexistent/of-somebody-else", "r"))
  return ERR_peek_error() != 0
}
