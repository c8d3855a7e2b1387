public import Foundation
public import LupineSession

/// Told how far a task is. The same object each time; indeterminate (its total is -1) while no length is known, with a completed count all the same.
public typealias TaskProgressHandler = @Sendable (Progress) -> Void
/// Told what a task ended with: the response if one came; the value, of an error page too; the error.
public typealias DataTaskHandler = @Sendable (Response?, (any Sendable)?, (any Error)?) -> Void
/// Told what a download ended with: the response if one came; where the file is, if it was moved; the error.
public typealias DownloadTaskHandler = @Sendable (Response?, URL?, (any Error)?) -> Void
/// Says where a finished download goes: given where it is and the response. Nil: nowhere, it is removed. Called on the delegate queue.
public typealias DownloadDestinationHandler = @Sendable (URL, Response) -> URL?

extension SessionManager {
  // MARK: Data

  /// Makes a task; it begins with `resume()`.
  ///
  /// - Parameters:
  ///   - responseSerializer: for this task alone. Default nil: the manager's.
  ///   - uploadProgress: told on the delegate queue, or `progressQueue`. Default nil.
  ///   - downloadProgress: likewise. Default nil.
  ///   - completion: called once, on `completionQueue`. A failure is a `SessionError`, or a `SerializationError` with response and body.
  ///
  /// The manager is the task's delegate: another one in its place takes the task out of the manager's hands, which then posts no
  /// notifications of it.
  public func dataTask(
    with request: Request, responseSerializer: (any ResponseSerializer)? = nil,
    uploadProgress: TaskProgressHandler? = nil, downloadProgress: TaskProgressHandler? = nil,
    completion: DataTaskHandler?
  ) -> DataTask {
    dataTask(request, responseSerializer, uploadProgress, downloadProgress, .data(completion))
  }

  func dataTask(
    _ request: Request, _ serializer: (any ResponseSerializer)?, _ upload: TaskProgressHandler?,
    _ download: TaskProgressHandler?, _ handler: ManagedTask.Handler
  ) -> DataTask {
    let managed = managed(.data, request, serializer, upload, download, handler)
    return managed.manage(session.unlistedDataTask(with: request), in: self)
  }

  // MARK: Uploads

  /// Makes a task that sends bytes; see `dataTask`.
  public func uploadTask(
    with request: Request, from data: Data, responseSerializer: (any ResponseSerializer)? = nil,
    progress: TaskProgressHandler? = nil, completion: DataTaskHandler?
  ) -> UploadTask {
    let managed = managed(.upload, request, responseSerializer, progress, nil, .data(completion))
    return managed.manage(session.unlistedUploadTask(with: request, body: .data(data)), in: self)
  }

  /// Makes a task that sends a file; see `dataTask`. A file that cannot be read is an error of the task, and so is a URL that is no file's.
  public func uploadTask(
    with request: Request, fromFile file: URL, responseSerializer: (any ResponseSerializer)? = nil,
    progress: TaskProgressHandler? = nil, completion: DataTaskHandler?
  ) -> UploadTask {
    let managed = managed(.upload, request, responseSerializer, progress, nil, .data(completion))
    return managed.manage(
      session.unlistedUploadTask(with: request, body: .file(path: Self.path(of: file))), in: self)
  }

  /// The path of any other URL names a file here that nobody meant. An empty one is never opened: the task fails as one whose file cannot be read.
  static func path(of file: URL) -> String { file.isFileURL ? file.path : "" }

  /// Makes a task that sends the body of its request, which may be a stream; without one, `taskNeedNewBodyStream` is asked. See `dataTask`.
  public func uploadTask(
    withStreamedRequest request: Request, responseSerializer: (any ResponseSerializer)? = nil,
    progress: TaskProgressHandler? = nil, completion: DataTaskHandler?
  ) -> UploadTask {
    streamedTask(request, responseSerializer, progress, .data(completion))
  }

  func streamedTask(
    _ request: Request, _ serializer: (any ResponseSerializer)?, _ progress: TaskProgressHandler?,
    _ handler: ManagedTask.Handler
  ) -> UploadTask {
    let managed = managed(.upload, request, serializer, progress, nil, handler)
    return managed.manage(session.unlistedUploadTask(with: request, body: request.body), in: self)
  }

  func managed(
    _ kind: ManagedTask.Kind, _ request: Request, _ serializer: (any ResponseSerializer)?,
    _ upload: TaskProgressHandler?, _ download: TaskProgressHandler?, _ handler: ManagedTask.Handler
  ) -> ManagedTask {
    ManagedTask(
      core, kind, serializer: serializer, upload: upload, download: download,
      bodyLimit: request.maximumBufferedBodySize ?? sessionConfiguration.maximumBufferedBodySize,
      countsSending: kind == .upload || takesLong(request.body), handler: handler)
  }

