/// Where an operation stands: pure.
///
/// States and legal successors: ready → executing | paused, and finished only if it was cancelled; executing → paused | finished; paused → ready,
/// and finished only if it was cancelled. Finished is for good. Other commands change nothing.
/// Invariants: each beginning has a number of its own, and what is said about an earlier one is not heard; a cancelled operation is never paused.
///
/// Source: `AFURLConnectionOperation`.
struct OperationMachine {
  enum State: Hashable, Sendable {
    case ready
    case executing
    case paused
    case finished
  }

  enum Beginning: Equatable {
    case begin(UInt64)
    case finishCancelled
    case ignore
  }

  enum Cancellation: Equatable {
    /// The exchange ends, and the operation with it.
    case stop
    /// Nothing runs: the operation ends now.
    case finish
    /// Whoever starts the operation ends it; `becameReady` if it was paused, which kept a queue from starting it.
    case wait(becameReady: Bool)
    case ignore
  }

  private(set) var state = State.ready
  /// Whether it was ever started: then a queue has done its part.
  private(set) var hasBegun = false
  private(set) var attempt: UInt64 = 0
  private(set) var isCancelled = false

  /// Whether a queue may start it, dependencies apart.
  var isReady: Bool { hasBegun || state != .paused }

  mutating func start() -> Beginning {
    // A queue that has taken it off its list does so once, also of one that was paused before it came to start it.
    hasBegun = hasBegun || state == .ready || state == .paused
    guard state == .ready else { return .ignore }
    if isCancelled {
      state = .finished
      return .finishCancelled
    }
    state = .executing
    attempt += 1
    return .begin(attempt)
  }

  /// Begins anew instead of going on; nil if nothing runs.
  mutating func restart(_ number: UInt64) -> UInt64? {
    guard isCurrent(number) else { return nil }
    attempt += 1
    return attempt
  }

  func isCurrent(_ number: UInt64) -> Bool { state == .executing && attempt == number }

  /// The state before, if it changes.
  mutating func pause() -> State? {
    guard !isCancelled, state == .ready || state == .executing else { return nil }
    defer { state = .paused }
    return state
  }

  /// Whether it changes.
  mutating func resume() -> Bool {
    guard state == .paused else { return false }
    state = .ready
    return true
  }

  mutating func cancel() -> Cancellation {
    guard !isCancelled, state != .finished else { return .ignore }
    isCancelled = true
    switch state {
    case .executing: return .stop
    case .paused where hasBegun:
      state = .finished
      return .finish
    case .paused:
      state = .ready
      return .wait(becameReady: true)
    case .ready, .finished: return .wait(becameReady: false)
    }
  }

  /// Whether this ends the operation.
  mutating func finish(_ number: UInt64) -> Bool {
    guard isCurrent(number) else { return false }
    state = .finished
    return true
  }
}
