/// A point on the monotonic clock, in nanoseconds since an arbitrary origin.
///
/// Pure modules receive instants as parameters and never read a clock themselves; `LupineIO` reads it once a turn.
public struct Instant: Comparable, Hashable, Sendable {
  /// Nanoseconds since the clock's origin.
  public var nanoseconds: Int64

  /// An instant that no deadline reaches.
  @inlinable public static var distantFuture: Instant { Instant(nanoseconds: .max) }

  /// Makes an instant from nanoseconds since the clock's origin.
  @inlinable
  public init(nanoseconds: Int64) {
    self.nanoseconds = nanoseconds
  }

  /// Whether `left` comes first.
  @inlinable
  public static func < (left: Instant, right: Instant) -> Bool {
    left.nanoseconds < right.nanoseconds
  }

  /// The instant `interval` nanoseconds later; saturates instead of overflowing.
  @inlinable
  public func advanced(byNanoseconds interval: Int64) -> Instant {
    let (sum, overflow) = nanoseconds.addingReportingOverflow(interval)
    return Instant(nanoseconds: overflow ? (interval < 0 ? .min : .max) : sum)
  }

  /// Nanoseconds from `earlier` to this instant; saturates instead of overflowing.
  @inlinable
  public func nanoseconds(since earlier: Instant) -> Int64 {
    let (difference, overflow) = nanoseconds.subtractingReportingOverflow(earlier.nanoseconds)
    return overflow ? (nanoseconds < 0 ? .min : .max) : difference
  }
}

extension Duration {
  /// The duration in whole nanoseconds; saturates at the limits of `Int64`.
  package var saturatedNanoseconds: Int64 {
    // Before it is taken apart: of more seconds than `Int64` holds the standard library has no components, and traps.
    guard self < Duration.nanoseconds(Int64.max) else { return .max }
    guard Duration.nanoseconds(Int64.min) < self else { return .min }
    let (seconds, attoseconds) = components
    return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
  }

  /// The same duration, or what `saturatedNanoseconds` makes of it, 292 years at most: for who sleeps, since clocks trap where they cannot count so far.
  package var saturated: Duration { .nanoseconds(saturatedNanoseconds) }
}
