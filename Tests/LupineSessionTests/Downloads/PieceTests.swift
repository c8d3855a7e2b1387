import Glibc
import LupineBase
import LupineEngine
import LupineIO
import LupineSession
import LupineTesting
import LupineWire
import Testing

/// How a body becomes pieces of a file, by a transport whose bytes come from the test, while the threads for files are held.
@Suite(.timeLimit(.minutes(5)), .serialized) struct PieceTests {
  /// What is written at once.
  private static let piece = 512 << 10

  @Test func limits() async throws {
    try await withHandedBody { body, folder, download in
      let held = try HeldFileThreads()
      // The first bytes are under way at once, whatever they are.
      body.give(1)
      #expect(!body.isPaused)
      // The socket stops when a piece and a half is there.
      while !body.isPaused, body.given < 4 * Self.piece { body.give(384 << 10) }
      #expect(body.given == 3 * Self.piece / 2 + 1)
      #expect(body.pauses == 1)
      // What was read already is taken, and changes nothing.
      body.give(256 << 10)
      #expect(body.pauses == 1 && folder.size == 0)
      held.release()
      // One job wrote the first byte, the next all that came meanwhile; then the socket goes on.
      #expect(await eventually { !body.isPaused && folder.size == body.given })
      let there = body.given
      // Less than a piece waits.
      body.give(Self.piece - 1)
      try HeldFileThreads().release()
      #expect(folder.size == there && !body.isPaused)
      body.give(1)
      #expect(await eventually { folder.size == body.given })
      // The rest is written at the end, whatever it is.
      body.give(1000)
      body.end()
      let path = try await download.value
      #expect(Pattern.matches(path, body.given))
      unsafe unlink(path)
    }
  }

  /// Of a peer that sends little at a time no more than 64 KiB is kept back, and 192 KiB while the disk is slow.
  @Test func slowPeers() async throws {
    try await withHandedBody { body, folder, download in
      body.give(1)
      #expect(await eventually { folder.size == 1 })
      for _ in 0..<65 { body.give(1000) }
      try HeldFileThreads().release()
      #expect(folder.size == 1)
      body.give(1000)
      #expect(await eventually { folder.size == 66_001 })
      // The socket stops earlier as well.
      let held = try HeldFileThreads()
      while !body.isPaused, body.given < 2 * Self.piece { body.give(1000) }
      #expect(body.given == 66_001 + 197_000)
      held.release()
      #expect(await eventually { !body.isPaused && folder.size == body.given })
      body.end()
      unsafe unlink(try await download.value)
    }
  }

  /// The reader keeps its place while pieces are under way: nothing is lost, nothing is written twice.
  @Test(arguments: [1, 999, 65_536, 262_144, 524_287, 524_288, 524_289, 3_000_000], [false, true])
  func everySize(_ size: Int, _ keepsReads: Bool) async throws {
    try await withHandedBody(keepsReads: keepsReads) { body, _, download in
      let total = min(5_000_001, 5000 * size + 1)
      while body.given < total { body.give(min(size, total - body.given)) }
      #expect((body.kept > 0) == (keepsReads && size == Self.piece))
      body.end()
      let path = try await download.value
      #expect(Pattern.matches(path, body.given))
      unsafe unlink(path)
    }
  }

  /// A read as long as a piece is kept where it is: what came before it and what comes behind it are pieces of their own.
  @Test func keptReads() async throws {
    try await withHandedBody(keepsReads: true) { body, folder, download in
      body.give(1)
      #expect(await eventually { folder.size == 1 })
      for round in 1...3 {
        body.give(Self.piece - 1)
        #expect(body.kept == 2 * round - 2)
        let held = try HeldFileThreads()
        body.give(Self.piece)
        #expect(body.kept == 2 * round - 1)
        body.give(1000)
        body.give(1000)
        body.give(Self.piece)
        #expect(body.kept == 2 * round && body.isPaused)
        body.give(1000)
        held.release()
        // Less than a piece waits.
        #expect(await eventually { !body.isPaused && folder.size == body.given - 1000 })
        body.give(Self.piece - 1000)
        #expect(await eventually { folder.size == body.given })
      }
      // The memory of the first serves those after it.
      let spares = body.spares
      for _ in 0..<4 {
        body.give(Self.piece)
        #expect(await eventually { folder.size == body.given })
      }
      #expect(body.kept == 10 && body.spares == spares + 4)
      body.end()
      let path = try await download.value
      #expect(Pattern.matches(path, body.given))
      unsafe unlink(path)
    }
  }

  /// Cancelled while a piece is under way and more has been gathered: it ends when all of that is in the file, and the resume data has it.
  @Test func cancelledWithAPieceUnderWay() async throws {
    try await withHandedBody(leaves: 1) { body, folder, download in
      let held = try HeldFileThreads()
      body.give(600_000)
      body.give(500_000)
      download.cancel()
      #expect(await eventually { body.isCancelled })
      body.end(SessionError(.cancelled, phase: .receive, message: "cancelled"))
      #expect(folder.size == 0)
      held.release()
      let data = try await leftover { try await download.value }
      #expect(data.receivedBytes == 1_100_000 && folder.size == 1_100_000)
      #expect(Pattern.matches(folder.partial(try #require(folder.partials.first)), 1_100_000))
    }
  }

  /// The disk is full in the midst: the exchange is cancelled, what was gathered is let go, and nothing is left behind.
  @Test(.enabled(if: SmallDisk.isAvailable, "\(SmallDisk.hint)"), arguments: [false, true])
  func failsWithAPieceUnderWay(_ keepsReads: Bool) async throws {
    let disk = try SmallDisk(bytes: Self.piece * 3 / 2)
    defer { disk.unmount() }
    try await withHandedBody(in: disk.path, keepsReads: keepsReads) { body, _, download in
      body.give(Self.piece)
      try HeldFileThreads().release()
      #expect(!body.isCancelled)
      let held = try HeldFileThreads()
      // The second piece does not fit; a part of the third waits behind it.
      body.give(Self.piece)
      body.give(Self.piece / 4)
      held.release()
      #expect(await eventually { body.isCancelled })
      // The transport had read this already.
      body.give(Self.piece)
      body.end(SessionError(.cancelled, phase: .receive, message: "cancelled"))
      let error = try await failure { try await download.value }
      #expect(error.code == .fileFailed && error.phase == .file && error.resumeData == nil)
      #expect(DirectoryListing.names(disk.path + "/lupine-\(geteuid())") == [])
    }
  }

  /// - Parameters:
  ///   - parent: where the folder of partial files is made; nil: in a scratch directory.
  ///   - keepsReads: whether the transport lets reads be kept where they are.
  ///   - leaves: how many partial files are left.
  func withHandedBody(
    in parent: String? = nil, keepsReads: Bool = false, leaves: Int = 0,
    _ run: (HandedBody, DownloadFolder, Task<String, any Error>) async throws -> Void
  ) async throws {
    let folder = try DownloadFolder()
    let transport = HandTransport(keepsReads: keepsReads)
    try await withSession(configure: {
      $0.temporaryDirectory = parent ?? folder.parentPath
      $0.transport = transport
    }) { session in
      let request = try Request("http://a.example/file")
      let download = Task { try await session.download(for: request).path }
      #expect(await eventually { transport.body != nil })
      let body = try #require(transport.body)
      try body.giveHead()
      try await run(body, folder, download)
      _ = await download.result
    }
    #expect(folder.partials.count == leaves)
  }
}

