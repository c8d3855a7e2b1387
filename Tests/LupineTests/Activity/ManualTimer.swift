import Lupine
import LupineBase
import Testing

/// Time that passes when a test says so.
final class ManualTimer: DelayTimer {
  private struct State {
    var now = Duration.zero
    var delays: [Duration] = []
    var waiting: [(due: Duration, work: @Sendable () -> Void)] = []
  }

  private let state = Locked(State())

  func after(_ delay: Duration, _ work: @escaping @Sendable () -> Void) {
    state.withLock { state in
      state.delays.append(delay)
      state.waiting.append((state.now + delay, work))
    }
  }

  /// How often a delay began. It begins behind what it is the delay of: wait for it before the time moves on.
  var started: Int { state.withLock { $0.delays.count } }

  /// The delays that began, in order.
  var delays: [Duration] { state.withLock { $0.delays } }

  /// Moves the time on, and does what is due on this thread.
  func advance(by duration: Duration) {
    let due = state.withLock { state in
      state.now += duration
      let now = state.now
      let due = state.waiting.filter { $0.due <= now }.map(\.work)
      state.waiting.removeAll { $0.due <= now }
      return due
    }
    for work in due { work() }
  }
}
