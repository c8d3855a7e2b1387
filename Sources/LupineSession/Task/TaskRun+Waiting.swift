internal import Synchronization
internal import Dispatch
internal import FoundationEssentials
internal import LupineBase
internal import LupineIO
internal import LupineRules

/// What a task waits for before an exchange begins: a date, a delegate, a new body, connectivity. None of it concerns a task without
/// delegates and settings of this kind.
extension TaskRun {
  /// The first beginning of a task that has a public face.
  func beginObserved() {
    guard let observer, let date = observer.earliestBeginDate, date.timeIntervalSinceNow > 0 else {
      beginPrepared()
      return
    }
    guard let wait = waitForAnswer() else { return }
    begin(at: date, wait)
  }

  /// By the clock on the wall, which may be set meanwhile, and goes on while the machine is suspended.
  private func begin(at date: Date, _ wait: Wait) {
    // The registry holds the task while it waits; a task that was cancelled need not be there until the date.
    DispatchQueue.global().asyncAfter(wallDeadline: .now() + date.timeIntervalSinceNow) { [weak self, weak observer] in
      guard let self, let observer else { return }
      let isDue = date.timeIntervalSinceNow <= 0
      // Cancelled meanwhile, and the word of that is perhaps on its way.
      let isAwaited = state.withLock { state in
        guard state.wait == wait else { return false }
        if isDue { state.countsFrom = EventLoop.monotonicNow() }
        return true
      }
      guard isAwaited else { return }
      guard isDue else { return begin(at: date, wait) }
      guard observer.wants(.willBeginDelayed) else {
        answered(wait) { self.beginPrepared() }
        return
      }
      endWaiting(wait)
      observer.willBeginDelayed(request) { [self] disposition in
        switch disposition {
        case .continueLoading: answered(wait) { self.beginPrepared() }
        case .useNewRequest(let request):
          answered(wait) {
            self.begin(with: request)
            self.beginPrepared()
          }
        case .cancel: cancel()
        }
      }
    }
  }

  func begin(with request: Request) {
    changeChain { state in
      state.first = request
      var chain = Chain(request)
      chain.base = request
      state.chain = chain
    }
  }

  /// Changes the chain of requests. A body of the user's may have its last holder in the former one, and ask the task when it is let go of: not under the
  /// lock.
  @discardableResult
  func changeChain<Value: Sendable>(_ change: @Sendable (inout State) -> Value) -> Value {
    let (value, former, first) = state.withLock { state in
      let (former, first) = (state.chainBox, state.first)
      state.bodyLength = nil
      return (change(&state), former, first)
    }
    withExtendedLifetime((former, first)) {}
    return value
  }

  /// Whoever makes the requests of attempts is asked first.
  private func beginPrepared() {
    guard let observer, let repeater = observer.repeater else { return beginFirst() }
    // A timer for each request is dear: only where the answer may take time.
    var outOfTime: (@Sendable (TaskRun) -> Void)?
    if repeater.takesTimeToPrepare { outOfTime = { run in run.finish(run.unanswered) } }
    prepare(state.withLock { $0.first } ?? request, observer, repeater, outOfTime: outOfTime) { $0.beginFirst() }
  }

  /// A download decides where its bytes go.
  private func beginFirst() {
    let current = state.withLock { $0.first } ?? request
    if let download = consumer as? DownloadTaskConsumer {
      guard let wait = waitForAnswer() else { return }
      endWaiting(wait, outOfTime("before its file was made"))
      download.prepare(current, madeOf: request, session) { [self] result in
        answered(wait) {
          switch result {
          case .failure(let error): self.finish(error)
          case .success(let request):
            self.begin(with: request)
            self.begin()
          }
        }
      }
    } else {
      beginRepeated()
    }
  }

  /// The beginning of every attempt of what is no download: an upload whose request has no body asks for one.
  func beginRepeated() {
    let current = state.withLock { $0.first } ?? request
    if kind == .upload, case .none = current.body, canAskForBody { askForBody() } else { begin() }
  }

  /// A redirect, a challenge or a new start begins the next exchange.
  func beginAgain() {
    let needsNewBody = state.withLock { state -> Bool in
      defer { state.chain?.needsNewBody = false }
      return state.chain?.needsNewBody ?? false
    }
    if needsNewBody { askForBody() } else if !hashesBody() { begin() }
  }

  /// Hands over the hash of a body: at once if it is small, else from another thread and unless the task has ended meanwhile.
  func computed(
    _ source: BodyHash, _ function: DigestHash, _ take: @escaping @Sendable (Result<[UInt8], SessionError>) -> Void
  ) {
    if source.isSmall { return take(source.compute(function)) }
    guard let wait = waitForAnswer() else { return }
    endWaiting(wait, outOfTime("while its body was hashed"))
    DispatchQueue.global().async { [self] in
      let result = source.compute(function)
      answered(wait) { take(result) }
    }
  }

  var canAskForBody: Bool { observer?.wants(.needNewBodyStream) ?? false }

  private func askForBody() {
    guard let observer else { return begin() }
    guard let wait = waitForAnswer() else { return }
    endWaiting(wait)
    observer.needNewBody { [self] body in
      answered(wait) {
        guard let body else {
          self.finish(
            SessionError(
              .requestBodyFailed, phase: .send, message: "the body must be sent again, and the delegate has none",
              failingURL: self.request.urlString))
          return
        }
        self.changeChain { state in
          var chain = state.chain ?? Chain(self.request)
          chain.newBody = body
          state.chain = chain
        }
        self.begin()
      }
    }
  }

