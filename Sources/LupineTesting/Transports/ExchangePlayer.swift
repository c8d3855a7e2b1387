internal import LupineBase
internal import LupineSession
internal import LupineWire

/// What an exchange does next.
enum ExchangeStep: Sendable {
  case informational(ResponseHead)
  case head(ResponseHead, BodyFraming)
  case body([UInt8])
  case trailers(FieldSection)
  case sent(Int)
  case requestSent
  case wait(Duration)
  case end(SessionError?)
  /// With the metrics of the transport that this one wraps.
  case endWith(SessionError?, TransactionMetrics)
}

/// Plays steps to a receiver, on the thread of its transport, one after another: stops while paused, ends when cancelled or late.
///
/// States: playing -> ended. Invariants: the receiver's `end` is called exactly once, as its last call; no two of its calls overlap;
/// nothing but the end is called while the exchange is paused.
final class ExchangePlayer: TransportExchange {
  private struct State {
    var steps = RingBuffer<ExchangeStep>()
    var queuedBytes = 0
    var pause = PauseState()
    var isDiscarding = false
    var isCancelled = false
    var isPlaying = false
    var isWaiting = false
    var hasEnded = false
    var hasHead = false
    var limitsIdleTime: Bool
    /// Somebody has the request: on the network its first bytes have left then.
    var isPassedOn: Bool
    var lastActivity: Int64
    /// Where the exchange is on its own time axis: from here the next wait counts, however late its thread is.
    var position: Int64
    var deadline: TransportThread.Timer?
    var delay: TransportThread.Timer?
    var receiver: (any TransportReceiver)?
    /// The exchange of a wrapped transport that feeds this one.
    var source: (any TransportExchange)?
    var sourcePause = PauseState()
    var onEnd: (@Sendable () -> Void)?
    var times = TransactionMetrics.Times()
    var counts = TransactionMetrics.Counts()
    var status: Int?

    /// A pause is over: what passed meanwhile is no delay of anybody's.
    mutating func goOn(at now: Int64) {
      lastActivity = now
      position = max(position, now)
    }
  }

  private enum Turn {
    case play(ExchangeStep, any TransportReceiver)
    case stop
  }

  static let lowWatermark = 64 * 1024
  static let highWatermark = 256 * 1024

  let request: TransportRequest
  let requestHead: [UInt8]
  private let thread: TransportThread
  private let start: Int64
  private let state: Locked<State>

  /// - Parameters:
  ///   - limitsIdleTime: false: the transport that feeds this exchange sees to it that something moves; only what the exchange waits for itself is
  ///     limited.
  ///   - isPassedOn: false: nobody has the request before `passOn`.
  init(
    _ request: TransportRequest, _ receiver: any TransportReceiver, on thread: TransportThread,
    limitsIdleTime: Bool = true, isPassedOn: Bool = true
  ) {
    self.request = request
    self.thread = thread
    start = thread.now
    requestHead = Self.head(of: request)
    var state = State(
      limitsIdleTime: limitsIdleTime, isPassedOn: isPassedOn, lastActivity: start, position: start)
    state.receiver = receiver
    state.times.fetchStart = start
    state.times.requestStart = start
    state.counts.requestHeaderBytes = requestHead.count
    self.state = Locked(state)
    armDeadline()
  }

  private static func head(of request: TransportRequest) -> [UInt8] {
    var hasTrailers = false
    if case .stream = request.body { hasTrailers = !request.trailerNames.isEmpty }
    let framing = request.body.framing(of: request.method, hasTrailers: hasTrailers)
    var head: [UInt8] = []
    // What cannot be written has no head; the network would refuse it.
    try? RequestEncoder.head(
      method: request.method, target: request.target, fields: request.fields, framing: framing, into: &head)
    return head
  }

  // MARK: Feeding

