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
    /// The invalidation cancels tasks.
    var cancels = false
    /// Tasks that may still be added.
    var promised: [TaskRun] = []

    func isPromised(_ run: TaskRun) -> Bool { promised.contains { $0 === run } }

    /// One place less is taken; what is to be called then.
    mutating func leave() -> (@Sendable () -> Void)? {
      count -= 1
      guard count == 0 else { return nil }
      defer { onEmpty = nil }
      return onEmpty
    }
  }

  private let state = LockedStorage(State())

  var isInvalid: Bool { state.withLock { $0.isInvalid } }

  /// Whether all tasks are cancelled, or are about to be.
  var isCancelling: Bool { state.withLock { $0.cancels } }

  /// Keeps a task until `remove`; nil: the session was invalidated.
  func add(_ run: TaskRun) -> Int? {
    state.withLock { state in
      guard !state.isInvalid || state.isPromised(run) else { return nil }
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
      return (run, state.leave())
    }
    withExtendedLifetime(run) { onEmpty?() }
  }

  var runs: [TaskRun] {
    state.withLock { $0.slots.compactMap(\.run) }
  }

  /// With those that are about to be added, and perhaps some twice.
  var runsToCancel: [TaskRun] {
    state.withLock { $0.slots.compactMap(\.run) + $0.promised }
  }

  // MARK: Tasks that are still being made

  /// Keeps a place for a task that does not exist yet, until `release`; false: the session was invalidated.
  func reserve() -> Bool {
    state.withLock { state in
      guard !state.isInvalid else { return false }
      state.count += 1
      return true
    }
  }

  /// This is the task that a place is kept for: it may be added though the session was invalidated meanwhile.
  ///
  /// - Returns: whether the invalidation has cancelled what there was.
  func promise(to run: TaskRun) -> Bool {
    state.withLock { state in
      state.promised.append(run)
      return state.cancels
    }
  }

  /// Gives up a place that was reserved, when everything is over.
  ///
  /// - Parameter run: whom it was promised to; nil: the task was not made.
  func release(_ run: TaskRun? = nil) {
    let onEmpty = state.withLock { state in
      state.promised.removeAll { $0 === run }
      return state.leave()
    }
    onEmpty?()
  }

  /// No task begins any more; `onEmpty` is called once, when the last one has completed. False: that was so already.
  ///
  /// - Parameter cancelling: tasks that are still being made are to be cancelled.
  func invalidate(cancelling: Bool, onEmpty: @escaping @Sendable () -> Void) -> Bool {
    let (isFirst, isEmpty) = state.withLock { state -> (Bool, Bool) in
      if cancelling { state.cancels = true }
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
