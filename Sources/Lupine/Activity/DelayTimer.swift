internal import Dispatch
internal import LupineBase

/// Waits: the system's clock, or one that a test moves on.
public protocol DelayTimer: Sendable {
  /// Calls back once after `delay`, on a thread of its choice. A call that comes although nobody waits for it any more does no harm.
  func after(_ delay: Duration, _ work: @escaping @Sendable () -> Void)
}

/// The system's clock.
public struct SystemDelayTimer: DelayTimer {
  /// The one there is.
  public init() {}

  /// Calls back on a global queue.
  public func after(_ delay: Duration, _ work: @escaping @Sendable () -> Void) {
    let nanoseconds = Int(clamping: max(0, delay.saturatedNanoseconds))
    DispatchQueue.global(qos: .utility).asyncAfter(deadline: .now() + .nanoseconds(nanoseconds), execute: work)
  }
}
