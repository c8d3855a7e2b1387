internal import LupineBase
internal import LupineRules
internal import LupineWire

extension TaskRun {
  /// Keeps what is large and rare out of the state of the many tasks that have none of it.
  final class Box<Value> {
    let value: Value

    init(_ value: Value) { self.value = value }
  }

  typealias LastWord = @Sendable (SessionError) -> Void

  /// What a task knows, under its lock. What most tasks never have stands behind one reference: each field costs instructions to make and to
  /// end even where it is nil.
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
    /// The last transaction sent nothing, and a network is waited for.
    var endsInVain = false
    var gate = Gate()
    var response: Response?
    var transactions = TransactionList()
    var lastRequestHead: [UInt8] = []
    var startedAt = Instant(nanoseconds: 0)
    var registration: Int?
    var isEnding = false
    /// A server may have seen a request of the task: an exchange was answered, or failed after bytes of it were sent.
    var hasLeft = false
    private var rare: Rare?
  }

  private final class Rare {
    var chain: Box<Chain>?
    var authentication: TaskAuthentication?
    var first: Box<Request>?
    var following: Following?
    var trailers: FieldSection?
    var informational: [ResponseHead] = []
    var face: SessionTask?
    var error: SessionError?
    var delayedUntil: Instant?
    var answerTimer: AnswerTimer?
    var lastWord: LastWord?
    var isWaitTold = false
    var isCommitted = false
    var redirectCount = 0
    var bodyLength: (exchange: Int, value: Int64?)?
    var description: String?
  }
}

/// What few tasks have.
extension TaskRun.State {
  private mutating func change(isNothing: Bool, _ apply: (TaskRun.Rare) -> Void) {
    if let rare { return apply(rare) }
    guard !isNothing else { return }
    let made = TaskRun.Rare()
    rare = made
    apply(made)
  }

  /// Pass this on where it may be nil: an optional chain is a large value to copy even then.
  var chainBox: TaskRun.Box<Chain>? { rare?.chain }

  var chain: Chain? {
    get { rare?.chain?.value }
    set { change(isNothing: newValue == nil) { $0.chain = newValue.map { TaskRun.Box($0) } } }
  }

  /// Redirects followed, also before the task began again: the chain has those that led to where it is.
  var redirectCount: Int {
    get { rare?.redirectCount ?? 0 }
    set { change(isNothing: newValue == 0) { $0.redirectCount = newValue } }
  }

  /// Of a task that was asked who is asking.
  var authentication: TaskAuthentication? {
    get { rare?.authentication }
    set { change(isNothing: newValue == nil) { $0.authentication = newValue } }
  }

  /// What the task begins with, where that is not what it was made with: a delayed request that was changed, a download's with its range.
  var first: Request? {
    get { rare?.first?.value }
    set { change(isNothing: newValue == nil) { $0.first = newValue.map { TaskRun.Box($0) } } }
  }

  /// What follows the exchange under way, instead of its response being the answer.
  var following: TaskRun.Following? {
    get { rare?.following }
    set { change(isNothing: newValue == nil) { $0.following = newValue } }
  }

  /// Delegates have heard that the task waits for connectivity: whatever comes of its attempts, once is enough.
  var isWaitTold: Bool {
    get { rare?.isWaitTold ?? false }
    set { change(isNothing: !newValue) { $0.isWaitTold = newValue } }
  }

  var trailers: FieldSection? {
    get { rare?.trailers }
    set { change(isNothing: newValue == nil) { $0.trailers = newValue } }
  }

  /// Interim responses of the exchange under way.
  var informational: [ResponseHead] {
    get { rare?.informational ?? [] }
    set { change(isNothing: newValue.isEmpty) { $0.informational = newValue } }
  }

  /// The public face, from the start to the end; it is made when somebody asks.
  var face: SessionTask? {
    get { rare?.face }
    set { change(isNothing: newValue == nil) { $0.face = newValue } }
  }

  /// Bounds the answer that is waited for.
  var answerTimer: AnswerTimer? {
    get { rare?.answerTimer }
    set { change(isNothing: newValue == nil) { $0.answerTimer = newValue } }
  }

  /// Ends a task that waits for an answer although all has been received; called once, unless that comes first.
  var lastWord: TaskRun.LastWord? {
    get { rare?.lastWord }
    set { change(isNothing: newValue == nil) { $0.lastWord = newValue } }
  }

  /// What the task has made is being handed over: it ends with that, and cannot be cancelled any more.
  var isCommitted: Bool {
    get { rare?.isCommitted ?? false }
    set { change(isNothing: !newValue) { $0.isCommitted = newValue } }
  }

  /// Of all handles on the task.
  var description: String? {
    get { rare?.description }
    set { change(isNothing: newValue == nil) { $0.description = newValue } }
  }

  /// Bytes of the body of the exchange under way, once some were sent: of a body in pieces it is a sum over all of them. Nil: not known yet; a value of nil:
  /// not known at all.
  var bodyLength: Int64?? {
    get {
      guard let known = rare?.bodyLength, known.exchange == begun else { return nil }
      return .some(known.value)
    }
    set {
      let exchange = begun
      change(isNothing: newValue == nil) { $0.bodyLength = newValue.map { (exchange, $0) } }
    }
  }

  mutating func takeLastWord() -> TaskRun.LastWord? {
    guard let taken = lastWord else { return nil }
    lastWord = nil
    answerTimer = nil
    return taken
  }

  var error: SessionError? {
    get { rare?.error }
    set { change(isNothing: newValue == nil) { $0.error = newValue } }
  }

  /// From when the resource timeout counts: the start, or the end of the wait for `earliestBeginDate`, which is no part of the work.
  var countsFrom: Instant {
    get { rare?.delayedUntil ?? startedAt }
    set { change(isNothing: false) { $0.delayedUntil = newValue } }
  }

  mutating func exchangeEnded(_ failure: SessionError?) -> TaskRun.AfterExchange {
    exchange = nil
    ended += 1
    // A discarded body that fails changes nothing; a cancelled task does.
    guard let rare, let following = rare.following else { return .end(isCancelled: isCanceling, hasLeft: hasLeft) }
    rare.following = nil
    if isCanceling || failure?.code == .cancelled { return .end(isCancelled: isCanceling, hasLeft: hasLeft) }
    return .following(following)
  }

  /// Whether the task has been cancelled and not completed. Not by `==`, which is generic.
  var isCanceling: Bool { if case .canceling = machine.state { true } else { false } }

  var isCompleted: Bool { if case .completed = machine.state { true } else { false } }
}
