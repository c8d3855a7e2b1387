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
}
