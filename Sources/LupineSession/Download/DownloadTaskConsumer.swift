internal import Dispatch
internal import LupineBase
internal import LupineEngine
internal import LupineIO
internal import Synchronization

/// The consumer of a download task: writes the body to a file once it is decided how the download begins, and keeps the task from being over
/// until the file is complete.
final class DownloadTaskConsumer: DeferredConsumer, ResumableConsumer, PipeConsumer {
  private struct State {
    var callbacks: DownloadCallbacks?
    var inner: DownloadConsumer?
    var run: TaskRun?
    var resumeData: ResumeData?
    var waiters = ResumeDataWaiters()
    /// Let go of at the end: it may hold whoever holds the task.
    var handler: Handler?
    /// A file thread decides how the download begins; the file may be locked.
    var isPreparing = false
    /// What the task ended with meanwhile.
    var earlyEnd: Result<Response, SessionError>?
    var isOver = false
  }

  typealias Handler = (queue: DispatchQueue, call: DownloadTaskCompletion)

  private let state: LockedStorage<State>
  let tellsDelegates: Bool

  /// - Parameter resumeData: what the download goes on from.
  init(resuming resumeData: ResumeData? = nil, handler: Handler? = nil) {
    tellsDelegates = handler == nil
    state = LockedStorage(State(resumeData: resumeData, handler: handler))
  }

  /// Before the start.
  func attach(_ callbacks: TaskCallbacks, _ task: SessionTask) {
    guard let task = task as? DownloadTask else { return }
    state.withLock { $0.callbacks = DownloadCallbacks(callbacks, task: task) }
  }

  /// Decides how the download begins, on a file thread; then `body` is called with the request to send.
  ///
  /// - Parameter original: what the task was made with. Whoever makes another URL of it has the download begin anew.
  func prepare(
    _ request: Request, madeOf original: Request, _ session: Session,
    _ body: @escaping @Sendable (Result<Request, SessionError>) -> Void
  ) {
    do throws(SessionError) {
      let threads = try Engine.downloadThreads()
      let fitting = state.withLock { $0.resumeData }.flatMap {
        $0.isLeftBehind(by: request, madeOf: original) ? nil : $0
      }
      DownloadPlan.prepare(request, resuming: fitting, to: nil, session: session, threads: threads) { [self] in
        isStillWanted()
      } completion: { [self] plan in
        let prepared = plan.flatMap { (plan: DownloadPlan) -> Result<Request, SessionError> in
          do throws(SessionError) {
            try begin(plan, nil)
            return .success(plan.request)
          } catch {
            return .failure(error)
          }
        }
        let earlyEnd = state.withLock { state in
          state.isPreparing = false
          return state.earlyEnd.take()
        }
        if let earlyEnd { endBegun(earlyEnd) }
        body(prepared)
      }
    } catch {
      body(.failure(error))
    }
  }

  /// A thread has come to the file. If the task has ended, whoever goes on with it may need that.
  private func isStillWanted() -> Bool {
    state.withLock { state in
      state.isPreparing = !state.isOver && state.run == nil
      return state.isPreparing
    }
  }

  /// - Parameter validate: may refuse a response; nil: everything but a 2xx is refused.
  func begin(_ plan: DownloadPlan, _ validate: (@Sendable (Response) -> SessionError?)?) throws(SessionError) {
    var hooks = DownloadHooks()
    if let validate { hooks.validate = validate }
    if let callbacks = state.withLock({ $0.callbacks }) {
      hooks.resumed = { callbacks.resumed(at: $0, expected: $1) }
      hooks.received = { callbacks.wrote($0, total: $1, expected: $2) }
    }
    let inner = DownloadConsumer(plan, hooks: hooks, threads: try Engine.downloadThreads()) { [self] result, _, _ in
      innerEnded(result)
    }
    state.withLock { $0.inner = inner }
  }

  // MARK: Passed on

  private var inner: DownloadConsumer? { state.withLock { $0.inner } }

  func wantsWhole(insteadOf response: Response) -> Bool { inner?.wantsWhole(insteadOf: response) ?? false }

  func receive(_ response: Response, from exchange: any TransportExchange) {
    inner?.receive(response, from: exchange)
  }

  func receive(body bytes: Span<UInt8>, from exchange: any TransportExchange) {
    inner?.receive(body: bytes, from: exchange)
  }

  func pipe() -> BodyPipe? { inner?.pipe() }

  func receive(piped count: Int, from exchange: any TransportExchange) {
    inner?.receive(piped: count, from: exchange)
  }

  // MARK: The end

  var endsLater: Bool { true }
  func end(_ result: Result<Response, SessionError>) { inner?.end(result) }

  func end(_ result: Result<Response, SessionError>, of run: TaskRun) {
    let isEarly = state.withLock { state in
      state.run = run
      // Nothing is done about a file that no thread has come to.
      guard state.isPreparing else { return false }
      // What is locked is unlocked first: whoever is told may go on with it at once.
      state.earlyEnd = result
      return true
    }
    if !isEarly { endBegun(result) }
  }

  private func endBegun(_ result: Result<Response, SessionError>) {
    let (inner, run) = state.withLock { ($0.inner, $0.run) }
    if let inner, let run { return inner.end(result, of: run) }
    // It never began.
    switch result {
    case .success:
      ended(.failure(SessionError(.unknown, phase: .prepare, message: "the download never began")))
    case .failure(var error):
      error.resumeData = state.withLock { $0.resumeData }
      ended(.failure(error))
    }
  }

  /// What was abandoned says nothing.
  private func innerEnded(_ result: Result<DownloadedFile, SessionError>) {
    let isWanted = state.withLock { $0.run != nil && $0.inner != nil && !$0.isOver }
    if isWanted {
      ended(result)
    } else if case .success(let file) = result {
      file.remove()
    }
  }

  /// Calls back with what the download can go on from, once it is over.
  func whenOver(_ waiter: @escaping ResumeDataWaiters.Waiter) {
    if let resumeData = state.withLock({ $0.waiters.add(waiter) }) { waiter(resumeData.value) }
  }

  private func ended(_ result: Result<DownloadedFile, SessionError>) {
    var resumeData: ResumeData?
    if case .failure(let error) = result { resumeData = error.resumeData }
    let (run, callbacks, waiters, handler) = state.withLock { state in
      defer {
        state.isOver = true
        state.handler = nil
        state.resumeData = resumeData
        state.run = nil
        state.callbacks = nil
        state.inner = nil
      }
      return (state.run, state.callbacks, state.waiters.end(resumeData), state.handler)
    }
    run?.settle(result.map(\.response)) {
      if let handler {
        handler.queue.async {
          handler.call(result.map { ($0.path, $0.response) })
          if case .success(let file) = result { file.remove() }
        }
      } else if let callbacks {
        callbacks.ended(result)
      } else if case .success(let file) = result {
        file.remove()
      }
      for waiter in waiters { waiter(resumeData) }
    }
  }
}
