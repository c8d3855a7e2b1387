internal import LupineBase
internal import LupineIO
internal import LupineTLS
internal import LupineWire

/// What a connection does while it has no request.
extension Connection {
  /// Gives buffers back if the connection has been idle for a while; an idle connection should cost little. Closes it a second before the peer
  /// does: a request that meets that end is lost, and not every request may be sent again.
  func park() {
    let parkAt = idleSince.advanced(byNanoseconds: Self.parkNanoseconds)
    guard parkAt <= context.now else {
      arm(at: parkAt)
      return
    }
    noteDeparture()
    if let departure {
      guard departure.at > context.now else { return close(.idleTimeout) }
      arm(at: departure.at)
    }
    tls?.releaseBuffers()
    outerTLS?.releaseBuffers()
    parser.value.releaseStorage()
    output.value.releaseIfEmpty()
  }

  private func noteDeparture() {
    guard departure?.idleSince != idleSince else { return }
    departure = parser.value.keepAliveSeconds.map {
      (idleSince, idleSince.advanced(byNanoseconds: Int64($0 - 1) * 1_000_000_000))
    }
  }

  /// Whether the peer is about to close it, or has: the turn that finds the timer of that due may bring a request first.
  func hasDeparted() -> Bool {
    guard idleSince.advanced(byNanoseconds: Self.parkNanoseconds) <= context.now else { return false }
    noteDeparture()
    return departure.map { $0.at <= context.now } ?? false
  }
}
