/// When to try again while there is no network.
package enum ConnectivityRule {
  /// The first wait: 100 ms; each is twice as long as the one before.
  package static let first: Int64 = 100_000_000
  /// The longest wait: 5 s.
  package static let longest: Int64 = 5_000_000_000

  /// How long to wait before the next attempt, in nanoseconds; nil: the task's time is over.
  ///
  /// - Parameters:
  ///   - attempt: failed attempts so far, from 1.
  ///   - nanosecondsLeft: of the time for the whole task.
  package static func delay(attempt: Int, nanosecondsLeft: Int64) -> Int64? {
    guard nanosecondsLeft > 0 else { return nil }
    let doublings = min(max(attempt, 1) - 1, 16)
    return min(first << doublings, longest, nanosecondsLeft)
  }
}
