internal import Synchronization
package import LupineBase
internal import LupineIO
package import LupineRules
internal import LupineWire

/// One request until its completion, over as many attempts as the retry rule allows. Lives on the loop of its engine.
///
/// States, and their legal successors:
///
///     new -> waiting (for a connection) -> attached (to one) -> ended
///     new, waiting -> parked (paused before there was a connection) -> waiting
///     attached -> waiting (the reused connection died, 417 refused the expectation, or a proxy asked who it is) ; every state -> ended
///
/// Invariant: `end` passes exactly once to the handler, which is released then.
///
/// Public, so that what hands it to other threads can be one object with it: of a small request each object is a part of the cost. No product
/// has this module.
open class Transfer {
  enum State {
    case new
    case waiting(PoolMachine<PoolKey, Transfer>.WaiterToken)
    case parked
    case attached(Connection)
    case ended
  }

  package final let request: TransferRequest
  /// Changes until the end; for other threads after that alone.
  package final let report: TransferReport
  package final var metrics: TransferMetrics { report.metrics }
  final var record: TransferRecord {
    _read { yield report.record }
    _modify { yield &report.record }
  }
  final var connection: ConnectionInformation? {
    get { report.connection }
    set { report.connection = newValue }
  }
  private final var handler: (any TransferHandler)?

  final var state = State.new
  final var clock: DeadlineClock
  final var attempts = 0
  /// The head to send: that of the request until a 417 refuses its `Expect`, or a proxy wants to know more.
  final var head: [UInt8] {
    get { otherHead?.bytes ?? request.head }
    set { otherHead = OtherHead(newValue) }
  }
  /// Apart, as `decoding` is.
  private final var otherHead: OtherHead?
  final var expectsContinue: Bool
  /// A 417 has refused what the request expected of the server. For any thread.
  package final var lacksExpectation: Bool { refusal.load(ordering: .acquiring) }
  private final let refusal = Atomic(false)
  final var receivedAnything = false
  /// A body, or a piece of one, that can be had once only has been asked for. It changes no more once a final head of 300 or above has
  /// come.
  package internal(set) final var isBodySpent = false
  /// Apart, because decoding calls out: whoever has none is not checked for exclusive access to it.
  private final var decoding: Decoding?
  /// Decoding stopped because the reader paused: call `decodeHeld` before anything that follows in the response is looked at.
  private(set) final var isDecodingHeld = false
  /// Where it was started; nil after the end.
  final var pool: EnginePool?
  package final var isPaused: Bool { pausing }
  // Not the same property: one that other modules see is checked for exclusive access at every use.
  private final var pausing = false
  /// Bytes of a body that nobody wants may still be read to save the connection, so many and no more.
  private(set) final var discardBudget: Int?
  /// Runs while the transfer waits for a connection; its owner is the pool.
  final var waitTimer: TimerIdentifier?

  /// - Parameters:
  ///   - handler: nil if `report` names it before the start.
  ///   - createdAt: when the caller asked, so that the total deadline covers everything.
  ///   - url: for the report.
  package init(
    _ request: consuming TransferRequest, handler: (any TransferHandler)?, createdAt: Instant, url: ParsedURL? = nil
  ) {
    self.handler = handler
    expectsContinue = request.headWithoutExpectation != nil
    clock = DeadlineClock(limits: request.deadlines, now: createdAt)
    report = TransferReport(url: url, method: request.method, createdAt: createdAt)
    self.request = consume request
  }

  /// Has `handler` told what becomes of the transfer; before the start.
  package final func report(to handler: any TransferHandler) {
    self.handler = handler
  }

  final var hasEnded: Bool {
    if case .ended = state { true } else { false }
  }

  final var hasBody: Bool {
    if case .none = request.body { false } else { true }
  }

  // MARK: For the handler

  /// Stops the delivery of body bytes, and the socket behind it; before there is a connection, the wait for one. It stops after those already read, or where a content coding is undone, after the
  /// buffer of at most 32 KiB that is being delivered.
  package final func pause() {
    pausing = true
    clock.isPaused = true
    pool?.park(self)
  }

  /// Resumes delivery.
  package final func resume() {
    guard isPaused else { return }
    pausing = false
    clock.isPaused = false
    switch state {
    case .attached: current?.resumeReading()
    case .parked: pool?.unpark(self)
    case .new, .waiting, .ended: break
    }
  }