extension DownloadFolder {
  /// The length of the only partial file.
  var size: Int? {
    guard partials.count == 1, let name = partials.first else { return nil }
    var status = stat()
    return unsafe stat(partial(name), &status) == 0 ? Int(status.st_size) : nil
  }
}

/// Keeps all threads for files from doing anything, from when it is made: every job before that has been done then.
final class HeldFileThreads: Sendable {
  private let gate: Latch

  init() throws {
    let threads = try Engine.processFiles.get()
    let gate = try Latch()
    self.gate = gate
    // As many as there are threads.
    let reached = [try Latch(), try Latch()]
    for latch in reached {
      threads.run { () throws(IOError) in
        latch.release()
        _ = gate.wait(seconds: 60)
      } completion: { _ in
      }
    }
    for latch in reached { #expect(latch.wait(seconds: 60)) }
  }

  deinit { gate.release() }

  func release() { gate.release() }
}

/// Has one exchange, whose response comes from the test.
final class HandTransport: Transport {
  private let exchange = Locked<HandedBody?>(nil)
  private let keepsReads: Bool

  init(keepsReads: Bool = false) { self.keepsReads = keepsReads }

  var body: HandedBody? { exchange.withLock { $0 } }

  func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
    let body = HandedBody(receiver, keepsReads: keepsReads)
    exchange.withLock { $0 = body }
    return body
  }
}

final class HandedBody: ReadKeepingExchange {
  private struct State {
    var given = 0
    var pause = PauseState()
    var pauses = 0
    var isCancelled = false
    var kept = 0
    var spares = 0
  }

  private let receiver: any TransportReceiver
  private let keepsReads: Bool
  private let state = Locked(State())

  init(_ receiver: any TransportReceiver, keepsReads: Bool) {
    self.receiver = receiver
    self.keepsReads = keepsReads
  }

  var given: Int { state.withLock { $0.given } }
  var isPaused: Bool { state.withLock { $0.pause.isPaused } }
  var pauses: Int { state.withLock { $0.pauses } }
  /// Reads that have been kept, and how many of them for memory that was given instead.
  var kept: Int { state.withLock { $0.kept } }
  var spares: Int { state.withLock { $0.spares } }
  var isCancelled: Bool { state.withLock { $0.isCancelled } }

  /// - Parameter isNamed: whether it says which version it is of.
  func giveHead(isNamed: Bool = true) throws {
    let head = try ResponseHead(status: 200, fields: isNamed ? [("ETag", "\"v1\"")] : [])
    receiver.receive(head: head, framing: .untilClose, of: self)
  }

  /// The next bytes of the pattern, in one call.
  func give(_ count: Int) {
    let start = state.withLock { state in
      defer { state.given += count }
      return state.given
    }
    var bytes: [UInt8] = []
    Pattern.each(count, from: start) { bytes += $0 }
    receiver.receive(body: bytes.span, of: self)
  }

  func end(_ failure: SessionError? = nil) { receiver.end(failure, metrics: TransactionMetrics(), of: self) }

  // MARK: What the download asks for

  func cancel() { state.withLock { $0.isCancelled = true } }

  func setPaused(_ pause: PauseState) {
    state.withLock { state in
      guard state.pause.update(to: pause) else { return }
      if pause.isPaused { state.pauses += 1 }
    }
  }

  func discardBody() {}

  func keepRead(_ bytes: Span<UInt8>, for spare: ReadBuffer?) -> KeptRead? {
    guard keepsReads, bytes.count <= LoopContext.largeReadSize else { return nil }
    state.withLock { state in
      state.kept += 1
      if spare != nil { state.spares += 1 }
    }
    var kept = KeptRead(into: spare ?? ReadBuffer())
    return kept.append(bytes) == bytes.count ? kept : nil
  }
}
