internal import CLupineOpenSSL
internal import LupineBase

extension TLSConnection {
  /// Takes in ciphertext, all of it, drives the handshake while there is one, and hands out every plaintext that comes of it.
  ///
  /// While a decision is pending the bytes are kept; after `resolveTrust` or `resolveIdentity` call this again (an empty span will do).
  ///
  /// - Parameter sink: called with up to 256 KiB at a time, valid during the call only. It may `send` and `close`; it must not feed
  ///   this connection.
  /// - Throws: the reason of the failure. What was decrypted before it has been handed out.
  package func receive(
    _ ciphertext: Span<UInt8>, _ sink: (Span<UInt8>) -> Void
  ) throws(TLSError) -> ReceiveResult {
    if case .failed(let error) = state { throw error }
    guard !isReceiving else { throw .notNow }
    if sawClose { return .closedByPeer }
    if state == .trustPending, decision == nil {
      try hold(ciphertext)
      return .trustPending
    }
    if state == .identityPending, identityChoice == nil {
      try hold(ciphertext)
      return .identityPending
    }
    try checkFirstByte(ciphertext)
    isReceiving = true
    defer { isReceiving = false }
    return try unsafe ciphertext.withUnsafeBytes { (bytes) throws(TLSError) in
      unsafe input = bytes.baseAddress
      inputLeft = bytes.count
      defer {
        unsafe input = nil
        inputLeft = 0
      }
      let result = try pump(sink)
      if result == .trustPending || result == .identityPending { try holdRest() }
      if unsent != nil { try sendUnsent() }
      return result
    }
  }

  /// Encrypts everything; then there is output to send, unless `isSendHeld`.
  ///
  /// - Throws: `.notNow` before the handshake has ended, `.closed` after `close()`, or the reason of an earlier failure.
  package func send(_ plaintext: Span<UInt8>) throws(TLSError) {
    switch state {
    case .failed(let error): throw error
    case .handshaking, .trustPending, .identityPending: throw .notNow
    case .open: break
    }
    guard !saidClose else { throw .closed }
    guard unsent == nil else {
      unsent?.append(plaintext)
      return
    }
    try write(plaintext)
  }

  private func write(_ plaintext: Span<UInt8>) throws(TLSError) {
    try unsafe plaintext.withUnsafeBytes { (bytes) throws(TLSError) in
      var offset = 0
      while offset < bytes.count {
        // The queue of errors is not looked at before: a write is judged by its result alone, and its failure by the last of them.
        var written = 0
        let rest = unsafe UnsafeRawBufferPointer(rebasing: bytes[offset...])
        guard unsafe SSL_write_ex(ssl, rest.baseAddress, rest.count, &written) == 1 else {
          try unsafe keepUnsent(Span<UInt8>(_unsafeBytes: rest))
          return
        }
        offset += written
      }
    }
  }

  /// OpenSSL has not written this. Of a message of the handshake over several records, a ticket with a certificate in it, it wants the rest first: a
  /// server may send one at any time, and it comes in pieces like all else.
  @inline(never)
  private func keepUnsent(_ plaintext: Span<UInt8>) throws(TLSError) {
    guard unsafe SSL_in_init(ssl) == 1 && SSL_want(ssl) == SSL_READING else { throw fail(OpenSSLError.drainLast()) }
    unsent = [UInt8](plaintext)
  }

  /// The rest of the message may have come.
  @inline(never)
  private func sendUnsent() throws(TLSError) {
    guard let plaintext = unsent, !saidClose, unsafe SSL_in_init(ssl) == 0 else { return }
    unsent = nil
    try write(plaintext.span)
  }

  /// Whether what is sent is kept as it is, until more has been received: the peer is in the middle of a message of the handshake. Whoever has much to send
  /// waits meanwhile.
  package var isSendHeld: Bool { unsent != nil }

