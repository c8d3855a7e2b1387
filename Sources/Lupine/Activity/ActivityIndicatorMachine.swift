/// Decides when the sign of network activity shows: pure, with time as events.
///
/// | State | Event | Next |
/// |---|---|---|
/// | inactive | count > 0 | delayingStart, the activation timer begins |
/// | delayingStart | timer, count > 0 | active: visible |
/// | delayingStart | timer, count = 0 | inactive |
/// | active | count = 0 | delayingEnd, the completion timer begins |
/// | delayingEnd | count > 0 | active, the timer stops |
/// | delayingEnd | timer | inactive: hidden |
/// | any | disabled | inactive, timers stop: hidden |
///
/// Invariants: the count is never negative; it is kept while disabled; visible is told only when it changes; at most one timer runs, and one
/// that was stopped has no effect.
///
/// Source: `AFNetworkActivityIndicatorManager`. Changed: enabling looks at the count at once.
struct ActivityIndicatorMachine {
  enum State: Hashable, Sendable {
    case inactive
    case delayingStart
    case active
    case delayingEnd
  }

  enum Delay: Hashable, Sendable {
    case activation
    case completion
  }

  enum Action: Hashable, Sendable {
    /// Call `timerFired` with the number after the delay.
    case startTimer(Delay, number: UInt64)
    /// No timer is to be waited for any more.
    case stopTimer
    case setVisible(Bool)
  }

  private(set) var state = State.inactive
  private(set) var count = 0
  private(set) var isEnabled = false
  /// The timer that runs, or the last one.
  private var timer: UInt64 = 0
  private var hasTimer = false

  var isVisible: Bool { state == .active || state == .delayingEnd }

  mutating func change(by step: Int) -> [Action] {
    count = max(0, count.addingReportingOverflow(step).overflow ? count : count + step)
    return update()
  }

  mutating func setEnabled(_ isEnabled: Bool) -> [Action] {
    guard isEnabled != self.isEnabled else { return [] }
    self.isEnabled = isEnabled
    if isEnabled { return update() }
    let wasVisible = isVisible
    state = .inactive
    return stopTimer() + (wasVisible ? [.setVisible(false)] : [])
  }

  mutating func timerFired(_ number: UInt64) -> [Action] {
    guard hasTimer, number == timer else { return [] }
    hasTimer = false
    switch state {
    case .delayingStart where count > 0:
      state = .active
      return [.setVisible(true)]
    case .delayingStart:
      state = .inactive
      return []
    case .delayingEnd:
      state = .inactive
      return [.setVisible(false)]
    case .inactive, .active: return []
    }
  }

  private mutating func update() -> [Action] {
    guard isEnabled else { return [] }
    switch state {
    case .inactive where count > 0:
      state = .delayingStart
      return startTimer(.activation)
    case .active where count == 0:
      state = .delayingEnd
      return startTimer(.completion)
    case .delayingEnd where count > 0:
      state = .active
      return stopTimer()
    case .inactive, .delayingStart, .active, .delayingEnd: return []
    }
  }

  private mutating func startTimer(_ delay: Delay) -> [Action] {
    timer += 1
    hasTimer = true
    return [.startTimer(delay, number: timer)]
  }

  private mutating func stopTimer() -> [Action] {
    guard hasTimer else { return [] }
    hasTimer = false
    return [.stopTimer]
  }
}
