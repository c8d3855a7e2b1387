internal import Synchronization
internal import HTTPTypes
internal import Logging
internal import LupineBase
internal import LupineIO
internal import LupineRules
internal import LupineWire

/// One task from its request to its last response: follows redirects, asks delegates, collects what was said on the way, and passes the
/// final response to its consumer. `SessionTask` is its public face; most tasks of the `async` API never have one.
///
/// Its life is the `TaskMachine`. Within it one exchange at a time is under way; a redirect, a challenge or a new start begins the next one
/// when the one before has ended.
///
/// What becomes of the response is a consumer's, or that of a subclass, which is spared an object of its own then: `take` and `takeEnd`.
///
/// Invariant: the consumer's `end` is called exactly once, after which nothing is.
///
/// `@unchecked` because it has a subclass: what it stores does not change, is atomic, or is behind a lock.
class TaskRun: PipeReceiver, TransportExchange, @unchecked Sendable {
  /// What kind of public face the task has.
  enum Kind: Sendable {
    case data
    case upload
    case download
  }

  /// What follows the exchange under way, instead of its response being the answer.
  enum Following {
    /// The next exchange, to where the chain leads now.
    case again
    case failure(SessionError)
  }

  /// Who wants the socket not to be read.
  struct Pauses: OptionSet {
    let rawValue: UInt8
    static let consumer = Pauses(rawValue: 1)
    static let decision = Pauses(rawValue: 2)
    static let suspension = Pauses(rawValue: 4)
  }

  private static let identifiers = Atomic<UInt64>(0)

  /// Unique in the process.
  let identifier = TaskRun.identifiers.add(1, ordering: .relaxed).newValue
  let kind: Kind
  let request: Request
  let session: Session
  /// Nil of a task that takes its response itself.
  let consumer: (any ResponseConsumer)?
  let onSent: (@Sendable (Int) -> Void)?
  /// Whether an answer that is at hand may be given before `start` has returned; otherwise on the engine's thread.
  let takesAnswersAtOnce: Bool
  let state = LockedStorage(State())
  /// Whether anything but passing body bytes straight on may be called for: the gate is then asked under the lock.
  let isGated = Atomic<Bool>(false)
  /// Whether there is an `authentication`, to be read without the lock.
  let isAuthenticating = Atomic<Bool>(false)
  let receivedBytes = Atomic<Int64>(0)
  let sentBytes = Atomic<Int64>(0)
  /// Somebody reads the progress of the public face.
  let isWatched = Atomic<Bool>(false)
  private let priorityBits = Atomic<UInt32>(SessionTask.defaultPriority.bitPattern)
  /// Who else is told; set before the start. Nil for most tasks.
  let callbacks: LockedReference<TaskCallbacks>?

  /// - Parameters:
  ///   - isObserved: delegates may have to be told.
  ///   - takesAnswersAtOnce: false if whoever waits was promised the engine's thread.
  ///   - onSent: told how many more body bytes were handed to the network; less than none if they have to be sent again.
  init(
    _ request: Request, session: Session, consumer: (any ResponseConsumer)?, kind: Kind = .data,
    isObserved: Bool = false, takesAnswersAtOnce: Bool = true, onSent: (@Sendable (Int) -> Void)? = nil
  ) {
    self.request = request
    self.session = session
    self.consumer = consumer
    self.kind = kind
    self.onSent = onSent
    self.takesAnswersAtOnce = takesAnswersAtOnce
    callbacks = isObserved ? LockedReference() : nil
  }

  /// It has completed; whoever waits for it may not have been told.
  var isOver: Bool { state.withLock { $0.isCompleted } }

  var observer: TaskCallbacks? { callbacks?.value }

  // MARK: Commands, from any thread

  /// Begins, or goes on after `suspend`; `tell` is called before that, unless there is nothing to do. It is called under the lock, and only queues:
  /// otherwise two threads could tell of their commands in another order than that in which these counted.
  func start(_ tell: () -> Void = {}) {
    let (action, exchange, pause) = state.withLock {
      state -> (TaskMachine.Action, (any TransportExchange)?, PauseState?) in
      let action = state.machine.resume()
      switch action {
      case .start:
        tell()
        state.startedAt = EventLoop.monotonicNow()
        return (action, nil, nil)
      case .resume: tell()
      default: return (action, nil, nil)
      }
      // With the decision, not after it: a suspension that was decided before must not come to pass behind it.
      state.pauses.remove(.suspension)
      return (action, state.exchange, state.pause.change(to: !state.pauses.isEmpty))
    }
    switch action {
    case .start:
      guard callbacks == nil else { return startObserved() }
      guard let slot = session.registry.add(self) else { return finish(session.invalidationError(request)) }
      begin(registeredAt: slot)
    case .resume:
      if let pause { exchange?.setPaused(pause) }
      answered(.suspension) { begin() }
    default: break
    }
  }

