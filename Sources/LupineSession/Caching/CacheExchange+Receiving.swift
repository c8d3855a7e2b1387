internal import Dispatch
internal import FoundationEssentials
internal import HTTPTypes
internal import LupineBase
internal import LupineIO
internal import LupineRules
internal import LupineWire
internal import Synchronization

/// What the transport brings, on its thread: passed on, and kept on the way.
extension CacheExchange {
  func receive(informational head: ResponseHead, of exchange: any TransportExchange) {
    receiver.receive(informational: head, of: self)
  }

  func receive(head: ResponseHead, framing: BodyFraming, of exchange: any TransportExchange) {
    let now = owner.cache.now()
    let (stored, compared) = state.withLock { state in
      if state.inner == nil, !state.isOver { state.inner = exchange }
      state.head = head
      state.responseTime = now
      return (state.stored, state.compared)
    }
    if facts.invalidates { invalidate(head) }
    if let compared, compared.isDenied(byHead: head) { owner.cache.remove(first: query.first) }
    let outcome = outcome(head, stored, now)
    let limit = limit(head, framing, outcome)
    let leads = state.withLock { state in
      state.outcome = outcome
      state.framing = framing
      if let limit {
        state.collected = []
        state.limit = limit
      }
      return state.leads
    }
    if leads { owner.moved(query.first) }
    if isBehind || isHidden(outcome) { keepCookies(head) }
    switch outcome {
    case .forward:
      if limit == nil {
        land()
        // Nobody would ever stop it.
        if isBehind { exchange.discardBody() }
      }
      receiver.receive(head: head, framing: framing, of: self)
    case .fallBack: exchange.discardBody()
    case .confirmed, .again: break
    }
  }

  /// Nobody else hears of this head.
  private func keepCookies(_ head: ResponseHead) {
    guard head.fields.has(.setCookie) else { return }
    guard let suffixes = request.composition.run.unreadSuffixes else { return takeCookies(head) }
    state.withLock { $0.isReadingSuffixes = true }
    suffixes.read { [self] in
      takeCookies(head)
      let held = state.withLock { state -> (ended: Ended, failure: SessionError?, metrics: TransactionMetrics)? in
        state.isReadingSuffixes = false
        // Whoever has stopped waiting before has the end.
        guard state.heldEnd != nil, state.stopWaiting(), let held = state.heldEnd.take() else { return nil }
        state.isSettling = true
        return (state.atEnd, held.failure, held.metrics)
      }
      if let held { finish(held.ended, held.failure, held.metrics) }
    }
  }

  private func takeCookies(_ head: ResponseHead) {
    request.composition.run.keepCookies(head.fields, from: request.url, of: request.composition.request)
  }

  /// What follows a head that nobody else hears of comes when its cookies are kept.
  private func waitsForCookies(_ failure: SessionError?, _ metrics: TransactionMetrics) -> Bool {
    let (waits, isCancelled) = state.withLock { state -> (Bool, Bool) in
      guard state.isReadingSuffixes, isHidden(state.outcome) else { return (false, false) }
      state.heldEnd = (failure, metrics)
      state.isSettling = false
      waitForDisk(&state)
      return (true, state.isCancelled)
    }
    if isCancelled { pump() }
    return waits
  }

  private func outcome(_ head: ResponseHead, _ stored: StoredResponse?, _ now: Int64) -> Outcome {
    guard let stored else { return .forward }
    if head.status == 304, stored.terms.hasValidator {
      return stored.isConfirmed(by: head) ? .confirmed(head) : .again
    }
    guard CacheUseRule.isServerFailure(head.status), CacheUseRule.mayServeOnError(stored.terms, facts, at: now) else {
      return .forward
    }
    return .fallBack
  }

