internal import LupineBase

/// Work that several want at a time, done once for all of them (Go's `singleflight`).
///
/// Invariant: a key is in the table from the first `join` to the `finish` that gives everybody the value.
final class SingleFlight<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  typealias Waiter = @Sendable (_ value: Value) -> Void

  private let waiters = Locked<[Key: [Waiter]]>([:])

  /// Has `waiter` called, on the thread that calls `finish`, with what comes of the work. Any thread; does not wait.
  ///
  /// - Returns: true if no work for `key` is under way: the caller begins it, and calls `finish` in any case.
  func join(_ key: Key, _ waiter: @escaping Waiter) -> Bool {
    waiters.withLock { table -> Bool in
      let isFirst = table[key] == nil
      table[key, default: []].append(waiter)
      return isFirst
    }
  }

  /// Gives `value` to all who wait for it. Who joins from now on is the first again.
  func finish(_ key: Key, _ value: Value) {
    let told = waiters.withLock { table -> [Waiter] in table.removeValue(forKey: key) ?? [] }
    for waiter in told { waiter(value) }
  }
}
