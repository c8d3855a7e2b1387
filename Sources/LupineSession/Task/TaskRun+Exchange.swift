internal import Synchronization
internal import HTTPTypes
internal import LupineBase
internal import LupineEngine
internal import LupineIO
internal import LupineRules
internal import LupineWire

/// The exchanges of a task, one after the other.
extension TaskRun {
  /// Why the next exchange has not begun.
  enum Wait: Equatable {
    case suspension
    /// A delegate, a date, connectivity: the number names the question.
    case answer(Int)
  }

  private enum Beginning {
    case go(Box<Chain>?, number: Int, createdAt: Instant?)
    case cancelled
    case later
    case elsewhere
  }

  /// Begins the next exchange, unless the task is suspended or cancelled.
  ///
  /// - Parameters:
  ///   - slot: where the registry keeps the task, of one that begins.
  ///   - mayWait: this thread waits for disks as long as they take.
  func begin(registeredAt slot: Int? = nil, mayWait: Bool = false) {
    let beginning = state.withLock { state -> Beginning in
      if let slot { state.registration = slot }
      switch state.machine.state {
      case .created, .canceling, .completed: return .cancelled
      case .suspended:
        state.wait = .suspension
        return .later
      case .running: break
      }
      if !mayWait, looksAtFiles(state.chainBox), mayBeOnEngine(isFirst: state.begun == 0) { return .elsewhere }
      state.begun += 1
      // Here, so that what is cancelled from now on finds the gate as the next exchange will, and closes that.
      if state.chainBox != nil { forgetResponse(&state) }
      // Of the first exchange of a task that waited for nobody the clock need not be read again.
      return .go(state.chainBox, number: state.begun, createdAt: slot == nil ? nil : state.startedAt)
    }
    switch beginning {
    case .later: endWaiting(.suspension, outOfTime("while it was suspended"))
    case .elsewhere: beginElsewhere()
    case .cancelled: finish(cancellation)
    case .go(let chain, let number, let createdAt):
      if let chain { takeBackSent(chain.value) }
      let next: TransportRequest
      do throws(SessionError) {
        next = try transportRequest(chain, createdAt: createdAt)
      } catch {
        return finish(error)
      }
      let exchange = session.start(next, self, createdAt: createdAt)
      let (cancelNow, pauseNow) = state.withLock { state -> (Bool, PauseState?) in
        // On its own thread the exchange may have ended meanwhile, and a redirect have begun the next one.
        guard state.ended < number, !state.isCompleted else { return (false, nil) }
        state.exchange = exchange
        return (state.isCanceling, state.pause.isPaused ? state.pause : nil)
      }
      if cancelNow { exchange.cancel() } else if let pauseNow { exchange.setPaused(pauseNow) }
    }
  }

  /// The lengths of files go into the head. They are not looked at on the engine's thread, which waits for no disk.
  private func beginElsewhere() {
    do throws(SessionError) {
      let threads = try Engine.downloadThreads()
      guard let wait = waitForAnswer() else { return }
      endWaiting(wait, outOfTime("before its file was looked at"))
      threads.run { () throws(IOError) in
      } completion: { [self] _ in
        answered(wait) { begin(mayWait: true) }
      }
    } catch {
      finish(error)
    }
  }

  private func looksAtFiles(_ box: Box<Chain>?) -> Bool {
    guard let chain = box?.value else { return request.body.hasFile }
    return !chain.dropsBody && (chain.base ?? request).body.hasFile
  }

  /// Which thread another transport calls from, only that transport knows; a first exchange begins on the caller's, or the delegates'.
  private func mayBeOnEngine(isFirst: Bool) -> Bool {
    (session.transport as? EngineTransport).map { $0.currentLoop != nil } ?? !isFirst
  }

  /// What the exchange before has left behind goes.
  private func forgetResponse(_ state: inout State) {
    state.response = nil
    state.informational = []
    state.trailers = nil
    state.gate.renew()
    isGated.store(state.gate.isClosed, ordering: .releasing)
  }

