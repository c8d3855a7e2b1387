import Dispatch
import LupineBase
import LupineTestSupport
import LupineTesting
import LupineWire
import Testing

@testable import LupineSession

/// A task that is cancelled when the transport has reported the end of its exchange, and the cache has not decided yet what follows.
@Suite(.timeLimit(.minutes(2))) struct CacheSettlingTests {
  /// Brings a response that must be asked about, and when asked, a failure or the word that it holds.
  private final class AskedTransport: Transport {
    /// Called by the cache's clock, once.
    let interruption = Locked<(@Sendable () -> Void)?>(nil)
    private let queue = DispatchQueue(label: "test.transport")
    private let confirms: Bool
    private let found: ResponseHead
    private let confirmation: ResponseHead

    init(confirms: Bool) throws {
      self.confirms = confirms
      found = try ResponseHead(
        status: 200, fields: [("Cache-Control", "no-cache"), ("ETag", "\"1\""), ("Content-Length", "1")])
      confirmation = try ResponseHead(status: 304, fields: [("ETag", "\"1\"")])
    }

    func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
      let exchange = IdleExchange()
      let isQuestion = request.fields.contains { $0.name == "If-None-Match" }
      queue.async { [self] in
        if isQuestion { answer(receiver, exchange) } else { bring(receiver, exchange) }
      }
      return exchange
    }

    private func bring(_ receiver: any TransportReceiver, _ exchange: IdleExchange) {
      receiver.receive(head: found, framing: .length(1), of: exchange)
      receiver.receive(body: Array("x".utf8).span, of: exchange)
      receiver.end(nil, metrics: TransactionMetrics(), of: exchange)
    }

    private func answer(_ receiver: any TransportReceiver, _ exchange: IdleExchange) {
      if confirms { receiver.receive(head: confirmation, framing: .none, of: exchange) }
      // The next who asks for the time asks behind the end.
      interruption.withLock { work in
        work = {
          guard let caching = receiver as? CacheExchange else { return }
          caching.cancel()
          // What the cancellation leaves to another thread, here and now.
          caching.pump()
        }
      }
      let failure = confirms ? nil : SessionError(.connectionLost, phase: .receive, message: "lost")
      receiver.end(failure, metrics: TransactionMetrics(), of: exchange)
    }

    /// Waits until whatever was begun has been reported.
    func wait() { queue.sync {} }
  }

  private struct End: Equatable {
    var code: SessionError.Code?
    var fetchType: TransactionMetrics.FetchType
  }

  private struct CountingTransport: Transport {
    let inner: any Transport
    let ends: Locked<[End]>
    var starts = Locked(0)

    func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
      starts.withLock { $0 += 1 }
      return inner.start(request, CountingReceiver(receiver, ends))
    }
  }

  /// Passes on the first end only: a task takes a second one without a word.
  private final class CountingReceiver: ForwardingReceiver {
    let receiver: any TransportReceiver
    private let ends: Locked<[End]>
    private let hasEnded = Locked(false)

    init(_ receiver: any TransportReceiver, _ ends: Locked<[End]>) {
      self.receiver = receiver
      self.ends = ends
    }

    func end(_ failure: SessionError?, metrics: TransactionMetrics, of exchange: any TransportExchange) {
      let end = End(code: failure?.code, fetchType: metrics.fetchType)
      ends.withLock { $0.append(end) }
      let isFirst = hasEnded.withLock { hasEnded in
        defer { hasEnded = true }
        return !hasEnded
      }
      if isFirst { receiver.end(failure, metrics: metrics, of: exchange) }
    }
  }

  /// Each ends once, whatever is cancelled from other threads meanwhile.
  @Test(arguments: [false, true]) func cancellationsFromOtherThreadsEndEachOnce(_ confirms: Bool) async throws {
    let transport = try AskedTransport(confirms: confirms)
    let (ends, starts) = (Locked<[End]>([]), Locked(0))
    try await withSession(configure: {
      var below = $0
      below.responseCache = ResponseCache(memoryCapacity: 1 << 20)
      $0.transport = CountingTransport(
        inner: CachingTransport.wrap(transport, below, decider: nil), ends: ends, starts: starts)
    }) { session in
      try await session.expect("x", from: "http://a.example/")
      let request = try Request("http://a.example/")
      let completions = Locked([Int](repeating: 0, count: 40))
      for number in 0..<40 {
        let cancel = session.data(for: request) { _ in completions.withLock { $0[number] += 1 } }
        if number % 2 == 0 { Task.detached { cancel() } }
      }
      #expect(await eventually { completions.withLock { !$0.contains(0) } })
      #expect(await eventually { ends.withLock { $0.count } >= starts.withLock { $0 } })
      transport.wait()
      #expect(completions.withLock { $0 } == [Int](repeating: 1, count: 40))
      #expect(ends.withLock { $0.count } == starts.withLock { $0 })
    }
  }

  /// It ends once, and with what the transport did: what it failed with, or, where a stored response was about to be handed over, cancelled behind the
  /// question that the server has answered.
  @Test(arguments: [false, true]) func theEndIsReportedOnce(_ confirms: Bool) async throws {
    let transport = try AskedTransport(confirms: confirms)
    let interruption = transport.interruption
    let cache = ResponseCache(memoryCapacity: 1 << 20) {
      let work = interruption.withLock { work in
        defer { work = nil }
        return work
      }
      work?()
      return 1_000_000_000
    }
    let ends = Locked<[End]>([])
    try await withSession(configure: {
      var below = $0
      below.responseCache = cache
      $0.transport = CountingTransport(
        inner: CachingTransport.wrap(transport, below, decider: nil), ends: ends)
    }) { session in
      try await session.expect("x", from: "http://a.example/")
      let error = try await failure { try await session.data(from: "http://a.example/") }
      transport.wait()
      let code = confirms ? SessionError.Code.cancelled : .connectionLost
      #expect(error.code == code)
      let expected = [
        End(code: nil, fetchType: .networkLoad), End(code: code, fetchType: confirms ? .validatedCache : .networkLoad),
      ]
      #expect(ends.withLock { $0 } == expected)
    }
  }
}
