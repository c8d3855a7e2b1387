internal import Foundation
internal import LupineBase
internal import LupineSession
internal import Synchronization

/// One direction of a task, or of several that make one download, as a Foundation `Progress`, made when somebody wants it.
///
/// Without a length the total is -1, so that the progress is indeterminate, and the completed count moves all the same; when all has come the total
/// is what came.
///
/// Invariant: one state is told at a time, in their order, though the queue may be concurrent: Foundation's object has no lock of its own.
final class ByteProgress: Sendable {
  private struct State {
    var progress: Progress?
    /// What the commands of the progress go to: the one under way.
    weak var task: SessionTask?
    /// What was said last, for the next task.
    var isCancelled = false
    var isPaused = false
    var completed: Int64 = 0
    var total: Int64?
    /// Where the states are told; made with the first one that anybody wants.
    var serial: DispatchQueue?
  }

  private let state = LockedStorage(State())
  private let handler: TaskProgressHandler?
  private let queue: DispatchQueue?

  /// - Parameter queue: where the handler is called; nil: where `update` is.
  init(_ handler: TaskProgressHandler?, queue: DispatchQueue?) {
    self.handler = handler
    self.queue = queue
  }

  /// Whether anybody looks.
  var isWanted: Bool { handler != nil || state.withLock { $0.progress != nil } }

  /// The live progress of `task`, which moves where its handler is called: cancelling, pausing and resuming it are commands to the task.
  func progress(of task: SessionTask) -> Progress {
    state.withLock { state in
      state.task = task
      if let progress = state.progress { return progress }
      let progress = Progress(parent: nil, userInfo: nil)
      progress.kind = .file
      progress.isCancellable = true
      progress.isPausable = true
      progress.cancellationHandler = { [weak self] in self?.note { $0.isCancelled = true }?.cancel() }
      progress.pausingHandler = { [weak self] in self?.note { $0.isPaused = true }?.suspend() }
      progress.resumingHandler = { [weak self] in self?.note { $0.isPaused = false }?.resume() }
      progress.totalUnitCount = state.total ?? -1
      progress.completedUnitCount = state.completed
      state.progress = progress
      return progress
    }
  }

  private func note(_ change: (inout State) -> Void) -> SessionTask? {
    state.withLock { state in
      change(&state)
      return state.task
    }
  }

  /// Whether it was cancelled: no further task is to begin.
  var isCancelled: Bool { state.withLock { $0.isCancelled } }

  /// Begins a task, in the place of one before, unless the progress was cancelled or is paused by now: then it begins when that is resumed.
  func begin(_ task: SessionTask) {
    let (isCancelled, isPaused) = state.withLock { state in
      state.task = task
      return (state.isCancelled, state.isPaused)
    }
    if isCancelled { return task.cancel() }
    guard !isPaused else { return }
    repeat {
      task.resume()
      // A task that has not begun hears of no pause.
      guard self.isPaused else { return }
      task.suspend()
    } while !self.isPaused
  }

  /// Whether it was paused, and not resumed.
  var isPaused: Bool { state.withLock { $0.isPaused } }

  /// So much of so much is done; one call of the handler.
  func update(_ completed: Int64, of total: Int64?, for task: SessionTask) {
    let (known, serial) = state.withLock { state -> (Progress?, DispatchQueue?) in
      state.completed = completed
      state.total = total
      guard let queue, handler != nil || state.progress != nil else { return (state.progress, nil) }
      let serial = state.serial ?? .serial("lupine.progress", on: queue)
      state.serial = serial
      return (state.progress, serial)
    }
    guard handler != nil || known != nil else { return }
    let progress = known ?? progress(of: task)
    // Where the handler reads it.
    let report: @Sendable () -> Void = { [handler] in
      if progress.totalUnitCount != total ?? -1 { progress.totalUnitCount = total ?? -1 }
      progress.completedUnitCount = completed
      handler?(progress)
    }
    if let serial { serial.async(execute: report) } else { report() }
  }

  /// All has come: without a length, the total is known now.
  ///
  /// - Parameters:
  ///   - counted: what has come where nobody was told of the steps.
  ///   - length: of how much.
  func finish(for task: SessionTask, counted: Int64 = 0, of length: Int64? = nil) {
    let (completed, total) = state.withLock { ($0.completed, $0.total) }
    if completed == 0, counted > 0 { return update(counted, of: length ?? counted, for: task) }
    if total == nil, completed > 0 { update(completed, of: completed, for: task) }
  }

  /// Another attempt begins: nothing of it has come. The handler hears of its first step.
  func startOver() {
    let (progress, serial) = state.withLock { state in
      state.completed = 0
      state.total = nil
      return (state.progress, state.serial)
    }
    guard let progress else { return }
    let reset: @Sendable () -> Void = {
      progress.totalUnitCount = -1
      progress.completedUnitCount = 0
    }
    if let serial { serial.async(execute: reset) } else { reset() }
  }
}