  /// A body that is dropped on the way was sent, and is not sent again.
  private func takeBackSent(_ chain: Chain) {
    let taken = sentBytes.exchange(0, ordering: .relaxed)
    guard taken > 0, chain.sendsBody(of: request) else { return }
    onSent?(-Int(clamping: taken))
    observer?.sent(-Int(clamping: taken), total: 0, expected: nil)
  }

  /// - Parameter createdAt: from when the exchange counts; nil is now.
  private func transportRequest(_ box: Box<Chain>?, createdAt: Instant?) throws(SessionError) -> TransportRequest {
    let field = try authorization(box)
    session.log(
      "\(box?.value.method ?? request.method.rawValue) \(SecretText.redacted(url: (box?.value.url ?? request.parsedURL).requestString))"
    )
    if box != nil || field != nil {
      var chain = box?.value ?? Chain(self.request)
      if let field { chain.answers = [field] }
      return try nextRequest(chain, createdAt: createdAt)
    }
    try checkLoading(of: request)
    let composition = ComposedFields(run: self, hop: nil, url: request.parsedURL)
    if request.options.hasTrailers { try composition.checkTrailers(of: request.body) }
    return TransportRequest(
      method: request.method.rawValue, composition: composition, body: request.body,
      expectsContinue: request.expectsContinue, decodesContent: composition.offersCodings, priority: priority,
      networkServiceType: serviceType(of: request), allowsCellularAccess: allowsCellular(request),
      idleNanoseconds: request.timeoutInterval.map(\.saturatedNanoseconds) ?? session.times.request,
      totalNanoseconds: remainingNanoseconds(request, createdAt: createdAt))
  }

  /// A request that must come out of a cache fails where there is none; a cache says so itself.
  @inline(__always)
  private func checkLoading(of request: Request) throws(SessionError) {
    guard let usual = session.forbidsLoading, request.options.forbidsLoading ?? usual else { return }
    throw SessionError(
      .notInCache, phase: .prepare, message: "there is no cache, and the cache policy forbids to load",
      failingURL: request.urlString)
  }

  /// The request of an exchange that is not simply the first.
  private func nextRequest(_ chain: Chain, createdAt: Instant?) throws(SessionError) -> TransportRequest {
    let hop = ComposedFields.Hop(chain, self.request)
    let request = hop.request
    try checkLoading(of: request)
    let composition = ComposedFields(run: self, hop: hop, url: chain.url)
    let content: Request.Body = chain.dropsBody ? .none : body(of: request, chain)
    if request.options.hasTrailers { try composition.checkTrailers(of: content) }
    return TransportRequest(
      method: chain.method, composition: composition, body: content,
      expectsContinue: request.expectsContinue && !chain.dropsBody, decodesContent: composition.offersCodings,
      priority: priority,
      networkServiceType: serviceType(of: request), allowsCellularAccess: allowsCellular(request),
      idleNanoseconds: request.timeoutInterval.map(\.saturatedNanoseconds) ?? session.times.request,
      totalNanoseconds: remainingNanoseconds(request, createdAt: createdAt))
  }

  /// What is left of the time for the whole task.
  func remainingNanoseconds(_ request: Request, createdAt: Instant?) -> Int64 {
    let total = max(0, request.totalTimeout.map(\.saturatedNanoseconds) ?? session.times.resource)
    // Of an exchange that counts from the start of the task nothing has passed.
    guard createdAt == nil else { return total }
    return max(0, total - EventLoop.monotonicNow().nanoseconds(since: state.withLock { $0.countsFrom }))
  }

  /// What is left of it by now.
  var nanosecondsLeft: Int64 { remainingNanoseconds(currentRequest, createdAt: nil) }

  private func serviceType(of request: Request) -> NetworkServiceType {
    request.networkServiceType ?? session.configuration.networkServiceType
  }

  private func allowsCellular(_ request: Request) -> Bool {
    request.allowsCellularAccess && session.configuration.allowsCellularAccess
  }

