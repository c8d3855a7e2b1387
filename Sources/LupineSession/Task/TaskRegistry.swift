internal import LupineBase
internal import Synchronization

/// The tasks of a session that have begun, or begin as soon as a delegate was told that they were made, and have not completed; and whether new ones may begin.
final class TaskRegistry: Sendable {
  private struct Slot {
    var run: TaskRun?
    /// Of a free slot: the next free one.
    var next = -1
  }

  private struct State {
    var slots: [Slot] = []
    /// The first of the free slots; -1 is none.
    var free = -1
    var count = 0
    var isInvalid = false
    var onEmpty: (@Sendable () -> Void)?
  }

  private let state = LockedStorage(State())

  var isInvalid: Bool { state.withLock { $0.isInvalid } }

  /// Keeps a task until `remove`; nil: the session was invalidated.
  func add(_ run: TaskRun) -> Int? {
    state.withLock { state in
      guard !state.isInvalid else { return nil }
      state.count += 1
      let slot = state.free
      guard slot >= 0 else {
        state.slots.append(Slot(run: run))
        return state.slots.count - 1
      }
      state.free = state.slots[slot].next
      state.slots[slot].run = run
      return slot
    }
  }

  func remove(_ slot: Int) {
    // The task may go with its last reference, and the session with it: not under its own lock.
    let (run, onEmpty) = state.withLock { state -> (TaskRun?, (@Sendable () -> Void)?) in
      let run = state.slots[slot].run.take()
      state.slots[slot].next = state.free
      state.free = slot
      state.count -= 1
      guard state.count == 0 else { return (run, nil) }
      defer { state.onEmpty = nil }
      return (run, state.onEmpty)
    }
    withExtendedLifetime(run) { onEmpty?() }
  }

  var runs: [TaskRun] {
    state.withLock { $0.slots.compactMap(\.run) }
  }

  /// No task begins any more; `onEmpty` is called once, when the last one has completed. False: that was so already.
  func invalidate(onEmpty: @escaping @Sendable () -> Void) -> Bool {
    let (isFirst, isEmpty) = state.withLock { state -> (Bool, Bool) in
      guard !state.isInvalid else { return (false, false) }
      state.isInvalid = true
      guard state.count > 0 else { return (true, true) }
      state.onEmpty = onEmpty
      return (true, false)
    }
    if isEmpty { onEmpty() }
    return isFirst
  }
}