  /// Whether it is worth a callback how far the sending is: not of what a socket takes at once.
  private func takesLong(_ body: Request.Body) -> Bool {
    if case .none = body { return false }
    return body.knownLength.map { $0 > 64 * 1024 } ?? true
  }

  // MARK: Downloads

  /// Makes a task that fetches a request into a file; it begins with `resume()`.
  ///
  /// A response is validated before its file moves: one that is refused leaves no file, and its error has the response and the beginning of the
  /// body. Only a 2xx makes a file: any other status that the serializer accepts is a `SessionError` with `.badResponse`. A file that cannot be moved is an
  /// error too.
  ///
  /// - Parameters:
  ///   - responseSerializer: validates the response; makes no value. Default nil: the manager's.
  ///   - options: whether a file in the way is replaced, and missing directories are made. Default: neither.
  ///   - destination: where the file goes, unless `downloadTaskDidFinishDownloading` says so. Nil: it is removed.
  public func downloadTask(
    with request: Request, responseSerializer: (any ResponseSerializer)? = nil, options: DownloadOptions = [],
    progress: TaskProgressHandler? = nil, destination: DownloadDestinationHandler?, completion: DownloadTaskHandler?
  ) -> DownloadTask {
    let managed = managed(responseSerializer, options, progress, destination, .download(completion))
    return managed.manage(session.unlistedDownloadTask(with: request), in: self)
  }

  /// Makes a task that goes on with a download; `SessionError.resumeData` of the earlier one has what it needs. See `downloadTask(with:)`.
  ///
  /// - Parameter request: what to ask with, for example an `Authorization` field. Default nil: a plain GET of the URL of the data.
  public func downloadTask(
    withResumeData resumeData: ResumeData, request: Request? = nil, responseSerializer: (any ResponseSerializer)? = nil,
    options: DownloadOptions = [], progress: TaskProgressHandler? = nil, destination: DownloadDestinationHandler?,
    completion: DownloadTaskHandler?
  ) -> DownloadTask {
    let managed = managed(responseSerializer, options, progress, destination, .download(completion))
    return managed.manage(
      session.unlistedDownloadTask(withResumeData: resumeData, request: request), in: self)
  }

  func managed(
    _ serializer: (any ResponseSerializer)?, _ options: DownloadOptions, _ progress: TaskProgressHandler?,
    _ destination: DownloadDestinationHandler?, _ handler: ManagedTask.Handler, isAttempt: Bool = false,
    ofAttempts: ByteProgress? = nil
  ) -> ManagedTask {
    ManagedTask(
      core, .download, serializer: serializer, upload: nil, download: progress,
      target: ManagedTask.Target(destination: destination, options: options), bodyLimit: 0,
      handler: handler, isAttempt: isAttempt, ofAttempts: ofAttempts)
  }

  // MARK: Progress

  /// How far a task of this manager is with sending, live; nil once it is over, and for a task that is not a manager's. Any thread, and any time: a verb's
  /// task has begun when it is returned. Of a data task that nobody had asked about before it began, a body of at most 64 KiB counts only at its end.
  public func uploadProgress(for task: SessionTask) -> Progress? {
    guard let managed = task.delegate as? ManagedTask, !managed.isOver else { return nil }
    return managed.upload.progress(of: task)
  }

  /// How far a task of this manager is with receiving, live; nil once it is over, and for a task that is not a manager's.
  public func downloadProgress(for task: SessionTask) -> Progress? {
    guard let managed = task.delegate as? ManagedTask, !managed.isOver else { return nil }
    return managed.download.progress(of: task)
  }
}

extension SessionManager {
  /// Begins a task of an `async` call: behind the hook that hears of it, as nobody else has the task to say when it may begin.
  func begin(_ task: SessionTask) {
    guard let managed = task.delegate as? ManagedTask else { return task.resume() }
    let (main, other) = task is DownloadTask ? (managed.download, managed.upload) : (managed.upload, managed.download)
    let begin: @Sendable () -> Void = { (other.isPaused ? other : main).begin(task) }
    guard core.settings.hook({ $0.taskWasCreated }) != nil else { return begin() }
    session.delegateQueue.async(execute: begin)
  }
}

extension ManagedTask {
  func manage<Task: SessionTask>(_ task: Task, in manager: SessionManager) -> Task {
    // First: behind it the end of the session may come to the task at any time.
    manage(task as SessionTask)
    if let created = hook({ $0.taskWasCreated }) {
      let session = manager.session
      task.enlist { session.delegateQueue.async { created(session, task) } }
    } else {
      task.enlist()
    }
    return task
  }
}