  /// Bytes of the body that are collected to be stored at most; nil: it is not to be stored. What would take the place of what is stored, and is not
  /// to be stored itself, takes that away: it is no answer any more.
  private func limit(_ head: ResponseHead, _ framing: BodyFraming, _ outcome: Outcome) -> Int? {
    guard case .forward = outcome, facts.mayBeStored else { return nil }
    let limit: Int
    switch StorageRule.decide(facts, head, fields: query.fields, isMarkedSensitive: isSensitive) {
    case .store: limit = owner.cache.largestBody(isInMemoryOnly: place.isInMemoryOnly)
    case .storeInMemory: limit = owner.cache.largestBody(isInMemoryOnly: true)
    case .refuse(.noStore), .refuse(.notUnderstood), .refuse(.variesByAnything):
      owner.cache.remove(first: query.first)
      return nil
    case .refuse: return nil
    }
    let mayBeWhole =
      switch framing {
      // One that ends with the connection cannot be told from half of one (RFC 9111 section 3.3).
      case .untilClose: false
      case .length(let length): length <= Int64(limit)
      case .none, .chunked: true
      }
    guard mayBeWhole else {
      owner.cache.remove(first: query.first)
      return nil
    }
    return limit
  }

  private func isSensitive(_ name: String) -> Bool {
    HTTPField.Name(name).map { request.composition.isSensitive($0) } ?? false
  }

  private func invalidate(_ head: ResponseHead) {
    // A redirect is followed by the bytes of its field.
    let references = ["location", "content-location"].flatMap { head.fields.rawValues(named: $0) }
    let partitions = owner.partitions(forgetting: request.url, askedForAt: place)
    for url in InvalidationRule.targets(request.url, status: head.status, references: references) {
      for partition in partitions { owner.cache.remove(url: url, partition: partition) }
    }
  }

  func receive(body bytes: Span<UInt8>, of exchange: any TransportExchange) {
    let (isForwarded, isTooLarge, leads) = state.withLock { state -> (Bool, Bool, Bool) in
      guard case .forward = state.outcome else { return (false, false, false) }
      var isTooLarge = false
      if let count = state.collected?.count {
        let limit = state.isDiscarding ? min(owner.drainedBytes, state.limit) : state.limit
        isTooLarge = count + bytes.count > limit
        if isTooLarge { state.collected = nil } else { state.collected?.append(bytes) }
      }
      return (!state.isDiscarding, isTooLarge, state.leads)
    }
    if leads { owner.moved(query.first) }
    if isTooLarge {
      giveUpKeeping()
      if !isForwarded { exchange.discardBody() }
      // Nobody else would stop it.
      if isBehind { exchange.cancel() }
    }
    if isForwarded { receiver.receive(body: bytes, of: self) }
  }

  func pipe(for exchange: any TransportExchange) -> BodyPipe? {
    let isForwarded = state.withLock { state in
      guard case .forward = state.outcome else { return false }
      return state.collected == nil && !state.isDiscarding
    }
    return isForwarded ? (receiver as? any PipeReceiver)?.pipe(for: self) : nil
  }

  func receive(piped count: Int, of exchange: any TransportExchange) {
    if state.withLock({ $0.leads }) { owner.moved(query.first) }
    (receiver as? any PipeReceiver)?.receive(piped: count, of: self)
  }

  func receive(trailers: FieldSection, of exchange: any TransportExchange) {
    let isForwarded = state.withLock { state in
      if case .forward = state.outcome { !state.isDiscarding } else { false }
    }
    if isForwarded { receiver.receive(trailers: trailers, of: self) }
  }

  func sent(bodyBytes count: Int, of exchange: any TransportExchange) {
    receiver.sent(bodyBytes: count, of: self)
  }

  func end(_ failure: SessionError?, metrics: TransactionMetrics, of exchange: any TransportExchange) {
    let sentHead = exchange.requestHead
    let isKept = exchange.keepsBody
    let (ended, earlier) = state.withLock { state in
      state.inner = nil
      state.isStarting = false
      state.isSettling = true
      state.sentHead = sentHead
      state.keptBody = isKept
      state.ended += 1
      return (state.atEnd, state.earlier)
    }
    let metrics = metrics.after(earlier)
    if !ended.isCancelled, waitsForCookies(failure, metrics) { return }
    finish(ended, failure, metrics)
  }

  /// What there is when an exchange has ended.
  fileprivate typealias Ended = (outcome: Outcome, stored: StoredResponse?, head: ResponseHead?, isCancelled: Bool)