  private func body(of request: Request, _ chain: Chain) -> Request.Body {
    guard let stream = chain.newBody else { return request.body }
    return .stream(length: request.body.streamLength, isReplayable: false) { stream }
  }

  // MARK: What arrives, on the transport's thread

  func receive(informational head: ResponseHead, of exchange: any TransportExchange) {
    if isGated.load(ordering: .acquiring),
      state.withLock({ $0.gate.arrive(.informational(head)) }) != .pass
    {
      return
    }
    inform(head)
  }

  func inform(_ head: ResponseHead) {
    let url = state.withLock { state in
      state.informational.append(head)
      return state.chain?.url ?? request.parsedURL
    }
    observer?.informational(Response(head: head, url: url))
  }

  func receive(head: ResponseHead, framing: BodyFraming, of exchange: any TransportExchange) {
    if head.fields.has(.setCookie) {
      if readsSuffixes(before: head, of: exchange) { return }
      keepCookies(head.fields, from: currentURL)
    }
    received(head, exchange)
  }

  /// What of it is to be kept is kept.
  func received(_ head: ResponseHead, _ exchange: any TransportExchange) {
    if head.status == 401 || isAuthenticating.load(ordering: .relaxed), authenticate(head, exchange) { return }
    if RedirectRule.isRedirect(head.status), redirect(head, exchange) { return }
    answer(head, exchange)
  }

  /// Where the chain has led so far.
  var currentURL: ParsedURL { state.withLock { $0.chain?.url } ?? request.parsedURL }

  /// The head is that of the answer.
  func answer(_ head: ResponseHead, _ exchange: any TransportExchange) {
    let requestHead = exchange.requestHead
    let response = state.withLock { state -> Response in
      // A transport may answer before `start` has returned.
      if state.exchange == nil, !state.isCompleted { state.exchange = exchange }
      let response = makeResponse(head, requestHead, &state)
      state.response = response
      return response
    }
    if let consumer, consumer.wantsWhole(insteadOf: response) { return askForWhole(exchange) }
    if let observer, observer.wants(.response), consumer is DelegateConsumer {
      askDisposition(response, exchange, observer)
    } else {
      take(response)
    }
  }

  /// Begins the chain again, without the range, when the body of this answer is dealt with.
  private func askForWhole(_ exchange: any TransportExchange) {
    changeChain { state in
      let first = state.first
      var chain = Chain.whole(of: first ?? request, behind: state.chain)
      chain.base = first
      state.chain = chain
      state.following = .again
    }
    dropBody(of: exchange)
  }

  /// The state is given as it stands, not changed: it is too large to be copied.
  ///
  /// - Parameter requestHead: of the exchange, which is not asked under the lock.
  func makeResponse(_ head: ResponseHead, _ requestHead: [UInt8], _ state: inout State) -> Response {
    // Not by way of an optional chain, which is a large value to destroy even where there is none.
    guard let box = state.chainBox else {
      return Response(
        head: head, url: request.parsedURL, requestHead: requestHead, informational: state.informational)
    }
    var response = Response(
      head: head, url: box.value.url, requestHead: requestHead, informational: state.informational,
      redirects: box.value.redirects)
    response.mark(box.value.sensitiveFields)
    return response
  }

  func receive(body bytes: Span<UInt8>, of exchange: any TransportExchange) {
    if isGated.load(ordering: .acquiring) {
      let copy = Locked([UInt8](bytes))
      let verdict = state.withLock { $0.gate.arrive(.body(copy.withLock { $0 })) }
      if verdict != .pass { return }
    }
    deliver(bytes)
  }

  func deliver(_ bytes: Span<UInt8>) {
    receivedBytes.add(Int64(bytes.count), ordering: .relaxed)
    take(body: bytes)
    progressed()
  }

  func pipe(for exchange: any TransportExchange) -> BodyPipe? {
    isGated.load(ordering: .acquiring) ? nil : (consumer as? any PipeConsumer)?.pipe()
  }

  func receive(piped count: Int, of exchange: any TransportExchange) {
    receivedBytes.add(Int64(count), ordering: .relaxed)
    (consumer as? any PipeConsumer)?.receive(piped: count, from: self)
    progressed()
  }

