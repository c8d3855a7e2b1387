/// What the bytes of a response mean, one step at a time.
public enum ResponseEvent: Sendable, Equatable {
  /// Everything given was taken; nothing can be said before more bytes come.
  case needMore
  /// A 1xx head other than 101. The final one follows.
  case informational(ResponseHead)
  /// The final head, and how the end of the body is found. Body events or ``end`` follow.
  case head(ResponseHead, BodyFraming)
  /// Body bytes: a range of the input that was given, without a copy. Never empty.
  case body(Range<Int>)
  /// The trailer fields of a chunked body; only if there are any.
  case trailers(FieldSection)
  /// The response has ended. Bytes from the offset on are not part of it.
  case end
}

/// Reads the responses that come on one connection (RFC 9112): bytes in, events out. Does no input or output and keeps no reference
/// to the bytes given.
///
/// Call ``begin(_:)`` for each request, then ``next(_:_:)`` in a loop. Every split of the same bytes gives the same events (adjacent
/// body ranges joined) and the same error at the same offset.
///
/// - States (`State`): `idle` → `head`; `head` → `head` (informational) | `ending` | `length` | `chunked` | `untilClose`;
///   the last three → `ended`; `ending` → `ended`; anything → `failed`, for good; `ended` → `head` by ``begin(_:)``.
/// - Invariant: after an error the parser only repeats it, and ``reuseVerdict`` says ``CloseReason/failed``.
public struct ResponseParser: ~Copyable, Sendable {
  private enum State: UInt8 { case idle, head, ending, length, chunked, untilClose, ended, failed }

  // What goes with a state stands beside it: a single byte is compared and written faster than a choice of values.
  private var state = State.idle
  /// In `length`: bytes of the body that are still to come.
  private var remaining: Int64 = 0
  /// In `failed`: why.
  private var failure = WireError(.truncatedHead, at: 0)
  private var heads: HeadParser
  private var context = RequestContext()
  private var verdict = ReuseVerdict.close(.responseUnfinished)
  private var decoder: ChunkedDecoder
  private var informationalHeads = 0
  private var headBytes = 0
  private var bodyBytes = 0

  private let limits: WireLimits
  private let leniency: WireLeniency

  /// Trailer fields of this response that were dropped because they must not be trailers: see ``ForbiddenTrailers``.
  public private(set) var droppedTrailerFields = 0

  /// A parser for a fresh connection.
  public init(limits: WireLimits = WireLimits(), leniency: WireLeniency = []) {
    self.limits = limits.clamped
    self.leniency = leniency
    heads = HeadParser(limits: self.limits, leniency: leniency)
    decoder = ChunkedDecoder(limits: self.limits, leniency: leniency)
  }

  /// Makes the parser read the response to the next request on this connection. After an error this does nothing: the connection
  /// is lost.
  public mutating func begin(_ context: RequestContext = RequestContext()) {
    if state == .failed { return }
    self.context = context
    state = .head
    heads.begin(continuing: false)
    verdict = .close(.responseUnfinished)
    heads.spoiled = nil
    informationalHeads = 0
    headBytes = 0
    bodyBytes = 0
    droppedTrailerFields = 0
  }

  /// Reads `input` from `offset` on, moves `offset` past what it took and says what that was.
  ///
  /// - Parameters:
  ///   - input: bytes as they came from the peer; not kept.
  ///   - offset: where to start; at most `input.count`. Bytes before it are not looked at.
  /// - Throws: ``WireError``, its offset counted from the start of this response; the same again at every later call.
  public mutating func next(_ input: Span<UInt8>, _ offset: inout Int) throws(WireError) -> ResponseEvent {
    do throws(WireError) {
      switch state {
      case .head: return try nextHead(input, &offset)
      case .length: return nextOfLength(input, &offset)
      case .chunked: return try nextOfChunks(input, &offset)
      case .untilClose:
        guard offset < input.count else { return .needMore }
        let range = offset..<input.count
        offset = input.count
        bodyBytes += range.count
        return .body(range)
      case .idle: return .needMore
      case .ending, .ended:
        state = .ended
        return .end
      case .failed: throw failure
      }
    } catch {
      fail(error)
      throw error
    }
  }

  /// The peer closed its side in order (FIN, or close_notify).
  ///
  /// - Returns: ``ResponseEvent/end`` if the response may end so, or had ended.
  /// - Throws: ``WireError`` that says what is missing.
  public mutating func finish() throws(WireError) -> ResponseEvent {
    let reason: WireError.Reason
    switch state {
    case .ending, .ended, .untilClose:
      state = .ended
      return .end
    case .idle: reason = .closedBeforeResponse
    case .head:
      reason = heads.consumed == 0 ? .closedBeforeResponse : .truncatedHead
    case .length: reason = .truncatedBody(missing: remaining)
    case .chunked: reason = .truncatedChunkedBody
    case .failed: throw failure
    }
    let error = WireError(reason, at: consumed)
    fail(error)
    throw error
  }

  private mutating func fail(_ error: WireError) {
    state = .failed
    failure = error
    verdict = .close(.failed)
  }

