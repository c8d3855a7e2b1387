internal import Dispatch
internal import Foundation
internal import HTTPTypes
internal import LupineBase
internal import LupineRules
internal import LupineSession
internal import LupineWire
internal import Synchronization

/// What has come of an operation's exchanges, and what it needs to go on.
struct OperationTransfer {
  var task: DataTask?
  var response: Response?
  var body: OperationBody?
  /// The version that the body is a part of; nil if the server has named none that would do.
  var version: Version?
  /// What the current exchange asks for; nil: the whole.
  var offer: RangeOffer?
  /// What the page of a failure has taken the place of in memory: the request may be sent again.
  var setAside: (body: OperationBody, version: Version)?
  /// Whether the body of the current response is of no use.
  var discards = false
  /// The current response says that everything was there already: how its own body ends changes nothing.
  var isComplete = false
  /// Where the body ends, if the current response goes on with it: the exchange knows its own part only.
  var promisedEnd: Int64?
  /// Where the part of it ends that the current response announces: the body's end, or before.
  var partEnd: Int64?
  /// Why the operation stopped its exchange itself.
  var failure: SessionError?
  /// A server may have seen the request, in this exchange or in one before a pause.
  var hasLeft = false
  /// Somebody has begun to read what can be read only once.
  var isBodySpent = false

  struct Version {
    var validator: ResumeValidator
    var source: ResumeSource
    var total: Int64?
    /// What says what the body is: the last response that gave a part of it and names its media type, if any does.
    var response: Response
  }

  /// The body if it goes to a file: a copy that holds the file, and no data.
  var bodyOnDisk: OperationBody? {
    guard case .file = body?.output else { return nil }
    return body
  }

  /// Bytes of the whole as they are delivered, if the response says so.
  var expected: Int64? {
    version?.total ?? task?.decodedLength
  }

  /// The request of the next exchange: for the rest, if there is something to go on from.
  mutating func prepare(_ request: Request) -> Request {
    takeBack()
    guard let version, let count = body?.count, count > 0 else {
      offer = nil
      return request
    }
    offer = RangeOffer(offset: count, total: version.total, validator: version.validator, source: version.source)
    var request = request
    request.fields[.range] = "bytes=\(count)-"
    request.fields[.ifRange] = version.validator.text
    request.acceptsCompressedContent = false
    return request
  }

  private mutating func takeBack() {
    guard let former = setAside.take() else { return }
    (body, version) = (former.body, former.version)
  }

  /// The exchange is repeated: what it brought is the end of nothing any more, except for what may be gone on with.
  mutating func startOver() {
    takeBack()
    response = version?.response
    if version == nil, case .memory = body?.output { body?.reset(nil) }
  }

  enum Step {
    case receive
    /// Receive into this body from its beginning, which is to be made.
    case reset(OperationBody)
    /// Ask again, for the whole.
    case restart
  }

  mutating func take(_ response: Response, isGET: Bool) -> Step {
    let answer = RangeAnswer(
      status: response.statusCode, url: response.parsedURL, fields: response.head.fields)
    discards = false
    isComplete = false
    promisedEnd = nil
    partEnd = nil
    if let offer {
      takeBack()
      // The same request once more: what came before it broke off comes again.
      if let count = body?.count, count > offer.offset { body?.rewind(to: offer.offset) }
      let decision = ResumeRule.decide(answer, to: offer)
      // Emptied meanwhile by the exchange that was paused; or of another version, whose whole came when the same request was sent before.
      guard version != nil, offer.offset == body?.count, !decision.goesOn || isOffered(in: offer) else {
        version = nil
        self.offer = nil
        return .restart
      }
      switch decision {
      case .append(let count, let total):
        version?.take(response)
        self.response = version?.response
        version?.total = total
        promisedEnd = total
        partEnd = offer.offset + count
        return .receive
      case .complete:
        // Everything was there when it was paused: the response that brought it stays, though a page about a failure came in between.
        self.response = version?.response
        discards = true
        isComplete = true
        return .receive
      case .askAgain:
        version = nil
        self.offer = nil
        return .restart
      case .fail:
        // A page about the failure does not take the place of what a file has; in memory there is room for it.
        if case .file = body?.output {
          self.response = response
          discards = true
          return .receive
        }
        if let version, let body { setAside = (body, version) }
      case .replace: break
      }
    }
    self.response = response
    version = isGET ? Self.version(answer, response) : nil
    if let bodyOnDisk { return .reset(bodyOnDisk) }
    body?.reset(nil)
    return .receive
  }

