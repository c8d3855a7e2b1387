internal import LupineBase

/// What a request was doing, for errors, deadlines and metrics.
package enum TransferPhase: String, Hashable, Sendable, CaseIterable {
  case poolWait, resolve, connect, proxy, tls, send, awaitContinue, firstByte, receive, total
}

/// The limits of `Deadlines` that can pass while a body is sent.
package enum DeadlineLimit: Hashable, Sendable {
  case idle, send, total

  init(_ phase: TransferPhase) {
    self =
      switch phase {
      case .total: .total
      case .send: .send
      default: .idle
      }
  }
}

/// Time limits of a request (those of a connection are the pool's), in nanoseconds on the monotonic clock; nil means none. Each expiry is its own typed error.
package struct Deadlines: Equatable, Sendable {
  /// Waiting for a connection. Default none.
  package var poolWait: Int64?
  /// From the first byte of the request to its last. Default none.
  package var send: Int64?
  /// Waiting for 100 (Continue) before the body is sent all the same. Default 1 s.
  package var awaitContinue: Int64 = 1_000_000_000
  /// From the last byte of the request to the first of the response. Default none.
  package var firstByte: Int64?
  /// No byte in either direction. Default 60 s, as in URLSession.
  package var idle: Int64? = 60_000_000_000
  /// Everything. Default 7 days, as in URLSession.
  package var total: Int64? = 604_800_000_000_000

  package init() {}
}

/// The state from which the next deadline of an exchange follows; pure.
struct DeadlineClock {
  var limits: Deadlines
  var createdAt: Instant
  var sendStartedAt: Instant?
  var sendEndedAt: Instant?
  var awaitingContinueSince: Instant?
  var firstByteAt: Instant?
  var lastActivityAt: Instant
  /// When bytes came that were nothing of the response yet: parts of a record of TLS, or what TLS says between the records of data. Something
  /// moves then, but the first byte of the response may be as far as before.
  var lastCiphertextAt: Instant
  /// An unwanted body is read until then at most.
  var discardUntil: Instant?
  /// When a write failed. The peer may have said why before it hung up, but it does not get the idle time to do so.
  var writeFailedAt: Instant?
  /// How long an answer is waited for after a write failed, and how long nothing may come of it: 1 s.
  static let writeGrace: Int64 = 1_000_000_000
  /// A paused transfer waits for its reader, which is no fault of the peer.
  var isPaused = false

  init(limits: Deadlines, now: Instant) {
    self.limits = limits
    createdAt = now
    lastActivityAt = now
    lastCiphertextAt = now
  }

  /// A reader that paused goes on: what it did not read is no wait of the peer's.
  mutating func readOn(at now: Instant) {
    lastActivityAt = now
    guard awaitingContinueSince != nil else { return }
    awaitingContinueSince = now
    sendStartedAt = now
  }

  /// The earliest deadline and what it means when it passes.
  var next: (at: Instant, phase: TransferPhase) {
    var copy = self
    return copy.nextInPlace()
  }

  /// The same, without the copy that reading so large a value makes. It changes nothing.
  mutating func nextInPlace() -> (at: Instant, phase: TransferPhase) {
    var earliest = Instant.distantFuture
    var phase = TransferPhase.total
    func consider(_ start: Instant?, _ limit: Int64?, _ candidate: TransferPhase) {
      guard let start, let limit else { return }
      let at = start.advanced(byNanoseconds: limit)
      if at < earliest {
        earliest = at
        phase = candidate
      }
    }
    consider(createdAt, limits.total, .total)
    consider(discardUntil, 0, .receive)
    // The body is held back for as long as nobody reads what is said about it.
    let isHeldBack = isPaused && awaitingContinueSince != nil
    if sendEndedAt == nil, !isHeldBack { consider(sendStartedAt, limits.send, .send) }
    if !isPaused {
      // The answer may have come, and lie unread.
      consider(awaitingContinueSince, limits.awaitContinue, .awaitContinue)
      // A reader that went on after a pause was no wait of the peer's.
      if firstByteAt == nil { consider(sendEndedAt.map { max($0, lastActivityAt) }, limits.firstByte, .firstByte) }
      let movedAt = max(lastActivityAt, lastCiphertextAt)
      consider(movedAt, limits.idle, .receive)
      if let failed = writeFailedAt { consider(max(failed, movedAt), Self.writeGrace, .receive) }
    }
    return (earliest, phase)
  }
}
