import Dispatch
import LupineBase
import LupineSession
import LupineTesting
import LupineWire
import Testing

/// What is said of an exchange while the transport that begins it has not returned.
@Suite(.timeLimit(.minutes(1))) struct EarlyDiscardTests {
  /// Its head came at once, and its body is not wanted: who sends that hears of it.
  @Test func aBodyThatIsDiscardedAtOnce() async throws {
    let sudden = SuddenTransport()
    let seen = sudden.seen
    let transport = ObservingTransport(FaultTransport(sudden) { _, _ in [] }) { exchange in
      exchange.discardBody()
      seen.signal()
    }
    let session = try Session(over: transport)
    #expect(try await session.data(from: "http://a.example/").1.statusCode == 200)
    #expect(sudden.discarded.value == 1)
  }
}

/// Answers before it returns, and ends when its body is discarded, or is known not to be.
private final class SuddenTransport: Transport {
  let seen = DispatchSemaphore(value: 0)
  let discarded = Total()

  func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
    let exchange = SuddenExchange(request, receiver, discarded)
    guard let head = try? ResponseHead(status: 200, fields: []) else { return exchange }
    receiver.receive(head: head, framing: .untilClose, of: exchange)
    seen.wait()
    DispatchQueue.global().asyncAfter(deadline: .now() + 5) { exchange.end() }
    return exchange
  }
}

private final class SuddenExchange: TransportExchange {
  private let request: TransportRequest
  private let receiver: Locked<(any TransportReceiver)?>
  private let discarded: Total

  init(_ request: TransportRequest, _ receiver: any TransportReceiver, _ discarded: Total) {
    self.request = request
    self.receiver = Locked(receiver)
    self.discarded = discarded
  }

  func cancel() {}
  func setPaused(_ state: PauseState) {}

  func discardBody() {
    discarded.add(1)
    end()
  }

  func end() {
    let receiver = receiver.withLock { receiver in
      defer { receiver = nil }
      return receiver
    }
    receiver?.end(nil, metrics: TransactionMetrics(request, statusCode: 200, times: .init()), of: self)
  }
}
