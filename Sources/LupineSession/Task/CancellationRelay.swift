internal import LupineBase
internal import Synchronization

/// Takes the cancellation of a Swift task to what it is to end, in whichever order the two come.
package final class CancellationRelay<Target: Sendable>: Sendable {
  private enum State {
    case empty
    case attached(Target)
    case cancelled
  }

  private let end: @Sendable (Target) -> Void
  private let state = LockedStorage(State.empty)

  package init(_ end: @escaping @Sendable (Target) -> Void) {
    self.end = end
  }

  package func attach(_ target: Target) {
    let isCancelled = state.withLock { state -> Bool in
      if case .cancelled = state { return true }
      state = .attached(target)
      return false
    }
    if isCancelled { end(target) }
  }

  package func cancel() {
    let target = state.withLock { state -> Target? in
      defer { state = .cancelled }
      if case .attached(let target) = state { return target }
      return nil
    }
    if let target { end(target) }
  }
}
