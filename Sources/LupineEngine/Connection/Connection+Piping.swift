internal import LupineBase
internal import LupineIO
internal import LupineWire

/// Body bytes that go into the pipe of whoever takes them, and are never looked at: while a large body of known length comes fast, in the clear and as it is.
///
/// Invariants: the end of a body is read as others are, and so is what comes behind it; nothing that was read is held back meanwhile.
extension Connection {
  /// Reads into the pipe: how many bytes, 0 if none wait; nil: it must be read as others are.
  @inline(never)
  func readIntoPipe(_ socket: Socket) throws(IOError) -> Int? {
    guard tls == nil, !isParsingHeld, state == .busy, let remaining = parser.value.bodyRemaining,
      remaining > Int64(Self.tail), let pipe = transfer?.bodyPipe, pipe.isEmpty
    else { return nil }
    let count = try pipe.fill(from: socket.descriptor, atMost: Int(clamping: remaining - Int64(Self.tail)))
    // Of urgent data this call knows nothing, nor of what waits behind it.
    return count == 0 && !shortReadDrains ? nil : count
  }

  /// What is left to be read.
  private static let tail = 64 * 1024

  /// So many bytes are in the pipe.
  @inline(never)
  func notePiped(_ count: Int) {
    guard count > 0, let transfer, let socket else {
      canRead = false
      return
    }
    // Behind one that has drained the socket the watermark is waited for, as behind a short read. That it is short does not say so: segments of a network fill
    // the pipe with less.
    if shortReadDrains, SystemCalls.waitingBytes(in: socket.descriptor) == 0 { canRead = false }
    parser.value.skipBody(count)
    transfer.clock.lastActivityAt = context.now
    transfer.receive(piped: count)
    updateGathering()
  }
}
