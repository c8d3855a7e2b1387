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
  /// Whether the body of the current response is of no use.
  var discards = false
  /// Why the operation stopped its exchange itself.
  var failure: SessionError?

  struct Version {
    var validator: ResumeValidator
    var origin: Origin
    var total: Int64?
  }

  /// Bytes of the whole, if the response says so.
  var expected: Int64? {
    guard let response else { return nil }
    guard let version, version.total != nil else { return response.expectedContentLength }
    return version.total
  }

  /// The request of the next exchange: for the rest, if there is something to go on from.
  mutating func prepare(_ request: Request) -> Request {
    guard let version, let count = body?.count, count > 0 else {
      offer = nil
      return request
    }
    offer = RangeOffer(offset: count, total: version.total, validator: version.validator, origin: version.origin)
    var request = request
    request.fields[.range] = "bytes=\(count)-"
    request.fields[.ifRange] = version.validator.text
    request.acceptsCompressedContent = false
    return request
  }

  enum Step {
    case receive
    /// Ask again, for the whole.
    case restart
  }

  mutating func take(_ response: Response, isGET: Bool) throws(SessionError) -> Step {
    let answer = RangeAnswer(
      status: response.statusCode, origin: response.parsedURL.origin, fields: response.head.fields)
    discards = false
    if let offer {
      switch ResumeRule.decide(answer, to: offer) {
      case .append(_, let total):
        self.response = response
        version?.total = total
        return .receive
      case .complete:
        // Everything was there when it was paused: the response that brought it stays.
        discards = true
        return .receive
      case .askAgain:
        version = nil
        self.offer = nil
        return .restart
      case .replace, .fail: break
      }
    }
    self.response = response
    try body?.reset()
    version = isGET ? Self.version(answer) : nil
    return .receive
  }

  private static func version(_ answer: RangeAnswer) -> Version? {
    let now = HTTPDate(seconds: Int64(Date().timeIntervalSince1970))
    guard answer.status == 200, !answer.isCoded, !answer.refusesRanges,
      let validator = ResumeValidator(
        entityTags: answer.entityTags, lastModified: answer.lastModified, dates: answer.dates, now: now)
    else { return nil }
    return Version(validator: validator, origin: answer.origin, total: answer.contentLength)
  }
}

extension HTTPRequestOperation {
  /// Makes and begins an exchange.
  func begin(_ attempt: UInt64) {
    let limit = request.maximumBufferedBodySize ?? session.configuration.maximumBufferedBodySize
    var next = request
    let prepared = state.withLock { state -> Request in
      if let credential = state.settings.credential { next.credential = credential }
      if state.transfer.body == nil { state.transfer.body = OperationBody(state.settings.output, limit: limit) }
      state.transfer.failure = nil
      return state.transfer.prepare(next)
    }
    let task = session.dataTask(with: prepared)
    task.delegate = OperationAttempt(self, attempt)
    // Paused or cancelled in between: then nobody else knows of this task.
    let (isCurrent, isCancelled) = state.withLock { state in
      guard state.machine.isCurrent(attempt) else { return (false, false) }
      state.transfer.task = task
      return (true, state.machine.isCancelled)
    }
    guard isCurrent else { return }
    if isCancelled { task.cancel() } else { task.resume() }
  }

  func receive(_ response: Response, _ attempt: UInt64) -> Bool {
    let isGET = request.method == .get
    let restart: UInt64?
    do throws(SessionError) {
      restart = try state.withLock { state throws(SessionError) -> UInt64? in
        guard state.machine.isCurrent(attempt) else { return nil }
        guard case .restart = try state.transfer.take(response, isGET: isGET) else { return nil }
        return state.machine.restart(attempt)
      }
    } catch {
      stop(attempt, error)
      return false
    }
    guard let restart else { return state.withLock { $0.machine.isCurrent(attempt) } }
    begin(restart)
    return false
  }

  func receive(_ data: Data, _ attempt: UInt64) {
    do throws(SessionError) {
      let report = try state.withLock { state throws(SessionError) -> Report? in
        guard state.machine.isCurrent(attempt), !state.transfer.discards, state.transfer.failure == nil else {
          return nil
        }
        try state.transfer.body?.append(data)
        return Report(
          handler: state.handlers.downloadProgress, queue: state.settings.completionQueue ?? .main,
          bytes: Int64(data.count), total: state.transfer.body?.count ?? 0, expected: state.transfer.expected)
      }
      report?.deliver()
    } catch {
      stop(attempt, error)
    }
  }

  func sent(_ bytes: Int64, _ total: Int64, _ expected: Int64?, _ attempt: UInt64) {
    let report = state.withLock { state -> Report? in
      guard state.machine.isCurrent(attempt) else { return nil }
      return Report(
        handler: state.handlers.uploadProgress, queue: state.settings.completionQueue ?? .main, bytes: bytes,
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
    let ending = state.withLock { state -> SessionError?? in
      guard state.machine.finish(attempt) else { return nil }
      return .some(state.transfer.failure ?? error)
    }
    if let ending { finished(with: ending, wasExecuting: true) }
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

/// The delegate of one exchange of an operation, which it keeps until the exchange is over.
private final class OperationAttempt: SessionDataDelegate {
  private let operation: HTTPRequestOperation
  private let number: UInt64
  let handledCallbacks: CallbackSet

  init(_ operation: HTTPRequestOperation, _ number: UInt64) {
    self.operation = operation
    self.number = number
    let handlers = operation.state.withLock { $0.handlers }
    var callbacks: CallbackSet = [.response, .receivedData, .completed]
    if handlers.redirection != nil { callbacks.insert(.redirection) }
    if handlers.challenge != nil { callbacks.insert(.taskChallenge) }
    if handlers.uploadProgress != nil { callbacks.insert(.sentBodyData) }
    handledCallbacks = callbacks
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
    operation.sent(bytesSent, totalBytesSent, totalBytesExpectedToSend, number)
  }

  func session(
    _ session: Session, task: SessionTask, willPerformHTTPRedirection response: Response, newRequest request: Request,
    completionHandler: @escaping @Sendable (Request?) -> Void
  ) {
    guard let handler = operation.state.withLock({ $0.handlers.redirection }) else { return completionHandler(request) }
    completionHandler(handler(response, request))
  }

  func session(
    _ session: Session, task: SessionTask, didReceive challenge: AuthenticationChallenge,
    completionHandler: @escaping @Sendable (ChallengeDisposition) -> Void
  ) {
    guard let handler = operation.state.withLock({ $0.handlers.challenge }) else {
      return completionHandler(.performDefaultHandling)
    }
    handler(challenge, completionHandler)
  }

  func session(_ session: Session, task: SessionTask, didCompleteWithError error: SessionError?) {
    operation.complete(error, number)
  }
}
