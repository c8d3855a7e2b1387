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
/// Invariant: the consumer's `end` is called exactly once, after which nothing is.
final class TaskRun: TransportReceiver, TransportExchange {
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

  /// Keeps what is large and rare out of the state of the many tasks that have none of it.
  final class Box<Value> {
    let value: Value

    init(_ value: Value) { self.value = value }
  }

  struct State {
    var machine = TaskMachine()
    var exchange: (any TransportExchange)?
    /// Exchanges begun, and exchanges ended.
    var begun = 0
    var ended = 0
    var pauses: Pauses = []
    /// What the reasons come to.
    var pause = PauseState()
    /// What the consumer wants.
    var consumerPause = PauseState()
    /// The next exchange waits: for a delegate, for connectivity, for a date, or for `resume`.
    var wait: Wait?
    var questions = 0
    var connectivityWaits = 0
    /// Pass this on where it may be nil: an optional chain is a large value to copy even then.
    private(set) var chainBox: Box<Chain>?
    var chain: Chain? {
      get { chainBox?.value }
      set { chainBox = newValue.map { Box($0) } }
    }
    /// Of a task that was asked who is asking.
    var authentication: TaskAuthentication?
    /// What the task begins with, where that is not what it was made with: a delayed request that was changed, a download's with its range.
    var first: Request? {
      get { firstBox?.value }
      set { firstBox = newValue.map { Box($0) } }
    }
    private var firstBox: Box<Request>?
    var following: Following?
    var gate = Gate()
    var response: Response?
    var trailers: FieldSection?
    var informational: [ResponseHead] = []
    var transactions = TransactionList()
    var lastRequestHead: [UInt8] = []
    var startedAt = Instant(nanoseconds: 0)
    var registration: Int?
    /// The public face, from the start to the end; it is made when somebody asks.
    var face: SessionTask?
    var error: SessionError?
    var isEnding = false
    /// A server may have seen a request of the task: an exchange was answered, or failed after bytes of it were sent.
    var hasLeft = false
  }

  private static let identifiers = Atomic<UInt64>(0)

  /// Unique in the process.
  let identifier = TaskRun.identifiers.add(1, ordering: .relaxed).newValue
  let kind: Kind
  let request: Request
  let session: Session
  let consumer: any ResponseConsumer
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
  private let isWatched = Atomic<Bool>(false)
  private let priorityBits = Atomic<UInt32>(SessionTask.defaultPriority.bitPattern)
  /// Who else is told; set before the start. Nil for most tasks.
  let callbacks: LockedReference<TaskCallbacks>?

  /// - Parameters:
  ///   - isObserved: delegates may have to be told.
  ///   - takesAnswersAtOnce: false if whoever waits was promised the engine's thread.
  ///   - onSent: told how many more body bytes were handed to the network; less than none if they have to be sent again.
  init(
    _ request: Request, session: Session, consumer: any ResponseConsumer, kind: Kind = .data, isObserved: Bool = false,
    takesAnswersAtOnce: Bool = true, onSent: (@Sendable (Int) -> Void)? = nil
  ) {
    self.request = request
    self.session = session
    self.consumer = consumer
    self.kind = kind
    self.onSent = onSent
    self.takesAnswersAtOnce = takesAnswersAtOnce
    callbacks = isObserved ? LockedReference() : nil
  }

  var observer: TaskCallbacks? { callbacks?.value }

  // MARK: Commands, from any thread

  /// Begins, or goes on after `suspend`; `tell` is called before that, unless there is nothing to do.
  func start(_ tell: () -> Void = {}) {
    let (action, exchange, pause) = state.withLock {
      state -> (TaskMachine.Action, (any TransportExchange)?, PauseState?) in
      let action = state.machine.resume()
      if action == .start { state.startedAt = EventLoop.monotonicNow() }
      guard action == .resume else { return (action, nil, nil) }
      // With the decision, not after it: a suspension that was decided before must not come to pass behind it.
      state.pauses.remove(.suspension)
      return (action, state.exchange, state.pause.change(to: !state.pauses.isEmpty))
    }
    switch action {
    case .start:
      tell()
      guard let slot = session.registry.add(self) else {
        finish(session.invalidationError(request))
        return
      }
      state.withLock { $0.registration = slot }
      if callbacks != nil { beginObserved() } else { begin() }
    case .resume:
      tell()
      if let pause { exchange?.setPaused(pause) }
      wake(.suspension)
    default: break
    }
  }

