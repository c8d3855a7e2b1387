import FoundationEssentials
import LupineBase
import LupineEngine
import LupineIO
import LupineTesting
import LupineWire
import Testing

/// A reader that pauses at every span it is given, and resumes in a later turn.
private final class PausingReader: TransferHandler, Sendable {
  struct Outcome: Sendable {
    var received = 0
    var isRight = true
    /// The most that came between a pause and the resume that followed.
    var overshoot = 0
    var sincePause = 0
    var pauses = 0
    var failure: TransferFailure?
  }

  private let state = Locked(Outcome())
  private let pool: PoolHandle
  private let expected: [UInt8]
  private let completion: @Sendable (Outcome) -> Void

  init(_ pool: PoolHandle, expected: [UInt8], _ completion: @escaping @Sendable (Outcome) -> Void) {
    self.pool = pool
    self.expected = expected
    self.completion = completion
  }

  func transfer(_ transfer: Transfer, didReceiveInformational head: ResponseHead) {}
  func transfer(_ transfer: Transfer, didReceive head: ResponseHead, framing: BodyFraming) {}
  func transfer(_ transfer: Transfer, didReceiveTrailers trailers: FieldSection) {}
  func transfer(_ transfer: Transfer, didSendBodyBytes count: Int) {}

  func transfer(_ transfer: Transfer, didReceiveBody bytes: Span<UInt8>) {
    let piece = [UInt8](bytes)
    state.withLock { state in
      let end = min(expected.count, state.received + piece.count)
      // As `Data`, because comparing 20 MiB of arrays takes seconds where nothing is optimised.
      let isSame = Data(piece) == Data(expected[state.received..<end])
      state.isRight = state.isRight && isSame
      state.received += piece.count
      if transfer.isPaused {
        state.sincePause += piece.count
        state.overshoot = max(state.overshoot, state.sincePause)
      }
    }
    guard !transfer.isPaused else { return }
    transfer.pause()
    state.withLock { state in
      state.pauses += 1
      state.sincePause = 0
    }
    pool.perform(on: TransferHandle(transfer)) { $0.resume() }
  }

  func transfer(_ transfer: Transfer, didEndWith failure: TransferFailure?) {
    completion(
      state.withLock { state in
        state.failure = failure
        return state
      })
  }
}

@Suite(.timeLimit(.minutes(5))) struct PauseTests {
  enum Framing: CaseIterable, Sendable { case length, chunked, close }

  /// About 75 to 1, within the ratio limit: 20 MiB that arrive in a read or two.
  private static let plain: [UInt8] = {
    var bytes: [UInt8] = []
    var seed: UInt64 = 1
    for _ in 0..<256 {
      for _ in 0..<1024 {
        seed = seed &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        bytes.append(UInt8(truncatingIfNeeded: seed >> 33))
      }
      bytes += [UInt8](repeating: 0, count: 79 * 1024)
    }
    return bytes
  }()
  private static let packed = Result { () throws(LoopbackError) in try Compression.gzip.encode(plain) }

  private func script(_ framing: Framing, _ body: [UInt8], cut: Int) -> [ScriptStep] {
    let head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n"
    let bytes = ScriptBytes(Array(body.dropLast(cut)))
    switch framing {
    case .length: return [.send(ScriptBytes("\(head)Content-Length: \(body.count)\r\n\r\n") + bytes)]
    case .chunked:
      let size = String(body.count, radix: 16)
      return [
        .send(
          ScriptBytes("\(head)Transfer-Encoding: chunked\r\n\r\n\(size)\r\n") + bytes
            + ScriptBytes(cut == 0 ? "\r\n0\r\n\r\n" : ""))
      ]
    case .close: return [.send(ScriptBytes("\(head)\r\n") + bytes)]
    }
  }

  private func run(
    _ framing: Framing, cut: Int = 0, then rest: [ScriptStep],
    _ check: (PoolHandle, ScriptedServer) async throws -> Void = { _, _ in }
  ) async throws -> PausingReader.Outcome {
    let packed = try Self.packed.get()
    let server = try ScriptedServer([[.readHead] + script(framing, packed, cut: cut) + rest])
    defer { server.shutdown() }
    var result: PausingReader.Outcome?
    try await withPool { pool in
      let request = try request(port: server.port)
      result = await withCheckedContinuation { continuation in
        let reader = PausingReader(pool, expected: Self.plain) { continuation.resume(returning: $0) }
        pool.start(TransferHandle(Transfer(request, handler: reader, createdAt: EventLoop.monotonicNow())))
      }
      try await check(pool, server)
    }
    return try #require(result)
  }

  /// What one read decodes to may be a hundred times as much: a paused reader gets no more than a buffer of it (urllib3 CVE-2026-44432 unpacked the
  /// rest at the second piece). Pausing within the callback touches nothing that is gone (curl CVE-2026-9080).
  @Test(arguments: Framing.allCases) func decodingStopsWhereTheReaderPauses(_ framing: Framing) async throws {
    let again: [ScriptStep] = [.readHead, .send("HTTP/1.1 204 N\r\n\r\n"), .waitForClose]
    let outcome = try await run(framing, then: framing == .close ? [] : again) { pool, server in
      guard framing != .close else { return }
      // The connection is as good as new.
      let next = await pool.run(try request(port: server.port))
      #expect(next.status == 204)
      #expect(server.connectionCount == 1)
    }
    #expect(outcome.failure == nil)
    #expect(outcome.received == Self.plain.count && outcome.isRight)
    #expect(outcome.overshoot <= 512 * 1024, "\(outcome.overshoot) bytes came after a pause")
    #expect(outcome.pauses >= Self.plain.count / (512 * 1024))
  }

  /// What arrived before the connection broke is delivered before the failure is.
  @Test(arguments: Framing.allCases) func truncationComesAfterWhatArrived(_ framing: Framing) async throws {
    let outcome = try await run(framing, cut: 1, then: [])
    #expect(outcome.failure != nil)
    #expect(outcome.received == Self.plain.count && outcome.isRight)
  }
}