  private func startObserved() {
    guard state.withLock({ $0.registration }) != nil || register() else {
      return finish(session.invalidationError(request))
    }
    beginObserved()
  }

  /// Takes its place among the tasks of the session, which `start` does otherwise. For tasks that may have to be shown to somebody. False: there is none for
  /// it any more, as the session is invalid, or the task is over.
  @discardableResult
  func register() -> Bool {
    // In one step: a task that ends meanwhile keeps the place that it had when it was made, until its end is told.
    state.withLock { state in
      guard !state.isEnding, let slot = session.registry.addObserved(self) else { return false }
      state.registration = slot
      return true
    }
  }

  /// Stops reading; nothing new begins until `start`. `tell` is called before that, if the task runs, as in `start`.
  func suspend(_ tell: () -> Void) {
    let (exchange, pause) = state.withLock { state -> ((any TransportExchange)?, PauseState?) in
      guard state.machine.suspend() == .pause else { return (nil, nil) }
      tell()
      state.pauses.insert(.suspension)
      return (state.exchange, state.pause.change(to: true))
    }
    if let pause { exchange?.setPaused(pause) }
  }

  /// Gives up; the consumer is told with `.cancelled`, once.
  func cancel() {
    let (exchange, isOver, held) = state.withLock { state -> ((any TransportExchange)?, Bool, Int?) in
      guard !state.isCommitted else { return (nil, false, nil) }
      switch state.machine.cancel() {
      case .complete: return (nil, true, nil)
      case .cancel:
        isGated.store(true, ordering: .releasing)
        // A decision that is still to come decides nothing any more.
        let held = state.gate.abandon()
        let isWaiting = state.wait != nil
        state.wait = nil
        return (state.exchange, isWaiting, held)
      default: return (nil, false, nil)
      }
    }
    if isOver { finish(cancellation) } else { exchange?.cancel() }
    if let held { drain(held) }
  }

  var cancellation: SessionError {
    SessionError(.cancelled, phase: .prepare, message: "the task was cancelled", failingURL: request.urlString)
  }

  func pause(_ reason: Pauses) { changePauses { $0.pauses.insert(reason) } }

  func unpause(_ reason: Pauses) { changePauses { $0.pauses.remove(reason) } }

  /// The exchange reads while there is no reason not to.
  private func changePauses(_ change: (inout State) -> Void) {
    let (exchange, pause) = state.withLock { state -> ((any TransportExchange)?, PauseState?) in
      change(&state)
      return (state.exchange, state.pause.change(to: !state.pauses.isEmpty))
    }
    if let pause { exchange?.setPaused(pause) }
  }

  // MARK: The public face

  var priority: Float {
    get { Float(bitPattern: priorityBits.load(ordering: .relaxed)) }
    set { priorityBits.store(newValue.bitPattern, ordering: .relaxed) }
  }

  /// A handle on the task, the same one as long as the task runs.
  var face: SessionTask {
    let made = SessionTask.face(of: self)
    return state.withLock { state in
      if let face = state.face { return face }
      if state.machine.state != .completed { state.face = made }
      return made
    }
  }

  /// The handle, if anybody has one.
  var knownFace: SessionTask? { state.withLock { $0.face } }

  /// Before the start: reads the delegates, once.
  ///
  /// In one step, as one thread may begin the task while another cancels it: whoever ends it finds everybody who is to be told, and nobody is
  /// attached behind the end.
  func prepare(_ face: SessionTask) {
    guard let callbacks, callbacks.value == nil else { return }
    let delegates = TaskCallbacks(
      task: face, session: session, own: face.delegate, earliestBeginDate: face.earliestBeginDate)
    state.withLock { state in
      guard state.machine.state == .created, callbacks.value == nil, state.face == nil || state.face === face else {
        return
      }
      state.face = face
      guard !delegates.isSilent else { return }
      (consumer as? DelegateConsumer)?.attach(delegates)
      (consumer as? DownloadTaskConsumer)?.attach(delegates, face)
      callbacks.value = delegates
    }
  }

