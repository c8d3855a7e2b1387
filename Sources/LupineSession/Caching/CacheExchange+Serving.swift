internal import LupineBase
internal import LupineEngine
internal import LupineIO
internal import LupineRules
internal import LupineWire
internal import Synchronization

/// What is stored, handed to the receiver as the transport would hand it over.
extension CacheExchange {
  func serve(_ stored: StoredResponse, _ metrics: TransactionMetrics? = nil) {
    let head = stored.head(at: owner.cache.now()) ?? stored.head
    begin(
      Serving(head: head, body: facts.method == "HEAD" ? [] : stored.body, metrics: metrics ?? self.metrics(stored)))
  }

  /// RFC 9111 section 5.2.1.7.
  func serveTimeout() {
    guard let head = try? ResponseHead(status: 504, reason: "Gateway Timeout", fields: [("Content-Length", "0")]) else {
      return refuse()
    }
    begin(Serving(head: head, metrics: metrics(nil)))
  }

  func refuse() {
    let error = SessionError(
      .notInCache, phase: .prepare, message: "nothing is stored, and the cache policy forbids to load",
      failingURL: request.url.requestString)
    begin(Serving(failure: error, metrics: metrics(nil)))
  }

  func begin(_ serving: Serving) {
    state.withLock { state in
      state.serving = serving
      state.isSettling = false
    }
    pump()
  }

  var cancellation: SessionError {
    SessionError(
      .cancelled, phase: .receive, message: "the task was cancelled", failingURL: request.url.requestString)
  }

  func metrics(_ stored: StoredResponse?) -> TransactionMetrics {
    var record = TransferMetrics()
    record.createdAt = startedAt
    if let stored {
      let now = EventLoop.monotonicNow()
      record.firstByteAt = now
      record.endAt = now
      record.responseStatus = stored.head.status
      record.responseMinorVersion = stored.head.version.minor
      record.responseDecodedBytes = Int64(stored.body.count)
    }
    return TransactionMetrics(record, url: request.url.withoutUserinfo, method: request.method, fetchType: .localCache)
  }

  private enum Step {
    case head(ResponseHead, BodyFraming)
    case body([UInt8], Range<Int>)
    case end(SessionError?, TransactionMetrics)
  }

  /// The receiver is not to be flooded beyond what it asks for.
  private static let slice = 256 << 10

  /// Hands over as much as the receiver takes, unless another thread does so already.
  func pump() {
    let isFirst = state.withLock { state in
      defer { state.isPumping = true }
      return !state.isPumping
    }
    guard isFirst else { return }
    while let step = next() {
      switch step {
      case .head(let head, let framing): receiver.receive(head: head, framing: framing, of: self)
      case .body(let bytes, let range): receiver.receive(body: bytes.span.extracting(range), of: self)
      case .end(let failure, let metrics):
        land()
        leave()
        receiver.end(failure, metrics: metrics, of: self)
      }
    }
  }

  /// Whoever has given up is not kept by what others wait for, which may take days.
  private func leave() {
    if state.withLock({ $0.isMerged }) { owner.leave(self, query.first) }
  }

  private func next() -> Step? {
    state.withLock { state -> Step? in
      guard !state.isOver, state.inner == nil, !state.isStarting, !state.isSettling else {
        state.isPumping = false
        return nil
      }
      if state.isCancelled || state.isOutOfTime {
        let event = state.serving == nil ? "a file was read" : "the stored response was taken"
        let metrics = state.serving?.metrics ?? metricsSoFar(&state)
        return end(state.isCancelled ? cancellation : outOfTime(event), metrics, &state)
      }
      guard let serving = state.serving, !state.pause.isPaused else {
        state.isPumping = false
        if state.serving != nil, state.deadline == nil { state.deadline = deadline }
        return nil
      }
      if let head = serving.head {
        state.serving?.head = nil
        return .head(head, serving.body.isEmpty ? .none : .length(Int64(serving.body.count)))
      }
      if serving.offset < serving.body.count, !state.isDiscarding {
        let end = min(serving.offset + Self.slice, serving.body.count)
        state.serving?.offset = end
        return .body(serving.body, serving.offset..<end)
      }
      return end(serving.failure, serving.metrics, &state)
    }
  }

  /// Of an exchange whose end is held, or of none after those that were.
  private func metricsSoFar(_ state: inout State) -> TransactionMetrics {
    state.heldEnd.take()?.metrics ?? metrics(nil).after(state.earlier)
  }

  private func end(_ failure: SessionError?, _ metrics: TransactionMetrics, _ state: inout State) -> Step {
    state.isOver = true
    state.serving = nil
    state.deadline = nil
    return .end(failure, metrics)
  }

  /// The end of the time for the whole task.
  private var deadline: AnswerTimer? {
    AnswerTimer(after: nanosecondsLeft) { [weak self] in
      guard let self else { return }
      state.withLock { state in
        if !state.isOver, state.serving != nil { state.isOutOfTime = true }
      }
      pump()
    }
  }

  /// - Parameter event: what did not come to pass.
  private func outOfTime(_ event: String) -> SessionError {
    SessionError(
      .timedOut, phase: .total, message: "the time for the task was over before \(event)",
      failingURL: request.url.requestString)
  }
}

extension TransactionMetrics {
  /// The same, where a stored response is the answer.
  func from(_ fetchType: FetchType, _ stored: StoredResponse) -> TransactionMetrics {
    var record = record
    record.responseDecodedBytes = Int64(stored.body.count)
    return TransactionMetrics(record, url: url, method: method, fetchType: fetchType)
  }

  /// The same behind what the transport did before it was asked anew.
  func after(_ attempts: [TransferMetrics]) -> TransactionMetrics {
    guard !attempts.isEmpty else { return self }
    var record = record
    record.earlier = attempts + record.earlier
    record.retries = record.earlier.count
    return TransactionMetrics(record, url: url, method: method, fetchType: fetchType)
  }

  /// All that the transport did, oldest first, this at last.
  var attempts: [TransferMetrics] {
    var last = record
    last.earlier = []
    return record.earlier + [last]
  }
}