  /// Stops reading; nothing new begins until `start`. `tell` is called before that, if the task runs.
  func suspend(_ tell: () -> Void) {
    let (isPaused, exchange, pause) = state.withLock { state -> (Bool, (any TransportExchange)?, PauseState?) in
      guard state.machine.suspend() == .pause else { return (false, nil, nil) }
      state.pauses.insert(.suspension)
      return (true, state.exchange, state.pause.change(to: true))
    }
    guard isPaused else { return }
    tell()
    if let pause { exchange?.setPaused(pause) }
  }

  /// Gives up; the consumer is told with `.cancelled`, once.
  func cancel() {
    let (exchange, isOver, mustDrain) = state.withLock { state -> ((any TransportExchange)?, Bool, Bool) in
      switch state.machine.cancel() {
      case .complete: return (nil, true, false)
      case .cancel:
        isGated.store(true, ordering: .releasing)
        // A decision that is still to come decides nothing any more.
        let mustDrain = state.gate.abandon()
        let isWaiting = state.wait != nil
        state.wait = nil
        return (state.exchange, isWaiting, mustDrain)
      default: return (nil, false, false)
      }
    }
    if isOver { finish(cancellation) } else { exchange?.cancel() }
    if mustDrain { drain() }
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

  private func endObserved(_ result: Result<Response, SessionError>) {
    observer?.collected(result)
    let face = state.withLock { state in
      defer { state.face = nil }
      return state.face
    }
    face?.finishProgress()
    if observer == nil || !consumer.tellsDelegates { face?.letGo() }
    callbacks?.value = nil
  }

  // MARK: For the consumer, which sees the exchange under way through the task

  var requestHead: [UInt8] { state.withLock { $0.exchange?.requestHead ?? $0.lastRequestHead } }
  func setPaused(_ pause: PauseState) {
    changePauses { state in
      guard state.consumerPause.update(to: pause) else { return }
      if pause.isPaused { state.pauses.insert(.consumer) } else { state.pauses.remove(.consumer) }
    }
  }
  func discardBody() { state.withLock { $0.exchange }?.discardBody() }

  // MARK: The end

  func finish(_ failure: SessionError?) {
    let now = EventLoop.monotonicNow()
    let result = state.withLock { state -> Result<Response, SessionError>? in
      guard !state.isEnding else { return nil }
      state.isEnding = true
      state.exchange = nil
      // A task that was cancelled before it began took no time.
      if state.startedAt.nanoseconds == 0 { state.startedAt = now }
      let metrics = TaskMetrics(
        transactions: state.transactions, start: state.startedAt, end: now,
        redirectCount: state.chainBox?.value.redirects.count ?? 0)
      let response = state.response?.ended(trailers: state.trailers ?? FieldSection(), metrics: metrics)
      return outcome(failure, response, metrics, &state)
    }
    guard let result else { return }
    if callbacks != nil, let consumer = consumer as? any DeferredConsumer, consumer.endsLater {
      consumer.end(result, of: self)
    } else {
      settle(result) { consumer.end(result) }
    }
  }

  /// The task is over; `tell` says so to whoever waits for it.
  func settle(_ result: Result<Response, SessionError>, _ tell: () -> Void) {
    let (registration, isSeen) = state.withLock { state -> (Int?, Bool) in
      _ = state.machine.end()
      // Of a call without delegates there is a handle if somebody has asked for the session's tasks. It and the task hold each other.
      let isSeen = callbacks != nil || state.face != nil
      if isSeen {
        switch result {
        case .success(let response): state.response = response
        case .failure(let error): state.error = error
        }
      }
      defer { state.registration = nil }
      return (state.registration, isSeen)
    }
    if isSeen || isWatched.load(ordering: .relaxed) { endObserved(result) }
    tell()
    if let registration { session.registry.remove(registration) }
  }

  /// The state is given as it stands, not changed: it is too large to be copied.
  private func outcome(
    _ failure: SessionError?, _ response: Response?, _ metrics: TaskMetrics, _ state: inout State
  ) -> Result<Response, SessionError> {
    if failure == nil, let response { return .success(response) }
    var failure =
      failure ?? SessionError(.unknown, phase: .receive, message: "the transport ended without a response")
    failure.response = response ?? failure.response
    if state.hasLeft { failure.requestBytesSent = true }
    failure.requestHead = state.lastRequestHead
    failure.metrics = metrics
    return .failure(failure)
  }
}

/// A reference that is set once, and read from any thread.
final class LockedReference<Value: Sendable>: Sendable {
  private let storage = LockedStorage<Value?>(nil)
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
