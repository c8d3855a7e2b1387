import Dispatch
import FoundationEssentials
import LupineBase
import LupineSession
import LupineTesting
import LupineWire
import Testing

/// Transports of others, which need not stop a body that nobody wants: it is no part of the answer all the same.
@Suite(.timeLimit(.minutes(5))) struct OwnTransportTests {
  /// Moves whoever asks to another place, with a body, and reports every byte of it, wanted or not.
  private final class MovingTransport: Transport {
    private final class Exchange: TransportExchange {
      func cancel() {}
      func setPaused(_ state: PauseState) {}
      func discardBody() {}
    }

    private let queue = DispatchQueue(label: "test.transport")
    private let key = DispatchSpecificKey<Bool>()
    /// Whether exchanges were begun on its own queue.
    let startsOnQueue = Locked<[Bool]>([])
    private let moved: ResponseHead
    private let found: ResponseHead

    private let times: TransactionMetrics.Times

    /// - Parameter clock: what it says when an exchange ends.
    init(status: Int = 302, clock: Int64 = 0) throws {
      var times = TransactionMetrics.Times()
      times.responseEnd = clock
      self.times = times
      queue.setSpecific(key: key, value: true)
      moved = try ResponseHead(status: status, fields: [("Location", "/there"), ("Content-Length", "5")])
      found = try ResponseHead(status: 200, fields: [("Content-Length", "5")])
    }

    func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
      let exchange = Exchange()
      let isOnQueue = DispatchQueue.getSpecific(key: key) ?? false
      startsOnQueue.withLock { $0.append(isOnQueue) }
      let (head, text) = request.path == "/there" ? (found, "Hello") : (moved, "moved")
      queue.async {
        receiver.receive(head: head, framing: .length(5), of: exchange)
        receiver.receive(body: Array(text.utf8).span, of: exchange)
        receiver.end(nil, metrics: TransactionMetrics(method: request.method, times: self.times), of: exchange)
      }
      return exchange
    }
  }

  private func withTransport(_ body: (Session, Request) async throws -> Void) async throws {
    let transport = try MovingTransport()
    try await withSession(configure: { $0.transport = transport }) { session in
      try await body(session, Request("http://a.example/here"))
    }
  }

  /// The origin of its clock does not matter, and is not that of the task's.
  @Test(arguments: [1, 1_800_000_000_000_000_000]) func itsClockIsItsOwn(_ clock: Int64) async throws {
    let transport = try MovingTransport(clock: clock)
    try await withSession(configure: { $0.transport = transport }) { session in
      let (_, response) = try await session.data(from: "http://a.example/there")
      #expect(response.metrics.duration > .zero && response.metrics.duration < .seconds(3_600))
    }
  }

  @Test func collected() async throws {
    try await withTransport { session, request in
      let response = try await session.expect("Hello", from: request)
      #expect(response.redirects.count == 1)
    }
  }

  @Test func collectedForACompletion() async throws {
    try await withTransport { session, request in
      let result = await withCheckedContinuation {
        (continuation: CheckedContinuation<Result<(Data, Response), SessionError>, Never>) in
        session.data(for: request) { continuation.resume(returning: $0) }
      }
      let (body, response) = try result.get()
      #expect(String(decoding: body, as: UTF8.self) == "Hello")
      #expect(response.redirects.count == 1)
    }
  }

  /// To know its length, the file of a body is looked at where the exchange begins; its thread may be the engine's, which waits for no disk.
  @Test func filesAreNotLookedAtOnItsThread() async throws {
    let directory = try ScratchDirectory()
    let path = try directory.write(Array("body".utf8), to: "body")
    let transport = try MovingTransport(status: 307)
    try await withSession(configure: { $0.transport = transport }) { session in
      let request = try Request("http://a.example/here", method: .put, body: .file(path: path))
      let response = try await session.expect("Hello", from: request)
      #expect(response.redirects.count == 1)
      #expect(transport.startsOnQueue.withLock { $0 } == [false, false])
    }
  }

  @Test func streamed() async throws {
    try await withTransport { session, request in
      let (bytes, response) = try await session.bytes(for: request)
      #expect(try await bytes.collect(upTo: 100) == Array("Hello".utf8))
      #expect(response.redirects.count == 1)
    }
  }
}
