internal import Dispatch
public import FoundationEssentials
internal import LupineBase
internal import LupineIO

/// What a completion handler of a task is given.
public typealias DataTaskCompletion = @Sendable (Result<(Data, Response), SessionError>) -> Void

extension Session {
  // MARK: Tasks that begin with `resume()`

  /// Makes a data task whose response goes to the delegate: its own, or the session's.
  public func dataTask(with request: Request) -> DataTask {
    created(DataTask(TaskRun(request, session: self, consumer: DelegateConsumer(), kind: .data, isObserved: true)))
  }

  /// Makes a data task whose response goes to a completion handler, which is called once, on the delegate queue.
  public func dataTask(with request: Request, completionHandler: @escaping DataTaskCompletion) -> DataTask {
    created(DataTask(run(request, .data, completionHandler)))
  }

  /// Makes a task that sends bytes; its response goes to the delegate.
  public func uploadTask(with request: Request, from data: Data) -> UploadTask {
    uploadTask(request, .data(data), nil)
  }

  /// Makes a task that sends bytes; its response goes to a completion handler, on the delegate queue.
  public func uploadTask(
    with request: Request, from data: Data, completionHandler: @escaping DataTaskCompletion
  ) -> UploadTask {
    uploadTask(request, .data(data), completionHandler)
  }

  /// Makes a task that sends a file; its response goes to the delegate.
  public func uploadTask(with request: Request, fromFile path: String) -> UploadTask {
    uploadTask(request, .file(path: path), nil)
  }

  /// Makes a task that sends a file; its response goes to a completion handler, on the delegate queue.
  public func uploadTask(
    with request: Request, fromFile path: String, completionHandler: @escaping DataTaskCompletion
  ) -> UploadTask {
    uploadTask(request, .file(path: path), completionHandler)
  }

  /// Makes a task that sends the stream of its request's body. If that is `.none`, the delegate is asked for one with `needNewBodyStream`, and
  /// asked again whenever the body has to be sent again. The response goes to the delegate.
  public func uploadTask(withStreamedRequest request: Request) -> UploadTask {
    uploadTask(request, request.body, nil)
  }

  private func uploadTask(
    _ request: Request, _ body: Request.Body, _ completionHandler: DataTaskCompletion?
  ) -> UploadTask {
    var request = request
    request.body = body
    guard let completionHandler else {
      return created(
        UploadTask(TaskRun(request, session: self, consumer: DelegateConsumer(), kind: .upload, isObserved: true)))
    }
    return created(UploadTask(run(request, .upload, completionHandler)))
  }

  private func run(_ request: Request, _ kind: TaskRun.Kind, _ completionHandler: @escaping DataTaskCompletion)
    -> TaskRun
  {
    let queue = delegateQueue
    return BufferedRun(request, session: self, kind: kind, isObserved: true) { result in
      queue.async { completionHandler(result) }
    }
  }

  // MARK: Beginnings

  func created<Task: SessionTask>(_ task: Task) -> Task {
    if let listener = creationListener(nil) { tellCreated(task, listener) {} }
    return task
  }

  /// Who wants to hear that a task was made; nil for most tasks.
  private func creationListener(_ own: (any SessionTaskDelegate)?) -> (any SessionTaskDelegate)? {
    if let own, own.handledCallbacks.contains(.createdTask) { return own }
    let shared = delegate as? any SessionTaskDelegate
    return shared?.handledCallbacks.contains(.createdTask) ?? false ? shared : nil
  }

  /// - Parameter next: called on the delegate queue behind that.
  private func tellCreated(
    _ task: SessionTask, _ listener: any SessionTaskDelegate, then next: @escaping @Sendable () -> Void
  ) {
    let isShared = listener === delegate
    delegateQueue.async {
      // Behind the end of the session its delegate hears nothing.
      if !isShared || self.delegate != nil { self.asking(listener) { listener.session(self, didCreateTask: task) } }
      next()
    }
  }

  /// Whether a task of the `async` API has to be shown to anybody.
  func isObserved(_ delegate: (any SessionTaskDelegate)?) -> Bool { delegate != nil || hasTaskDelegate }

  /// Begins a task of the `async` API: behind the callback of a delegate that wants to hear that it was made, as nobody else has the task to say when it
  /// may begin and who is to hear of it.
  ///
  /// - Parameter attach: called with a task that delegates may hear of, before it begins.
  func launch(
    _ run: TaskRun, _ delegate: (any SessionTaskDelegate)?, attach: (@Sendable (SessionTask) -> Void)? = nil
  ) {
    guard run.callbacks != nil else {
      run.start()
      return
    }
    let task = run.face
    task.delegate = delegate
    guard let listener = creationListener(delegate) else { return begin(task, attach) }
    // Here and not when it begins: the queue may be busy, and the end of the session that somebody calls for meanwhile is that of the call too.
    run.register()
    tellCreated(task, listener) { self.begin(task, attach) }
  }

  private func begin(_ task: SessionTask, _ attach: (@Sendable (SessionTask) -> Void)?) {
    attach?(task)
    task.resume()
    // A call that was cancelled before it began ended when nobody was attached yet, and nobody else lets go of its delegate.
    if task.state == .completed { task.letGo() }
  }

  // MARK: All of them

  /// The tasks that have begun and not completed, those of the `async` API too; the latter also while a delegate is told that they were made, behind which
  /// they begin. A task that never began is not among them.
  public var tasks: [SessionTask] {
    get async { allTasks }
  }

  /// Calls back on the delegate queue with `tasks`.
  public func getAllTasks(completionHandler: @escaping @Sendable ([SessionTask]) -> Void) {
    let tasks = allTasks
    delegateQueue.async { completionHandler(tasks) }
  }

  /// The same at once, from any thread.
  package var allTasks: [SessionTask] {
    registry.runs.filter { !$0.isOver }.map { $0.face }.sorted { $0.taskIdentifier < $1.taskIdentifier }
  }
}
