/// The life of one task.
///
/// States, and their legal successors:
///
///     created   -> running | canceling | completed
///     running   -> suspended | canceling | completed
///     suspended -> running | canceling | completed        work is under way, and reads nothing
///     canceling -> completed
///     completed                                           the last
///
/// Invariants: `.start` is returned at most once; `end` returns true exactly once; nothing is returned after it. Suspensions do not count
/// up: one `resume` undoes any number of them (URLSession on Linux asks for one each).
package struct TaskMachine: Sendable, Equatable {
  package enum State: Sendable, Equatable {
    case created
    case running
    case suspended
    case canceling
    case completed
  }

  /// What the driver has to do.
  package enum Action: Sendable, Equatable {
    case none
    /// Begin the first exchange.
    case start
    /// Read again, or begin what was put off.
    case resume
    /// Stop reading, and begin nothing.
    case pause
    /// Give up what is under way; its end completes the task.
    case cancel
    /// Nothing is under way: complete the task as cancelled.
    case complete
  }

  package private(set) var state = State.created

  package init() {}

  package mutating func resume() -> Action {
    switch state {
    case .created:
      state = .running
      return .start
    case .suspended:
      state = .running
      return .resume
    case .running, .canceling, .completed: return .none
    }
  }

  package mutating func suspend() -> Action {
    guard state == .running else { return .none }
    state = .suspended
    return .pause
  }

  package mutating func cancel() -> Action {
    switch state {
    case .created:
      state = .canceling
      return .complete
    case .running, .suspended:
      state = .canceling
      return .cancel
    case .canceling, .completed: return .none
    }
  }

  /// The task is over. True: now, so tell who waits for it.
  package mutating func end() -> Bool {
    guard state != .completed else { return false }
    state = .completed
    return true
  }
}