  private func finish(_ ended: Ended, _ failure: SessionError?, _ metrics: TransactionMetrics) {
    if !ended.isCancelled, let stored = ended.stored {
      switch ended.outcome {
      case .confirmed(let head): return confirmed(stored, head, metrics)
      case .again:
        state.withLock { state in
          state.stored = nil
          state.earlier = metrics.attempts
        }
        return load([])
      case .fallBack: return fallBack(stored, metrics)
      case .forward:
        if let failure, ended.head == nil, Self.isOutage(failure),
          CacheUseRule.mayServeOnError(stored.terms, facts, at: owner.cache.now())
        {
          return fallBack(stored, metrics)
        }
      }
    }
    if failure == nil { keep() } else { land() }
    over()
    // A 304 that nobody saw is no response.
    let failure = failure ?? (ended.isCancelled && isHidden(ended.outcome) ? cancellation : nil)
    receiver.end(failure, metrics: metrics, of: self)
  }

  /// Whether the server could not be reached, as if a gateway had answered 502 or 504 (RFC 5861 section 4). A server that is not trusted, or a
  /// mistake of the request, is the caller's to know.
  private static func isOutage(_ failure: SessionError) -> Bool {
    switch failure.code {
    case .timedOut, .connectionLost, .cannotConnect, .cannotFindHost, .notConnected, .truncatedResponse, .proxyFailed,
      .proxyRefused:
      true
    default: false
    }
  }

  private func isHidden(_ outcome: Outcome) -> Bool {
    if case .forward = outcome { false } else { true }
  }

  private func over() { state.withLock { $0.isOver = true } }

  private func fallBack(_ stored: StoredResponse, _ metrics: TransactionMetrics) {
    land()
    serve(stored, metrics.from(.localCache, stored))
  }

  private func confirmed(_ stored: StoredResponse, _ head: ResponseHead, _ metrics: TransactionMetrics) {
    let times = state.withLock { ($0.requestTime, $0.responseTime, $0.stamp) }
    let isCurrent = owner.isCurrent(place, for: request.url)
    let updated =
      !isCurrent
      ? nil
      : owner.cache.update(
        stored, by: head, query, requestTime: times.0, responseTime: times.1, since: times.2,
        isMarkedSensitive: isSensitive)
    land()
    let answer = updated ?? stored
    serve(answer, metrics.from(.validatedCache, answer))
  }

  // MARK: Keeping

  /// Stores what has come whole, once the delegate agrees.
  private func keep() {
    let kept = state.withLock { state in
      defer { state.collected = nil }
      return (head: state.head, body: state.collected, state.requestTime, state.responseTime, state.stamp)
    }
    guard let head = kept.head, let body = kept.body else { return land() }
    let store: @Sendable (ResponseHead, [UInt8]) -> Void = { [self] head, body in
      // What came by the word of somebody who does not decide any more is not for those who come now.
      guard owner.isCurrent(place, for: request.url) else { return land() }
      owner.cache.store(
        head, body, query, requestTime: kept.2, responseTime: kept.3, since: kept.4, isMarkedSensitive: isSensitive
      ) { [self] in land() }
    }
    let run = request.composition.run
    guard !isBehind, run.consumer is DelegateConsumer, run.observer?.wants(.willCacheResponse) ?? false else {
      return store(head, body)
    }
    // The task ends without the answer if that takes too long, and nobody else has a deadline for it.
    if state.withLock({ $0.leads }) { owner.schedule(after: Self.answerTime) { [weak self] in self?.land() } }
    let proposed = CachedResponse(response: Response(head: head, url: request.url), data: Data(body))
    let answered: @Sendable (CachedResponse?) -> Void = { [self] answer in
      // What cannot be stored takes the place of what is all the same.
      if let answer,
        owner.cache.permitted(answer.response.head, query, isMarkedSensitive: isSensitive) != nil
      {
        store(answer.response.head, [UInt8](answer.data))
      } else {
        owner.cache.remove(first: query.first)
        land()
      }
    }
    run.propose(StorageProposal(response: proposed, answer: answered) { [self] in land() })
  }

  /// As long as others wait for a delegate's word before they ask the server themselves.
  private static let answerTime = DispatchTimeInterval.seconds(1)

  /// Whoever waits for what this one fetches looks again.
  func land() {
    let leads = state.withLock { state in
      defer { state.leads = false }
      return state.leads
    }
    if leads { owner.land(query.first) }
  }
}

extension CacheExchange.State {
  fileprivate var atEnd: CacheExchange.Ended {
    (outcome: outcome, stored: stored, head: head, isCancelled: isCancelled)
  }
}