  /// Whether what is there is of the version whose rest is asked for.
  private func isOffered(in offer: RangeOffer) -> Bool {
    version.map { $0.validator == offer.validator && $0.source == offer.source } ?? false
  }

  /// Why a body that was gone on with is not the whole, although its last exchange ended well: a server may give a part of the rest, and a body without a
  /// length may end where it likes.
  var deviation: SessionError? {
    guard let promisedEnd, let count = body?.count, count != promisedEnd else { return nil }
    return contradiction(.truncatedResponse, "the body ended at byte \(count) instead of \(promisedEnd)")
  }

  /// Refuses a part that goes on behind what the current response announces. Nothing tells whether what came before belongs there, so nothing
  /// is gone on from.
  mutating func checkEnd(_ part: Data) throws(SessionError) {
    guard let partEnd, let body, body.count + Int64(part.count) > partEnd else { return }
    version = nil
    throw contradiction(.badResponse, "the body of the range is longer than Content-Range says")
  }

  private func contradiction(_ code: SessionError.Code, _ message: String) -> SessionError {
    var error = SessionError(code, phase: .receive, message: message, requestBytesSent: true)
    guard let response = task?.response ?? response else { return error }
    error.response = response
    error.failingURL = response.urlString
    error.metrics = response.metrics
    error.requestHead = response.requestHead
    return error
  }

  private static func version(_ answer: RangeAnswer, _ response: Response) -> Version? {
    let now = HTTPDate(seconds: Int64(Date().timeIntervalSince1970))
    guard answer.status == 200, !answer.isCoded, !answer.refusesRanges,
      let validator = ResumeValidator(
        entityTags: answer.entityTags, lastModified: answer.lastModified, dates: answer.dates, now: now)
    else { return nil }
    return Version(
      validator: validator, source: ResumeSource(answer.url, for: validator), total: answer.contentLength,
      response: response)
  }
}

extension OperationTransfer.Version {
  /// A part of it came. Of a server that was asked by `If-Range` it need not say again what the whole is (RFC 9110 section 15.3.7).
  fileprivate mutating func take(_ part: Response) {
    guard part.head.fields.has(.contentType) || !response.head.fields.has(.contentType) else { return }
    response = part
  }
}

extension ResumeDecision {
  /// Whether what is there stays, as a part or as the whole.
  fileprivate var goesOn: Bool {
    switch self {
    case .append, .complete: true
    case .replace, .askAgain, .fail: false
    }
  }
}

extension HTTPRequestOperation {
  /// Makes and begins an exchange.
  func begin(_ attempt: UInt64) {
    guard !state.withLock({ $0.transfer.isBodySpent }) else { return complete(bodyNotReplayable, attempt) }
    let limit = request.maximumBufferedBodySize ?? session.configuration.maximumBufferedBodySize
    var next = request
    next.body = next.body.noting { [weak self] in self?.state.withLock { $0.transfer.isBodySpent = true } }
    let prepared = state.withLock { state -> Request in
      if let credential = state.settings.credential { next.credential = credential }
      if state.transfer.body == nil { state.transfer.body = OperationBody(state.settings.output, limit: limit) }
      state.transfer.failure = nil
      state.transfer.isComplete = false
      return state.transfer.prepare(next)
    }
    let task = session.unlistedDataTask(with: prepared)
    task.delegate = OperationAttempt(self, attempt)
    // Paused or cancelled in between: then nobody else knows of this task.
    let (isCurrent, isCancelled) = state.withLock { state in
      guard state.machine.isCurrent(attempt) else { return (false, false) }
      state.transfer.task = task
      return (true, state.machine.isCancelled)
    }
    guard isCurrent else { return }
    task.enlist()
    if isCancelled { task.cancel() } else { task.resume() }
  }

  private var bodyNotReplayable: SessionError {
    SessionError(
      .bodyNotReplayable, phase: .prepare,
      message: "the operation was paused or has to ask again, and its body can be sent only once",
      failingURL: request.urlString, requestBytesSent: true)
  }

