internal import LupineBase

/// Time that passes when a test says so: delays and deadlines of transports are over at once, and never too early.
public final class ManualClock: Sendable {
  private struct State {
    var nanoseconds: Int64
    var listeners: [ObjectIdentifier: @Sendable () -> Void] = [:]
  }

  private let origin: Int64
  private let state: Monitor<State>

  /// Starts at the present instant of the monotonic clock, and stands still.
  public init() {
    origin = Int64(MonotonicClock.now)
    state = Monitor(State(nanoseconds: origin))
  }

  /// How far the clock was advanced.
  public var elapsed: Duration { .nanoseconds(nanoseconds - origin) }

  /// Moves the clock on. What is due then happens on the threads of the transports, soon after this returns.
  public func advance(by duration: Duration) {
    let step = max(0, duration.nanoseconds)
    let listeners = state.withLock { state in
      state.nanoseconds = state.nanoseconds.addingReportingOverflow(step).overflow ? .max : state.nanoseconds + step
      return Array(state.listeners.values)
    }
    for listener in listeners { listener() }
  }

  var nanoseconds: Int64 { state.withLock { $0.nanoseconds } }

  func listen(_ key: AnyObject, _ listener: @escaping @Sendable () -> Void) {
    state.withLock { $0.listeners[ObjectIdentifier(key)] = listener }
  }

  func forget(_ key: AnyObject) {
    state.withLock { $0.listeners[ObjectIdentifier(key)] = nil }
  }
}

/// The clock of a transport.
public enum TransportClock: Sendable {
  /// The system's monotonic clock.
  case real
  /// A clock that a test moves on.
  case manual(ManualClock)

  var nanoseconds: Int64 {
    switch self {
    case .real: Int64(MonotonicClock.now)
    case .manual(let clock): clock.nanoseconds
    }
  }
}

extension Duration {
  /// In whole nanoseconds; saturates.
  var nanoseconds: Int64 { saturatedNanoseconds }
}
