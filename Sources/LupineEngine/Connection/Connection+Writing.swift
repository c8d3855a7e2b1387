internal import LupineBase
internal import LupineIO
internal import LupineTLS
internal import LupineWire

extension Connection {
  /// Bytes given to one `send` at most; TLS records are made of the same.
  private static let pieceSize = 256 * 1024
  /// Pieces of one connection in a turn of the loop, lest a peer that reads as fast as we send keep it from all others.
  private static let piecesPerTurn = 8
  static let tlsPieceSize = 64 * 1024

  // MARK: The head

  func sendHead(_ transfer: Transfer) {
    let step = exchange.headSent()
    nextSegment = 0
    let head = transfer.head
    transfer.record.requestHeadBytes = head.count
    if step == .startBody, tls == nil, let bytes = transfer.request.body.leadingBytes {
      nextSegment = 1
      sendTogether(head, bytes)
      return
    }
    emit(head.span)
    guard state == .busy else { return }
    switch step {
    // As in `requestWritten`, which most requests need not call.
    case .none: if hasNothingToSend, writeError == nil { sendDone() } else { requestWritten() }
    case .awaitContinue: transfer.clock.awaitingContinueSince = context.now
    case .startBody: startBody()
    case .stopBody: break
    }
  }

  /// Head and body in one system call and, if they are small, one segment.
  private func sendTogether(_ head: [UInt8], _ bytes: [UInt8]) {
    guard let socket else { return }
    do throws(IOError) {
      let piece = min(bytes.count, Self.pieceSize)
      var sent = 0
      if case .bytes(let count) = try SystemCalls.send(socket.descriptor, head.span, bytes.span.extracting(0..<piece)) {
        sent = count
      }
      if sent > 0 { wroteAnything = true }
      if sent < head.count { output.value.append(head.span.extracting(sent..<head.count)) }
      let bodySent = max(0, sent - head.count)
      body = .bytes(bytes, offset: bodySent)
      if bodySent > 0 { transfer?.sent(bodyBytes: bodySent) }
      if sent < head.count + piece { canWrite = false }
      pumpWrites()
    } catch {
      writeFailed(error)
    }
  }

  // MARK: The body

  /// Sends what waits, then as much of the body as the socket takes.
  func pumpWrites() {
    var pieces = 0
    while state == .busy || state == .ending || state == .handshaking {
      guard writeError == nil, flush(), sendPiece() else { return }
      pieces += 1
      if pieces == Self.piecesPerTurn, let registration {
        context.requeue(registration, .writable)
        return
      }
    }
  }

  /// Sends the next piece of the body. False: nothing can be sent now.
  private func sendPiece() -> Bool {
    guard state == .busy, canWrite else { return false }
    switch body {
    case .none: return false
    case .written:
      sendDone()
      return false
    case .bytes(let bytes, let offset):
      guard offset < bytes.count else { return cursorDone() }
      let end = min(bytes.count, offset + (tls == nil ? Self.pieceSize : Self.tlsPieceSize))
      let sent = emitPiece(bytes.span.extracting(offset..<end))
      guard sent > 0, state == .busy else { return false }
      body = .bytes(bytes, offset: offset + sent)
      transfer?.sent(bodyBytes: sent)
      return true
    case .file(let sender):
      return sender.advance()
    case .stream(let channel, let remaining, let length):
      noteSentInFull(remaining)
      return sendChunk(from: channel, remaining: remaining, length: length)
    }
  }

  private func sendChunk(from channel: BodyChannel, remaining: Int64?, length: Int64?) -> Bool {
    switch channel.next() {
    case .empty: return false
    case .failed(let error):
      // All has been sent, and the answer is there: it stands, whatever the producer says behind it.
      if remaining == 0, exchange.receiving != .head { stopBody() } else { fail(.bodyProducer(error), .send) }
      return false
    case .chunk(let bytes, let range):
      let chunk = bytes.span.extracting(range)
      let count = Int64(chunk.count)
      guard let left = remaining, let length else {
        var header: [UInt8] = []
        // The channel passes no empty chunk, which alone could be refused here.
        do throws(WireError) { try ChunkEncoder.header(chunk.count, into: &header) } catch {
          fail(.wire(error), .send)
          return false
        }
        output.value.append(header)
        output.value.append(chunk)
        output.value.append(ChunkEncoder.lineEnd)
        return sealOutput(bodyBytes: chunk.count)
      }
      // Nothing goes out of a chunk that is too long as a whole: what fits would be a complete body to the server.
      let whole = Int64(bytes.count - range.lowerBound)
      guard whole <= left else {
        fail(.bodyLength(expected: length, actual: length - left + whole), .send)
        return false
      }
      body = .stream(channel, remaining: left - count, length: length)
      output.value.append(chunk)
      return sealOutput(bodyBytes: chunk.count)
    case .end(let trailers):
      if let left = remaining, let length, left > 0 {
        fail(.bodyLength(expected: length, actual: length - left), .send)
        return false
      }
      if remaining == nil {
        var last: [UInt8] = []
        do throws(WireError) {
          try ChunkEncoder.end(trailers: trailers, into: &last)
        } catch {
          fail(.wire(error), .send)
          return false
        }
        output.value.append(last)
        guard sealOutput(bodyBytes: 0) else {
          requestWritten()
          return false
        }
      }
      return cursorDone()
    }
  }

