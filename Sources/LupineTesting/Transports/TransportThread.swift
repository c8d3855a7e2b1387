/// One thread that runs work in the order in which it was given, now or at an instant of a clock. It starts with the first work, and ends
/// when nobody holds it any more.
final class TransportThread: Sendable {
  /// Names work that is due later.
  struct Timer: Comparable, Sendable {
    var at: Int64
    var number: UInt64

    static func < (left: Timer, right: Timer) -> Bool {
      (left.at, left.number) < (right.at, right.number)
    }
  }

  private struct State {
    var ready: [@Sendable () -> Void] = []
    /// In the order of their instants.
    var timers: [(timer: Timer, work: @Sendable () -> Void)] = []
    var number: UInt64 = 0
    var thread: ServerThread?
    var isStopped = false

    /// Where a timer is, or would be.
    func place(_ timer: Timer) -> Int {
      var (low, high) = (0, timers.count)
      while low < high {
        let middle = (low + high) / 2
        if timers[middle].timer < timer { low = middle + 1 } else { high = middle }
      }
      return low
    }
  }

  private let clock: TransportClock
  private let state: Monitor<State>

  init(clock: TransportClock) {
    self.clock = clock
    let state = Monitor(State())
    self.state = state
    if case .manual(let manual) = clock { manual.listen(self) { state.withLock { _ in } } }
  }

  deinit {
    if case .manual(let manual) = clock { manual.forget(self) }
    let thread = state.withLock { state in
      state.isStopped = true
      return state.thread
    }
    thread?.join()
  }

  var now: Int64 { clock.nanoseconds }

  /// Runs `work` on the thread, after what was given before. If the system has no thread left, it runs here.
  func submit(_ work: @escaping @Sendable () -> Void) {
    guard startIfNeeded() else { return work() }
    state.withLock { $0.ready.append(work) }
  }

  /// Runs `work` at an instant, or soon after it.
  func submit(at instant: Int64, _ work: @escaping @Sendable () -> Void) -> Timer {
    _ = startIfNeeded()
    return state.withLock { state in
      state.number += 1
      let timer = Timer(at: instant, number: state.number)
      state.timers.insert((timer, work), at: state.place(timer))
      return timer
    }
  }

  /// Work that has begun, or is about to, is not stopped.
  func cancel(_ timer: Timer) {
    // Let go of outside the lock: it may hold the last reference to whatever.
    _ = state.withLock { state -> (@Sendable () -> Void)? in
      let place = state.place(timer)
      guard place < state.timers.count, state.timers[place].timer == timer else { return nil }
      return state.timers.remove(at: place).work
    }
  }

  private func startIfNeeded() -> Bool {
    state.withLock { [state, clock] values in
      if values.thread != nil { return true }
      values.thread = try? ServerThread { Self.run(state, clock) }
      return values.thread != nil
    }
  }

  private static func run(_ state: Monitor<State>, _ clock: TransportClock) {
    while let batch = nextBatch(state, clock) {
      for work in batch { work() }
    }
  }

  private struct Batch {
    var work: [@Sendable () -> Void] = []
    var isStopped = false
  }

  /// Waits for work; nil is the end.
  private static func nextBatch(_ state: Monitor<State>, _ clock: TransportClock) -> [@Sendable () -> Void]? {
    /// The instant that the wait below ends at; another one is a reason to wait anew.
    var awaited: Int64?
    while true {
      var seconds = 3_600.0
      if case .real = clock, let awaited { seconds = min(seconds, Double(max(0, awaited - clock.nanoseconds)) / 1e9) }
      let batch = state.wait(seconds: seconds) { state -> Batch? in
        if state.isStopped { return Batch(isStopped: true) }
        let work = take(&state, now: clock.nanoseconds)
        guard work.isEmpty else { return Batch(work: work) }
        guard state.timers.first?.timer.at != awaited else { return nil }
        awaited = state.timers.first?.timer.at
        return Batch()
      }
      guard let batch else { continue }
      if batch.isStopped { return nil }
      if !batch.work.isEmpty { return batch.work }
    }
  }

  private static func take(_ state: inout State, now: Int64) -> [@Sendable () -> Void] {
    var work = state.ready
    state.ready = []
    let due = state.timers.prefix { $0.timer.at <= now }
    work += due.map(\.work)
    state.timers.removeFirst(due.count)
    return work
  }
}