  /// Adds steps behind those that are there. Any thread.
  ///
  /// - Parameters:
  ///   - isImmediate: their waits count from the start of the exchange, not from now.
  ///   - instant: nor from now, but from this one, where anybody could see before now that they were to come: a clock may have been moved since.
  func append(_ steps: [ExchangeStep], isImmediate: Bool = false, since instant: Int64? = nil) {
    let now = thread.now
    let (source, pause) = state.withLock { state -> ((any TransportExchange)?, PauseState?) in
      guard !state.hasEnded else { return (nil, nil) }
      if !isImmediate, state.steps.isEmpty, !state.isWaiting { state.position = max(state.position, instant ?? now) }
      for step in steps {
        switch step {
        case .body(let bytes): state.queuedBytes += bytes.count
        // It has moved by now, whenever it is told. What a fault holds back is limited for itself.
        case .sent where !state.isWaiting: state.lastActivity = max(state.lastActivity, now)
        default: break
        }
        state.steps.append(step)
      }
      guard state.queuedBytes >= Self.highWatermark, let source = state.source else { return (nil, nil) }
      return (source, state.sourcePause.change(to: true))
    }
    if let pause { source?.setPaused(pause) }
    schedule()
  }

  /// Names the exchange that feeds this one.
  func attach(_ source: any TransportExchange) {
    // What was said before it could be named.
    let (isCancelled, isDiscarding) = state.withLock { state in
      if !state.hasEnded { state.source = source }
      return (state.hasEnded || state.isCancelled, state.isDiscarding)
    }
    if isCancelled { source.cancel() } else if isDiscarding { source.discardBody() }
  }

  /// Names what to call when the exchange has ended, at once if it has.
  func onEnd(_ body: @escaping @Sendable () -> Void) {
    let hasEnded = state.withLock { state -> Bool in
      if !state.hasEnded { state.onEnd = body }
      return state.hasEnded
    }
    if hasEnded { body() }
  }

  /// Another transport is about to be given the request. False: it is not to be, as nobody waits for an answer any more.
  func passOn() -> Bool {
    state.withLock { state in
      guard !state.hasEnded, !state.isCancelled else { return false }
      state.isPassedOn = true
      return true
    }
  }

  /// From now on something has to move; or, if not, another transport sees to it.
  ///
  /// - Parameter instant: not from now, but from this one; see `append`.
  func limitIdleTime(_ limitsIdleTime: Bool, since instant: Int64? = nil) {
    let now = instant ?? thread.now
    state.withLock { state in
      state.limitsIdleTime = limitsIdleTime
      state.lastActivity = max(state.lastActivity, now)
    }
    // By the player's thread alone: of two that arm at a time the later deadline might take the place of the sooner.
    thread.submit { [weak self] in self?.armDeadline() }
  }

  // MARK: Commands, from any thread

  func cancel() {
    let source = state.withLock { state in
      state.isCancelled = true
      return state.source
    }
    source?.cancel()
    schedule()
  }

  func setPaused(_ pause: PauseState) {
    let now = thread.now
    let goesOn = state.withLock { state -> Bool in
      guard state.pause.update(to: pause), !pause.isPaused else { return false }
      state.goOn(at: now)
      return true
    }
    if goesOn { schedule() }
  }

  func discardBody() {
    let now = thread.now
    let source = state.withLock { state in
      state.isDiscarding = true
      if state.pause.change(to: false) != nil { state.goOn(at: now) }
      return state.source
    }
    source?.discardBody()
    schedule()
  }

  // MARK: Playing

  private func schedule() {
    let mustPlay = state.withLock { state -> Bool in
      guard !state.isPlaying, !state.hasEnded else { return false }
      state.isPlaying = true
      return true
    }
    if mustPlay { thread.submit { self.play() } }
  }

  private func play() {
    while true {
      switch nextTurn() {
      case .stop: return
      case .play(let step, let receiver): perform(step, receiver)
      }
    }
  }