  func watchProgress() { isWatched.store(true, ordering: .relaxed) }

  func progressed() {
    guard isWatched.load(ordering: .relaxed) else { return }
    state.withLock { $0.face }?.progressed()
  }

  /// The request that was sent last.
  var currentRequest: Request {
    state.withLock { $0.chain }?.request(instead: request, isMarkedSensitive: isSensitive) ?? request
  }

  /// Whether the codings of the answer were offered by us, so that we decode them.
  var offersCodings: Bool {
    let chain = state.withLock { $0.chain }
    let hop = chain.map { ComposedFields.Hop($0, request) }
    return ComposedFields(run: self, hop: hop, url: chain?.url ?? request.parsedURL).offersCodings
  }

  /// Bytes of the body that is sent: those of the request if it says so, else what the head announces, as a file's length is looked up for it. Nil of
  /// a body in chunks, of one that a delegate makes without a length, and of a file before its request is on its way.
  ///
  /// - Parameter requestHead: of the exchange under way.
  func expectedBytesToSend(_ requestHead: [UInt8]) -> Int64? {
    if let known = state.withLock({ $0.bodyLength }) { return known }
    let body = currentRequest.body
    if state.withLock({ $0.chain?.newBody }) != nil { return body.streamLength }
    if case .none = body, kind == .upload, canAskForBody { return nil }
    return body.knownLength ?? SentHead(requestHead)?.contentLength
  }

  private func endObserved(_ result: Result<Response, SessionError>) {
    let face = state.withLock { state in
      defer { state.face = nil }
      return state.face
    }
    observer?.collected(result, of: face)
    face?.finishProgress()
    if !(consumer?.tellsDelegates ?? false) || observer == nil {
      observer?.end()
      face?.letGo()
    }
    callbacks?.value = nil
  }

  // MARK: For the consumer, which sees the exchange under way through the task

  var requestHead: [UInt8] {
    // A transport of the caller's is asked, which may have a lock of its own: never under this one.
    let (exchange, last) = state.withLock { ($0.exchange, $0.lastRequestHead) }
    return exchange?.requestHead ?? last
  }
  func setPaused(_ pause: PauseState) {
    changePauses { state in
      guard state.consumerPause.update(to: pause) else { return }
      if pause.isPaused { state.pauses.insert(.consumer) } else { state.pauses.remove(.consumer) }
    }
  }
  /// Another consumer counts its pauses from the first.
  func resetConsumerPause() {
    changePauses { state in
      state.consumerPause = PauseState()
      state.pauses.remove(.consumer)
    }
  }
  func discardBody() { state.withLock { $0.exchange }?.discardBody() }

  // MARK: What becomes of the response

  /// The head of the final response.
  func take(_ response: Response) { consumer?.receive(response, from: self) }

  /// Body bytes.
  func take(body bytes: Span<UInt8>) { consumer?.receive(body: bytes, from: self) }

  /// Whether the body was more than may be held, so that the task was given up.
  var isBodyTooLarge: Bool { false }

  /// The end, once; nothing else is called after it.
  func takeEnd(_ result: Result<Response, SessionError>) { consumer?.end(result) }

  // MARK: The end

  func finish(_ failure: SessionError?) {
    // Of a task that nobody hears of only a file takes time to end.
    let endsAtOnce = callbacks == nil && kind != .download
    let ending = state.withLock { state -> Ending? in
      guard !state.isEnding else { return nil }
      state.isEnding = true
      state.exchange = nil
      state.answerTimer = nil
      // A transport that stands before the engine's may have waited, as may have been done with the gate closed.
      let isPrompt = endsAtOnce && session.engine != nil && !isGated.load(ordering: .acquiring)
      let result = result(failure, isPrompt: isPrompt, &state)
      // The consumer of a task that delegates hear of may take time to end.
      return endsAtOnce ? settled(result, &state) : Ending(result: result)
    }
    guard let ending else {
      let lastWord = state.withLock { $0.takeLastWord() }
      if let failure { lastWord?(failure) }
      return
    }
    if endsAtOnce {
      complete(ending) { takeEnd(ending.result) }
    } else if let consumer = consumer as? any DeferredConsumer, consumer.endsLater {
      consumer.end(ending.result, of: self)
    } else {
      settle(ending.result) { takeEnd(ending.result) }
    }
  }

