internal import HTTPTypes
internal import LupineRules

/// What a completion handler of a download task is given: the path of a file, which is removed when the handler returns unless it was moved,
/// and the response.
public typealias DownloadTaskCompletion = @Sendable (Result<(path: String, response: Response), SessionError>) -> Void

extension Session {
  /// Makes a task that fetches a request into a temporary file, which goes to the delegate: its own, or the session's.
  ///
  /// Only a 2xx status makes a file; any other fails with `.badResponse`. See `download(for:to:progress:)` for what else is promised.
  public func downloadTask(with request: Request) -> DownloadTask {
    created(unlistedDownloadTask(with: request))
  }

  /// Makes a task that fetches a request into a temporary file, which goes to a completion handler, on the delegate queue.
  public func downloadTask(
    with request: Request, completionHandler: @escaping DownloadTaskCompletion
  ) -> DownloadTask {
    created(downloadTask(request, nil, completionHandler))
  }

  /// Makes a task that goes on with a download; see `download(resumeFrom:request:to:progress:)`. The file goes to the delegate. A delegate that has the task
  /// begin with another URL has the download begin anew; the file of the data is left where it is then, for `ResumeData.discard()`.
  ///
  /// - Parameter request: what to ask with; nil: a plain GET of the URL of the data.
  public func downloadTask(withResumeData resumeData: ResumeData, request: Request? = nil) -> DownloadTask {
    created(unlistedDownloadTask(withResumeData: resumeData, request: request))
  }

  /// Makes a task that goes on with a download; the file goes to a completion handler, on the delegate queue.
  public func downloadTask(
    withResumeData resumeData: ResumeData, request: Request? = nil,
    completionHandler: @escaping DownloadTaskCompletion
  ) -> DownloadTask {
    created(downloadTask(request ?? Request(resuming: resumeData), resumeData, completionHandler))
  }

  private func downloadTask(
    _ request: Request, _ resumeData: ResumeData?, _ handler: DownloadTaskCompletion?
  ) -> DownloadTask {
    let consumer = DownloadTaskConsumer(resuming: resumeData, handler: handler.map { (delegateQueue, $0) })
    return DownloadTask(TaskRun(request, session: self, consumer: consumer, kind: .download, isObserved: true))
  }

  /// Makes a download task for whoever is to be its delegate; see `unlistedDataTask(with:)`.
  package func unlistedDownloadTask(with request: Request) -> DownloadTask { downloadTask(request, nil, nil) }

  /// Makes a task that goes on with a download; see `unlistedDataTask(with:)`.
  package func unlistedDownloadTask(withResumeData resumeData: ResumeData, request: Request?) -> DownloadTask {
    downloadTask(request ?? Request(resuming: resumeData), resumeData, nil)
  }
}

extension Request {
  /// A plain GET of the URL of the data.
  package init(resuming resumeData: ResumeData) {
    self.init(parsed: resumeData.record.url, method: .get, fields: HTTPFields(), body: .none)
  }
}