  private func nextTurn() -> Turn {
    let now = thread.now
    let (turn, source, pause) = state.withLock { state -> (Turn, (any TransportExchange)?, PauseState?) in
      guard !state.hasEnded, let receiver = state.receiver else { return (.stop, nil, nil) }
      if state.isCancelled {
        var error = Self.error(.cancelled, .total, "the task was cancelled", request)
        error.requestBytesSent = state.isPassedOn
        return (.play(.end(error), receiver), nil, nil)
      }
      guard !state.isWaiting, !state.pause.isPaused, let step = state.steps.popFirst() else {
        state.isPlaying = false
        return (.stop, nil, nil)
      }
      switch step {
      case .sent, .requestSent, .wait: break
      default: state.lastActivity = now
      }
      guard case .body(let bytes) = step else { return (.play(step, receiver), nil, nil) }
      state.queuedBytes -= bytes.count
      let pause = state.queuedBytes <= Self.lowWatermark ? state.sourcePause.change(to: false) : nil
      return (.play(step, receiver), state.source, pause)
    }
    if let pause { source?.setPaused(pause) }
    return turn
  }

  private func perform(_ step: ExchangeStep, _ receiver: any TransportReceiver) {
    switch step {
    case .informational(let head):
      note(head, isFinal: false)
      receiver.receive(informational: head, of: self)
    case .head(let head, let framing):
      note(head, isFinal: true)
      receiver.receive(head: head, framing: framing, of: self)
    case .body(let bytes):
      let isWanted = state.withLock { state -> Bool in
        guard hasBody(state) else { return false }
        state.counts.responseBodyBytes += Int64(bytes.count)
        if !state.isDiscarding { state.counts.responseDecodedBytes += Int64(bytes.count) }
        return !state.isDiscarding
      }
      if isWanted, !bytes.isEmpty { receiver.receive(body: bytes.span, of: self) }
    case .trailers(let trailers):
      if state.withLock({ hasBody($0) && !$0.isDiscarding }) { receiver.receive(trailers: trailers, of: self) }
    case .sent(let count):
      state.withLock { $0.counts.requestBodyBytes += Int64(count) }
      receiver.sent(bodyBytes: count, of: self)
    case .requestSent:
      let now = thread.now
      state.withLock { $0.times.requestEnd = now }
    case .wait(let duration): wait(duration)
    case .end(let failure): end(failure, nil)
    case .endWith(let failure, let metrics): end(failure, metrics)
    }
  }

  /// What has no body on the wire has none here, whatever is to be played.
  private func hasBody(_ state: borrowing State) -> Bool {
    request.method != "HEAD" && state.status != 204 && state.status != 304
  }

  private func note(_ head: ResponseHead, isFinal: Bool) {
    let now = thread.now
    // "HTTP/1.1 200 ", the reason, the end of that line, and the empty line.
    let bytes = (0..<head.fields.count).reduce(13 + head.reason.utf8.count + 2 + 2) { sum, index in
      sum + head.fields.nameBytes(at: index).count + head.fields.valueBytes(at: index).count + 4
    }
    state.withLock { state in
      state.counts.responseHeaderBytes += Int64(bytes)
      if state.times.requestEnd == nil { state.times.requestEnd = now }
      guard isFinal else { return }
      state.times.responseStart = now
      state.hasHead = true
      state.status = head.status
    }
  }

  private func wait(_ duration: Duration) {
    let (at, isLimitedAnew) = state.withLock { state in
      let (sum, overflow) = state.position.addingReportingOverflow(max(0, duration.nanoseconds))
      // What came before is the matter of the transport that feeds this exchange.
      if !state.limitsIdleTime { state.lastActivity = state.position }
      state.isWaiting = true
      state.position = overflow ? .max : sum
      return (state.position, !state.limitsIdleTime)
    }
    let timer = thread.submit(at: at) {
      self.state.withLock { state in
        state.isWaiting = false
        state.delay = nil
      }
      self.schedule()
    }
    state.withLock { $0.delay = timer }
    if isLimitedAnew { armDeadline() }
  }

