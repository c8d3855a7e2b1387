internal import LupineBase
internal import LupineIO
internal import LupineTLS

/// The secrets of a handshake are written elsewhere. The connection is used when that is done, so that who has a response has the secrets as well,
/// even if the program ends then; a disk that hangs does not hold it up for longer than a second, and others that come while it does not at all.
extension Connection {
  private static let keyLogPatience: Int64 = 1_000_000_000

  /// Whether the connection is not to be used yet; `keysWritten` goes on then.
  @inline(never)
  func waits(for log: KeyLog) -> Bool {
    let link = LoopConfined(linked())
    let loop = context.loop
    keyLogWait = log.whenWritten {
      loop.submit { link.onLoop.connection?.keysWritten() }
    }
    guard isWaitingForKeyLog else { return false }
    isHandshakeHeld = true
    armHandshake(for: Self.keyLogPatience)
    return true
  }

  /// The secrets have had their time.
  func keyLogTimedOut() {
    tls?.context.keyLog?.waitedInVain()
    // It may have been lost on the way meanwhile, as one that was idle. A request that makes servers hang up is sent `RetryRule.maximumAttempts` times at most.
    hasIdled = true
    keysWritten()
  }

  /// The connection ends before its secrets are in the file. It stays one that waits: see `reopens(_:afterKeyLog:)`.
  @inline(never)
  func giveUpKeyLogWait() {
    if let keyLogWait { tls?.context.keyLog?.giveUp(keyLogWait) }
  }

  /// The secrets are in the file, or lost, or have had their time, or those of another connection have.
  func keysWritten() {
    guard state == .handshaking, isWaitingForKeyLog else { return }
    // What came meanwhile is looked at before anything is asked: words of the server would be taken for the answer. Whatever the loop knows of, as an event
    // may be about to be told.
    isHandshakeHeld = false
    canRead = true
    read()
    guard state == .handshaking else { return }
    keyLogWait = nil
    opened()
    if canRead, let registration { context.requeue(registration) }
  }
}

extension EnginePool {
  /// Begins an opening once more that ended while its secrets were being written: without the wait a request would have come in time, and nothing of it has
  /// left. Once, as what hangs up on the next one too does that for another reason.
  func reopens(_ connection: Connection, afterKeyLog error: EngineError) -> Bool {
    switch error {
    case .tls(.truncated), .io: break
    default: return false
    }
    guard !connection.isReopenedForKeyLog, !isClosed, machine.value.isAwaited(connection.identifier) else {
      return false
    }
    connection.isReopenedForKeyLog = true
    open(connection.identifier, connection.key, after: connection)
    return true
  }
}