  func receive(_ response: Response, _ attempt: UInt64) -> Bool {
    let isGET = request.method == .get
    let (restart, emptied) = state.withLock { state -> (UInt64?, OperationBody?) in
      state.transfer.hasLeft = true
      guard state.machine.isCurrent(attempt) else { return (nil, nil) }
      switch state.transfer.take(response, isGET: isGET) {
      case .receive: return (nil, nil)
      case .reset(let body): return (nil, body)
      case .restart: return (state.machine.restart(attempt), nil)
      }
    }
    if let emptied {
      do throws(SessionError) {
        let file = try emptied.emptyFile()
        // Kept also if the operation was paused meanwhile: it is its file. Of one that is over it goes.
        state.withLock { state in
          if state.machine.state != .finished { state.transfer.body?.reset(file) }
        }
      } catch {
        // Nobody may go on with what is there as if it were of the new version.
        state.withLock { $0.transfer.version = nil }
        stop(attempt, error)
        return false
      }
    }
    guard let restart else { return state.withLock { $0.machine.isCurrent(attempt) } }
    begin(restart)
    return false
  }

  func receive(_ data: Data, _ attempt: UInt64) {
    do throws(SessionError) {
      // Not under the lock, as disks take their time. Paused meanwhile, the part does not count, and comes again.
      let body = try state.withLock { state throws(SessionError) -> OperationBody? in
        guard state.isWanted(of: attempt) else { return nil }
        try state.transfer.checkEnd(data)
        return state.transfer.bodyOnDisk
      }
      try body?.write(data)
      let report = try state.withLock { state throws(SessionError) -> Report? in
        guard state.isWanted(of: attempt) else { return nil }
        let expected = state.transfer.expected
        try state.transfer.body?.append(data, of: expected)
        return Report(
          handler: state.handlers.downloadProgress, queue: state.settings.serialQueue,
          bytes: Int64(data.count), total: state.transfer.body?.count ?? 0, expected: expected)
      }
      report?.deliver()
    } catch {
      stop(attempt, error)
    }
  }

  /// The same exchange is made once more.
  func startOver(_ attempt: UInt64) {
    state.withLock { if $0.machine.isCurrent(attempt) { $0.transfer.startOver() } }
  }

  func sent(_ bytes: Int64, _ total: Int64, _ expected: Int64?, _ attempt: UInt64) {
    let report = state.withLock { state -> Report? in
      state.transfer.hasLeft = true
      guard state.machine.isCurrent(attempt) else { return nil }
      return Report(
        handler: state.handlers.uploadProgress, queue: state.settings.serialQueue, bytes: bytes,
        total: total, expected: expected)
    }
    report?.deliver()
  }

  /// Ends the exchange for a reason of ours, which becomes the operation's error.
  private func stop(_ attempt: UInt64, _ error: SessionError) {
    let task = state.withLock { state -> DataTask? in
      guard state.machine.isCurrent(attempt) else { return nil }
      state.transfer.failure = error
      return state.transfer.task
    }
    task?.cancel()
  }

  func complete(_ error: SessionError?, _ attempt: UInt64) {
    let failure = flush(attempt)
    let isOver = state.withLock { state in
      if error?.requestBytesSent == true { state.transfer.hasLeft = true }
      guard state.machine.finish(attempt) else { return false }
      state.transfer.setAside = nil
      let error = state.transfer.isComplete && error?.code != .cancelled ? nil : error
      let reason = state.transfer.failure ?? error ?? failure ?? state.transfer.deviation
      // The exchange may have been over when it was cancelled, with a word on that still to come.
      state.end(state.machine.isCancelled && reason?.code != .cancelled ? cancellation : reason)
      return true
    }
    if isOver { finished(wasExecuting: true) }
  }

  /// What the system has against the file, which holds it no longer than this.
  private func flush(_ attempt: UInt64) -> SessionError? {
    do throws(SessionError) {
      try state.withLock { $0.machine.isCurrent(attempt) ? $0.transfer.bodyOnDisk : nil }?.flush()
      return nil
    } catch {
      return error
    }
  }

  struct Report {
    var handler: Progress?
    var queue: DispatchQueue
    var bytes: Int64
    var total: Int64
    var expected: Int64?

    func deliver() {
      guard let handler else { return }
      queue.async { [bytes, total, expected] in handler(bytes, total, expected) }
    }
  }
}

extension Request.Body {
  /// The same; `begin` is called when somebody begins to read a part of it that can be read only once.
  fileprivate func noting(_ begin: @escaping @Sendable () -> Void) -> Request.Body {
    switch self {
    case .none, .bytes, .file: return self
    case .stream(let length, let isReplayable, let makeStream):
      guard !isReplayable else { return self }
      return .stream(length: length, isReplayable: false) {
        begin()
        return makeStream()
      }
    case .segments(let segments):
      return .segments(
        segments.map { segment in
          guard case .stream(let length, false, let makeStream) = segment else { return segment }
          return .stream(length: length, isReplayable: false) {
            begin()
            return makeStream()
          }
        })
    }
  }
}