  /// Before what the task has made of a response is handed over, which has no way back: from here on it cannot be cancelled.
  ///
  /// - Returns: what it ends with instead; nil: it was not cancelled before.
  func commit(_ response: Response) -> SessionError? {
    let isCancelled = state.withLock { state -> Bool in
      if !state.isCanceling { state.isCommitted = true }
      return state.isCanceling
    }
    return isCancelled ? cancellation.behind(response) : nil
  }

  /// What a task ends with.
  private struct Ending {
    var result: Result<Response, SessionError>
    var registration: Int?
    /// Somebody has the public face, or hears of the task.
    var isSeen = false
  }

  /// The task is over; `tell` says so to whoever waits for it.
  func settle(_ result: Result<Response, SessionError>, _ tell: () -> Void) {
    complete(state.withLock { settled(result, &$0) }, tell)
  }

  private func settled(_ result: Result<Response, SessionError>, _ state: inout State) -> Ending {
    _ = state.machine.end()
    // Of a call without delegates there is a handle if somebody has asked for the session's tasks. It and the task hold each other.
    let isSeen = callbacks != nil || state.face != nil
    if isSeen {
      switch result {
      case .success(let response): state.response = response
      case .failure(let error): state.error = error
      }
    }
    return Ending(result: result, registration: state.registration.take(), isSeen: isSeen)
  }

  private func complete(_ ending: Ending, _ tell: () -> Void) {
    if let logger = session.configuration.logger { log(ending.result, to: logger) }
    if ending.isSeen || isWatched.load(ordering: .relaxed) { endObserved(ending.result) }
    tell()
    if let registration = ending.registration {
      session.registry.remove(registration)
    } else if callbacks != nil {
      // Made, perhaps, and over before it began.
      session.registry.withdraw(identifier)
    }
  }

  /// - Parameter isPrompt: where it succeeds, the task ends with its last exchange, whose time is known.
  private func result(
    _ failure: SessionError?, isPrompt: Bool, _ state: inout State
  ) -> Result<Response, SessionError> {
    // Whatever else went wrong, or went well, before the cancellation came to it.
    let failure = state.isCanceling && failure?.code != .cancelled ? cancellation : failure
    let known = isPrompt && failure == nil ? state.transactions.endedAt.map { max($0, state.startedAt) } : nil
    let now = known ?? EventLoop.monotonicNow()
    // A task that was cancelled before it began took no time.
    if state.startedAt.nanoseconds == 0 { state.startedAt = now }
    var transactions = TransactionList.none
    swap(&transactions, &state.transactions)
    let metrics = TaskMetrics(
      transactions: transactions, start: state.startedAt, end: now, redirectCount: state.redirectCount)
    var taken = takeResponse(&state)
    if failure == nil, var response = taken.take() {
      response.end(trailers: state.trailers, metrics: metrics)
      return .success(response)
    }
    taken?.end(trailers: state.trailers, metrics: metrics)
    var error = completed(failure, taken, metrics, state.hasLeft, state.lastRequestHead)
    if let box = state.chainBox {
      error.sensitiveFields = box.value.sensitiveFields
      error.redirects = box.value.redirects
    }
    return .failure(error)
  }

  /// The response; where nobody else can see it, it is taken, and thus completed where it is.
  private func takeResponse(_ state: inout State) -> Response? {
    guard callbacks == nil, state.face == nil else { return state.response }
    return state.response.take()
  }

  /// What there is to say about a failure.
  private func completed(
    _ failure: SessionError?, _ response: Response?, _ metrics: TaskMetrics, _ hasLeft: Bool, _ requestHead: [UInt8]
  ) -> SessionError {
    var failure =
      failure ?? SessionError(.unknown, phase: .receive, message: "the transport ended without a response")
    failure.response = response ?? failure.response
    if hasLeft { failure.requestBytesSent = true }
    failure.requestHead = requestHead
    failure.metrics = metrics
    return failure
  }
}

/// A reference that is set once, may be taken back, and is read from any thread.
final class LockedReference<Value: Sendable>: Sendable {
  private let storage: LockedStorage<Value?>

  init(_ value: Value? = nil) { storage = LockedStorage(value) }

  var value: Value? {
    get { storage.withLock { $0 } }
    set {
      let former = storage.withLock { value in
        defer { value = newValue }
        return value
      }
      // Not under the lock: it may hold the last reference to a delegate that asks its task when it goes.
      withExtendedLifetime(former) {}
    }
  }
}