  /// The transport ended, or its silence is waited for no longer. Nothing is wrong if the peer had sent `close_notify`. If it was offered a
  /// session and had not answered, none is offered to it for a while (`TLSSessionCache.silenceSeconds`).
  ///
  /// - Throws: `.truncated` if it had not: somebody may have cut the connection short. The reason of an earlier failure stays.
  package func endOfInput() throws(TLSError) {
    if case .failed(let error) = state { throw error }
    guard !sawClose else { return }
    refuseUnansweredSession()
    state = .failed(.truncated)
    throw .truncated
  }

  /// Queues `close_notify`, once. Receiving goes on. Before the end of the handshake and after a failure there is nothing to say.
  package func close() {
    guard !saidClose else { return }
    saidClose = true
    guard state == .open else { return }
    OpenSSLError.clear()
    // 0: sent, the peer's has not come. A failure leaves a connection that is closed all the same.
    unsafe SSL_shutdown(ssl)
    OpenSSLError.clear()
  }

  // MARK: Output

  /// Whether there is ciphertext to send.
  package var hasOutput: Bool { !output.value.isEmpty }

  /// Bytes of ciphertext to send.
  package var outputCount: Int { output.value.count }

  /// Shows the ciphertext for the peer, from its front, and drops as much of it as `send` says that it took. `send` must not call this
  /// connection.
  package func drainOutput(_ send: (Span<UInt8>) -> Int) {
    let taken = output.withValue { send($0.span) }
    output.value.consume(taken)
  }

  /// What OpenSSL has for the peer.
  func addOutput(_ bytes: UnsafeRawBufferPointer) {
    unsafe output.value.append(Span<UInt8>(_unsafeBytes: bytes))
  }

  /// Gives back OpenSSL's record buffers, 34 KB of a connection's memory, until they are needed again. For a connection that goes
  /// idle; does nothing while bytes of a record are in them. OpenSSL before 3.0.14 and its like would free them where it has a record's header alone,
  /// and go on in what it has freed (CVE-2024-4741): it is not asked then.
  ///
  /// `SSL_MODE_RELEASE_BUFFERS` would do it at every record: measured, that takes a quarter of the throughput of bulk data and
  /// adds a third to the cost of a small message.
  package func releaseBuffers() {
    if grant.isBetweenRecords { unsafe SSL_free_buffers(ssl) }
    output.value.releaseIfEmpty()
  }

  /// Whether all that has arrived has been handed out: of no record, and of no message of the handshake over several, is there a part.
  package var isAtRest: Bool { unsafe grant.isBetweenRecords && held.value.isEmpty && SSL_in_init(ssl) == 0 }

  // MARK: Inside

  private func pump(_ sink: (Span<UInt8>) -> Void) throws(TLSError) -> ReceiveResult {
    if state != .open {
      switch try advanceHandshake() {
      case .needsInput: return .handshaking
      case .trustPending: return .trustPending
      case .identityPending: return .identityPending
      case .done: break
      }
    }
    let buffer = scratch.take()
    defer { scratch.give(buffer) }
    // Records are gathered and handed out together: whoever takes them in may have a thread to wake each time.
    var filled = 0
    while true {
      OpenSSLError.clear()
      let count = unsafe SSL_read(ssl, buffer.start + filled, Int32(TLSScratch.recordSize))
      if count > 0 {
        receivedPlaintext &+= Int(count)
        filled += Int(count)
        let isExhausted = unsafe isInputExhausted && SSL_has_pending(ssl) == 0
        guard isExhausted || filled > TLSScratch.size - TLSScratch.recordSize else { continue }
        try handOut(buffer, filled, sink)
        if isExhausted { return .open }
        filled = 0
      } else {
        // What was decrypted before an error is handed out, too. OpenSSL's reason is read first: the sink may call OpenSSL.
        let result = Result { () throws(TLSError) in try endOfRead(count) }
        if filled > 0 { try handOut(buffer, filled, sink) }
        return try result.get()
      }
    }
  }

