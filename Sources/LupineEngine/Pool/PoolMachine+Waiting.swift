package import LupineBase

/// What those who wait can rely on, and whose turn it is.
extension PoolMachine {
  /// Whether a waiting request waits for an opening alone: one of its key is under way, and no connection of the key is in use.
  package func waitsForOpening(_ token: WaiterToken) -> Bool {
    let host = hosts[token.host]
    return host.opening > 0 && host.live == host.opening
  }

  /// Whether anybody waits for the key of a connection.
  package func isAwaited(_ connection: ConnectionIdentifier) -> Bool {
    hosts[connections[connection.index].host].waiting > 0
  }

  /// When the opening of a connection began that is not open yet.
  package func openingBegan(_ connection: ConnectionIdentifier) -> Instant {
    connections[connection.index].openedAt
  }

  /// An opening that nobody waits for: whoever wanted it gave up or was served by another connection. Of keys that nobody waits for the one that
  /// began first, as it is the least likely to come to anything; of others one that began before anybody came who waits, if there are younger ones,
  /// as those were begun because it is stuck; else the one that began last, as those before it are closer to an end.
  var surplusOpening: Int? {
    let surplus = connections.indices.filter { index in
      let host = connections[index].host
      return connections[index].state == .opening && hosts[host].opening > hosts[host].waiting
    }
    return surplus.filter { hosts[connections[$0].host].waiting == 0 || isReplaced($0) }
      .min { connections[$0].openedAt < connections[$1].openedAt }
      ?? surplus.max { connections[$0].openedAt < connections[$1].openedAt }
  }

  /// Whether an opening began before anybody came who waits for its key, and another one since.
  private func isReplaced(_ index: Int) -> Bool {
    let host = connections[index].host
    return connections[index].arrivals <= oldestArrival(of: host) && ownOpenings(of: host) > 0
  }

  /// Openings that began since the oldest of those came who wait.
  func ownOpenings(of host: Int) -> Int {
    let oldest = oldestArrival(of: host)
    return connections.count { $0.state == .opening && $0.host == host && $0.arrivals > oldest }
  }

  /// No opening on which this one could rely began before this.
  package func openingSince(_ token: WaiterToken) -> Instant { hosts[token.host].openingSince }

  /// A request that has just begun to wait, for which nothing was opened, relies on no opening that is stuck and began for others, who are all
  /// gone: another one begins at once. A SYN that was lost is sent again after ever longer pauses only, and of several servers behind one name another
  /// may answer. The stuck one goes on beside it, for its server may be slow, and whoever gives up before it answers would never get anywhere; at a
  /// limit the eldest of them is ended, and its place goes to the key that has waited for one longest, as ever. What began while somebody waited who
  /// waits still, stays: it tells him that the host is dead.
  package mutating func renewOpening(
    _ token: WaiterToken, now: Instant, isStuck: (_ opening: ConnectionIdentifier, _ begunAt: Instant) -> Bool
  ) -> Steps {
    var steps = Steps()
    let host = token.host
    guard hosts[host].opening > 0, let key = hosts[host].key else { return steps }
    let oldest = oldestArrival(of: host)
    let stuck = connections.indices.filter {
      connections[$0].state == .opening && connections[$0].host == host && connections[$0].arrivals <= oldest
        && isStuck(ConnectionIdentifier(index: $0), connections[$0].openedAt)
    }
    guard hosts[host].opening - stuck.count < hosts[host].waiting,
      let eldest = stuck.min(by: { connections[$0].openedAt < connections[$1].openedAt })
    else { return steps }
    if hosts[host].live >= hosts[host].limit || live >= limits.total {
      hosts[host].opening -= 1
      gone(eldest, .evicted, releasingHost: false)
      steps.close = (ConnectionIdentifier(index: eldest), .evicted)
      openForStarved(now: now, &steps)
    }
    if steps.open == nil { open(host, key, now: now, &steps) } else { starve(host) }
    return steps
  }

  /// The last failure of an opening that one who waits has waited for.
  func seenFailure(of host: Int) -> (arrivals: UInt64, at: Instant)? {
    hosts[host].failure.flatMap { oldestArrival(of: host) < $0.arrivals ? $0 : nil }
  }

  /// An opening of a key that has no live connection failed. If another one did before it began, one who waited for both learns it, unless
  /// somebody does anyway. Else those who come and give up would keep him waiting, since what was opened for them is under way whenever one fails.
  mutating func noteFailure(
    of host: Int, _ opening: (arrivals: UInt64, begunAt: Instant), after failure: (arrivals: UInt64, at: Instant)?,
    now: Instant, _ steps: inout Steps
  ) {
    if let failure {
      guard opening.begunAt > failure.at else { return }
      if steps.fail.isEmpty { failWaiters(of: host, before: failure.arrivals, atMost: 1, &steps) }
    }
    hosts[host].failure = (opening.arrivals, now)
  }

  func hasOpening(of host: Int, before arrivals: UInt64) -> Bool {
    connections.contains { $0.state == .opening && $0.host == host && $0.arrivals < arrivals }
  }

  private func oldestArrival(of host: Int) -> UInt64 {
    TransferPriority.allCases.compactMap { waiters.first(of: hosts[host][$0])?.arrival }.min() ?? .max
  }

  /// Whose turn it is where several priorities may wait.
  mutating func contestedTurn(_ host: Int) -> TransferPriority {
    let classes = TransferPriority.allCases.filter { !hosts[host][$0].isEmpty }
    guard classes.count > 1 else { return classes.first ?? .default }
    hosts[host].contested &+= 1
    guard hosts[host].contested % Self.oldestTurn == 0 else { return classes.last ?? .default }
    let oldest = classes.min {
      (waiters.first(of: hosts[host][$0])?.arrival ?? .max) < (waiters.first(of: hosts[host][$1])?.arrival ?? .max)
    }
    return oldest ?? .default
  }

  /// One answer of so many goes to the oldest waiter whatever its priority.
  private static var oldestTurn: UInt8 { 4 }
}
