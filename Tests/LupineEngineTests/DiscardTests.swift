import LupineBase
import LupineEngine
import LupineIO
import LupineTesting
import LupineWire
import Testing

/// A reader that loses interest at the first span it is given.
private final class FickleReader: TransferHandler, Sendable {
  struct Outcome: Sendable {
    var spans = 0
    var decoded: Int64 = 0
    var failure: TransferFailure?
  }

  private let state = Locked(Outcome())
  private let completion: @Sendable (Outcome) -> Void

  init(_ completion: @escaping @Sendable (Outcome) -> Void) { self.completion = completion }

  func transfer(_ transfer: Transfer, didReceiveInformational head: ResponseHead) {}
  func transfer(_ transfer: Transfer, didReceive head: ResponseHead, framing: BodyFraming) {}
  func transfer(_ transfer: Transfer, didReceiveTrailers trailers: FieldSection) {}
  func transfer(_ transfer: Transfer, didSendBodyBytes count: Int) {}

  func transfer(_ transfer: Transfer, didReceiveBody bytes: Span<UInt8>) {
    state.withLock { $0.spans += 1 }
    transfer.discard()
  }

  func transfer(_ transfer: Transfer, didEndWith failure: TransferFailure?) {
    completion(
      state.withLock { state in
        state.decoded = transfer.metrics.record.responseDecodedBytes
        state.failure = failure
        return state
      })
  }
}

/// Calls somebody when a part of its body is sent.
private final class Sender: TransferHandler {
  var onSent: () -> Void = {}
  private(set) var body: [UInt8] = []
  private(set) var ends = 0
  private(set) var failure: TransferFailure?

  func transfer(_ transfer: Transfer, didReceiveInformational head: ResponseHead) {}
  func transfer(_ transfer: Transfer, didReceive head: ResponseHead, framing: BodyFraming) {}
  func transfer(_ transfer: Transfer, didReceiveBody bytes: Span<UInt8>) { body += [UInt8](bytes) }
  func transfer(_ transfer: Transfer, didReceiveTrailers trailers: FieldSection) {}
  func transfer(_ transfer: Transfer, didSendBodyBytes count: Int) { onSent() }

  func transfer(_ transfer: Transfer, didEndWith failure: TransferFailure?) {
    ends += 1
    self.failure = failure
  }
}

@Suite(.timeLimit(.minutes(1))) struct DiscardTests {
  /// What a reader that loses interest has of a server's answer.
  private func outcome(of server: ScriptedServer) async throws -> FickleReader.Outcome {
    let request = try request(port: server.port)
    let told = Locked<FickleReader.Outcome?>(nil)
    try await withPool { pool in
      let outcome = await withCheckedContinuation { continuation in
        let reader = FickleReader { continuation.resume(returning: $0) }
        pool.start(TransferHandle(Transfer(request, handler: reader, createdAt: EventLoop.monotonicNow())))
      }
      told.withLock { $0 = outcome }
    }
    return try #require(told.withLock { $0 })
  }

  /// Nor does it matter how a body ends that nobody wants the rest of.
  @Test(arguments: ["Content-Length: 50\r\n\r\nHello", "Transfer-Encoding: chunked\r\n\r\n5\r\nHello\r\nno size\r\n"])
  func howTheRestEndsChangesNothing(_ text: String) async throws {
    let server = try ScriptedServer([[.readHead, .send(ScriptBytes("HTTP/1.1 200 OK\r\n" + text)), .close]])
    defer { server.shutdown() }
    let outcome = try await outcome(of: server)
    #expect(outcome.failure == nil && outcome.spans == 1)
  }

  /// What came with the span at which the reader lost interest is not decoded for nobody, and whether it could be does not matter
  /// (urllib3 CVE-2026-44432: the rest of a bomb was unpacked to be thrown away).
  @Test(arguments: [false, true]) func theRestOfAReadIsDroppedUndecoded(_ isCorrupt: Bool) async throws {
    // About 50 to 1: one read, or two, of 40 KB.
    var plain: [UInt8] = []
    for piece in 0..<40 {
      plain += PatternBody.bytes(1024, from: piece * 1024) + [UInt8](repeating: 0, count: 49 * 1024)
    }
    var packed = try Compression.gzip.encode(plain)
    if isCorrupt { packed[packed.count - 6] ^= 0xFF }
    let head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: \(packed.count)\r\n\r\n"
    let server = try ScriptedServer([[.readHead, .send(ScriptBytes(head) + ScriptBytes(packed)), .waitForClose]])
    defer { server.shutdown() }
    let outcome = try await outcome(of: server)
    #expect(outcome.failure == nil)
    #expect(outcome.spans == 1)
    #expect(outcome.decoded < 1_000_000)
  }

  /// The response is complete, and its connection has begun the next exchange, when its reader loses interest: the next is read for as long as it takes.
  @Test func theNextExchangeIsNotBounded() throws {
    var configuration = PoolConfiguration()
    configuration.limits.perHost = 1
    let drive = try Drive(configuration)
    let first = drive.start(try request(host: "h", port: 80))
    drive.settle()
    let next = Sender()
    next.onSent = { first.discard() }
    let put = try request(host: "h", port: 80, method: "PUT", framing: .length(2), body: .bytes([1, 2]))
    drive.engine.start(Transfer(put, handler: next, createdAt: drive.engine.context.now), in: drive.pool)
    drive.settle()
    _ = drive.receive(0)
    drive.send(0, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    drive.settle()
    #expect(drive.outcomes.count == 1 && drive.received(0).hasPrefix("PUT "))
    drive.send(0, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
    drive.pass(milliseconds: 100)
    #expect(next.ends == 0)
    drive.send(0, "world")
    drive.settle()
    #expect(next.ends == 1 && next.failure == nil && next.body == Array("helloworld".utf8))
    drive.end()
  }
}