  /// The last byte of the request has been written down. It is sent when the socket has taken it.
  @inline(never)
  private func requestWritten() {
    // What the socket refused has not been sent.
    guard writeError == nil else { return }
    if hasNothingToSend { sendDone() } else { body = .written }
  }

  // MARK: Bytes

  /// Whether the socket has taken all that was to be sent, the ciphertext of either layer of TLS too.
  @inline(__always)
  var hasNothingToSend: Bool { output.value.isEmpty && (tls == nil || hasSentRecords) }

  @inline(never)
  private var hasSentRecords: Bool {
    guard let tls else { return true }
    return !tls.hasOutput && !tls.isSendHeld && !(outerTLS.map { $0.hasOutput || $0.isSendHeld } ?? false)
  }

  /// Sends bytes in full: what the socket does not take now waits in `output`.
  func emit(_ bytes: Span<UInt8>) {
    if !output.value.isEmpty || (tls == nil && !canWrite) {
      output.value.append(bytes)
      _ = flush()
    } else if let tls {
      guard encrypt(bytes, tls) else { return }
      _ = outerTLS == nil ? sendCiphertext(of: tls) : flushNested()
    } else {
      let sent = trySend(bytes)
      if sent < bytes.count, state == .busy { output.value.append(bytes.extracting(sent..<bytes.count)) }
    }
  }

  /// Sends as many bytes as the socket takes; over TLS all of them are taken. Returns how many.
  func emitPiece(_ bytes: Span<UInt8>) -> Int {
    guard let tls else { return trySend(bytes) }
    guard encrypt(bytes, tls) else { return 0 }
    _ = flushTLS()
    return state == .busy ? bytes.count : 0
  }

  /// What was appended to `output` goes on its way. False: the socket takes no more for now.
  private func sealOutput(bodyBytes: Int) -> Bool {
    if bodyBytes > 0 { transfer?.sent(bodyBytes: bodyBytes) }
    return flush()
  }

  /// Sends everything that waits. False: the socket takes no more for now, or has failed.
  func flush() -> Bool {
    if let tls {
      if !output.value.isEmpty, state != .handshaking {
        guard output.withValue({ encrypt($0.span, tls) }) else { return false }
        output.value.consume(output.value.count)
      }
      return flushTLS()
    }
    while !output.value.isEmpty {
      guard canWrite else { return false }
      let sent = output.withValue { trySend($0.span) }
      guard sent > 0, state == .busy || state == .ending else { return false }
      output.value.consume(sent)
    }
    return true
  }

  private func encrypt(_ bytes: Span<UInt8>, _ tls: TLSConnection) -> Bool {
    do throws(TLSError) {
      try tls.send(bytes)
      return true
    } catch {
      if isParsingHeld { holdFailure(error) } else { fail(.tls(error), .send) }
      return false
    }
  }

  /// Sends the ciphertext that waits.
  func flushTLS() -> Bool {
    guard outerTLS == nil else { return flushNested() }
    return sendCiphertext(of: tls)
  }

  /// Sends what one layer of TLS, the outermost, has for the socket. False: the socket takes no more for now, or TLS does not, or the socket has failed.
  func sendCiphertext(of layer: TLSConnection?) -> Bool {
    guard let tls = layer, let socket else { return true }
    guard tls.hasOutput else { return !tls.isSendHeld }
    while canWrite {
      do throws(IOError) {
        switch try Self.send(outputOf: tls, to: socket) {
        case .bytes:
          if let transfer {
            wroteAnything = true
            transfer.clock.lastActivityAt = context.now
          }
          if !tls.hasOutput { return !tls.isSendHeld }
        case .wouldBlock:
          canWrite = false
        }
      } catch {
        writeFailed(error)
        return false
      }
    }
    return false
  }

  /// One `send` of the ciphertext that waits.
  static func send(outputOf tls: TLSConnection, to socket: Socket) throws(IOError) -> WriteResult {
    var result = WriteResult.wouldBlock
    var failure: IOError?
    tls.drainOutput { bytes in
      do throws(IOError) {
        result = try SystemCalls.send(socket.descriptor, bytes)
      } catch {
        failure = error
      }
      return if case .bytes(let count) = result { count } else { 0 }
    }
    if let failure { throw failure }
    return result
  }

  private func trySend(_ bytes: Span<UInt8>) -> Int {
    guard let socket, !bytes.isEmpty else { return 0 }
    do throws(IOError) {
      switch try SystemCalls.send(socket.descriptor, bytes) {
      case .bytes(let count):
        wroteAnything = true
        transfer?.clock.lastActivityAt = context.now
        if count < bytes.count { canWrite = false }
        return count
      case .wouldBlock:
        canWrite = false
        return 0
      }
    } catch {
      writeFailed(error)
      return 0
    }
  }

  /// The peer takes no more. It may have answered before it hung up, so what it said is read first; if nothing comes for a short while,
  /// the error of the write is the answer.
  func writeFailed(_ error: IOError) {
    guard state != .closed else { return }
    if state == .handshaking {
      openFailed(.io(error), .tls)
      return
    }
    guard state == .busy, writeError == nil else { return }
    writeError = error
    // Answered all the same, it would refuse the next request too.
    isRetired = true
    transfer?.clock.writeFailedAt = context.now
    armForTransfer()
    stopBody()
    canRead = true
    note(.hangUp)
    if let registration { context.requeue(registration) }
  }
}
