internal import CLupineOpenSSL
internal import LupineBase

/// What OpenSSL calls. Every closure is formed here, outside any isolation, captures nothing, and finds its connection through
/// the `SSL`'s own slot: the connection owns the `SSL`, clears the slot before freeing it, and OpenSSL only calls while a method
/// of the connection is running.
enum Callbacks {
  typealias Verify = @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Int32
  typealias NewSession = @convention(c) (OpaquePointer?, OpaquePointer?) -> Int32
  typealias KeyLogLine = @convention(c) (OpaquePointer?, UnsafePointer<CChar>?) -> Void
  typealias Passphrase = @convention(c) (UnsafeMutablePointer<CChar>?, Int32, Int32, UnsafeMutableRawPointer?) -> Int32
  typealias SelectProtocol =
    @convention(c) (
      OpaquePointer?, UnsafeMutablePointer<UnsafePointer<UInt8>?>?, UnsafeMutablePointer<UInt8>?,
      UnsafePointer<UInt8>?, UInt32, UnsafeMutableRawPointer?
    ) -> Int32
  typealias Message =
    @convention(c) (
      Int32, Int32, Int32, UnsafeRawPointer?, Int, OpaquePointer?, UnsafeMutableRawPointer?
    ) -> Void

  typealias ChooseIdentity = @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Int32

  static func connection(of ssl: OpaquePointer?) -> TLSConnection? {
    guard let ssl = unsafe ssl, let box = unsafe SSL_get_ex_data(ssl, 0) else { return nil }
    return unsafe Unmanaged<TLSConnection>.fromOpaque(box).takeUnretainedValue()
  }

  /// Runs inside the handshake, when the peer's certificates have arrived. 1: go on (or wait, if a retry was asked for); 0: refuse.
  static let verify: Verify = { store, _ in
    guard let store = unsafe store,
      let ssl = unsafe X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()),
      let connection = unsafe connection(of: OpaquePointer(ssl))
    else { return 0 }
    return unsafe connection.judge(store)
  }

  /// Runs when the server has asked for a certificate. 1: go on; 0: fail; below 0: wait.
  static let chooseIdentity: ChooseIdentity = { ssl, _ in
    guard let connection = unsafe connection(of: ssl) else { return 0 }
    return connection.chooseIdentity()
  }

  /// 0: the session's reference stays OpenSSL's.
  static let newSession: NewSession = { ssl, session in
    if let session = unsafe session, let connection = unsafe connection(of: ssl) { unsafe connection.keep(session) }
    return 0
  }

  static let keyLog: KeyLogLine = { ssl, line in
    guard let line = unsafe line, let connection = unsafe connection(of: ssl) else { return }
    guard let log = connection.context.keyLog, !log.append(unsafe String(cString: line)) else { return }
    connection.hasLostSecrets = true
  }

  /// Counts what arrives after the handshake. Called once or twice per record, so it does as little as possible.
  static let message: Message = { isWritten, _, contentType, bytes, count, ssl, _ in
    guard isWritten == 0, contentType == SSL3_RT_HANDSHAKE, count > 0, let connection = unsafe connection(of: ssl)
    else {
      return
    }
    connection.countHandshakeMessage()
  }

  /// Never asks on the terminal; without a passphrase an encrypted key is unreadable.
  static let passphrase: Passphrase = { buffer, capacity, _, box in
    guard let buffer = unsafe buffer, let box = unsafe box,
      let bytes = unsafe Unmanaged<PassphraseBox>.fromOpaque(box).takeUnretainedValue().bytes,
      bytes.count <= Int(capacity)
    else { return -1 }
    for index in bytes.indices { unsafe buffer[index] = CChar(bitPattern: bytes[index]) }
    return Int32(bytes.count)
  }

  /// A server takes `http/1.1` if it is offered, and refuses otherwise (RFC 7301, 3.2).
  static let selectProtocol: SelectProtocol = { _, output, outputLength, input, inputLength, _ in
    guard let output = unsafe output, let outputLength = unsafe outputLength, let input = unsafe input else {
      return SSL_TLSEXT_ERR_ALERT_FATAL
    }
    var index = 0
    while index < Int(inputLength) {
      let length = Int(unsafe input[index])
      guard index + 1 + length <= Int(inputLength) else { break }
      let name = unsafe UnsafeBufferPointer(start: input + index + 1, count: length)
      if unsafe name.elementsEqual("http/1.1".utf8) {
        unsafe output.pointee = input + index + 1
        unsafe outputLength.pointee = UInt8(length)
        return SSL_TLSEXT_ERR_OK
      }
      index += 1 + length
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL
  }
}

/// The BIO between OpenSSL and a connection: reads from the span that the caller handed in, writes into its output. The connection is
/// borrowed, not retained: it runs a method meanwhile. (`_withUnsafeGuaranteedRef` has no name without an underscore; `takeUnretainedValue`
/// counts the reference twice each time, 170 instructions a read.)
enum ConnectionBIO {
  nonisolated(unsafe) static let method: OpaquePointer? = {
    OpenSSLLibrary.start()
    guard let method = unsafe BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "lupine") else { return nil }
    unsafe BIO_meth_set_read(method, read)
    unsafe BIO_meth_set_write(method, write)
    unsafe BIO_meth_set_ctrl(method, control)
    return unsafe method
  }()

  private static let read: @convention(c) (OpaquePointer?, UnsafeMutablePointer<CChar>?, Int32) -> Int32 = {
    bio, destination, count in
    unsafe lupine_bio_clear_retry_flags(bio)
    guard let destination = unsafe destination, count > 0, let box = unsafe BIO_get_data(bio) else { return 0 }
    let buffer = unsafe UnsafeMutableRawBufferPointer(start: destination, count: Int(count))
    return unsafe Unmanaged<TLSConnection>.fromOpaque(box)._withUnsafeGuaranteedRef { connection in
      guard !connection.isFlooded else { return -1 }
      let taken = unsafe connection.takeInput(buffer)
      guard taken == 0 else { return Int32(taken) }
      unsafe lupine_bio_set_retry_read(bio)
      return -1
    }
  }

  private static let write: @convention(c) (OpaquePointer?, UnsafePointer<CChar>?, Int32) -> Int32 = {
    bio, source, count in
    unsafe lupine_bio_clear_retry_flags(bio)
    guard let source = unsafe source, count > 0, let box = unsafe BIO_get_data(bio) else { return 0 }
    let bytes = unsafe UnsafeRawBufferPointer(start: source, count: Int(count))
    unsafe Unmanaged<TLSConnection>.fromOpaque(box)._withUnsafeGuaranteedRef { unsafe $0.addOutput(bytes) }
    return count
  }

  private static let control: @convention(c) (OpaquePointer?, Int32, Int, UnsafeMutableRawPointer?) -> Int = {
    _, command, _, _ in
    command == BIO_CTRL_FLUSH ? 1 : 0
  }
}
