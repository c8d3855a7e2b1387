internal import LupineBase
internal import Synchronization

/// The tasks of a session that have begun, or begin as soon as a delegate was told that they were made, and have not completed; those that were made and
/// still exist; and whether new ones may begin.
///
/// Who has a task that has not begun may let it go, and nothing is left of it then: such a one is not held here.
///
/// Invariant: no reference to a task is the last one to go under the lock, as a task that goes comes here.
final class TaskRegistry: Sendable {
  private struct Slot {
    var run: TaskRun?
    /// Of a free slot: the next free one.
    var next = -1
  }

  /// A task that has not begun.
  private struct Made {
    weak var task: SessionTask?
    /// Whether who wants to hear that it was made is told, behind which anything else of it may be told.
    var isTold: Bool
    /// Nil until it is told of too.
    var known: SessionTask? { isTold ? task : nil }
  }

  private struct State {
    var slots: [Slot] = []
    /// The first of the free slots; -1 is none.
    var free = -1
    /// By the identifiers of the tasks.
    var made: [UInt64: Made] = [:]
    /// Places taken: by tasks that have begun, by those that were made, and by those that are still being made.
    var count = 0
    var isInvalid = false
    var onEmpty: (@Sendable () -> Void)?
    /// The invalidation cancels tasks.
    var cancels = false
    /// Tasks that may still be added.
    var promised: [ObjectIdentifier: TaskRun] = [:]

    func isPromised(_ run: TaskRun) -> Bool { promised[ObjectIdentifier(run)] != nil }

    @inline(__always)
    mutating func keep(_ run: TaskRun) -> Int {
      let slot = free
      guard slot >= 0 else {
        slots.append(Slot(run: run))
        return slots.count - 1
      }
      free = slots[slot].next
      slots[slot].run = run
      return slot
    }

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
      return state.keep(run)
    }
  }

  /// The same for a task that may have been made before it begins: it keeps its place, also where the session was invalidated in between.
  func addObserved(_ run: TaskRun) -> Int? {
    state.withLock { state in
      if state.made.removeValue(forKey: run.identifier) == nil {
        guard !state.isInvalid || state.isPromised(run) else { return nil }
        state.count += 1
      }
      return state.keep(run)
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

  /// Those that have begun, and those that were made.
  var tasks: (begun: [TaskRun], made: [SessionTask]) {
    state.withLock { state in (state.slots.compactMap(\.run), state.made.values.compactMap { $0.known }) }
  }

  /// With those that are about to be added, and perhaps some twice.
  var tasksToCancel: (begun: [TaskRun], made: [SessionTask]) {
    state.withLock { state in
      (state.slots.compactMap(\.run) + state.promised.values, state.made.values.compactMap { $0.known })
    }
  }

  // MARK: Tasks that were made

  /// Gives a place to a task that was made, until it begins, is over or gone; false: none, as the session was invalidated before.
  ///
  /// - Parameter isTold: false: `told` follows.
  func list(_ task: SessionTask, isTold: Bool) -> Bool {
    state.withLock { state in
      guard !state.isInvalid else { return false }
      state.count += 1
      state.made[task.taskIdentifier] = Made(task: task, isTold: isTold)
      return true
    }
  }

  /// It has been told that a listed task was made.
  ///
  /// - Returns: whether the invalidation has cancelled what there was, so that this one is to be cancelled too.
  func told(_ identifier: UInt64) -> Bool {
    state.withLock { state in
      state.made[identifier]?.isTold = true
      return state.cancels
    }
  }

  /// A task is over, or gone, and may have been listed without having begun.
  func withdraw(_ identifier: UInt64) {
    let onEmpty = state.withLock { state -> (@Sendable () -> Void)? in
      guard state.made.removeValue(forKey: identifier) != nil else { return nil }
      return state.leave()
    }
    onEmpty?()
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
      state.promised[ObjectIdentifier(run)] = run
      return state.cancels
    }
  }

  /// Gives up a place that was reserved, when everything is over.
  ///
  /// - Parameter run: whom it was promised to; nil: the task was not made.
  func release(_ run: TaskRun? = nil) {
    let onEmpty = state.withLock { state in
      if let run { state.promised[ObjectIdentifier(run)] = nil }
      return state.leave()
    }
    onEmpty?()
  }

  /// No task is made any more; `onEmpty` is called once, when the last one has completed, or is gone. False: that was so already.
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
