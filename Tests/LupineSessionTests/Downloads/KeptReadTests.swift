import LupineBase
import LupineIO
import LupineTesting
import LupineWire
import Testing

@testable import LupineSession

/// Which bodies of the real network can be kept where they were read to, and that they are what was sent.
@Suite(.timeLimit(.minutes(2))) struct KeptReadTests {
  private static let size = 3_000_000

  /// What is decoded or decrypted is elsewhere than in the loop's buffer, which somebody else is given.
  @Test(arguments: [("/bytes?", true), ("/chunked?size=\(size)&", true), ("/gzip?", false)], [false, true])
  func plainBodiesAreKept(_ row: (path: String, isPlain: Bool), _ isSecure: Bool) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: isSecure ? TestIdentity.server() : nil)
    defer { server.shutdown() }
    try await expectKept(
      row.isPlain && !isSecure, from: server.url("\(row.path)n=\(Self.size)"), port: server.port)
  }

  /// A cache in front of the network shows what is read where it was read to, stored or not.
  @Test(arguments: ["no-store", "max-age=1000"]) func behindACacheToo(_ directives: String) async throws {
    let server = try LoopbackServer { _, connection in
      try connection.respond(fields: ["Cache-Control": directives], body: PatternBody.bytes(Self.size))
    }
    defer { server.shutdown() }
    try await expectKept(true, from: server.url(), port: server.port, cache: ResponseCache())
  }

  private func expectKept(_ isKept: Bool, from url: String, port: Int, cache: ResponseCache? = nil) async throws {
    let counts = Locked(KeepingReceiver.Counts())
    try await withSession(
      ports: [port],
      configure: {
        var below = $0
        below.responseCache = cache
        do {
          let inner = CachingTransport.wrap(try NetworkTransport(below), below, decider: nil)
          $0.transport = KeepingTransport(inner, counts)
        } catch { Issue.record(error) }
      },
      { session in
        let (body, _) = try await session.data(from: url)
        let isWhole = body.count == Self.size && PatternBody.matches([UInt8](body), from: 0)
        #expect(isWhole)
      })
    let (shown, kept) = counts.withLock { ($0.shown, $0.kept) }
    // Of several pieces of one read, the first.
    #expect(shown > 1 && (isKept ? kept > 1 : kept == 0))
  }
}

/// Keeps every piece that it is shown, if it can, and passes on what is kept. What was kept last is the memory for the next.
private struct KeepingTransport: Transport {
  private let inner: any Transport
  private let counts: Locked<KeepingReceiver.Counts>

  init(_ inner: any Transport, _ counts: Locked<KeepingReceiver.Counts>) {
    self.inner = inner
    self.counts = counts
  }

  func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
    inner.start(request, KeepingReceiver(receiver, counts))
  }

  func invalidate(cancelling: Bool) { inner.invalidate(cancelling: cancelling) }
}

private final class KeepingReceiver: TransportReceiver {
  struct Counts {
    var shown = 0
    var kept = 0
    var spare: ReadBuffer?
  }

  private let receiver: any TransportReceiver
  private let counts: Locked<Counts>

  init(_ receiver: any TransportReceiver, _ counts: Locked<Counts>) {
    self.receiver = receiver
    self.counts = counts
  }

  func receive(body bytes: Span<UInt8>, of exchange: any TransportExchange) {
    let spare = counts.withLock { counts in
      counts.shown += 1
      return counts.spare.take()
    }
    guard let kept = (exchange as? any ReadKeepingExchange)?.keepRead(bytes, for: spare) else {
      counts.withLock { $0.spare = spare }
      return receiver.receive(body: bytes, of: exchange)
    }
    receiver.receive(body: kept.bytes, of: exchange)
    counts.withLock { counts in
      counts.kept += 1
      counts.spare = kept.buffer
    }
  }

  func receive(informational head: ResponseHead, of exchange: any TransportExchange) {
    receiver.receive(informational: head, of: exchange)
  }

  func receive(head: ResponseHead, framing: BodyFraming, of exchange: any TransportExchange) {
    receiver.receive(head: head, framing: framing, of: exchange)
  }

  func receive(trailers: FieldSection, of exchange: any TransportExchange) {
    receiver.receive(trailers: trailers, of: exchange)
  }

  func sent(bodyBytes count: Int, of exchange: any TransportExchange) { receiver.sent(bodyBytes: count, of: exchange) }

  func end(_ failure: SessionError?, metrics: TransactionMetrics, of exchange: any TransportExchange) {
    receiver.end(failure, metrics: metrics, of: exchange)
  }
}
