import FoundationEssentials
import HTTPTypes
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// How far the two sides of a body may be apart is a setting, down to a byte.
@Suite(.timeLimit(.minutes(2))) struct WatermarkTests {
  private static let tight = BodyWatermarks(low: 0, high: 1)

  /// A body of three pieces of ten bytes, each of the later ones behind a latch; and another connection.
  private struct Pieces {
    let second: Latch
    let third: Latch
    let sent: Latch

    init() throws {
      second = try Latch()
      third = try Latch()
      sent = try Latch()
    }

    static let text = "0123456789abcdefghijABCDEFGHIJ"

    var scripts: [[ScriptStep]] {
      [
        [
          .readHead, .send("HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n0123456789"), .stall(second),
          .send("abcdefghij"), .stall(third), .send("ABCDEFGHIJ"), .release(sent), .waitForClose,
        ],
        [.readHead, .send(reply("other")), .waitForClose],
      ]
    }
  }

  @Test func aReaderThatIsAByteBehindStopsTheSocket() async throws {
    let pieces = try Pieces()
    try await withScript(pieces.scripts, configure: { $0.bodyWatermarks = Self.tight }) { session, server in
      let keeper = TaskKeeper()
      let (bytes, _) = try await session.bytes(for: Request(server.url("/")), delegate: keeper)
      let task = try #require(keeper.task.withLock { $0 })
      #expect(await eventually { task.countOfBytesReceived == 10 })
      pieces.second.release()
      pieces.third.release()
      #expect(await eventually { pieces.sent.isReleased })
      // What came before this would have been read before it.
      try await session.expect("other", from: server.url("/"))
      #expect(task.countOfBytesReceived == 10)
      let body = try await bytes.collect(upTo: 100)
      #expect(String(decoding: body, as: UTF8.self) == Pieces.text)
    }
  }

  @Test func aDelegateThatIsAByteBehindStopsTheSocket() async throws {
    let pieces = try Pieces()
    let go = try Latch()
    defer { go.release() }
    try await withScript(pieces.scripts, configure: { $0.bodyWatermarks = Self.tight }) { session, server in
      let holder = HoldingDelegate(until: go)
      let task = session.dataTask(with: try Request(server.url("/")))
      task.delegate = holder
      task.resume()
      #expect(await eventually { holder.taken.withLock { $0.count } == 10 })
      pieces.second.release()
      // It gathers, as nobody takes it.
      #expect(await eventually { task.countOfBytesReceived == 20 })
      pieces.third.release()
      #expect(await eventually { pieces.sent.isReleased })
      try await session.expect("other", from: server.url("/"))
      #expect(task.countOfBytesReceived == 20)
      go.release()
      #expect(await eventually { holder.hasEnded.withLock { $0 } })
      #expect(holder.taken.withLock { String(decoding: $0, as: UTF8.self) } == Pieces.text)
    }
  }

  /// More than sockets hold, in chunks of which one waits, where without the setting 256 KiB of them would.
  @Test func aSocketThatIsAByteBehindStopsTheProducer() async throws {
    let go = try Latch()
    let produced = Counter()
    let (size, count) = (16 << 10, 2048)
    let routes = [
      ServerRoute("POST", "/slow") { _, connection in
        _ = try connection.stall(until: go)
        while try connection.readBodyPart() != nil {}
        try connection.respond(text: "\(connection.bodyLength)")
      }
    ]
    try await withServer(
      routes + ServerRoute.standard(), configure: { $0.bodyWatermarks = Self.tight }
    ) { session, server in
      let chunks = BodyStream(
        AsyncStream<[UInt8]>(unfolding: { produced.next() < count ? [UInt8](repeating: 0x62, count: size) : nil }))
      let request = try Request(
        server.url("/slow"), method: .post,
        body: .stream(length: nil, isReplayable: false, makeStream: { chunks }))
      let task = session.uploadTask(withStreamedRequest: request)
      task.resume()
      // It has stopped when nothing comes while others are served.
      var (before, rounds, still) = (0, 0, 0)
      while still < 3, rounds < 2000 {
        let now = produced.value
        still = now > 0 && now == before ? still + 1 : 0
        (before, rounds) = (now, rounds + 1)
        for _ in 0..<10 { try await session.expect("Hello, world!", from: server.url("/hello")) }
      }
      let sent = Int(task.countOfBytesSent) / size
      #expect(sent > 0 && (sent + 1...sent + 2).contains(produced.value), "\(sent) of \(produced.value)")
      go.release()
      #expect(await eventually { task.state == .completed })
      #expect(task.response?.statusCode == 200 && task.countOfBytesSent == Int64(size * count))
    }
  }

  /// Everything arrives whole, whatever the two are.
  @Test(arguments: [
    BodyWatermarks(low: 0, high: 1), BodyWatermarks(low: 1, high: 1), BodyWatermarks(low: -5, high: -7),
  ])
  func smallOnesHurryNobody(_ watermarks: BodyWatermarks) async throws {
    let size = 300_000
    try await withServer(configure: { $0.bodyWatermarks = watermarks }) { session, server in
      let (bytes, _) = try await session.bytes(for: Request(server.url("/bytes?n=\(size)")))
      let body = try await bytes.collect(upTo: size)
      #expect(body.count == size && PatternBody.matches(body, from: 0))
      let numbers = Counter()
      let chunks = AsyncStream<[UInt8]> { numbers.next() < 50 ? [UInt8](repeating: 1, count: 1_000) : nil }
      let (answer, _) = try await session.upload(for: Request(server.url("/upload"), method: .post), from: chunks)
      #expect(String(decoding: answer, as: UTF8.self).hasPrefix("{\"bytes\":50000,"))
    }
  }

  @Test func aLowOneAboveTheHighOneIsRefused() throws {
    var configuration = SessionConfiguration()
    configuration.engine = .own
    configuration.bodyWatermarks = BodyWatermarks(low: 2, high: 1)
    let refused = configuration
    #expect(throws: SessionError.self) { try NetworkTransport(refused) }
    let error = #expect(throws: SessionError.self) { try Session(refused) }
    #expect(error?.code == .badRequest && error?.message.contains("bodyWatermarks") == true)
    configuration.bodyWatermarks = BodyWatermarks(low: 1, high: 1)
    let accepted = configuration
    let session = try Session(accepted)
    session.invalidateAndCancel()
  }
}