  /// Bytes of this response taken so far.
  public var consumed: Int {
    switch state {
    case .head: heads.consumed
    case .chunked: decoder.consumed
    default: headBytes + bodyBytes
    }
  }

  /// Bytes of the body that are still to come; nil if its length was not announced, or no body is being read.
  public var bodyRemaining: Int64? {
    state == .length ? remaining : nil
  }

  /// So many bytes of the body have gone another way than by ``next(_:_:)``, in their place: fewer than ``bodyRemaining``, so that its end comes that way.
  package mutating func skipBody(_ count: Int) {
    precondition(
      state == .length && count >= 0 && Int64(count) < remaining, "bytes that are none of the body's, or its last")
    remaining -= Int64(count)
    bodyBytes += count
  }

  /// Whether the connection may carry another request, as far as this response decides. Final once ``ResponseEvent/end`` came.
  public var reuseVerdict: ReuseVerdict {
    switch state {
    case .ended, .failed: verdict
    default: .close(.responseUnfinished)
    }
  }

  /// ``reuseVerdict``, looked at where the parser is: it is a large value, and whoever only reads it from another module copies all of it.
  package mutating func currentVerdict() -> ReuseVerdict { reuseVerdict }

  /// For how many seconds the peer keeps the connection for the next request, as the response that has ended says (`Keep-Alive: timeout=5`); nil:
  /// it does not. Nil as well after ``begin(_:)`` and ``releaseStorage()``.
  public var keepAliveSeconds: Int? { state == .ended ? heads.keepAliveSeconds : nil }

  /// Tells the parser that bytes came after the end of the response: the connection is out of step.
  public mutating func rejectBytesAfterEnd() {
    spoil(.bytesAfterResponse)
  }

  /// No response may follow on the connection, for this reason unless there is one already.
  private mutating func spoil(_ reason: CloseReason) {
    if case .reusable = verdict { verdict = .close(reason) }
  }

  /// Gives back all storage, that of the last head included, unless a response is being read: an idle connection keeps none. What was
  /// handed out stays as it is.
  public mutating func releaseStorage() {
    switch state {
    case .idle, .ended, .failed: heads.releaseStorage()
    case .head where heads.consumed == 0: heads.releaseStorage()
    case .head, .ending, .length, .chunked, .untilClose: break
    }
  }

  /// Bytes of storage that are kept for heads. For tests.
  package var keptBytes: Int { heads.keptBytes }

  private mutating func nextHead(
    _ input: Span<UInt8>, _ offset: inout Int
  ) throws(WireError) -> ResponseEvent {
    guard try heads.next(input, &offset) else { return .needMore }
    let decision = try heads.decide(context)
    let status = heads.status
    headBytes = heads.consumed
    if status == 101, !context.offersUpgrade { throw WireError(.unsolicitedUpgrade, at: heads.base) }
    if status < 200, status != 101 { return try informational(decision) }
    verdict = decision.reuse
    if let reason = heads.spoiled { spoil(reason) }
    switch decision.body {
    case .none, .length(0): state = .ending
    case .length(let length):
      remaining = length
      state = .length
    case .chunked:
      decoder = ChunkedDecoder(limits: limits, leniency: leniency, origin: headBytes)
      state = .chunked
    case .untilClose: state = .untilClose
    }
    return .head(heads.head, decision.body)
  }

  private mutating func informational(
    _ decision: FramingDecision
  ) throws(WireError) -> ResponseEvent {
    informationalHeads += 1
    if informationalHeads > limits.informationalHeads {
      throw WireError(.tooManyInformationalHeads(limit: limits.informationalHeads), at: heads.base)
    }
    // An informational response says nothing of persistence that counts, but one that announces a body leaves us out of step.
    if case .close(let reason) = decision.reuse,
      reason == .bodyAnnouncedWhereNoneIsAllowed || reason == .ambiguousFraming
    {
      heads.spoiled = reason
    }
    let head = heads.head
    heads.begin(continuing: true)
    return .informational(head)
  }

  private mutating func nextOfLength(
    _ input: Span<UInt8>, _ offset: inout Int
  ) -> ResponseEvent {
    guard offset < input.count else { return .needMore }
    let amount = Int(min(remaining, Int64(input.count - offset)))
    let range = offset..<offset + amount
    offset += amount
    bodyBytes += amount
    remaining -= Int64(amount)
    if remaining == 0 { state = .ending }
    return .body(range)
  }

  private mutating func nextOfChunks(
    _ input: Span<UInt8>, _ offset: inout Int
  ) throws(WireError) -> ResponseEvent {
    switch try decoder.next(input, &offset) {
    case .needMore: return .needMore
    case .data(let range): return .body(range)
    case .trailers(let section):
      endChunks()
      return .trailers(section)
    case .end:
      endChunks()
      state = .ended
      return .end
    }
  }

  private mutating func endChunks() {
    bodyBytes = decoder.consumed - headBytes
    droppedTrailerFields = decoder.droppedTrailerFields
    if decoder.hasAmbiguousFraming { spoil(.ambiguousFraming) }
    state = .ending
  }
}
