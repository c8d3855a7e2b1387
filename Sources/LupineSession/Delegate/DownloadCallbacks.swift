internal import FoundationEssentials
internal import LupineBase
internal import Synchronization

/// The download delegate of one task.
///
/// Invariant: at most one call about written bytes is queued at a time; the finished file is shown, and removed if it is still there, before
/// the task is told complete.
final class DownloadCallbacks: Sendable {
  private struct Written {
    var unreported: Int64 = 0
    var total: Int64 = 0
    var isQueued = false
  }

  private let callbacks: TaskCallbacks
  private let task: DownloadTask
  private let written = LockedStorage(Written())

  init(_ callbacks: TaskCallbacks, task: DownloadTask) {
    self.callbacks = callbacks
    self.task = task
  }

  private func tell(
    _ callback: CallbackSet, _ call: @escaping @Sendable (any SessionDownloadDelegate, Session, DownloadTask) -> Void
  ) {
    guard let delegate = callbacks.delegate(for: callback) as? any SessionDownloadDelegate else { return }
    callbacks.enqueue { [callbacks, task] in
      callbacks.ask(delegate, for: callback) { call(delegate, task.run.session, task) }
    }
  }

  /// So many more bytes are in the file, or on their way to it.
  func wrote(_ count: Int64, total: Int64, expected: Int64?) {
    guard callbacks.wants(.wroteData) else { return }
    let mustQueue = written.withLock { written -> Bool in
      written.unreported += count
      written.total = total
      defer { written.isQueued = true }
      return !written.isQueued
    }
    guard mustQueue else { return }
    tell(.wroteData) { [self] delegate, session, task in
      let (count, total) = written.withLock { written in
        defer {
          written.unreported = 0
          written.isQueued = false
        }
        return (written.unreported, written.total)
      }
      delegate.session(
        session, downloadTask: task, didWriteData: count, totalBytesWritten: total, totalBytesExpectedToWrite: expected)
    }
  }

  func resumed(at offset: Int64, expected: Int64?) {
    tell(.resumedAtOffset) {
      $0.session($1, downloadTask: $2, didResumeAtOffset: offset, expectedTotalBytes: expected)
    }
  }

  /// The file is shown, then removed if it is still there, then the task is over.
  func ended(_ result: Result<DownloadedFile, SessionError>) {
    switch result {
    case .failure(let error): completed(error)
    case .success(let file):
      tell(.finishedDownload) { $0.session($1, downloadTask: $2, didFinishDownloadingTo: file.path) }
      callbacks.enqueue { file.remove() }
      completed(nil)
    }
  }

  private func completed(_ error: SessionError?) { callbacks.completed(error, task) }
}