  /// The body is of no interest: it is dropped undecoded, up to `PoolConfiguration.drainedBytes`, to keep the connection; past that the connection
  /// is closed.
  package final func discard() {
    let isFirst = discardBudget == nil
    if isFirst { discardBudget = pool?.configuration.drainedBytes ?? PoolConfiguration().drainedBytes }
    if isPaused { resume() }
    if isFirst { current?.boundDiscarding() }
  }

  /// The connection that has this exchange under way. Between the last byte of a response and the word of its end it may have begun the next exchange, and whoever
  /// hears of that may have a command for this one.
  private final var current: Connection? {
    guard case .attached(let connection) = state, connection.transfer === self else { return nil }
    return connection
  }

  /// Whether whoever reads it has had all that is wanted: how the rest of its body ends, early or late, changes nothing.
  final var isOfNoInterest: Bool { discardBudget != nil && resend == nil }

  /// Ends with `.cancelled`; nothing happens if it has ended.
  final func cancel() {
    if let pool {
      pool.cancel(self, .cancelled)
    } else {
      end(TransferFailure(error: .cancelled, phase: .poolWait, requestBytesSent: false), now: clock.createdAt)
    }
  }

  // MARK: For the connection

  final func informational(_ head: ResponseHead) {
    handler?.transfer(self, didReceiveInformational: head)
  }

  /// Sets up the decoding that the head asks for, and hands the head on.
  final func receive(_ head: ResponseHead, framing: BodyFraming) throws(EngineError) {
    if request.decodesContent, framing != .none {
      try prepareDecoding(head.fields)
    }
    if resend == nil { handler?.transfer(self, didReceive: head, framing: framing) }
  }

  /// A coding that is not ours is none of our business: the body passes as it came.
  private final func prepareDecoding(_ fields: FieldSection) throws(EngineError) {
    guard fields.has(.contentEncoding) else { return }
    var limits = pool?.configuration.decodeLimits ?? DecodeLimits(maximumOutput: nil)
    let codings: [ContentCoding]
    do throws(ContentCodingRefusal) {
      codings = try ContentCodings.parse(fields.values(.contentEncoding), atMost: limits.maximumCodings)
    } catch {
      switch error {
      case .unknown: return
      case .tooMany: throw .contentCoding(error)
      }
    }
    guard !codings.isEmpty else { return }
    do throws(DecodeError) {
      if let ratio = request.maximumRatio { limits.maximumRatio = ratio == .max ? nil : ratio }
      decoding = Decoding(try ContentDecoder(codings: codings, limits: limits))
    } catch {
      throw .content(error)
    }
  }

  /// Hands body bytes on, decoded.
  final func receive(body bytes: Span<UInt8>) throws(EngineError) {
    record.responseBodyBytes += Int64(bytes.count)
    if let budget = discardBudget {
      discardBudget = budget - bytes.count
      return
    }
    guard let decoding else {
      record.responseDecodedBytes += Int64(bytes.count)
      handler?.transfer(self, didReceiveBody: bytes)
      return
    }
    var offset = 0
    if !isPaused, try decode(bytes, &offset) { return }
    // The reader may have lost interest in the middle: the rest is decoded for nobody.
    guard discardBudget == nil else { return }
    isDecodingHeld = true
    decoding.undecoded.append(bytes.extracting(offset...))
  }

  /// Where body bytes may go unseen; nil: they are looked at here, or nobody takes them so.
  final var bodyPipe: BodyPipe? {
    guard decoding == nil, discardBudget == nil, resend == nil else { return nil }
    return handler?.pipe(for: self)
  }

  /// So many body bytes are in the handler's pipe.
  final func receive(piped count: Int) {
    record.responseBytes += Int64(count)
    record.responseBodyBytes += Int64(count)
    record.responseDecodedBytes += Int64(count)
    handler?.transfer(self, didFillPipe: count)
  }

  /// Decodes until everything given is decoded (true) or the reader pauses.
  private final func decode(_ bytes: Span<UInt8>, _ offset: inout Int) throws(EngineError) -> Bool {
    do {
      return try decoding?.decoder.decode(bytes, &offset) { decoded in
        record.responseDecodedBytes += Int64(decoded.count)
        if discardBudget == nil { handler?.transfer(self, didReceiveBody: decoded) }
        return !isPaused && discardBudget == nil
      } ?? true
    } catch let error as DecodeError {
      throw .content(error)
    } catch {
      preconditionFailure("the decoder throws its own error only: \(error)")
    }
  }

