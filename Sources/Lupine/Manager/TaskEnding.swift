internal import Foundation
internal import LupineBase
internal import LupineSession
internal import Synchronization

/// The end of a managed task: the value is made of the body on the processing queue, then the handler is called where the manager says, then the
/// notification is posted there.
struct TaskEnding: Sendable {
  let task: SessionTask
  private let dataTask: DataTask?
  let serializer: any ResponseSerializer
  let data: Data
  let file: URL?
  private let notificationQueue: DispatchQueue
  /// The hook, if it was set when the task was over.
  private let callDidComplete: (@Sendable (Request, Response?, (any Error)?) -> Void)?
  private(set) var response: Response?
  private(set) var error: (any Error)?
  private var value: (any Sendable)?
  private var metrics: TaskMetrics?

  /// - Parameter dataTask: what the task was before it became a download.
  init(
    _ task: SessionTask, dataTask: DataTask?, serializer: any ResponseSerializer, data: Data, file: URL?,
    notificationQueue: DispatchQueue, callDidComplete: (@Sendable (Request, Response?, (any Error)?) -> Void)?
  ) {
    self.task = task
    self.dataTask = dataTask ?? task as? DataTask
    self.serializer = serializer
    self.data = data
    self.file = file
    self.notificationQueue = notificationQueue
    self.callDidComplete = callDidComplete
    response = task.response
    metrics = response?.metrics
  }

  /// There is no value to be made.
  mutating func failed(with error: any Error, metrics: TaskMetrics?, response: Response?) {
    self.error = error
    self.metrics = metrics
    self.response = response ?? self.response
  }

  func deliver(to handler: ManagedTask.Handler, _ core: ManagerCore) {
    if error != nil { return finish(handler, core) }
    ManagerCore.processingQueue.async {
      var ending = self
      ending.serialize(handler)
      ending.finish(handler, core)
    }
  }

  private mutating func serialize(_ handler: ManagedTask.Handler) {
    // A file was validated before it moved; it is the value.
    if handler.isOfDownload { return }
    if let file {
      value = file
      if case .awaitedUpload = handler {
        error = SessionError(.unknown, phase: .receive, message: "the response went to a file, by a hook's choice")
      }
      return
    }
    do {
      if case .awaitedUpload(let serialize, _) = handler {
        let made = try serialize(response, data)
        value = isNothing(made) ? nil : made
      } else {
        value = try serializer.anyValue(response, data: data)
      }
    } catch {
      // HEAD has no value; whoever awaits one is told that there is none.
      if task.currentRequest.method == .head, !handler.isAwaited,
        serializer.missedOnlyTheBody(error, of: response, data: data)
      {
        return
      }
      self.error = error
      value = (error as? SerializationError)?.value
    }
  }

  private func finish(_ handler: ManagedTask.Handler, _ core: ManagerCore) {
    if let callDidComplete {
      core.session.delegateQueue.async { [request = task.originalRequest, response, error] in
        callDidComplete(request, response, error)
      }
    }
    let tell: @Sendable () -> Void = {
      switch handler {
      case .data(let handler): handler?(response, value, error)
      case .download(let handler): handler?(response, file, error)
      case .awaitedDownload(let handler): handler(downloaded, response)
      case .awaitedUpload(_, let end): end(uploaded)
      case .call(let success, let failure):
        if let error { failure?(dataTask, error) } else if let dataTask { success?(dataTask, value) }
      }
      notificationQueue.async { post() }
    }
    // Who awaits goes on where it likes, though the manager's queue may be held up.
    if handler.isAwaited { tell() } else { core.complete(tell) }
  }

  /// The end of a download that had a place to go.
  private var downloaded: Result<(file: URL, response: Response), any Error> {
    if let error { return .failure(error) }
    guard let file, let response else {
      return .failure(SessionError(.unknown, phase: .file, message: "the download ended without a file"))
    }
    return .success((file, response))
  }

  /// The end of an upload whose response was to be a value.
  private var uploaded: Result<Response, any Error> {
    if let error { return .failure(error) }
    guard let response else {
      return .failure(SessionError(.unknown, phase: .receive, message: "the upload ended without a response"))
    }
    return .success(response)
  }

  private func post() {
    var information: [String: Any] = [TaskNotificationKey.responseSerializer: serializer]
    information[TaskNotificationKey.metrics] = metrics
    information[TaskNotificationKey.serializedResponse] = file.map { $0 as any Sendable } ?? value
    information[TaskNotificationKey.error] = error
    if let file {
      information[TaskNotificationKey.assetPath] = file
    } else {
      information[TaskNotificationKey.responseData] = data
    }
    NotificationCenter.default.post(name: .taskDidComplete, object: task, userInfo: information)
  }
}
