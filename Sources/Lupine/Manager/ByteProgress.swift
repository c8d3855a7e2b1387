internal import Foundation
internal import LupineBase
internal import LupineSession
internal import Synchronization

/// One direction of a task as a Foundation `Progress`, made when somebody wants it.
///
/// Without a length the total is -1, so that the progress is indeterminate, and the completed count moves all the same; when all has come the total
/// is what came.
final class ByteProgress: Sendable {
  private struct State {
    var progress: Progress?
    var completed: Int64 = 0
    var total: Int64?
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
      if let progress = state.progress { return progress }
      let progress = Progress(parent: nil, userInfo: nil)
      progress.kind = .file
      progress.isCancellable = true
      progress.isPausable = true
      progress.cancellationHandler = { [weak task] in task?.cancel() }
      progress.pausingHandler = { [weak task] in task?.suspend() }
      progress.resumingHandler = { [weak task] in task?.resume() }
      progress.totalUnitCount = state.total ?? -1
      progress.completedUnitCount = state.completed
      state.progress = progress
      return progress
    }
  }

  /// So much of so much is done; one call of the handler.
  func update(_ completed: Int64, of total: Int64?, for task: SessionTask) {
    let known = state.withLock { state -> Progress? in
      state.completed = completed
      state.total = total
      return state.progress
    }
    guard handler != nil || known != nil else { return }
    let progress = known ?? progress(of: task)
    // Where the handler reads it: Foundation's object has no lock of its own.
    let report: @Sendable () -> Void = { [handler] in
      if progress.totalUnitCount != total ?? -1 { progress.totalUnitCount = total ?? -1 }
      progress.completedUnitCount = completed
      handler?(progress)
    }
    if let queue { queue.async(execute: report) } else { report() }
  }

  /// All has come: without a length, the total is known now.
  func finish(for task: SessionTask) {
    let (completed, total) = state.withLock { ($0.completed, $0.total) }
    if total == nil, completed > 0 { update(completed, of: completed, for: task) }
  }
}
