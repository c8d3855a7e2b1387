import Glibc
import LupineBase
import LupineEngine
import LupineIO
import LupineSession
import LupineTestSupport
import LupineTesting
import LupineWire
import Testing

/// How a body becomes pieces of a file, by a transport whose bytes come from the test, while the threads for files are held.
@Suite(.timeLimit(.minutes(5)), .serialized) struct PieceTests {
  /// What is written at once.
  private static let piece = 64 << 10

  @Test func limits() async throws {
    try await withHandedBody { body, folder, download in
      let held = try HeldFileThreads()
      // The first bytes are under way at once, whatever they are.
      body.give(1)
      #expect(!body.isPaused)
      // The socket stops when three pieces are there.
      while !body.isPaused, body.given < 8 * Self.piece { body.give(48 << 10) }
      #expect(body.given == 4 * (48 << 10) + 1)
      #expect(body.pauses == 1)
      // What was read already is taken, and changes nothing.
      body.give(256 << 10)
      #expect(body.pauses == 1 && folder.size == 0)
      held.release()
      // One job wrote the first byte, others what came meanwhile; then the socket goes on.
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

  /// The reader keeps its place while pieces are under way: nothing is lost, nothing is written twice.
  @Test(arguments: [1, 999, 65_535, 65_536, 65_537, 262_144, 3_000_000])
  func everySize(_ size: Int) async throws {
    try await withHandedBody { body, _, download in
      let total = min(5_000_001, 5000 * size + 1)
      while body.given < total { body.give(min(size, total - body.given)) }
      body.end()
      let path = try await download.value
      #expect(Pattern.matches(path, body.given))
      unsafe unlink(path)
    }
  }

  /// What comes in a pipe is written in its place, between what is shown before it and behind it, and the socket is stopped until it is.
  @Test func pipes() async throws {
    try await withHandedBody { body, folder, download in
      body.give(1)
      #expect(await eventually { folder.size == 1 })
      for round in 1...3 {
        // Less than a piece waits, and goes with it.
        body.give(1000)
        let held = try HeldFileThreads()
        #expect(!body.isPaused)
        try body.givePiped(200_000)
        #expect(body.isPaused && body.pauses == round)
        // It takes no more, and what had been read comes behind it.
        #expect(body.pipe?.isEmpty == false)
        body.give(500)
        held.release()
        #expect(await eventually { !body.isPaused && folder.size == body.given - 500 })
        #expect(body.pipe?.isEmpty == true)
      }
      // Much less than a piece, with nothing behind it.
      try body.givePiped(1)
      #expect(await eventually { !body.isPaused && folder.size == body.given })
      try body.givePiped(BodyPipe.capacity / 4)
      body.end()
      let path = try await download.value
      #expect(Pattern.matches(path, body.given))
      unsafe unlink(path)
    }
  }

  /// There is no pipe for what makes no file, nor after the file has failed; a range that is too long is refused as when it is shown.
  @Test func noPipe() async throws {
    try await withHandedBody(giveHead: false) { body, _, download in
      #expect(body.pipe == nil)
      try body.giveHead(status: 404)
      #expect(body.pipe == nil)
      body.end()
      #expect(try await failure { try await download.value }.code == .badResponse)
    }
  }

  /// Cancelled while a piece is under way and more has been gathered, or waits in the pipe: it ends when all of that is in the file, and the resume data has it.
  @Test(arguments: [false, true]) func cancelledWithAPieceUnderWay(_ isPiped: Bool) async throws {
    try await withHandedBody(leaves: 1) { body, folder, download in
      let held = try HeldFileThreads()
      body.give(600_000)
      if isPiped { try body.givePiped(500_000) } else { body.give(500_000) }
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
  func failsWithAPieceUnderWay(_ isPiped: Bool) async throws {
    let disk = try SmallDisk(bytes: Self.piece * 3 / 2)
    defer { disk.unmount() }
    try await withHandedBody(in: disk.path) { body, _, download in
      body.give(Self.piece)
      try HeldFileThreads().release()
      #expect(!body.isCancelled)
      let held = try HeldFileThreads()
      // The second piece does not fit; a part of the third waits behind it.
      if isPiped { try body.givePiped(Self.piece) } else { body.give(Self.piece) }
      body.give(Self.piece / 4)
      held.release()
      #expect(await eventually { body.isCancelled })
      // The transport had read this already.
      body.give(Self.piece)
      #expect(body.pipe == nil)
      body.end(SessionError(.cancelled, phase: .receive, message: "cancelled"))
      let error = try await failure { try await download.value }
      #expect(error.code == .fileFailed && error.phase == .file && error.resumeData == nil)
      #expect(DirectoryListing.names(disk.path + "/lupine-\(geteuid())") == [])
    }
  }

  /// - Parameters:
  ///   - parent: where the folder of partial files is made; nil: in a scratch directory.
  ///   - giveHead: whether the response is there already.
  ///   - leaves: how many partial files are left.
  func withHandedBody(
    in parent: String? = nil, giveHead: Bool = true, leaves: Int = 0,
    _ run: (HandedBody, DownloadFolder, Task<String, any Error>) async throws -> Void
  ) async throws {
    let folder = try DownloadFolder()
    let transport = HandTransport()
    try await withSession(configure: {
      $0.temporaryDirectory = parent ?? folder.parentPath
      $0.transport = transport
    }) { session in
      let request = try Request("http://a.example/file")
      let download = Task { try await session.download(for: request).path }
      #expect(await eventually { transport.body != nil })
      let body = try #require(transport.body)
      if giveHead { try body.giveHead() }
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

  var body: HandedBody? { exchange.withLock { $0 } }

  func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
    let body = HandedBody(receiver)
    exchange.withLock { $0 = body }
    return body
  }
}

final class HandedBody: TransportExchange {
  private struct State {
    var given = 0
    var pause = PauseState()
    var pauses = 0
    var isCancelled = false
  }

  private let receiver: any TransportReceiver
  private let state = Locked(State())

  init(_ receiver: any TransportReceiver) { self.receiver = receiver }

  var given: Int { state.withLock { $0.given } }
  var isPaused: Bool { state.withLock { $0.pause.isPaused } }
  var pauses: Int { state.withLock { $0.pauses } }
  /// Where the next bytes may go.
  var pipe: BodyPipe? { (receiver as? any PipeReceiver)?.pipe(for: self) }
  var isCancelled: Bool { state.withLock { $0.isCancelled } }

  /// - Parameter isNamed: whether it says which version it is of.
  func giveHead(status: Int = 200, isNamed: Bool = true) throws {
    let head = try ResponseHead(status: status, fields: isNamed ? [("ETag", "\"v1\"")] : [])
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

  /// The next bytes of the pattern, in the pipe.
  func givePiped(_ count: Int) throws {
    let start = state.withLock { state in
      defer { state.given += count }
      return state.given
    }
    let pipe = try #require(self.pipe)
    let (near, far) = try SystemCalls.makeSocketPair()
    let socket = Descriptor(adopting: near)
    let peer = Descriptor(adopting: far)
    try SystemCalls.setSendBuffer(peer, 2 * count)
    var bytes: [UInt8] = []
    Pattern.each(count, from: start) { bytes += $0 }
    #expect(try SystemCalls.send(peer, bytes.span) == .bytes(count))
    #expect(try pipe.fill(from: socket, atMost: count) == count)
    (receiver as? any PipeReceiver)?.receive(piped: count, of: self)
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
}