  /// Goes on with what was held when the reader paused. If it pauses again, the rest stays held.
  final func decodeHeld() throws(EngineError) {
    guard isDecodingHeld, !isPaused, let decoding else { return }
    var rest = ByteQueue()
    swap(&rest, &decoding.undecoded)
    if discardBudget == nil {
      var offset = 0
      let isDone = try decode(rest.span, &offset)
      rest.consume(offset)
      if !isDone, discardBudget == nil {
        swap(&rest, &decoding.undecoded)
        return
      }
    }
    isDecodingHeld = false
  }

  /// Body bytes that wait for a reader that paused.
  final var undecodedBytes: Int { decoding?.undecoded.count ?? 0 }

  final func receive(trailers: FieldSection) {
    // Those of a response that nobody wants are no part of the one that follows.
    guard discardBudget == nil else { return }
    handler?.transfer(self, didReceiveTrailers: trailers)
  }

  /// The body is complete on the wire; it must be complete under its coding as well.
  final func finishBody() throws(EngineError) {
    guard let decoding, discardBudget == nil else { return }
    do throws(DecodeError) { try decoding.decoder.finish() } catch { throw .content(error) }
  }

  final func sent(bodyBytes count: Int) {
    record.requestBodyBytes += Int64(count)
    handler?.transfer(self, didSendBodyBytes: count)
  }

  /// Passes the end on; nothing happens after it.
  final func end(_ failure: TransferFailure?, now: Instant) {
    guard !hasEnded else { return }
    state = .ended
    record.endAt = now
    decoding = nil
    pool = nil
    let handler = handler
    self.handler = nil
    handler?.transfer(self, didEndWith: failure)
  }

  /// Whether the retry rule lets this transfer go to another connection after its attempt failed.
  ///
  /// - Parameter mayHaveDied: the connection may have been closed before the request came to it.
  final func mayRetry(mayHaveDied: Bool, wroteAnything: Bool) -> Bool {
    let facts = AttemptFacts(
      connectionWasReused: mayHaveDied, wroteAnything: wroteAnything, receivedAnything: receivedAnything,
      hasIdempotencyKey: request.hasIdempotencyKey, isBodyReplayable: !isBodySpent, attempts: attempts)
    switch RetryRule.decide(method: request.method, facts) {
    case .retry: return true
    case .fail: return false
    }
  }

  // MARK: 417

  /// Why the answer is of no interest, and the same request goes out once more.
  enum Resend {
    case withoutExpectation
    case toProxy
  }

  private(set) final var resend: Resend?

  /// The server refused to be expected to say 100: its answer is dropped, and the request goes out once more without `Expect`.
  final func refuseExpectation() {
    guard request.headWithoutExpectation != nil else { return }
    resend = .withoutExpectation
    discard()
  }

  /// Of a request in absolute form; nil for every other.
  final var forward: ForwardState?

  /// The proxy wants to know who is asking, and there is something to say: its 407 is dropped.
  final func answerProxy() {
    resend = .toProxy
    discard()
  }

  final func dropExpectation() {
    guard resend == .withoutExpectation else { return }
    expectsContinue = false
    refusal.store(true, ordering: .releasing)
    if let plain = request.headWithoutExpectation { head = plain }
  }

  /// Puts away what belongs to one attempt, and begins the next.
  final func prepareForRetry(now: Instant) {
    if record.requestBodyBytes > 0 {
      handler?.transfer(self, didSendBodyBytes: -Int(clamping: record.requestBodyBytes))
    }
    record.endAt = now
    report.past.append(TransferMetrics(record, connection: connection))
    connection = nil
    record = TransferRecord()
    record.createdAt = now
    record.retries = report.past.count
    clock.firstByteAt = nil
    clock.sendStartedAt = nil
    clock.sendEndedAt = nil
    clock.awaitingContinueSince = nil
    clock.writeFailedAt = nil
    receivedAnything = false
    discardBudget = nil
    clock.discardUntil = nil
    decoding = nil
    isDecodingHeld = false
    resend = nil
    state = .new
  }
}

/// A head that takes the place of the request's own.
private final class OtherHead {
  let bytes: [UInt8]

  init(_ bytes: [UInt8]) {
    self.bytes = bytes
  }
}

/// The content decoder of one response.
private final class Decoding {
  var decoder: ContentDecoder
  /// Body bytes that came before the reader paused and are not decoded yet.
  var undecoded = ByteQueue()

  init(_ decoder: consuming ContentDecoder) {
    self.decoder = decoder
  }
}
