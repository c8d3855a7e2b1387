import LupineBase
import LupineRules

@testable import LupineEngine

func poolLimits(perHost: Int = 2, total: Int = 4, waiters: Int = 100) -> PoolLimits {
  var limits = PoolLimits()
  limits.perHost = perHost
  limits.total = total
  limits.waiters = waiters
  limits.idleNanoseconds = 60
  return limits
}

/// A machine behind a reference, so that the expectations may call what changes it.
final class TestPool {
  typealias Machine = PoolMachine<String, Int>
  typealias Identifier = Machine.ConnectionIdentifier

  static let start = Instant(nanoseconds: 0)

  private(set) var machine: Machine

  init(limits: PoolLimits) { machine = Machine(limits: limits) }

  func ask(
    _ key: String, _ waiter: Int, _ priority: TransferPriority = .default, now: Instant = TestPool.start,
    isShared: Bool = false, share: EngineShare = .whole
  ) -> (leased: Int?, Machine.Steps, Machine.WaiterToken?) {
    switch machine.acquire(
      key, waiter, priority: priority, now: now, isShared: isShared, share: share, expired: { _, _ in })
    {
    case .lease(let connection): (connection.index, Machine.Steps(), nil)
    case .wait(let token, let steps): (nil, steps, token)
    case .tooManyWaiters: (-1, Machine.Steps(), nil)
    }
  }

  /// Asks, opens, and returns the connection that serves.
  func openOne(_ key: String, _ waiter: Int, now: Instant = TestPool.start) -> Identifier? {
    guard let opening = ask(key, waiter, now: now).1.open else { return nil }
    return opened(opening.connection, now: now).lease?.connection
  }

  func opened(_ connection: Identifier, now: Instant) -> Machine.Steps { machine.opened(connection, now: now) }
  func openFailed(_ connection: Identifier, now: Instant) -> Machine.Steps { machine.openFailed(connection, now: now) }
  func release(_ connection: Identifier, now: Instant) -> Machine.Steps {
    machine.release(connection, now: now) ?? Machine.Steps()
  }
  func closed(_ connection: Identifier, _ reason: ConnectionCloseReason, now: Instant) -> Machine.Steps {
    machine.closed(connection, reason, now: now)
  }
  func cancel(_ token: Machine.WaiterToken) -> Int? { machine.cancel(token, now: Self.start)?.waiter }
  func giveUp(_ token: Machine.WaiterToken, now: Instant = TestPool.start) -> Machine.Steps {
    machine.cancel(token, now: now)?.steps ?? Machine.Steps()
  }
  func renew(_ token: Machine.WaiterToken, now: Instant = TestPool.start, stuckSince: Instant = TestPool.start)
    -> Machine.Steps
  {
    machine.renewOpening(token, now: now) { $1 <= stuckSince }
  }
  /// Says whether a connection is promised, and has it promised if so.
  func promise(_ key: String) -> Bool {
    let promises = machine.canPromise(key)
    if promises { machine.promise() }
    return promises
  }
  func keepPromise() { machine.keepPromise() }
  func expireOne(now: Instant) -> Machine.Steps? { machine.expireOne(now: now) }
}
