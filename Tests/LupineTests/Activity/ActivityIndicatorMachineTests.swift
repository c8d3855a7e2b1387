import Testing

@testable import Lupine

/// The table of `AFNetworkActivityIndicatorManager`, without time.
@Suite struct ActivityIndicatorMachineTests {
  private func enabled() -> ActivityIndicatorMachine {
    var machine = ActivityIndicatorMachine()
    holds(machine.setEnabled(true).isEmpty)
    return machine
  }

  @Test func showsAfterItsDelayAndHidesAfterItsDelay() {
    var machine = enabled()
    holds(machine.change(by: 1) == [.startTimer(.activation, number: 1)] && machine.state == .delayingStart)
    holds(machine.change(by: 1).isEmpty && !machine.isVisible)
    holds(machine.timerFired(1) == [.setVisible(true)] && machine.state == .active)
    holds(machine.change(by: -1).isEmpty && machine.isVisible)
    holds(machine.change(by: -1) == [.startTimer(.completion, number: 2)] && machine.isVisible)
    holds(machine.timerFired(2) == [.setVisible(false)] && machine.state == .inactive)
  }

  @Test func whatIsOverBeforeTheDelayNeverShows() {
    var machine = enabled()
    _ = machine.change(by: 1)
    holds(machine.change(by: -1).isEmpty && machine.state == .delayingStart)
    holds(machine.timerFired(1).isEmpty && machine.state == .inactive)
  }

  @Test func aNewRequestKeepsItVisible() {
    var machine = enabled()
    _ = machine.change(by: 1)
    _ = machine.timerFired(1)
    _ = machine.change(by: -1)
    holds(machine.change(by: 1) == [.stopTimer] && machine.state == .active)
    holds(machine.timerFired(2).isEmpty && machine.isVisible, "a timer that was stopped has no effect")
  }

  @Test func disablingHidesAtOnce() {
    for visible in [true, false] {
      var machine = enabled()
      _ = machine.change(by: 1)
      if visible { _ = machine.timerFired(1) }
      holds(machine.setEnabled(false) == (visible ? [.setVisible(false)] : [.stopTimer]))
      holds(machine.state == .inactive && machine.timerFired(1).isEmpty && machine.count == 1)
    }
  }

  /// The count goes on while disabled, and is looked at when enabled.
  @Test func disabledItCounts() {
    var machine = ActivityIndicatorMachine()
    holds(machine.change(by: 1).isEmpty && machine.count == 1)
    holds(machine.setEnabled(true) == [.startTimer(.activation, number: 1)] && machine.setEnabled(true).isEmpty)
  }

  @Test func theCountIsNeverNegative() {
    var machine = enabled()
    holds(machine.change(by: -1).isEmpty && machine.count == 0)
    holds(machine.change(by: .max).count == 1 && machine.change(by: 1).isEmpty && machine.count == .max)
  }
}
