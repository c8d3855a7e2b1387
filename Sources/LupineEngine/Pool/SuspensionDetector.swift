internal import LupineBase

/// Notices that the machine was suspended. The clock by which everything here is measured stood still meanwhile: what servers and routers have long
/// forgotten looks as if it had just been used.
///
/// Looks at the clocks a hundred times a second at most, when somebody wants a connection. Pure: time is a parameter.
struct SuspensionDetector {
  /// Nanoseconds between two looks, of the clock that stands still: requests that come as soon as this after the last look may meet what is outdated.
  static let interval: Int64 = 10_000_000
  /// Nanoseconds of suspension that matter: nobody forgets a connection in less, and two clocks are not read at once.
  static let minimum: Int64 = 1_000_000_000

  private var nextLook = Instant(nanoseconds: .min)
  /// Nil before the first look.
  private var suspendedBefore: Int64?

  /// Whether it is time to look again: one comparison, as every request asks.
  func isDue(_ now: Instant) -> Bool { now >= nextLook }

  /// Looks.
  ///
  /// - Parameter suspended: how long the machine has been suspended since it was started, in nanoseconds.
  /// - Returns: whether it was since the last look; false the first time.
  mutating func look(_ now: Instant, suspended: Int64) -> Bool {
    defer {
      nextLook = now.advanced(byNanoseconds: Self.interval)
      suspendedBefore = suspended
    }
    return suspendedBefore.map { suspended - $0 >= Self.minimum } ?? false
  }
}
