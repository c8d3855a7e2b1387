import LupineRules
import Testing

/// The life of a task, from every state by every event.
@Suite struct TaskMachineTests {
  enum Event: CaseIterable { case resume, suspend, cancel }

  struct Row: Sendable, CustomTestStringConvertible {
    let path: [Event]
    let event: Event
    let action: TaskMachine.Action
    let state: TaskMachine.State
    var testDescription: String { "\(path) then \(event)" }

    static let all: [Row] = [
      Row(path: [], event: .resume, action: .start, state: .running),
      Row(path: [], event: .suspend, action: .none, state: .created),
      Row(path: [], event: .cancel, action: .complete, state: .canceling),
      Row(path: [.suspend, .suspend], event: .resume, action: .start, state: .running),
      Row(path: [.resume], event: .resume, action: .none, state: .running),
      Row(path: [.resume], event: .suspend, action: .pause, state: .suspended),
      Row(path: [.resume], event: .cancel, action: .cancel, state: .canceling),
      Row(path: [.resume, .suspend], event: .suspend, action: .none, state: .suspended),
      Row(path: [.resume, .suspend], event: .resume, action: .resume, state: .running),
      Row(path: [.resume, .suspend, .suspend], event: .resume, action: .resume, state: .running),
      Row(path: [.resume, .suspend], event: .cancel, action: .cancel, state: .canceling),
      Row(path: [.cancel], event: .resume, action: .none, state: .canceling),
      Row(path: [.cancel], event: .suspend, action: .none, state: .canceling),
      Row(path: [.cancel], event: .cancel, action: .none, state: .canceling),
    ]
  }

  @Test(arguments: Row.all) func step(_ row: Row) {
    var machine = TaskMachine()
    for event in row.path { _ = apply(event, to: &machine) }
    let action = apply(row.event, to: &machine)
    #expect(action == row.action)
    #expect(machine.state == row.state)
  }

  /// Whatever happened before, a task ends once, and nothing moves it afterwards.
  @Test func endsOnce() {
    for length in 0...4 {
      for number in 0..<Int((0..<length).reduce(1) { product, _ in product * 3 }) {
        var machine = TaskMachine()
        var rest = number
        var starts = 0
        for _ in 0..<length {
          if apply(Event.allCases[rest % 3], to: &machine) == .start { starts += 1 }
          rest /= 3
        }
        #expect(starts <= 1)
        let ends = [machine.end(), machine.end()]
        #expect(ends == [true, false])
        for event in Event.allCases {
          let action = apply(event, to: &machine)
          #expect(action == .none)
        }
        #expect(machine.state == .completed)
      }
    }
  }

  private func apply(_ event: Event, to machine: inout TaskMachine) -> TaskMachine.Action {
    switch event {
    case .resume: machine.resume()
    case .suspend: machine.suspend()
    case .cancel: machine.cancel()
    }
  }

  @Test(arguments: [
    (1, Int64.max, Int64(100_000_000)), (2, .max, 200_000_000), (6, .max, 3_200_000_000), (7, .max, 5_000_000_000),
    (1_000_000, .max, 5_000_000_000), (0, .max, 100_000_000), (3, 1_000, 1_000),
  ]) func connectivityWaits(_ attempt: Int, _ left: Int64, _ delay: Int64) {
    #expect(ConnectivityRule.delay(attempt: attempt, nanosecondsLeft: left) == delay)
    #expect(ConnectivityRule.delay(attempt: attempt, nanosecondsLeft: 0) == nil)
  }
}
