internal import Synchronization
internal import LupineBase
internal import LupineEngine
internal import LupineIO
internal import LupineRules
internal import LupineWire

/// One exchange on the engine: hands on what the transfer reports, and passes commands to its loop. It is the transfer, as other threads may
/// hold it.
///
/// `@unchecked`: what other threads look at is what this class declares, and the request, which does not change. All else is the loop's, and is
/// reached through `perform`. The last reference may go on any thread: after the end nothing of the loop's is left in it.
final class EngineExchange: Transfer, TransferHandler, SendingExchange, LoopWork,
  @unchecked Sendable
{
  private let handle: PoolHandle
  private let receiver: any TransportReceiver
  private let url: ParsedURL
  private let pauseState = LockedStorage(PauseState())
  /// That of the last attempt, but for what it said to a proxy.
  var requestHead: [UInt8] {
    guard let plain = request.headWithoutExpectation, lacksExpectation else { return request.head }
    return plain
  }

  init(
    _ request: consuming TransferRequest, pool: PoolHandle, receiver: any TransportReceiver, url: ParsedURL,
    createdAt: Instant
  ) {
    handle = pool
    self.receiver = receiver
    self.url = url
    super.init(request, handler: nil, createdAt: createdAt, url: url)
  }

  func begin() {
    report(to: self)
    handle.start(self)
  }

  func runOnLoop() { handle.startOnLoop(TransferHandle(self)) }

  // MARK: Commands, from any thread

  func cancel() { handle.cancel(TransferHandle(self)) }

  func setPaused(_ state: PauseState) {
    guard pauseState.withLock({ $0.update(to: state) }) else { return }
    // What holds when the loop comes to it: commands from other threads arrive later than those of the loop itself.
    perform { [self] transfer in
      if pauseState.withLock({ $0.isPaused }) { transfer.pause() } else { transfer.resume() }
    }
  }

  func discardBody() { perform { $0.discard() } }

  var hasSentRequest: Bool { report.lastRecord.sendEnd != nil }

  /// At once if this is the loop's thread: a pause that a callback asks for holds for the very next byte.
  private func perform(_ command: @escaping @Sendable (Transfer) -> Void) {
    if handle.loop.isCurrent { command(self) } else { handle.perform(on: TransferHandle(self), command) }
  }

  // MARK: Reports, on the loop

  func transfer(_ transfer: Transfer, didReceiveInformational head: ResponseHead) {
    receiver.receive(informational: head, of: self)
  }

  func transfer(_ transfer: Transfer, didReceive head: ResponseHead, framing: BodyFraming) {
    receiver.receive(head: head, framing: framing, of: self)
  }

  func transfer(_ transfer: Transfer, didReceiveBody bytes: Span<UInt8>) {
    receiver.receive(body: bytes, of: self)
  }

  func pipe(for transfer: Transfer) -> BodyPipe? {
    (receiver as? any PipeReceiver)?.pipe(for: self)
  }

  func transfer(_ transfer: Transfer, didFillPipe count: Int) {
    (receiver as? any PipeReceiver)?.receive(piped: count, of: self)
  }

  func transfer(_ transfer: Transfer, didReceiveTrailers trailers: FieldSection) {
    receiver.receive(trailers: trailers, of: self)
  }

  func transfer(_ transfer: Transfer, didSendBodyBytes count: Int) {
    receiver.sent(bodyBytes: count, of: self)
  }

  func transfer(_ transfer: Transfer, didEndWith failure: TransferFailure?) {
    let error = failure.map { SessionError($0, url: url) }
    receiver.end(error, metrics: TransactionMetrics(report), of: self)
  }
}

/// An exchange whose request cannot be sent: the receiver is told so, on the caller's thread.
final class RefusedExchange: TransportExchange {
  func cancel() {}
  func setPaused(_ state: PauseState) {}
  func discardBody() {}

  func tell(
    _ receiver: any TransportReceiver, _ error: SessionError, _ request: borrowing TransportRequest, createdAt: Instant
  ) {
    var record = TransferMetrics()
    record.createdAt = createdAt
    receiver.end(error, metrics: TransactionMetrics(record, url: request.url, method: request.method), of: self)
  }
}
