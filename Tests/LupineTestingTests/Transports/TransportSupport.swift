import FoundationEssentials
import LupineSession
import LupineTesting
import LupineWire
import Testing

extension Session {
  /// The body as text, and the response.
  func text(_ url: String) async throws -> (String, Response) {
    let (body, response) = try await data(from: url)
    return (String(decoding: body, as: UTF8.self), response)
  }
}

/// Passes requests on, and counts those that the wrapped transport has begun.
final class CountingTransport: Transport {
  private let wrapped: any Transport
  private let begun = Total()

  init(_ wrapped: any Transport) { self.wrapped = wrapped }

  var count: Int { Int(begun.value) }

  func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
    defer { begun.add(1) }
    return wrapped.start(request, receiver)
  }

  func invalidate(cancelling: Bool) { wrapped.invalidate(cancelling: cancelling) }
}

/// Passes requests on, and counts the bytes of bodies that the wrapped transport gives.
final class ObservingTransport: Transport {
  private let wrapped: any Transport
  private let given = Total()
  private let onHead: @Sendable (any TransportExchange) -> Void

  /// - Parameter onHead: called behind each head.
  init(_ wrapped: any Transport, onHead: @escaping @Sendable (any TransportExchange) -> Void = { _ in }) {
    self.wrapped = wrapped
    self.onHead = onHead
  }

  var givenBytes: Int { Int(given.value) }

  func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
    wrapped.start(request, Receiver(receiver, given, onHead))
  }

  func invalidate(cancelling: Bool) { wrapped.invalidate(cancelling: cancelling) }

  private final class Receiver: ForwardingReceiver {
    let receiver: any TransportReceiver
    private let given: Total
    private let onHead: @Sendable (any TransportExchange) -> Void

    init(
      _ receiver: any TransportReceiver, _ given: Total, _ onHead: @escaping @Sendable (any TransportExchange) -> Void
    ) {
      self.receiver = receiver
      self.given = given
      self.onHead = onHead
    }

    func receive(head: ResponseHead, framing: BodyFraming, of exchange: any TransportExchange) {
      receiver.receive(head: head, framing: framing, of: exchange)
      onHead(exchange)
    }

    func receive(body bytes: Span<UInt8>, of exchange: any TransportExchange) {
      given.add(Int64(bytes.count))
      receiver.receive(body: bytes, of: exchange)
    }

    func end(_ failure: SessionError?, metrics: TransactionMetrics, of exchange: any TransportExchange) {
      receiver.end(failure, metrics: metrics, of: exchange)
    }
  }
}

/// The error that a fetch must fail with.
func failure<Result>(
  sourceLocation: SourceLocation = #_sourceLocation, _ work: () async throws -> Result
) async throws -> SessionError {
  let error = await #expect(throws: SessionError.self, sourceLocation: sourceLocation) { _ = try await work() }
  return try #require(error, sourceLocation: sourceLocation)
}

/// Advances the clock again and again while `work` runs.
func withPump<Result: Sendable>(
  _ clock: ManualClock, _ step: Duration, _ work: @escaping @Sendable () async throws -> Result
) async throws -> Result {
  let pump = Task.detached {
    while !Task.isCancelled {
      clock.advance(by: step)
      await Task.yield()
    }
  }
  defer { pump.cancel() }
  return try await work()
}
