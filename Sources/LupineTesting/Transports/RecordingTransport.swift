internal import LupineBase
public import LupineSession
internal import LupineWire

/// Passes every exchange on to another transport, for example `NetworkTransport`, and records it.
public final class RecordingTransport: Transport {
  private let wrapped: any Transport
  /// Where the exchanges go.
  public let recorder: ArchiveRecorder

  /// Wraps a transport; a recorder may serve several.
  public init(_ wrapped: any Transport, recorder: ArchiveRecorder = ArchiveRecorder()) {
    self.wrapped = wrapped
    self.recorder = recorder
  }

  /// What was recorded so far; see `ArchiveRecorder.archive()`.
  public func archive() async -> HTTPArchive { await recorder.archive() }

  /// Passes the request on.
  public func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
    guard let index = recorder.reserve() else { return wrapped.start(request, receiver) }
    let recording = RecordingReceiver(request, receiver, recorder, index)
    return wrapped.start(recording.observed, recording)
  }

  /// Passes it on.
  public func invalidate(cancelling: Bool) {
    wrapped.invalidate(cancelling: cancelling)
  }
}

/// Stands between a transport and a receiver, and notes what passes.
private final class RecordingReceiver: ForwardingReceiver {
  private struct State {
    /// Streams that were made of the request's body: one for each attempt. A producer of one before may be late.
    var streams = 0
    var requestBody: [UInt8] = []
    var requestTrailers: [(name: String, value: String)] = []
    var head: ResponseHead?
    var informational: [ResponseHead] = []
    var trailers = FieldSection()
    var body: [UInt8] = []
    var isCut = false
    var isRequestCut = false
    /// The stream of the request's body has passed to its end.
    var hasWholeRequest = false
    /// What passes from now on, of a producer that is late, is not kept.
    var hasEnded = false

    /// Whether what passes through the stream of this number is kept.
    func takes(_ number: Int) -> Bool { number == streams && !hasEnded }
  }

  private let request: TransportRequest
  /// Of a body with a stream, as the wrapped transport would announce it.
  private let announcedLength: Int64?
  let receiver: any TransportReceiver
  private let recorder: ArchiveRecorder
  private let index: Int
  /// For a transport that tells no times.
  private let start = TransactionMetrics.Times.now
  private let state = Locked(State())

  init(_ request: TransportRequest, _ receiver: any TransportReceiver, _ recorder: ArchiveRecorder, _ index: Int) {
    self.request = request
    announcedLength = request.body.hasStream ? request.body.announcedLength : nil
    self.receiver = receiver
    self.recorder = recorder
    self.index = index
  }

  /// The request, with a stream that tells what passes through it.
  var observed: TransportRequest {
    let body = request.body
    guard body.hasStream else { return request }
    var observed = request
    // Whoever makes the stream holds this receiver no longer than the exchange.
    observed.body = .stream(length: announcedLength, isReplayable: body.isReplayable) { [self] in
      // A stream that is made again begins again.
      let number = state.withLock { state in
        state.streams += 1
        return state.streams
      }
      dropRequestBody(ofStream: number, isCut: false)
      return body.makeStream().observed(
        by: { chunk in self.noteRequest(chunk, ofStream: number) },
        atEnd: { self.noteRequestEnd(ofStream: number) },
        trailers: { trailers in self.noteRequest(trailers: trailers, ofStream: number) })
    }
    return observed
  }

  private func noteRequest(_ chunk: [UInt8], ofStream number: Int) {
    let (isCut, fits) = state.withLock { state in
      (
        state.isRequestCut || !state.takes(number),
        chunk.count <= recorder.limits.bodyBytes - state.requestBody.count
      )
    }
    guard !isCut else { return }
    if fits, recorder.takeRoom(chunk.count) {
      let isKept = state.withLock { state in
        let takes = state.takes(number)
        if takes { state.requestBody += chunk }
        return takes
      }
      if !isKept { recorder.returnRoom(chunk.count) }
    } else {
      dropRequestBody(ofStream: number, isCut: true)
    }
  }

  private func noteRequestEnd(ofStream number: Int) {
    state.withLock { state in
      if state.takes(number) { state.hasWholeRequest = true }
    }
  }

  private func noteRequest(trailers: [(name: String, value: String)], ofStream number: Int) {
    state.withLock { state in
      if state.takes(number) { state.requestTrailers = trailers }
    }
  }

