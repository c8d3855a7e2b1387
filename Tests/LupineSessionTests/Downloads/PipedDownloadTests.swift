import Glibc
import LupineBase
import LupineEngine
import LupineIO
import LupineTestSupport
import LupineTesting
import LupineWire
import Testing

@testable import LupineSession

/// Which downloads of the real network go by a pipe, and that they are what was sent.
@Suite(.timeLimit(.minutes(2)), .serialized) struct PipedDownloadTests {
  private static let size = 12_000_000

  /// What is decoded, decrypted or of unknown length is shown.
  @Test(arguments: [("/bytes?", true), ("/chunked?", false), ("/gzip?", false)], [false, true])
  func plainBodies(_ row: (path: String, isPlain: Bool), _ isSecure: Bool) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: isSecure ? TestIdentity.server() : nil)
    defer { server.shutdown() }
    try await expectPiped(row.isPlain && !isSecure, from: server.url("\(row.path)n=\(Self.size)"), port: server.port)
  }

  /// So is what a cache keeps; what it does not keep goes by it.
  @Test(arguments: [("no-store", 1 << 30), ("max-age=1000", 1 << 30), ("max-age=1000", 1 << 20)])
  func behindACache(_ directives: String, _ capacity: Int) async throws {
    let server = try LoopbackServer { _, connection in
      try connection.respond(fields: ["Cache-Control": directives], body: PatternBody.bytes(Self.size))
    }
    defer { server.shutdown() }
    let isStored = directives != "no-store" && capacity > Self.size
    try await expectPiped(
      !isStored, from: server.url(), port: server.port, cache: ResponseCache(memoryCapacity: capacity))
  }

  private func expectPiped(_ isPiped: Bool, from url: String, port: Int, cache: ResponseCache? = nil) async throws {
    let counts = Locked(CountingReceiver.Counts())
    let directory = try ScratchDirectory()
    try await withSession(
      ports: [port],
      configure: {
        var below = $0
        below.responseCache = cache
        do {
          let inner = CachingTransport.wrap(try NetworkTransport(below), below, decider: nil)
          $0.transport = CountingTransport(inner, counts)
        } catch { Issue.record(error) }
      },
      { session in
        var request = try Request(url)
        request.acceptsCompressedContent = url.contains("gzip")
        let target = directory.path + "/file"
        let seen = Locked<Int64>(0)
        _ = try await session.download(for: request, to: DownloadDestination(path: target)) { received, _ in
          seen.withLock { $0 = received }
        }
        let bytes = TextFile.bytes(target)
        #expect(bytes.count == Self.size && seen.withLock { $0 } == Int64(Self.size))
        #expect(PatternBody.matches(bytes, from: 0))
      })
    let (shown, piped) = counts.withLock { ($0.shown, $0.piped) }
    #expect(shown > 0 && (piped > 0) == isPiped, "\(shown) shown, \(piped) by the pipe")
  }

  /// So does a task of a delegate that became a download, once the bytes that waited for the decision have been worked off; and it can be suspended.
  @Test func becomesADownload() async throws {
    let latch = try Latch()
    let server = try LoopbackServer { _, connection in
      let body = PatternBody.bytes(Self.size)
      try connection.begin(200, fields: [:], framing: .length(body.count))
      try connection.write(body.prefix(1000))
      try connection.flush()
      guard try connection.stall(until: latch) == .released else { return }
      try connection.write(body.suffix(from: 1000))
      try connection.finish()
    }
    defer {
      latch.release()
      server.shutdown()
    }
    let counts = Locked(CountingReceiver.Counts())
    let content = Locked<[UInt8]>([])
    var answers = RecordingDelegate.Answers()
    answers.disposition = { _ in .becomeDownload }
    answers.finished = { path in content.withLock { $0 = TextFile.bytes(path) } }
    try await withDelegate(.all, answers) {
      do {
        $0.transport = CountingTransport(try NetworkTransport($0), counts)
      } catch { Issue.record(error) }
    } _: { session, delegate in
      let data = session.dataTask(with: try Request(server.url()))
      data.resume()
      #expect(await eventually { data.countOfBytesReceived == 1000 })
      let task = try #require(await session.tasks.first)
      for _ in 0..<3 {
        task.suspend()
        task.resume()
      }
      latch.release()
      for _ in 0..<3 where task.state == .running {
        task.suspend()
        task.resume()
      }
      #expect(await delegate.hasEnded())
    }
    #expect(content.withLock { PatternBody.matches($0, from: 0) ? $0.count : -1 } == Self.size)
    let piped = counts.withLock { $0.piped }
    #expect(piped > 0)
  }
}

/// Counts what is shown, and what comes in pipes.
private struct CountingTransport: Transport {
  private let inner: any Transport
  private let counts: Locked<CountingReceiver.Counts>

  init(_ inner: any Transport, _ counts: Locked<CountingReceiver.Counts>) {
    self.inner = inner
    self.counts = counts
  }

  func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
    inner.start(request, CountingReceiver(receiver, counts))
  }

  func invalidate(cancelling: Bool) { inner.invalidate(cancelling: cancelling) }
}

private final class CountingReceiver: ForwardingReceiver, PipeReceiver {
  struct Counts {
    var shown = 0
    var piped = 0
  }

  let receiver: any TransportReceiver
  private let counts: Locked<Counts>

  init(_ receiver: any TransportReceiver, _ counts: Locked<Counts>) {
    self.receiver = receiver
    self.counts = counts
  }

  func receive(body bytes: Span<UInt8>, of exchange: any TransportExchange) {
    counts.withLock { $0.shown += bytes.count }
    receiver.receive(body: bytes, of: exchange)
  }

  func pipe(for exchange: any TransportExchange) -> BodyPipe? {
    (receiver as? any PipeReceiver)?.pipe(for: exchange)
  }

  func receive(piped count: Int, of exchange: any TransportExchange) {
    counts.withLock { $0.piped += count }
    (receiver as? any PipeReceiver)?.receive(piped: count, of: exchange)
  }

  func end(_ failure: SessionError?, metrics: TransactionMetrics, of exchange: any TransportExchange) {
    receiver.end(failure, metrics: metrics, of: exchange)
  }
}
