internal import Dispatch
internal import LupineBase
internal import LupineEngine
internal import LupineIO
internal import LupineRules

extension Session {
  /// Fetches a request into a file.
  ///
  /// The body is written to a partial file in the session's temporary folder (mode 0600, never through a link; see
  /// `SessionConfiguration.temporaryDirectory`), or beside a destination on another file system. It takes its place when the body is
  /// complete, in one step. Only a 2xx status makes a file: any other response fails with `.badResponse`, the response and the
  /// beginning of its body in the error.
  ///
  /// No content codings are asked for unless the request says so (`acceptsCompressedContent`): a body that is coded has no parts that
  /// could be put together, and no resume data. A server that codes it all the same is taken at its word: the file has the body as it came.
  ///
  /// When it fails or is cancelled, the error has `resumeData` if the server named the version (a strong `ETag`, or a date of last change
  /// that counts as strong) and gave some of it; otherwise nothing is left behind.
  ///
  /// - Parameter progress: told, on a thread of the engine, how many bytes of the file have arrived.
  /// - Returns: the path of the file, and the response.
  /// - Throws: `SessionError`; `.fileFailed` with a `FileFailure` when the file cannot be written.
  public func download(
    for request: Request, to destination: DownloadDestination = .temporary,
    delegate: (any SessionTaskDelegate)? = nil,
    progress: (@Sendable (_ received: Int64, _ expected: Int64?) -> Void)? = nil
  ) async throws -> (path: String, response: Response) {
    try await download(request, resuming: nil, to: destination, delegate, progress)
  }

  /// Goes on with a download, by `Range` and `If-Range` (RFC 9110 13.1.5 and 14.2).
  ///
  /// The download begins anew, without being asked, whenever it cannot be right otherwise: the partial file is gone or was changed, the
  /// server has another version, ignores the range or answers with another one than was asked for. Any other status fails with
  /// `.badResponse` and keeps the partial file. If everything was there already, the response is a 416.
  ///
  /// - Parameters:
  ///   - request: what to ask with, for example an `Authorization` field, which resume data never holds. Its URL must be that of the data.
  ///     Nil: a plain GET of that URL.
  ///   - progress: told, on a thread of the engine, how many bytes of the file are there; once, if everything was there already.
  /// - Throws: as `download(for:to:progress:)`, and `.badResumeData` if the request is for another URL.
  public func download(
    resumeFrom resumeData: ResumeData, request: Request? = nil, to destination: DownloadDestination = .temporary,
    delegate: (any SessionTaskDelegate)? = nil,
    progress: (@Sendable (_ received: Int64, _ expected: Int64?) -> Void)? = nil
  ) async throws -> (path: String, response: Response) {
    try await download(
      request ?? Request(resuming: resumeData), resuming: resumeData, to: destination, delegate, progress)
  }

  private func download(
    _ request: Request, resuming resumeData: ResumeData?, to destination: DownloadDestination,
    _ delegate: (any SessionTaskDelegate)?, _ progress: (@Sendable (Int64, Int64?) -> Void)?
  ) async throws -> (path: String, response: Response) {
    let threads = try Engine.downloadThreads()
    // Its task is made behind its file: until then the place says that somebody is to come, and behind the end that nobody has gone.
    guard registry.reserve() else { throw invalidationError(request) }
    var hooks = DownloadHooks()
    // Taken back at the end: a handle on the task holds the task, and it may hold the handle.
    let teller = LockedReference(progress)
    defer { teller.value = nil }
    let listener = isObserved(delegate) ? LockedReference<DownloadCallbacks>() : nil
    if progress != nil || listener != nil {
      hooks.received = { count, total, expected in
        teller.value?(total, expected)
        listener?.value?.wrote(count, total: total, expected: expected)
      }
      hooks.resumed = { offset, expected in
        // Complete already: nothing is received behind it, while a range that is appended has a byte at least.
        if offset == expected { teller.value?(offset, expected) }
        listener?.value?.resumed(at: offset, expected: expected)
      }
    }
    let cancellation = CancellationRelay<TaskRun> { $0.cancel() }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { [hooks] continuation in
        let finish: DownloadConsumer.Completion = { result, run, tell in
          let end = result.flatMap { $0.moved(to: destination) }
          run?.settle(end.map { $0.response }) {
            if let listener {
              listener.value = nil
              // Behind what the delegate is told.
              self.delegateQueue.async { continuation.resume(with: end) }
            } else {
              continuation.resume(with: end)
            }
            tell()
          }
          self.registry.release(run)
        }
        DownloadPlan.prepare(request, resuming: resumeData, to: destination, session: self, threads: threads) { plan in
          switch plan {
          case .failure(let error):
            continuation.resume(throwing: error)
            self.registry.release()
          case .success(let plan):
            let consumer = DownloadConsumer(plan, hooks: hooks, threads: threads, completion: finish)
            let run = TaskRun(
              plan.request, session: self, consumer: consumer, kind: .download, isObserved: self.isObserved(delegate))
            // Promised first: a run that is cancelled before it has begun ends on another thread, and gives its place back there.
            let isCancelled = self.registry.promise(to: run)
            cancellation.attach(run)
            if isCancelled { run.cancel() }
            self.launch(run, delegate) { self.tellBytes(of: $0, listener) }
          }
        }
      }
    } onCancel: {
      cancellation.cancel()
    }
  }

  /// The delegate hears of the bytes of an `async` download as of those of a task; its end is the call's.
  private func tellBytes(of task: SessionTask, _ listener: LockedReference<DownloadCallbacks>?) {
    guard let listener, let task = task as? DownloadTask else { return }
    let run = task.run
    run.prepare(task)
    guard let observer = run.observer else { return }
    listener.value = DownloadCallbacks(observer, task: task)
    // Cancelled meanwhile: its end may have let go of what was not there yet.
    if run.observer == nil { listener.value = nil }
  }
}