  private func handOut(_ buffer: TLSScratch.Buffer, _ count: Int, _ sink: (Span<UInt8>) -> Void) throws(TLSError) {
    sink(unsafe Span<UInt8>(_unsafeBytes: UnsafeRawBufferPointer(start: buffer.start, count: count)))
    // The sink may have failed us by a send.
    if case .failed(let error) = state { throw error }
  }

  private func endOfRead(_ result: Int32) throws(TLSError) -> ReceiveResult {
    switch unsafe SSL_get_error(ssl, result) {
    case SSL_ERROR_WANT_READ:
      OpenSSLError.clear()
      return .open
    case SSL_ERROR_ZERO_RETURN:
      OpenSSLError.clear()
      sawClose = true
      return .closedByPeer
    default: throw fail()
    }
  }

  /// Every answer to a client starts with a handshake record or an alert (RFC 8446, 5.1). One byte decides, so that the error is
  /// the same however the bytes were split: OpenSSL's own depends on it.
  private func checkFirstByte(_ ciphertext: Span<UInt8>) throws(TLSError) {
    guard !sawFirstByte, ciphertext.count > 0 else { return }
    sawFirstByte = true
    let byte = ciphertext[0]
    guard byte == UInt8(SSL3_RT_HANDSHAKE) || byte == UInt8(SSL3_RT_ALERT) else {
      throw fail(.notTLS(firstByte: byte))
    }
  }

  // MARK: Input

  private var isInputExhausted: Bool { inputLeft == 0 && held.value.isEmpty }

  /// Moves bytes to OpenSSL: those that were held first, then those of the running call.
  func takeInput(_ destination: UnsafeMutableRawBufferPointer) -> Int {
    if !held.value.isEmpty { return unsafe takeHeld(destination) }
    guard inputLeft > 0, let start = unsafe input else { return 0 }
    let bytes = unsafe Span<UInt8>(_unsafeBytes: UnsafeRawBufferPointer(start: start, count: inputLeft))
    let count = grant.take(from: bytes, limit: destination.count)
    unsafe destination.copyMemory(from: UnsafeRawBufferPointer(start: start, count: count))
    unsafe input = start + count
    inputLeft -= count
    return count
  }

  private func takeHeld(_ destination: UnsafeMutableRawBufferPointer) -> Int {
    let count = held.withValue { queue in
      let count = grant.take(from: queue.span, limit: destination.count)
      unsafe queue.span.withUnsafeBytes { bytes in
        unsafe destination.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[..<count]))
      }
      return count
    }
    held.value.consume(count)
    if held.value.isEmpty { held.value.releaseIfEmpty() }
    return count
  }

  private func hold(_ bytes: Span<UInt8>) throws(TLSError) {
    guard held.value.count + bytes.count <= Self.heldInputLimit else {
      throw fail(.tooMuchWhilePending(limit: Self.heldInputLimit))
    }
    held.value.append(bytes)
  }

  private func holdRest() throws(TLSError) {
    let rest = unsafe UnsafeRawBufferPointer(start: input, count: inputLeft)
    inputLeft = 0
    try hold(unsafe Span<UInt8>(_unsafeBytes: rest))
  }

  // MARK: Floods

  /// Handshake messages that an established connection may have received: tickets, KeyUpdates, HelloRequests. A peer that sends
  /// data may change keys along with it (Go CVE-2026-56862: KeyUpdate flood).
  var handshakeMessageAllowance: Int { 32 + receivedPlaintext / (64 * 1024) }

  /// Once true, the BIO reports an error, so that OpenSSL stops in the middle of the bytes it was given.
  var isFlooded: Bool { postHandshakeMessages > handshakeMessageAllowance }

  func countHandshakeMessage() {
    guard state == .open else { return }
    postHandshakeMessages += 1
  }
}
