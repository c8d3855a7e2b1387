internal import Synchronization
internal import LupineBase
internal import LupineEngine
internal import LupineIO
internal import LupineRules
internal import LupineWire

/// One exchange on the engine: hands on what the transfer reports, and passes commands to its loop.
final class EngineExchange: TransferHandler, TransportExchange {
  private let pool: PoolHandle
  var loop: EventLoop { pool.loop }
  private let receiver: any TransportReceiver
  private let url: ParsedURL
  private let method: String
  private let transfer = LockedStorage<TransferHandle?>(nil)
  private let pause = LockedStorage(PauseState())
  let requestHead: [UInt8]

  init(
    pool: PoolHandle, receiver: any TransportReceiver, url: ParsedURL, method: String, requestHead: [UInt8]
  ) {
    self.requestHead = requestHead
    self.pool = pool
    self.receiver = receiver
    self.url = url
    self.method = method
  }

  func begin(_ transfer: Transfer) {
    let handle = TransferHandle(transfer)
    self.transfer.withLock { $0 = handle }
    pool.start(handle)
  }

  /// The request cannot be sent: the receiver is told so, on the caller's thread.
  func refuse(_ error: SessionError) {
    let metrics = TransactionMetrics(TransferMetrics(), url: url, method: method)
    receiver.end(error, metrics: metrics, of: self)
  }

  // MARK: Commands, from any thread

  func cancel() {
    guard let handle = transfer.withLock({ $0 }) else { return }
    pool.cancel(handle)
  }

  func setPaused(_ state: PauseState) {
    guard pause.withLock({ $0.update(to: state) }) else { return }
    // What holds when the loop comes to it: commands from other threads arrive later than those of the loop itself.
    perform { [self] transfer in
      if pause.withLock({ $0.isPaused }) { transfer.pause() } else { transfer.resume() }
    }
  }

  func discardBody() { perform { $0.discardBody() } }

  /// At once if this is the loop's thread: a pause that a callback asks for holds for the very next byte.
  private func perform(_ command: @escaping @Sendable (Transfer) -> Void) {
    guard let handle = transfer.withLock({ $0 }) else { return }
    if loop.isCurrent { handle.performOnLoop(command) } else { pool.perform(on: handle, command) }
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

  func transfer(_ transfer: Transfer, didReceiveTrailers trailers: FieldSection) {
    receiver.receive(trailers: trailers, of: self)
  }

  func transfer(_ transfer: Transfer, didSendBodyBytes count: Int) {
    receiver.sent(bodyBytes: count, of: self)
  }

  func transfer(_ transfer: Transfer, didEndWith failure: TransferFailure?) {
    self.transfer.withLock { $0 = nil }
    let error = failure.map { SessionError($0, url: url) }
    receiver.end(error, metrics: TransactionMetrics(transfer.metrics, url: url, method: method), of: self)
  }
}
