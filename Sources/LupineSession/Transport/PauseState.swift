/// Whether a reader wants no bytes for now, with a number that grows with each change.
///
/// A reader falls behind on the transport's thread and catches up on another, so that the news of the two may overtake each other on their
/// way to the socket. Whoever keeps a copy takes over a newer state only, and thus ends with what holds last.
public struct PauseState: Sendable, Equatable {
  /// Nothing is to be read for now. Default: false.
  public private(set) var isPaused = false
  /// Changes so far.
  public private(set) var number: UInt64 = 0

  /// A reader that wants everything.
  public init() {}

  /// Paused, and never to go on.
  static var final: PauseState {
    var state = PauseState()
    state.isPaused = true
    state.number = .max
    return state
  }

  /// Changes the state; the one to pass on, or nil if it was so already.
  public mutating func change(to isPaused: Bool) -> PauseState? {
    guard self.isPaused != isPaused, number < .max else { return nil }
    self.isPaused = isPaused
    number += 1
    return self
  }

  /// Takes over a newer state; false if it is an older one, which is to be ignored.
  public mutating func update(to other: PauseState) -> Bool {
    guard other.number > number else { return false }
    self = other
    return true
  }
}
