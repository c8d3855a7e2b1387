internal import LupineBase
internal import LupineIO
internal import LupineTLS

/// The secrets of a handshake are written elsewhere. The connection is used when that is done, so that who has a response has the secrets as well,
/// even if the program ends then; a disk that hangs does not hold it up for longer than a second.
extension Connection {
  private static let keyLogPatience: Int64 = 1_000_000_000

  /// Whether the connection is not to be used yet; `keysWritten` goes on then.
  @inline(never)
  func waits(for log: KeyLog) -> Bool {
    let link = LoopConfined(linked())
    let loop = context.loop
    let isWaiting = log.whenWritten {
      loop.submit { link.onLoop.connection?.keysWritten() }
    }
    guard isWaiting else { return false }
    isWaitingForKeyLog = true
    isHandshakeHeld = true
    armHandshake(for: Self.keyLogPatience)
    return true
  }

  /// The secrets are in the file, or lost, or have had their time.
  func keysWritten() {
    guard state == .handshaking, isWaitingForKeyLog else { return }
    isWaitingForKeyLog = false
    isHandshakeHeld = false
    opened()
    // What came meanwhile, the end included, has not been looked at.
    if canRead, let registration { context.requeue(registration) }
  }
}
