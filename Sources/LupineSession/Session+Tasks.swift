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
    created(unlistedDataTask(with: request))
  }

  /// Makes a data task whose response goes to a completion handler, which is called once, on the delegate queue.
  public func dataTask(with request: Request, completionHandler: @escaping DataTaskCompletion) -> DataTask {
    created(DataTask(run(request, .data, completionHandler)))
  }

  /// Makes a task that sends bytes; its response goes to the delegate.
  public func uploadTask(with request: Request, from data: Data) -> UploadTask {
    created(unlistedUploadTask(with: request, body: .data(data)))
  }

  /// Makes a task that sends bytes; its response goes to a completion handler, on the delegate queue.
  public func uploadTask(
    with request: Request, from data: Data, completionHandler: @escaping DataTaskCompletion
  ) -> UploadTask {
    uploadTask(request, .data(data), completionHandler)
  }

  /// Makes a task that sends a file; its response goes to the delegate.
  public func uploadTask(with request: Request, fromFile path: String) -> UploadTask {
    created(unlistedUploadTask(with: request, body: .file(path: path)))
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
    created(unlistedUploadTask(with: request, body: request.body))
  }

  /// Makes a task that sends the stream of its request's body; its response goes to a completion handler, on the delegate queue. If the body is `.none`, or
  /// has to be sent again and cannot be, a delegate is asked for one with `needNewBodyStream`: the task's own, or the session's.
  public func uploadTask(
    withStreamedRequest request: Request, completionHandler: @escaping DataTaskCompletion
  ) -> UploadTask {
    uploadTask(request, request.body, completionHandler)
  }

  private func uploadTask(
    _ request: Request, _ body: Request.Body, _ completionHandler: @escaping DataTaskCompletion
  ) -> UploadTask {
    var request = request
    request.body = body
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

  // MARK: Tasks that nobody knows of until `SessionTask.enlist()`

  /// Makes a data task for whoever is to be its delegate: if the end of the session could come to it before that, nobody would be told. Unlisted it
  /// comes to it when it begins.
  package func unlistedDataTask(with request: Request) -> DataTask {
    DataTask(TaskRun(request, session: self, consumer: delegateConsumer, kind: .data, isObserved: true))
  }

  /// Makes a task that sends a body; see `unlistedDataTask(with:)`.
  package func unlistedUploadTask(with request: Request, body: Request.Body) -> UploadTask {
    var request = request
    request.body = body
    return UploadTask(TaskRun(request, session: self, consumer: delegateConsumer, kind: .upload, isObserved: true))
  }

  private var delegateConsumer: DelegateConsumer { DelegateConsumer(highWatermark: bodyWatermarks.high) }

  // MARK: Beginnings

  func created<Task: SessionTask>(_ task: Task) -> Task {
    enlist(task)
    return task
  }

  /// See `SessionTask.enlist`.
  func enlist(_ task: SessionTask, _ tell: (() -> Void)? = nil) {
    let listener = creationListener(nil)
    guard listener != nil || tell != nil else {
      task.list()
      return
    }
    // Before anybody is told: who hears of the task may end the session, and begin or cancel the task behind that.
    let isListed = task.list(isTold: false)
    if let listener { tellCreated(task, listener) {} }
    tell?()
    if isListed, registry.told(task.taskIdentifier) { task.cancel() }
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

  /// The tasks that have not completed, those that were made and not resumed yet included, as in URLSession, and those of the `async` API too; the latter also
  /// while a delegate is told that they were made, behind which they begin. A task that was made when the session was invalid already is not among them.
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
    let (begun, made) = registry.tasks
    let tasks = begun.filter { !$0.isOver }.map { $0.face } + made.filter { !$0.run.isOver }
    return tasks.sorted { $0.taskIdentifier < $1.taskIdentifier }
  }
}
