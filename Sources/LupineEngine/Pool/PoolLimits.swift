/// The numbers of a pool; each has a test, and each property is configurable.
package struct PoolLimits: Equatable, Sendable {
  /// Connections to one key that many origins share, a proxy that forwards, if `perHost` is less: six requests that wait would hold up those to all others.
  /// As many as browsers give a proxy; whoever gives one key fewer than six means it. No property: a machine is copied now and then, and with it what it holds.
  package static let perProxy = 32

  /// Connections to a key.
  func connections(isShared: Bool) -> Int { isShared && perHost >= 6 ? max(perHost, Self.perProxy) : perHost }

  /// Connections to one key, opening ones included. Default 6.
  package var perHost = 6
  /// Connections in all, opening ones included. Default 256.
  package var total = 256
  /// Requests that may wait for a connection. Default 10,000.
  package var waiters = 10_000
  /// Nanoseconds after which an idle connection is closed. Default 60 s.
  package var idleNanoseconds: Int64 = 60_000_000_000
  /// Nanoseconds after which a connection takes no new request. Default unlimited.
  package var lifetimeNanoseconds: Int64 = .max
  /// Requests that one connection may serve. Default unlimited.
  package var uses = Int.max

  package init() {}
}

/// Why a pool closed a connection, or why a driver told it that one is gone; reasons are data for metrics, logs and tests.
package enum ConnectionCloseReason: Hashable, Sendable {
  /// The response or the request forbade another use.
  case notReusable
  /// It sat idle for `PoolLimits.idleNanoseconds`, or until a second before the time that its peer had given it.
  case idleTimeout
  /// It reached `PoolLimits.lifetimeNanoseconds`.
  case lifetime
  /// It served `PoolLimits.uses` requests.
  case uses
  /// Another key needed its place under `PoolLimits.total`: it was idle, nobody waited for its opening, or that key's turn had come. Or its opening was
  /// stuck when nobody was left who had waited for it.
  case evicted
  /// The peer closed it while it was idle.
  case closedByPeer
  /// The peer sent bytes while no request was under way.
  case unsolicitedBytes
  /// One that had been idle for less long died under a request, or the machine was suspended while it was idle.
  case suspected
  /// The exchange on it failed or was cancelled.
  case failed
  /// It could not be opened.
  case openFailed
  /// The pool was closed.
  case shutdown
}

/// What a pool has done since it was made.
package struct PoolCounters: Equatable, Sendable {
  package var opened = 0
  package var reused = 0
  package var waits = 0
  package var closes: [ConnectionCloseReason: Int] = [:]

  package init() {}

  /// Adds what another pool of the session has done.
  package mutating func add(_ other: PoolCounters) {
    opened += other.opened
    reused += other.reused
    waits += other.waits
    closes.merge(other.closes) { $0 + $1 }
  }
}

/// Who of those that wait for a connection to the same place gets one first. Costs nothing where nobody waits.
package enum TransferPriority: Int, Hashable, Sendable, CaseIterable {
  case low, `default`, high
}
