public import Foundation
internal import LupineBase
public import LupineSession

/// Downloads as `async` calls: the tasks of `downloadTask(…)`, with their hooks and notifications. Cancelling the Swift task cancels the download. Interceptors
/// change its request; neither they nor a retry policy have it sent again, as it need not begin anew: `SessionError.resumeData` has what it can be resumed from.
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
    try await downloaded(responseSerializer, options, progress, file) { session.downloadTask(with: request) }
  }

  /// Goes on with a download; see `downloadTask(withResumeData:)` and `download(for:to:)`.
  ///
  /// - Parameter request: what to ask with, for example an `Authorization` field. Default nil: a plain GET of the URL of the data.
  public func download(
    resumeFrom resumeData: ResumeData, request: Request? = nil, to file: URL,
    responseSerializer: (any ResponseSerializer)? = nil, options: DownloadOptions = [],
    progress: TaskProgressHandler? = nil
  ) async throws -> (file: URL, response: Response) {
    try await downloaded(responseSerializer, options, progress, file) {
      session.downloadTask(withResumeData: resumeData, request: request)
    }
  }

  private func downloaded(
    _ serializer: (any ResponseSerializer)?, _ options: DownloadOptions, _ progress: TaskProgressHandler?, _ file: URL,
    _ make: () -> DownloadTask
  ) async throws -> (file: URL, response: Response) {
    let cancellation = CancellationRelay<DownloadTask> { $0.cancel() }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let managed = managed(
          serializer, options, progress, { _, _ in file }, .awaitedDownload { continuation.resume(with: $0) })
        let task = managed.manage(make(), in: self)
        cancellation.attach(task)
        begin(task)
      }
    } onCancel: {
      cancellation.cancel()
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