  private func dropRequestBody(ofStream number: Int, isCut: Bool) {
    let count = state.withLock { state in
      guard state.takes(number) else { return 0 }
      defer { state.requestBody = [] }
      state.isRequestCut = isCut
      state.hasWholeRequest = false
      if !isCut { state.requestTrailers = [] }
      return state.requestBody.count
    }
    recorder.returnRoom(count)
  }

  func receive(informational head: ResponseHead, of exchange: any TransportExchange) {
    state.withLock { $0.informational.append(head) }
    receiver.receive(informational: head, of: exchange)
  }

  func receive(head: ResponseHead, framing: BodyFraming, of exchange: any TransportExchange) {
    state.withLock { $0.head = head }
    receiver.receive(head: head, framing: framing, of: exchange)
  }

  func receive(body bytes: Span<UInt8>, of exchange: any TransportExchange) {
    let fits = state.withLock { !$0.isCut && $0.body.count + bytes.count <= recorder.limits.bodyBytes }
    if fits, recorder.takeRoom(bytes.count) {
      let chunk = [UInt8](bytes)
      state.withLock { $0.body += chunk }
    } else {
      state.withLock { $0.isCut = true }
    }
    receiver.receive(body: bytes, of: exchange)
  }

  func receive(trailers: FieldSection, of exchange: any TransportExchange) {
    state.withLock { $0.trailers = trailers }
    receiver.receive(trailers: trailers, of: exchange)
  }

  func end(_ failure: SessionError?, metrics: TransactionMetrics, of exchange: any TransportExchange) {
    let state = state.withLock { state in
      state.hasEnded = true
      return state
    }
    recordAttempts(metrics.earlierAttempts, exchange)
    var requestBody: [UInt8]?
    let isWhole = state.hasWholeRequest || announcedLength == Int64(state.requestBody.count)
    if request.body.hasStream, !state.isRequestCut, isWhole { requestBody = state.requestBody }
    // What was given is seen before it is looked at, and what is refused is not sent.
    let requestTrailers = failure?.code == .badTrailers ? [] : state.requestTrailers
    // A body that nobody wanted was not passed on.
    let isKept = !state.body.isEmpty || metrics.responseBodyBytes == 0
    var entry = HTTPArchive.Entry(
      request, requestHead: exchange.requestHead, requestBody: requestBody, requestTrailers: requestTrailers,
      response: state.head, informational: state.informational, trailers: state.trailers,
      body: state.head != nil && isKept ? state.body : nil, failure: failure, metrics: metrics,
      sensitiveFields: recorder.sensitiveFields)
    // An answer that came early leaves a part, or nothing, which says nothing about the body.
    if request.body.hasStream, !isWhole { entry.request.bodyBytes = nil }
    if requestBody == nil { recorder.returnRoom(state.requestBody.count) }
    if metrics.fetchStart == 0 { entry.startedAt = metrics.date(of: start) }
    if state.isCut || state.isRequestCut { entry.comment = HTTPArchive.Entry.cutBodyComment }
    recorder.record(entry, at: index, body: request.body)
    receiver.end(failure, metrics: metrics, of: exchange)
  }

  private func recordAttempts(_ attempts: [TransactionMetrics], _ exchange: any TransportExchange) {
    guard !attempts.isEmpty else { return }
    let entries = attempts.map { attempt -> HTTPArchive.Entry in
      var entry = HTTPArchive.Entry(
        request, requestHead: exchange.requestHead, response: nil, metrics: attempt,
        sensitiveFields: recorder.sensitiveFields)
      entry.comment = HTTPArchive.Entry.repeatedAttemptComment
      return entry
    }
    recorder.record(attempts: entries, of: index)
  }
}

extension HTTPArchive.Entry {
  /// What is said of an entry whose request or response body is not all there.
  static let cutBodyComment = "a body is longer than what is kept"

  /// What is said of an attempt in whose place the network made another one: no request of a session.
  static let repeatedAttemptComment = "an attempt that was repeated"

  /// Whether the body of the response is missing or cut. One that nobody wanted, as of a redirect, is not missed; what a browser says of a size may be
  /// that of another charset.
  var lacksBody: Bool {
    guard let response, failure == nil, request.method != "HEAD", !(300..<400).contains(response.status) else {
      return false
    }
    let count = response.body?.count ?? 0
    return Int64(count) < response.decodedBytes ?? 0 && (count == 0 || comment == Self.cutBodyComment)
  }
}