  func receive(trailers: FieldSection, of exchange: any TransportExchange) {
    state.withLock { state in
      guard isGated.load(ordering: .acquiring), state.gate.arrive(.trailers(trailers)) != .pass else {
        state.trailers = trailers
        return
      }
    }
  }

  func sent(bodyBytes count: Int, of exchange: any TransportExchange) {
    sentBytes.add(Int64(count), ordering: .relaxed)
    onSent?(count)
    let teller = observer?.wants(.sentBodyData) == true ? observer : nil
    guard teller != nil || isWatched.load(ordering: .relaxed) else { return }
    let expected = expectedBytesToSend(exchange.requestHead)
    state.withLock { $0.bodyLength = .some(expected) }
    teller?.sent(count, total: sentBytes.load(ordering: .relaxed), expected: expected)
    progressed()
  }

  func end(_ failure: SessionError?, metrics: TransactionMetrics, of exchange: any TransportExchange) {
    var held: Int?
    let requestHead = exchange.requestHead
    let next = state.withLock { state -> AfterExchange? in
      if state.endsInVain { state.transactions.removeLast() }
      state.endsInVain = false
      state.transactions.append(metrics)
      if !metrics.isLocal && failure?.requestBytesSent ?? true || metrics.hasLeft { state.hasLeft = true }
      state.lastRequestHead = requestHead
      guard isGated.load(ordering: .acquiring) else { return state.exchangeEnded(failure) }
      // A decision may take its time, but not more than the task has: what comes too late decides nothing.
      if failure?.code == .timedOut, failure?.phase == .total { held = state.gate.abandon() }
      if state.gate.arrive(.end(failure), isEnd: true) != .pass { return nil }
      return state.exchangeEnded(failure)
    }
    if let next { return goOn(next, failure) }
    if let held {
      unpause(.decision)
      drain(held)
    } else {
      endDeciding()
    }
  }

  /// An end that was held is looked at.
  func exchangeEnded(_ failure: SessionError?) {
    // Its transport has let go of it perhaps: what the user's own does then is not done under the lock.
    let (next, exchange) = state.withLock { state in
      let exchange = state.exchange
      return (state.exchangeEnded(failure), exchange)
    }
    withExtendedLifetime(exchange) {}
    goOn(next, failure)
  }

  /// What comes after an exchange.
  enum AfterExchange {
    case following(Following)
    case end(isCancelled: Bool, hasLeft: Bool)
  }

  private func goOn(_ next: AfterExchange, _ failure: SessionError?) {
    switch next {
    case .following(.again): beginAgain()
    case .following(.failure(let error)): refused(error)
    case .end(let isCancelled, let hasLeft):
      // As cancelled, also where the response is complete after all: parts of it may have been dropped already.
      if isCancelled { return finish(failure) }
      guard var failure else { return mayRepeat(after: nil) ? () : finish(nil) }
      // The pool is closed before the tasks are cancelled.
      if failure.code == .sessionInvalidated, session.registry.isCancelling { return finish(cancellation) }
      if waitsForConnectivity(after: failure) { return }
      // Nothing of this exchange has left, perhaps, but of one before it.
      if hasLeft { failure.requestBytesSent = true }
      if mayRepeat(after: failure) { return }
      finish(failure)
    }
  }

  /// What the task itself makes of an answer is a failure of the attempt as any other.
  @inline(never)
  private func refused(_ error: SessionError) {
    var error = error
    if state.withLock({ $0.hasLeft }) { error.requestBytesSent = true }
    if !mayRepeat(after: error) { finish(error) }
  }
}

extension Request.Body {
  var streamLength: Int64? {
    switch self {
    case .stream(let length, _, _): length
    case .segments: knownLength
    case .none, .bytes, .file: nil
    }
  }

  fileprivate var hasFile: Bool {
    switch self {
    case .file: true
    case .segments(let segments): segments.contains { if case .file = $0 { true } else { false } }
    case .none, .bytes, .stream: false
    }
  }
}