/// The delegate of one exchange of an operation, which it keeps until the exchange is over.
private final class OperationAttempt: SessionDataDelegate, AttemptingDelegate {
  private let operation: HTTPRequestOperation
  private let number: UInt64
  let attempts = LockedStorage(Attempts())
  /// Of the manager; nil for operations of nobody's.
  private let settings: ManagerSettings?
  let handledCallbacks: CallbackSet

  init(_ operation: HTTPRequestOperation, _ number: UInt64) {
    self.operation = operation
    self.number = number
    settings = operation.state.withLock { $0.managerSettings }
    // Also where there is no handler yet: one may be set before it is due.
    var callbacks: CallbackSet = [
      .response, .receivedData, .completed, .redirection, .taskChallenge, .willCacheResponse, .sentBodyData,
    ]
    if settings?.values.withLock({ !$0.retrying.isTrivial }) ?? false { callbacks.insert(.repetition) }
    handledCallbacks = callbacks
  }

  var retrying: RetryLoop { settings?.values.withLock { $0.retrying } ?? RetryLoop() }

  /// With what came before a pause.
  var dataSoFar: Data { operation.responseData ?? Data() }

  func forgetData() { operation.startOver(number) }

  /// The session's delegate, if it wants what the operation has no handler for.
  private func delegate(of session: Session, for callback: CallbackSet) -> (any SessionTaskDelegate)? {
    guard let delegate = session.delegate, delegate.handledCallbacks.contains(callback) else { return nil }
    return delegate as? any SessionTaskDelegate
  }

  func session(
    _ session: Session, dataTask: DataTask, didReceive response: Response,
    completionHandler: @escaping @Sendable (ResponseDisposition) -> Void
  ) {
    completionHandler(operation.receive(response, number) ? .allow : .cancel)
  }

  func session(_ session: Session, dataTask: DataTask, didReceive data: Data) {
    operation.receive(data, number)
  }

  func session(
    _ session: Session, task: SessionTask, didSendBodyData bytesSent: Int64, totalBytesSent: Int64,
    totalBytesExpectedToSend: Int64?
  ) {
    guard operation.state.withLock({ $0.handlers.uploadProgress }) == nil else {
      return operation.sent(bytesSent, totalBytesSent, totalBytesExpectedToSend, number)
    }
    delegate(of: session, for: .sentBodyData)?
      .session(
        session, task: task, didSendBodyData: bytesSent, totalBytesSent: totalBytesSent,
        totalBytesExpectedToSend: totalBytesExpectedToSend)
  }

  func session(
    _ session: Session, task: SessionTask, willPerformHTTPRedirection response: Response, newRequest request: Request,
    completionHandler: @escaping @Sendable (Request?) -> Void
  ) {
    guard let handler = operation.state.withLock({ $0.handlers.redirection }) else {
      guard let other = delegate(of: session, for: .redirection) else { return completionHandler(request) }
      return other.session(
        session, task: task, willPerformHTTPRedirection: response, newRequest: request,
        completionHandler: completionHandler)
    }
    completionHandler(handler(response, request))
  }

  func session(
    _ session: Session, task: SessionTask, didReceive challenge: AuthenticationChallenge,
    completionHandler: @escaping @Sendable (ChallengeDisposition) -> Void
  ) {
    guard let handler = operation.state.withLock({ $0.handlers.challenge }) else {
      guard let other = delegate(of: session, for: .taskChallenge) else {
        return completionHandler(.performDefaultHandling)
      }
      return other.session(session, task: task, didReceive: challenge, completionHandler: completionHandler)
    }
    handler(challenge, completionHandler)
  }

  func session(
    _ session: Session, dataTask: DataTask, willCacheResponse proposedResponse: CachedResponse,
    completionHandler: @escaping @Sendable (CachedResponse?) -> Void
  ) {
    guard let handler = operation.state.withLock({ $0.handlers.cacheResponse }) else {
      guard let other = delegate(of: session, for: .willCacheResponse) as? any SessionDataDelegate else {
        return completionHandler(proposedResponse)
      }
      return other.session(
        session, dataTask: dataTask, willCacheResponse: proposedResponse, completionHandler: completionHandler)
    }
    completionHandler(handler(proposedResponse))
  }

  func session(_ session: Session, task: SessionTask, didCompleteWithError error: SessionError?) {
    attempts.withLock { $0.end() }?.cancel()
    operation.complete(error, number)
  }
}
