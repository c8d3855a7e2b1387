public import Foundation
internal import LupineBase
public import LupineSession
internal import Synchronization

/// Downloads as `async` calls: the tasks of `downloadTask(…)`, with their hooks and notifications. Cancelling the Swift task cancels the download.
///
/// Interceptors and retry policy do for it what they do for `response(for:serializer:)`, with a task for each attempt. One that lost its connection, or whose
/// server had enough, is gone on with where it stopped, if the server names a strong validator, and interceptors make no other URL of it; otherwise it begins anew.
/// What fails for good, or is cancelled before an attempt, throws with `SessionError.resumeData` or, where a status is the last word,
/// `SerializationError.resumeData`, if there is any. An interceptor's error of another type can have none, and ends the download with what had come; before
/// the first attempt the data that was given stays good.
extension SessionManager {
  /// Fetches a request into a file; see `downloadTask(with:)`.
  ///
  /// - Parameters:
  ///   - file: where the download goes, unless `downloadTaskDidFinishDownloading` says so.
  ///   - responseSerializer: validates the response. Default nil: the manager's.
  ///   - options: whether a file in the way is replaced, and missing directories are made. Default: neither.
  ///   - progress: told on the delegate queue, or `progressQueue`. Default nil.
  /// - Returns: where the file is, and the response.
  /// - Throws: `SessionError`; `SerializationError` for a response that is not acceptable, which leaves no file.
  public func download(
    for request: Request, to file: URL, responseSerializer: (any ResponseSerializer)? = nil,
    options: DownloadOptions = [], progress: TaskProgressHandler? = nil
  ) async throws -> (file: URL, response: Response) {
    try await downloaded(request, nil, responseSerializer, options, progress, file)
  }

  /// Goes on with a download; see `downloadTask(withResumeData:)` and `download(for:to:)`.
  ///
  /// Where interceptors make another URL than that of the data, it begins anew; the data stays what it was.
  ///
  /// - Parameter request: what to ask with, for example an `Authorization` field. Default nil: a plain GET of the URL of the data, which is the one that
  ///   interceptors had made.
  public func download(
    resumeFrom resumeData: ResumeData, request: Request? = nil, to file: URL,
    responseSerializer: (any ResponseSerializer)? = nil, options: DownloadOptions = [],
    progress: TaskProgressHandler? = nil
  ) async throws -> (file: URL, response: Response) {
    try await downloaded(
      request ?? Request(resuming: resumeData), resumeData, responseSerializer, options, progress, file)
  }

  /// Concurrent, as interceptors are asked and files removed in here.
  @concurrent
  private func downloaded(
    _ request: Request, _ resumeData: ResumeData?, _ serializer: (any ResponseSerializer)?, _ options: DownloadOptions,
    _ progress: TaskProgressHandler?, _ file: URL
  ) async throws -> RepeatedDownload.Saved {
    let (retrying, queue) = core.settings.values.withLock {
      ($0.retrying.isTrivial ? nil : $0.retrying, $0.progressQueue)
    }
    // One object for all attempts.
    let whole = retrying.map { _ in ByteProgress(progress, queue: queue) }
    // The response that an attempt ended with, if it had one.
    let last = Locked<Response?>(nil)
    let attempt: RepeatedDownload.Attempt = { [self] request, resumeData in
      if let whole, whole.isCancelled {
        var error = SessionError(
          .cancelled, phase: .prepare, message: "the download was cancelled by its progress, before its next attempt",
          failingURL: request.urlString)
        error.resumeData = resumeData
        throw error
      }
      let cancellation = CancellationRelay<DownloadTask> { $0.cancel() }
      return try await withTaskCancellationHandler {
        try await withCheckedThrowingContinuation { continuation in
          let managed = managed(
            serializer, options, progress, { _, _ in file },
            .awaitedDownload { result, response in
              last.withLock { $0 = response }
              continuation.resume(with: result)
            },
            isAttempt: retrying != nil, ofAttempts: whole)
          let made =
            resumeData.map { session.unlistedDownloadTask(withResumeData: $0, request: request) }
            ?? session.unlistedDownloadTask(with: request)
          let task = managed.manage(made, in: self)
          cancellation.attach(task)
          if resumeData == nil { whole?.startOver() }
          begin(task)
        }
      } onCancel: {
        cancellation.cancel()
      }
    }
    guard let retrying else { return try await attempt(request, resumeData) }
    let temporaryDirectory = session.configuration.temporaryDirectory
    var download = RepeatedDownload(resumeData, attempt)
    do {
      let shown = request.marked(by: session.configuration)
      let saved = try await download.run(shown, retrying, temporaryDirectory: temporaryDirectory)
      tell(request, saved.response, nil)
      return saved
    } catch {
      let error = download.described(error, request, temporaryDirectory: temporaryDirectory)
      tell(request, last.withLock { $0 }, error)
      throw error
    }
  }
}

extension HTTPSessionManager {
  /// GETs a URL, relative to the manager's, into a file; see `download(for:to:)`.
  ///
  /// - Parameter timeout: how long nothing may move, not how long all of it may take: see `HTTPRequestSerializer.totalTimeout`. Default nil: the serializer's,
  ///   then the session's.
  public func download(
    _ url: String, to file: URL, parameters: (any Sendable)? = nil, headers: [String: String]? = nil,
    timeout: Duration? = nil, options: DownloadOptions = [], progress: TaskProgressHandler? = nil
  ) async throws -> (file: URL, response: Response) {
    let request = try request(.get, url, parameters: parameters, headers: headers, timeout: timeout)
    return try await download(for: request, to: file, options: options, progress: progress)
  }
}
