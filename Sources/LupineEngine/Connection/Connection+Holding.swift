internal import LupineBase
internal import LupineIO
internal import LupineTLS

/// A reader that pauses in the middle of one read's decoding: a read of 256 KiB may decode to a hundred times as much, so what comes after
/// the pause is kept as it came, at most one read of it, and looked at when the reader resumes.
extension Connection {
  /// Keeps what follows the bytes whose decoding is held.
  func holdParsing(_ rest: Span<UInt8>) {
    isParsingHeld = true
    unparsed.append(rest)
  }

  /// Somebody who was told before has paused the reader: what was read ahead waits, as what follows a pause does.
  @inline(never)
  func holdReadAhead() {
    let context = context
    guard state == .busy, let socket, case .bytes? = try? context.read(socket.descriptor) else { return }
    holdParsing(context.bytes)
  }

  /// TLS has failed, of the origin or of the proxy: nothing more is sent, and what has arrived comes before it.
  func holdFailure(_ error: TLSError) {
    heldFailure = heldFailure ?? error
    stopBody()
    transfer?.clock.sendEndedAt = context.now
  }

  /// Goes on where parsing was held, if the reader has resumed.
  func continueParsing() {
    guard state == .busy, let transfer, !transfer.isPaused else { return }
    do throws(EngineError) {
      try transfer.decodeHeld()
    } catch {
      fail(error, .receive)
      return
    }
    guard state == .busy, !transfer.isDecodingHeld else { return }
    isParsingHeld = false
    var rest = ByteQueue()
    swap(&rest, &unparsed)
    // Even if nothing is left: the end of the response may not have been looked at.
    parse(rest.span)
    guard !isParsingHeld else { return }
    if let cleanly = heldEnd {
      heldEnd = nil
      peerClosed(cleanly: cleanly)
    } else if let error = heldFailure {
      tlsFailed(error)
    }
  }
}
