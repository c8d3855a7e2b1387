internal import LupineBase
internal import LupineSession
internal import LupineWire

/// The heads and the trailers of requests of `--verbose`, from the network to standard error. A transport must not wait, which writing may: what was noted
/// is told later.
final class Transcript: Sendable {
  private let printer: HeadPrinter
  private let text = Locked("")

  init(_ printer: HeadPrinter) {
    self.printer = printer
  }

  func note(request head: [UInt8]) { add(printer.request(head)) }

  func note(requestTrailers fields: [(name: String, value: String)]) { add(printer.request(trailers: fields)) }

  func note(response head: ResponseHead) { add(printer.response(head)) }

  private func add(_ head: String) { text.withLock { $0 += head + "\n" } }

  /// Writes what was noted since the last time.
  func tell() {
    let noted = text.withLock { text in
      defer { text = "" }
      return text
    }
    if !noted.isEmpty { System.tell(noted) }
  }
}

/// Passes every exchange on to another transport, and notes its heads, and what follows the bodies of requests. Only here are those seen that the session
/// deals with itself: redirects that lead nowhere, and challenges that it answers.
final class VerboseTransport: Transport {
  private let wrapped: any Transport
  private let transcript: Transcript

  init(_ wrapped: any Transport, _ transcript: Transcript) {
    self.wrapped = wrapped
    self.transcript = transcript
  }

  func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
    let verbose = VerboseReceiver(receiver, transcript)
    return wrapped.start(verbose.observed(request), verbose)
  }

  func invalidate(cancelling: Bool) { wrapped.invalidate(cancelling: cancelling) }
}

private final class VerboseReceiver: ForwardingReceiver {
  private struct State {
    var isRequestNoted = false
    /// Streams that were made of the request's body: one for each attempt.
    var streams = 0
    /// What was given to follow the body of the last attempt, and is not noted.
    var trailers: [(name: String, value: String)] = []
  }

  let receiver: any TransportReceiver
  private let transcript: Transcript
  private let state = Locked(State())

  init(_ receiver: any TransportReceiver, _ transcript: Transcript) {
    self.receiver = receiver
    self.transcript = transcript
  }

  /// The request, with a stream that tells what follows it, if anything may.
  func observed(_ request: TransportRequest) -> TransportRequest {
    let body = request.body
    guard !request.trailerNames.isEmpty, case .stream = body else { return request }
    var observed = request
    observed.body = .stream(length: body.knownLength, isReplayable: body.isReplayable) { [self] in
      let number = beginBody()
      return body.makeStream().observed(
        by: { _ in }, atEnd: {}, trailers: { trailers in self.take(trailers, ofStream: number) })
    }
    return observed
  }

  private func beginBody() -> Int {
    state.withLock { state in
      state.streams += 1
      state.trailers = []
      return state.streams
    }
  }

  /// What a producer of an attempt before gives late is not what follows the body now.
  private func take(_ trailers: [(name: String, value: String)], ofStream number: Int) {
    state.withLock { state in
      if number == state.streams { state.trailers = trailers }
    }
  }

  /// - Parameter isSent: the request has gone in full. What was given to follow its body has gone then, and was not refused.
  private func noteRequest(of exchange: any TransportExchange, isSent: Bool) {
    let (isNoted, trailers) = state.withLock { state -> (Bool, [(name: String, value: String)]) in
      let found = (state.isRequestNoted, isSent ? state.trailers : [])
      state.isRequestNoted = true
      if isSent { state.trailers = [] }
      return found
    }
    if !isNoted { transcript.note(request: exchange.requestHead) }
    if !trailers.isEmpty { transcript.note(requestTrailers: trailers) }
  }

  /// Before an answer.
  private func noteRequest(of exchange: any TransportExchange) {
    noteRequest(of: exchange, isSent: (exchange as? any SendingExchange)?.hasSentRequest ?? false)
  }

  func receive(informational head: ResponseHead, of exchange: any TransportExchange) {
    noteRequest(of: exchange)
    transcript.note(response: head)
    receiver.receive(informational: head, of: exchange)
  }

  func receive(head: ResponseHead, framing: BodyFraming, of exchange: any TransportExchange) {
    noteRequest(of: exchange)
    transcript.note(response: head)
    receiver.receive(head: head, framing: framing, of: exchange)
  }

  func end(_ failure: SessionError?, metrics: TransactionMetrics, of exchange: any TransportExchange) {
    // A head is made before there is a connection for it: what never left was not sent.
    if let last = (metrics.earlierAttempts + [metrics]).last(where: { $0.requestStart != nil }) {
      noteRequest(of: exchange, isSent: last.requestEnd != nil)
    }
    receiver.end(failure, metrics: metrics, of: exchange)
  }
}