  // MARK: Connectivity

  /// Whether the failure is one that time may heal, and the session says to wait.
  func waitsForConnectivity(after failure: SessionError) -> Bool {
    guard session.configuration.waitsForConnectivity,
      failure.code == .notConnected || failure.code == .cellularAccessRefused, !failure.requestBytesSent
    else {
      return false
    }
    let (attempt, authentication) = state.withLock { state in
      state.connectivityWaits += 1
      return (state.connectivityWaits, state.authentication)
    }
    authentication?.unsent()
    guard let delay = ConnectivityRule.delay(attempt: attempt, nanosecondsLeft: nanosecondsLeft) else { return false }
    let isFirst = state.withLock { state -> Bool in
      defer { state.isWaitTold = true }
      return !state.isWaitTold
    }
    if isFirst, let observer { observer.waiting() }
    guard let wait = waitForAnswer() else { return true }
    // The next attempt takes its place: one for each would fill the memory of a device that is offline for a day.
    state.withLock { $0.endsInVain = !$0.transactions.lastHasLeft }
    after(Double(delay) / 1e9) { [weak self] in
      guard let self else { return }
      answered(wait) { self.begin() }
    }
    return true
  }

  // MARK: Waiting

  /// Names a question; the task waits until it is answered. Nil: the task was cancelled meanwhile, and is over now.
  func waitForAnswer() -> Wait? {
    let wait = state.withLock { state -> Wait? in
      guard state.machine.state != .canceling else { return nil }
      state.questions += 1
      state.wait = .answer(state.questions)
      return state.wait
    }
    if wait == nil { finish(cancellation) }
    return wait
  }

  /// The same for a task that has received everything: it is over with the answer, and until then it can be cancelled, and its time is limited.
  ///
  /// - Parameter giveUp: called once, if the task ends without the answer; not called after that has come.
  func waitForLastAnswer(_ response: Response, or giveUp: @escaping LastWord) -> Wait? {
    let wait = state.withLock { state -> Wait? in
      guard !state.isCanceling else { return nil }
      state.questions += 1
      state.wait = .answer(state.questions)
      state.lastWord = { giveUp($0.behind(response)) }
      return state.wait
    }
    if let wait { endWaiting(wait) } else { giveUp(cancellation.behind(response)) }
    return wait
  }

  /// Does it, unless the task was cancelled meanwhile.
  func answered(_ wait: Wait, _ work: () -> Void) {
    let isAwaited = state.withLock { state -> Bool in
      guard state.wait == wait else { return false }
      state.wait = nil
      state.answerTimer = nil
      return true
    }
    if isAwaited { work() }
  }

  /// The same for `waitForLastAnswer`.
  func answeredLast(_ wait: Wait, _ work: () -> Void) {
    var lastWord: LastWord?
    let isAwaited = state.withLock { state -> Bool in
      guard state.wait == wait else { return false }
      state.wait = nil
      state.isCommitted = true
      // It holds the task.
      lastWord = state.takeLastWord()
      return true
    }
    withExtendedLifetime(lastWord) { if isAwaited { work() } }
  }

  /// No exchange is under way whose deadline would end the task.
  ///
  /// - Parameter failure: what the task ends with then; nil: a delegate has not answered.
  func endWaiting(_ wait: Wait, _ failure: SessionError? = nil) {
    endWaiting(wait) { run in run.finish(failure ?? run.unanswered) }
  }

  /// - Parameter end: called when the time for the task is over, unless the answer comes before.
  func endWaiting(_ wait: Wait, _ end: @escaping @Sendable (TaskRun) -> Void) {
    let timer = AnswerTimer(after: nanosecondsLeft) { [weak self] in
      guard let self else { return }
      answered(wait) { end(self) }
    }
    state.withLock { if $0.wait == wait { $0.answerTimer = timer } }
  }

  /// The same where a decision about a response is waited for whose exchange is over.
  func endDeciding() {
    let left = nanosecondsLeft
    guard let number = state.withLock({ $0.gate.awaited }) else { return }
    let timer = AnswerTimer(after: left) { [weak self] in
      guard let self else { return }
      let held = state.withLock { state -> Int? in
        guard state.gate.awaited == number else { return nil }
        state.following = .failure(self.unanswered)
        return state.gate.abandon()
      }
      guard let held else { return }
      unpause(.decision)
      drain(held)
    }
    state.withLock { if $0.gate.awaited == number { $0.answerTimer = timer } }
  }

  private var unanswered: SessionError { outOfTime("before the delegate answered") }

  func outOfTime(_ circumstance: String) -> SessionError {
    SessionError(
      .timedOut, phase: .total, message: "the time for the task was over \(circumstance)",
      failingURL: request.urlString)
  }

  private func after(_ seconds: Double, _ work: @escaping @Sendable () -> Void) {
    DispatchQueue.global().asyncAfter(deadline: .now() + seconds, execute: work)
  }
}

extension SessionError {
  /// The failure of a task whose response is complete.
  func behind(_ response: Response) -> SessionError {
    var error = self
    error.response = response
    error.requestBytesSent = true
    error.requestHead = response.requestHead
    error.metrics = response.metrics
    return error
  }
}
