internal import LupineBase
internal import LupineIO
internal import LupineWire

/// Fewer and larger reads of a large body that comes fast.
///
/// While `isGathering`, the socket is reported readable only when 512 KiB wait in it (SO_RCVLOWAT), or its end. Without that a fast peer and
/// the loop wake each other for every few segments: 3,100 reads and as many waits for 256 MiB on loopback, 1,100 and 300 with it.
///
/// Invariants: at least so many bytes of the response are still to come, as its length says, so that the watermark is always reached; and
/// while anybody wants to read, nothing waits in the socket for longer than 20 ms, whatever the peer does.
extension Connection {
  /// What must wait in the socket: two reads.
  private static let gatheredBytes = 512 * 1024
  /// A read of so much says that the peer is fast.
  static let largeRead = 32 * 1024
  /// Of what is still to come, bytes that may have left the socket already: a part of a record with TLS, one of the proxy's too.
  private var takenAhead: Int { tls == nil && outerTLS == nil ? 0 : 64 * 1024 }
  private static let gatheringNanoseconds: Int64 = 20_000_000

  /// Begins, goes on or ends after a read.
  func updateGathering() {
    let remaining = state == .busy ? parser.value.bodyRemaining ?? 0 : 0
    lastReadAt = context.now
    if !isGathering {
      // Worth two calls if it spares more.
      guard remaining >= Int64(4 * Self.gatheredBytes), setLowWatermark(Self.gatheredBytes) else { return }
      isGathering = true
      gatherOn()
    } else if remaining < Int64(Self.gatheredBytes + takenAhead) {
      isGathering = false
      _ = setLowWatermark(1)
    }
  }

  /// The timer fired: what waits is read if nothing has been for a while.
  func checkGathering() {
    // While nobody wants to read, no time says how fast it comes: who resumes begins it anew.
    if transfer?.isPaused ?? false { return }
    let due = lastReadAt.advanced(byNanoseconds: Self.gatheringNanoseconds)
    guard due <= context.now else {
      arm(at: due)
      return
    }
    isGathering = false
    _ = setLowWatermark(1)
    canRead = true
    if let registration { context.requeue(registration) }
  }

  /// The time that nothing may come begins: with the first read, and behind a pause.
  func gatherOn() {
    guard isGathering else { return }
    lastReadAt = context.now
    arm(at: lastReadAt.advanced(byNanoseconds: Self.gatheringNanoseconds))
  }

  private func setLowWatermark(_ bytes: Int) -> Bool {
    guard let socket else { return false }
    return SystemCalls.setReceiveLowWatermark(socket.descriptor, bytes)
  }
}
