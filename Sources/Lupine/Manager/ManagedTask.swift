internal import Foundation
internal import LupineBase
internal import LupineSession
internal import LupineWire
internal import Synchronization

/// What a manager does with one task: collects its body, moves its progress, puts its file into its place, and calls its handler. It is the task's
/// delegate, which makes the tasks the registry: who has the task finds it.
///
/// Source: `AFURLSessionManagerTaskDelegate`.
///
/// Invariants: the delegate queue alone touches the body; the handler is called once; behind the end nothing is held, neither handler nor core.
final class ManagedTask: HookedTaskDelegate, SessionDataDelegate, SessionDownloadDelegate, AttemptingDelegate,
  @unchecked Sendable
{
  /// Who is told of the end.
  enum Handler: Sendable {
    case data(DataTaskHandler?)
    case call(SuccessHandler?, FailureHandler?)
    case download(DownloadTaskHandler?)
    /// Somebody awaits it, on no queue; told with the response that there was.
    case awaitedDownload(@Sendable (Result<(file: URL, response: Response), any Error>, Response?) -> Void)
    /// Likewise. `serialize` takes the place of the task's serializer, and keeps the value where its type is known.
    case awaitedUpload(
      serialize: @Sendable (Response?, Data) throws -> any Sendable,
      end: @Sendable (Result<Response, any Error>) -> Void)

    /// Whether its end is told to who awaits it, and not where the manager says.
    var isAwaited: Bool {
      switch self {
      case .data, .call, .download: false
      case .awaitedDownload, .awaitedUpload: true
      }
    }

    var isOfDownload: Bool {
      switch self {
      case .data, .call, .awaitedUpload: false
      case .download, .awaitedDownload: true
      }
    }
  }

  /// Where a download goes.
  struct Target: Sendable {
    var destination: DownloadDestinationHandler?
    var options: DownloadOptions = []
  }

  private struct State {
    /// Until the end, so that the session lives as long.
    var core: ManagerCore?
    var handler: Handler
    var target: Target
    var data = Data()
    var isTooLarge = false
    var file: URL?
    var fileError: (any Error)?
    /// What the task was before it became a download.
    var dataTask: DataTask?
  }

  /// As it was when the task was made.
  let serializer: any ResponseSerializer
  let upload: ByteProgress
  let download: ByteProgress
  let attempts = LockedStorage(Attempts())
  /// One for all of the task's: on another one the end could come before the beginning.
  let notificationQueue: DispatchQueue
  private let kind: Kind
  private let bodyLimit: Int
  /// The steps of sending are told of though nobody has asked by the beginning: a verb has begun its task before anybody can.
  private let countsSending: Bool
  /// It is one of several attempts, which is somebody else's affair: it is not repeated, nor is its end that of the call.
  private let isAttempt: Bool
  private let state: LockedStorage<State>

  enum Kind {
    case data
    case upload
    case download
  }

  init(
    _ core: ManagerCore, _ kind: Kind, serializer: (any ResponseSerializer)?, upload: TaskProgressHandler?,
    download: TaskProgressHandler?, target: Target = Target(), bodyLimit: Int, countsSending: Bool = false,
    handler: Handler, isAttempt: Bool = false, ofAttempts: ByteProgress? = nil
  ) {
    let (shared, queue, notifications, isAsking) = core.settings.values.withLock {
      ($0.responseSerializer, $0.progressQueue, $0.notificationQueue, !$0.retrying.interceptors.isEmpty)
    }
    notificationQueue = notifications
    self.serializer = serializer ?? shared
    self.kind = kind
    self.bodyLimit = bodyLimit
    self.countsSending = countsSending
    self.isAttempt = isAttempt
    self.upload = ByteProgress(upload, queue: queue)
    self.download = ofAttempts ?? ByteProgress(download, queue: queue)
    state = LockedStorage(State(core: core, handler: handler, target: target))
    super.init(core.settings)
    if isAsking { attempts.withLock { $0.refreshing = TokenInterceptor.refreshing } }
  }

  /// Whether the end was told; then the progresses are nobody's any more.
  var isOver: Bool { state.withLock { $0.core == nil } }

  /// Becomes the delegate of a task, and posts what its commands change as long as it is.
  func manage(_ task: SessionTask) {
    task.delegate = self
    task.onChange = { [notificationQueue] task, change in
      let name = change == .running ? Notification.Name.taskDidResume : .taskDidSuspend
      notificationQueue.async { NotificationCenter.default.post(name: name, object: task) }
    }
  }

  // MARK: What is called for

  override var handledCallbacks: CallbackSet {
    var set = hook { $0.exchangeCallbacks }.union(.completed)
    switch kind {
    case .data, .upload: set.formUnion(hook { $0.dataCallbacks }.union(.receivedData))
    case .download: set.formUnion([.finishedDownload, .wroteData, .resumedAtOffset])
    }
    if countsSending || upload.isWanted { set.insert(.sentBodyData) }
    if !isAttempt, settings.values.withLock({ !$0.retrying.isTrivial }) { set.insert(.repetition) }
    return set
  }

  // MARK: Sending

  override func session(
    _ session: Session, task: SessionTask, didSendBodyData bytesSent: Int64, totalBytesSent: Int64,
    totalBytesExpectedToSend: Int64?
  ) {
    upload.update(totalBytesSent, of: totalBytesExpectedToSend, for: task)
    super.session(
      session, task: task, didSendBodyData: bytesSent, totalBytesSent: totalBytesSent,
      totalBytesExpectedToSend: totalBytesExpectedToSend)
  }

  // MARK: Receiving

  func session(
    _ session: Session, dataTask: DataTask, didReceive response: Response,
    completionHandler: @escaping @Sendable (ResponseDisposition) -> Void
  ) {
    completionHandler(hook { $0.dataTaskDidReceiveResponse }?(session, dataTask, response) ?? .allow)
  }

  func session(_ session: Session, dataTask: DataTask, didBecome downloadTask: DownloadTask) {
    manage(downloadTask)
    state.withLock { $0.dataTask = dataTask }
    hook { $0.dataTaskDidBecomeDownloadTask }?(session, dataTask, downloadTask)
  }

  func session(_ session: Session, dataTask: DataTask, didReceive data: Data) {
    let announced = dataTask.decodedLength
    // Of what is known to be too much, no more than may explain it.
    let limit = announced ?? 0 > bodyLimit ? min(bodyLimit, SessionConfiguration.excessLimit) : bodyLimit
    let (count, isTooLarge) = state.withLock { state -> (Int, Bool) in
      let room = limit - state.data.count
      state.data.append(data.count > room ? data.prefix(max(0, room)) : data)
      if data.count > room { state.isTooLarge = true }
      return (state.data.count, state.isTooLarge)
    }
    if isTooLarge { dataTask.cancel() }
    download.update(Int64(count), of: announced, for: dataTask)
    hook { $0.dataTaskDidReceiveData }?(session, dataTask, data)
  }

  func session(
    _ session: Session, dataTask: DataTask, willCacheResponse proposedResponse: CachedResponse,
    completionHandler: @escaping @Sendable (CachedResponse?) -> Void
  ) {
    guard let hook = hook({ $0.dataTaskWillCacheResponse }) else { return completionHandler(proposedResponse) }
    completionHandler(hook(session, dataTask, proposedResponse))
  }

  func session(
    _ session: Session, downloadTask: DownloadTask, didWriteData bytesWritten: Int64, totalBytesWritten: Int64,
    totalBytesExpectedToWrite: Int64?
  ) {
    download.update(totalBytesWritten, of: totalBytesExpectedToWrite, for: downloadTask)
    hook { $0.downloadTaskDidWriteData }?(
      session, downloadTask, bytesWritten, totalBytesWritten, totalBytesExpectedToWrite)
  }

  func session(
    _ session: Session, downloadTask: DownloadTask, didResumeAtOffset fileOffset: Int64, expectedTotalBytes: Int64?
  ) {
    download.update(fileOffset, of: expectedTotalBytes, for: downloadTask)
    hook { $0.downloadTaskDidResume }?(session, downloadTask, fileOffset, expectedTotalBytes)
  }

  /// The status is judged before the file moves: what is refused is removed with the temporary file. A 416 that brings a download to its end is the
  /// server's word that all of it was there (see `ResumeRule`); any other makes no file. A data task that became a download asked for no rest.
  func session(_ session: Session, downloadTask: DownloadTask, didFinishDownloadingTo path: String) {
    guard let response = downloadTask.response else { return }
    let isWhole = kind == .download && response.statusCode == 416
    if !isWhole, let refusal = serializer.refusal(of: response, data: nil) {
      return state.withLock { $0.fileError = refusal }
    }
    let target = state.withLock { $0.target }
    let temporary = URL(fileURLWithPath: path)
    let place =
      hook { $0.downloadTaskDidFinishDownloading }?(session, downloadTask, temporary)
      ?? target.destination?(temporary, response)
    guard let place else { return }
    do {
      try target.options.move(path, to: place)
      state.withLock { $0.file = place }
      NotificationCenter.default.post(name: .downloadTaskDidMoveFile, object: downloadTask)
    } catch {
      state.withLock { $0.fileError = error }
      NotificationCenter.default.post(
        name: .downloadTaskDidFailToMoveFile, object: downloadTask, userInfo: [TaskNotificationKey.error: error])
    }
  }

  var retrying: RetryLoop { settings.values.withLock { $0.retrying } }

  var dataSoFar: Data { state.withLock { $0.data } }

  func forgetData() {
    state.withLock { state in
      state.data = Data()
      state.isTooLarge = false
    }
    upload.startOver()
    download.startOver()
  }

  // MARK: The end

  override func session(_ session: Session, task: SessionTask, didCompleteWithError error: SessionError?) {
    let (work, isGivenUp) = attempts.withLock { ($0.end(), $0.isGivenUp) }
    work?.cancel()
    let taken = state.withLock { state -> State in
      let taken = state
      state.core = nil
      state.handler = .data(nil)
      state.target = Target()
      state.data = Data()
      state.dataTask = nil
      return taken
    }
    guard let core = taken.core else { return }
    // All of a body may have arrived before the cancellation did.
    let failure =
      error
      ?? (taken.isTooLarge ? SessionError(.bodyTooLarge, phase: .receive, message: "", response: task.response) : nil)
    if failure == nil {
      // Somebody may have asked for it when the task had begun.
      if upload.isWanted {
        upload.finish(for: task, counted: task.countOfBytesSent, of: task.countOfBytesExpectedToSend)
      }
      download.finish(for: task)
    }
    let (taskDidComplete, callDidComplete) = hook { ($0.taskDidComplete, $0.callDidComplete) }
    var ending = TaskEnding(
      task, dataTask: taken.dataTask, serializer: serializer, data: taken.data, file: taken.file,
      notificationQueue: notificationQueue, callDidComplete: isAttempt ? nil : callDidComplete)
    if let failure {
      ending.failed(
        with: isGivenUp ? explained(failure) : refused(failure, taken),
        metrics: failure.metrics ?? task.response?.metrics,
        // The task's own, if it had one; else an interceptor's error may have brought one.
        response: isGivenUp && task.response == nil ? nil : failure.response)
    } else if let error = taken.fileError {
      ending.failed(with: error, metrics: task.response?.metrics, response: task.response)
    }
    ending.deliver(to: taken.handler, core)
    taskDidComplete?(session, task, error)
  }

  /// The error for the handler: with the body as far as it came, and a status as the serializer sees it.
  private func refused(_ error: SessionError, _ state: State) -> any Error {
    var error = error
    if error.partialBody == nil, !state.data.isEmpty { error.partialBody = [UInt8](state.data) }
    if state.isTooLarge {
      error.code = .bodyTooLarge
      error.phase = .receive
      error.message =
        "the body is larger than \(bodyLimit) bytes; see SessionConfiguration.maximumBufferedBodySize, or download it"
    } else if error.code == .badResponse, let response = error.response, !(200...299).contains(response.statusCode),
      let refusal = serializer.refusal(of: response, data: Data(error.partialBody ?? [])) as? SerializationError
    {
      return refusal.ending(in: error)
    }
    return explained(error)
  }
}
