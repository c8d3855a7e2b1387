internal import LupineBase
internal import LupineIO

/// How the connections get on that are not open yet.
extension EnginePool {
  /// A transfer begins to wait, and nothing is opened for it.
  func renewOpening(_ token: PoolMachine<PoolKey, Transfer>.WaiterToken) {
    let now = context.now
    guard now.nanoseconds(since: machine.value.openingSince(token)) >= Self.patience else { return }
    let steps = machine.value.renewOpening(token, now: now) { identifier, begunAt in
      guard let connection = connections.value[identifier.index], connection.openingPhase != nil else { return false }
      return now.nanoseconds(since: max(begunAt, connection.openingMovedAt, connection.lastCiphertextAt))
        >= Self.patience
    }
    if let closed = steps.close { connections.value[closed.connection.index]?.refuseUnansweredSession() }
    perform(steps)
  }

  /// Begins an opening once more that failed because this process has no descriptor left, if idle connections have some, of whatever session: it is no
  /// fact about the host, and what is idle is closed at a limit of ours too.
  func reopens(_ connection: Connection, after error: EngineError) -> Bool {
    switch error {
    case .connect(let failure) where failure.lacksDescriptors: break
    case .proxy(.connect(let failure)) where failure.lacksDescriptors: break
    case .resolve(.descriptors), .proxy(.resolve(.descriptors)), .proxy(.target(.descriptors)): break
    default: return false
    }
    guard connection.openings < Self.maximumOpenings, !isClosed, machine.value.isAwaited(connection.identifier),
      core.closeIdle(atMost: Self.openingsRoom)
    else { return false }
    connection.openings += 1
    open(connection.identifier, connection.key, after: connection)
    return true
  }

  /// An opening may race for several addresses, and others want descriptors too.
  private static let openingsRoom = 8
  /// Others may be faster each time; there are fewer of them each time.
  private static let maximumOpenings = 8

  /// The first retransmission of a SYN (RFC 6298): what has not moved for so long has lost something, or is with a server that is busy or hangs.
  private static var patience: Int64 { 1_000_000_000 }

  /// That one of the openings for `key` which moved last, or began last, of those that count.
  func latestOpening(
    for key: PoolKey, where counts: (Connection) -> Bool
  ) -> (connection: Connection, movedAt: Instant)? {
    var latest: (connection: Connection, movedAt: Instant)?
    for case let connection? in connections.value where counts(connection) && connection.key == key {
      let movedAt = movedAt(connection)
      if latest.map({ $0.movedAt < movedAt }) ?? true { latest = (connection, movedAt) }
    }
    return latest
  }

  /// Has a transfer that is about to give up keep how far the opening came that it waits for, also where it is a person who decides about trust.
  func noteOpening(_ transfer: Transfer, _ token: PoolMachine<PoolKey, Transfer>.WaiterToken) {
    guard machine.value.waitsForOpening(token) else { return }
    let opening = latestOpening(for: transfer.request.key) { $0.state == .opening || $0.state == .handshaking }
    transfer.connection = opening?.connection.currentInformation
  }

  /// When the opening of a connection last came further.
  private func movedAt(_ connection: Connection) -> Instant {
    max(machine.value.openingBegan(connection.identifier), connection.openingMovedAt, connection.lastCiphertextAt)
  }
}
