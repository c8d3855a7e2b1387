internal import Dispatch
internal import LupineBase
internal import LupineEngine
internal import Synchronization

/// The consumer of a download task: writes the body to a file once it is decided how the download begins, and keeps the task from being over
/// until the file is complete.
final class DownloadTaskConsumer: DeferredConsumer {
  private struct State {
    var callbacks: DownloadCallbacks?
    var inner: DownloadConsumer?
    var run: TaskRun?
    var resumeData: ResumeData?
    var waiters: [@Sendable (ResumeData?) -> Void] = []
    var isOver = false
  }

  private let state: LockedStorage<State>
  private let handler: (queue: DispatchQueue, call: DownloadTaskCompletion)?

  /// - Parameter resumeData: what the download goes on from.
  init(resuming resumeData: ResumeData? = nil, handler: (queue: DispatchQueue, call: DownloadTaskCompletion)? = nil) {
    self.handler = handler
    state = LockedStorage(State(resumeData: resumeData))
  }

  /// Before the start.
  func attach(_ callbacks: TaskCallbacks, _ task: SessionTask) {
    guard let task = task as? DownloadTask else { return }
    state.withLock { $0.callbacks = DownloadCallbacks(callbacks, task: task) }
  }

  /// Decides how the download begins, on a file thread; then `body` is called with the request to send.
  func prepare(
    _ request: Request, _ session: Session, _ body: @escaping @Sendable (Result<Request, SessionError>) -> Void
  ) {
    do throws(SessionError) {
      let threads = try Engine.downloadThreads()
      DownloadPlan.prepare(
        request, resuming: state.withLock { $0.resumeData }, to: nil, session: session, threads: threads
      ) { [self] plan in
        body(
          plan.flatMap { (plan: DownloadPlan) -> Result<Request, SessionError> in
            do throws(SessionError) {
              try begin(plan, nil)
              return .success(plan.request)
            } catch {
              return .failure(error)
            }
          })
      }
    } catch {
      body(.failure(error))
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
    let inner = DownloadConsumer(plan, hooks: hooks, threads: try Engine.downloadThreads()) { [self] in innerEnded($0) }
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

  // MARK: The end

  var endsLater: Bool { true }
  var tellsDelegates: Bool { handler == nil }

  func end(_ result: Result<Response, SessionError>) { inner?.end(result) }

  func end(_ result: Result<Response, SessionError>, of run: TaskRun) {
    let inner = state.withLock { state in
      state.run = run
      return state.inner
    }
    if let inner { return inner.end(result) }
    // It never began.
    switch result {
    case .success:
      ended(.failure(SessionError(.unknown, phase: .prepare, message: "the download never began")))
    case .failure(var error):
      error.resumeData = state.withLock { $0.resumeData }
      ended(.failure(error))
    }
  }

  /// The task was cancelled while it was being decided how the download begins: nothing of that decision is left.
  func abandon() {
    let inner = state.withLock { state -> DownloadConsumer? in
      // The end of the task has found it, and ends it.
      guard state.run == nil else { return nil }
      defer { state.inner = nil }
      return state.inner
    }
    inner?.end(.failure(SessionError(.cancelled, phase: .prepare, message: "the task was cancelled")))
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
  func whenOver(_ waiter: @escaping @Sendable (ResumeData?) -> Void) {
    let (isOver, resumeData) = state.withLock { state in
      if !state.isOver { state.waiters.append(waiter) }
      return (state.isOver, state.resumeData)
    }
    if isOver { waiter(resumeData) }
  }

  private func ended(_ result: Result<DownloadedFile, SessionError>) {
    var resumeData: ResumeData?
    if case .failure(let error) = result { resumeData = error.resumeData }
    let (run, callbacks, waiters) = state.withLock { state in
      defer {
        state.isOver = true
        state.resumeData = resumeData
        state.run = nil
        state.callbacks = nil
        state.inner = nil
        state.waiters = []
      }
      return (state.run, state.callbacks, state.waiters)
    }
    run?.settle(result.map(\.response)) {
      if let handler {
        handler.queue.async { [handler] in
          handler.call(result.map { ($0.path, $0.response) })
          if case .success(let file) = result { file.remove() }
        }
      } else if let callbacks {
        callbacks.ended(result)
      } else if case .success(let file) = result {
        file.remove()
      }
    }
    for waiter in waiters { waiter(resumeData) }
  }
}