  private func end(_ failure: SessionError?, _ metrics: TransactionMetrics?) {
    let now = thread.now
    let (state, receiver) = self.state.withLock { state -> (State, (any TransportReceiver)?) in
      state.times.responseEnd = now
      let copy = state
      state.hasEnded = true
      state.receiver = nil
      state.source = nil
      state.onEnd = nil
      state.steps.removeAll()
      state.deadline = nil
      state.delay = nil
      return (copy, copy.receiver)
    }
    guard !state.hasEnded else { return }
    for timer in [state.deadline, state.delay].compactMap({ $0 }) { thread.cancel(timer) }
    state.onEnd?()
    let own = TransactionMetrics(request, statusCode: state.status, times: state.times, counts: state.counts)
    receiver?.end(failure, metrics: metrics ?? own, of: self)
  }

  // MARK: Time

  /// The next deadline, and what it means.
  private func nextDeadline(_ state: borrowing State) -> (at: Int64, phase: SessionError.Phase) {
    func later(_ instant: Int64, _ limit: Duration) -> Int64 {
      let (sum, overflow) = instant.addingReportingOverflow(limit.nanoseconds)
      return overflow ? .max : sum
    }
    let total = later(start, request.totalTimeout)
    let isLimited = !state.pause.isPaused && (state.limitsIdleTime || state.isWaiting)
    let idle = isLimited ? later(state.lastActivity, request.idleTimeout) : Int64.max
    if total <= idle { return (total, .total) }
    return (idle, state.hasHead ? .receive : .firstByte)
  }

  /// Sets the timer of the next deadline, in the place of the one that is set.
  private func armDeadline() {
    let now = thread.now
    // A pause suspends the idle limit: whether it still lasts is looked at again after another one.
    let at = state.withLock { state in
      let (sum, overflow) = now.addingReportingOverflow(request.idleTimeout.nanoseconds)
      let mayStart = state.pause.isPaused && (state.limitsIdleTime || state.isWaiting)
      return mayStart ? min(nextDeadline(state).at, overflow ? .max : sum) : nextDeadline(state).at
    }
    guard at != .max else { return }
    // The thread is the transport's; the exchange must not live on for a deadline of days.
    let timer = thread.submit(at: at) { [weak self] in self?.deadlinePassed() }
    let obsolete = state.withLock { state -> TransportThread.Timer? in
      guard !state.hasEnded else { return timer }
      defer { state.deadline = timer }
      return state.deadline
    }
    if let obsolete { thread.cancel(obsolete) }
  }

  private func deadlinePassed() {
    let (deadline, isBehind, isPassedOn, source) = state.withLock { state in
      let deadline = nextDeadline(state)
      // A late thread, or a clock that was moved far, finds due what came before the deadline: that is played first.
      let isBehind = !state.steps.isEmpty && !state.pause.isPaused && state.position < deadline.at
      return (deadline, isBehind, state.isPassedOn, state.source)
    }
    guard deadline.at <= thread.now, !isBehind else { return armDeadline() }
    source?.cancel()
    let phase = deadline.phase
    var error = Self.error(.timedOut, phase, "the deadline of phase \(phase) passed", request)
    error.requestBytesSent = isPassedOn
    end(error, nil)
  }

  /// A body that fails does so behind a head that has left, unless it could not even be begun.
  static func failed(_ error: SessionError) -> ExchangeStep {
    var error = error
    if [.requestBodyFailed, .badTrailers, .fileChanged].contains(error.code) { error.requestBytesSent = true }
    return .end(error)
  }

  static func error(
    _ code: SessionError.Code, _ phase: SessionError.Phase, _ message: String, _ request: TransportRequest,
    underlying: (any Error)? = nil
  ) -> SessionError {
    SessionError(code, phase: phase, message: message, failingURL: request.urlString, underlying: underlying)
  }
}
