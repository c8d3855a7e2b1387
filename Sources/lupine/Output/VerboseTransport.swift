internal import LupineBase
internal import LupineSession
internal import LupineWire

/// The heads of `--verbose`, from the network to standard error. A transport must not wait, which writing may: what was noted is told later.
final class Transcript: Sendable {
  private let printer: HeadPrinter
  private let text = Locked("")

  init(_ printer: HeadPrinter) {
    self.printer = printer
  }

  func note(request head: [UInt8]) { add(printer.request(head)) }

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

/// Passes every exchange on to another transport, and notes its heads. Only here are those seen that the session deals with itself: redirects
/// that lead nowhere, and challenges that it answers.
final class VerboseTransport: Transport {
  private let wrapped: any Transport
  private let transcript: Transcript

  init(_ wrapped: any Transport, _ transcript: Transcript) {
    self.wrapped = wrapped
    self.transcript = transcript
  }

  func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
    wrapped.start(request, VerboseReceiver(receiver, transcript))
  }

  func invalidate(cancelling: Bool) { wrapped.invalidate(cancelling: cancelling) }
}

private final class VerboseReceiver: ForwardingReceiver {
  let receiver: any TransportReceiver
  private let transcript: Transcript
  private let isRequestNoted = Locked(false)

  init(_ receiver: any TransportReceiver, _ transcript: Transcript) {
    self.receiver = receiver
    self.transcript = transcript
  }

  private func noteRequest(of exchange: any TransportExchange) {
    let isNoted = isRequestNoted.withLock { isNoted in
      defer { isNoted = true }
      return isNoted
    }
    if !isNoted { transcript.note(request: exchange.requestHead) }
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
    if ([metrics] + metrics.earlierAttempts).contains(where: { $0.requestStart != nil }) { noteRequest(of: exchange) }
    receiver.end(failure, metrics: metrics, of: exchange)
  }
}
