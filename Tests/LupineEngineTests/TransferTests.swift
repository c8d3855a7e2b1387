import LupineBase
import LupineEngine
import LupineIO
import LupineTesting
import LupineWire
import Testing

/// What only the engine's own door shows: resolvers, request trailers, commands after the end.
@Suite(.timeLimit(.minutes(5))) struct TransferTests {
  /// A resolver that never answers, and counts who gave up.
  private final class SilentResolver: HostResolver {
    let asked = Locked(0)
    let cancelled = Locked(0)

    func resolve(
      host: String, port: UInt16, completion: @escaping @Sendable (Result<[SocketAddress], ResolveError>) -> Void
    ) -> ResolveToken {
      asked.withLock { $0 += 1 }
      return ResolveToken { [cancelled] in cancelled.withLock { $0 += 1 } }
    }

    func immediateAnswer(host: String, port: UInt16) -> Result<[SocketAddress], ResolveError>? { nil }
  }

  @Test func resolveDeadline() async throws {
    let resolver = SilentResolver()
    var configuration = PoolConfiguration()
    configuration.resolver = resolver
    configuration.resolveNanoseconds = 30_000_000
    try await withPool(configuration) { pool in
      let outcome = await pool.run(try request(host: "silent.example", port: 80))
      let failure = try #require(outcome.failure)
      #expect(failure.phase == .resolve)
      guard case .deadline(.resolve) = failure.error else {
        Issue.record("\(failure)")
        return
      }
      #expect(!failure.requestBytesSent)
      #expect(resolver.cancelled.withLock { $0 } == 1)
    }
  }

  @Test func totalDeadlineCoversResolving() async throws {
    var configuration = PoolConfiguration()
    configuration.resolver = SilentResolver()
    try await withPool(configuration) { pool in
      let outcome = await pool.run(try request(host: "silent.example", port: 80, total: 30_000_000))
      guard case .deadline(.total)? = outcome.failure?.error else {
        Issue.record("\(outcome)")
        return
      }
    }
  }

  @Test func cancelWhileResolving() async throws {
    var configuration = PoolConfiguration()
    configuration.resolver = SilentResolver()
    try await withPool(configuration) { pool in
      let outcome = await pool.run(try request(host: "silent.example", port: 80)) { handle in
        pool.cancel(handle)
        pool.cancel(handle)
      }
      guard case .cancelled? = outcome.failure?.error else {
        Issue.record("\(outcome)")
        return
      }
      #expect(outcome.ends == 1)
    }
  }

  /// A resolver that never answers, keeps who waits as a real one does, and says when it goes.
  private final class KeepingResolver: HostResolver {
    private let waiting = Locked<[@Sendable (Result<[SocketAddress], ResolveError>) -> Void]>([])
    private let asked: Locked<Int>
    private let gone: AsyncStream<Void>.Continuation

    init(_ asked: Locked<Int>, _ gone: AsyncStream<Void>.Continuation) {
      self.asked = asked
      self.gone = gone
    }

    deinit { gone.finish() }

    func resolve(
      host: String, port: UInt16, completion: @escaping @Sendable (Result<[SocketAddress], ResolveError>) -> Void
    ) -> ResolveToken {
      asked.withLock { $0 += 1 }
      waiting.withLock { $0.append(completion) }
      return ResolveToken()
    }

    func immediateAnswer(host: String, port: UInt16) -> Result<[SocketAddress], ResolveError>? { nil }
  }

  /// A connection that was being opened when its engine ended holds nothing any more, although somebody still holds its lookup.
  @Test func aConnectionThatNeverOpenedGoes() async throws {
    let asked = Locked(0)
    /// Until the resolver goes.
    func begin(total: Int64) async throws -> AsyncStream<Void> {
      let (ended, gone) = AsyncStream.makeStream(of: Void.self)
      var configuration = PoolConfiguration()
      configuration.resolver = KeepingResolver(asked, gone)
      try await withPool(configuration) { pool in
        let outcome = await pool.run(try request(host: "silent.example", port: 80, total: total))
        #expect(outcome.ends == 1)
      }
      return ended
    }
    var ended = try await begin(total: 30_000_000)
    // On a busy machine the time may be over before anybody is asked: then there is more of it.
    for total in [1_000_000_000, 20_000_000_000] as [Int64] where asked.withLock({ $0 }) == 0 {
      ended = try await begin(total: total)
    }
    #expect(asked.withLock { $0 } == 1)
    for await _ in ended {}
  }

  @Test func unknownHost() async throws {
    var configuration = PoolConfiguration()
    configuration.resolver = TableResolver([:])
    try await withPool(configuration) { pool in
      let failure = try #require(await pool.run(try request(host: "nowhere.example", port: 80)).failure)
      #expect(failure.phase == .resolve)
      guard case .resolve(.notFound) = failure.error else {
        Issue.record("\(failure)")
        return
      }
    }
  }

  /// An address that refuses is no reason to fail while another one answers.
  @Test func nextAddressIsTried() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let good = try #require(SocketAddress(literal: "127.0.0.1", port: UInt16(server.port)))
    let bad = try #require(SocketAddress(literal: "::1", port: UInt16(server.port)))
    var configuration = PoolConfiguration()
    configuration.resolver = TableResolver(["two.example": [bad, good]])
    try await withPool(configuration) { pool in
      let outcome = await pool.run(try request(host: "two.example", port: 80))
      #expect(outcome.status == 404)
    }
  }

  /// Of a host with both families the one that led to it comes first the next time, even where the other would answer by then; unless only
  /// some of its addresses could be asked.
  @Test(arguments: [false, true]) func theFamilyThatAnsweredIsTriedFirst(_ isBound: Bool) async throws {
    let four = try LoopbackServer(routes: ServerRoute.standard())
    let six = try LoopbackServer(routes: ServerRoute.standard(), address: .ipv6)
    defer {
      four.shutdown()
      six.shutdown()
    }
    let closed = try #require(SocketAddress(literal: "::1", port: 1))
    let last = try #require(SocketAddress(literal: "127.0.0.1", port: UInt16(four.port)))
    let open = try #require(SocketAddress(literal: "::1", port: UInt16(six.port)))
    var configuration = PoolConfiguration()
    configuration.limits.uses = 1
    let resolver = ChangingResolver([closed, last])
    configuration.resolver = resolver
    try await withPool(configuration) { pool in
      func fetch() async throws {
        let call = try request(host: "two.example", port: 80)
        #expect(await pool.run(call).status == 404)
      }
      if isBound {
        // Nothing was tried but what answered.
        resolver.answer.withLock { $0 = [last] }
      }
      try await fetch()
      resolver.answer.withLock { $0 = [open, last] }
      try await fetch()
    }
    #expect(four.recordedRequests.count == (isBound ? 1 : 2))
    #expect(six.recordedRequests.count == (isBound ? 1 : 0))
  }

  /// Answers at once, with what it was told last.
  private final class ChangingResolver: HostResolver {
    let answer: Locked<[SocketAddress]>

    init(_ answer: [SocketAddress]) { self.answer = Locked(answer) }

    func immediateAnswer(host: String, port: UInt16) -> Result<[SocketAddress], ResolveError>? {
      .success(answer.withLock { $0 })
    }

    func resolve(
      host: String, port: UInt16, completion: @escaping @Sendable (Result<[SocketAddress], ResolveError>) -> Void
    ) -> ResolveToken {
      completion(.success(answer.withLock { $0 }))
      return ResolveToken()
    }
  }

  @Test func requestTrailersFollowAChunkedBody() async throws {
    let server = try LoopbackServer(routes: [
      ServerRoute("POST", "/") { _, connection in
        let body = try connection.readBody()
        try connection.begin(framing: .chunked)
        try connection.write(body)
        try connection.finish(trailers: connection.requestTrailers)
      }
    ])
    defer { server.shutdown() }
    try await withPool { pool in
      let body = StreamBody(length: nil, isReplayable: false) { channel in
        channel.write(Array("hello".utf8)) { _ in channel.finish(trailers: [("X-Sum", "5"), ("X-Note", "n")]) }
      }
      let outcome = await pool.run(
        try request(port: server.port, method: "POST", framing: .chunked, body: .stream(body)))
      #expect(outcome.failure == nil)
      #expect(String(decoding: outcome.body, as: UTF8.self) == "hello")
      #expect(outcome.trailers == ["X-Sum", "X-Note"])
      #expect(outcome.sent == 5)
      #expect(server.recordedRequests.first?.trailers.first("X-Sum") == "5")
    }
  }

  @Test(arguments: ["Content-Length", "Transfer-Encoding", "X\r\nY", "Host"])
  func trailersThatMustNotBeAreRefused(_ name: String) async throws {
    let server = try ScriptedServer([[.readHead, .waitForClose]])
    defer { server.shutdown() }
    try await withPool { pool in
      let body = StreamBody(length: nil, isReplayable: false) { $0.finish(trailers: [(name, "5")]) }
      let outcome = await pool.run(
        try request(port: server.port, method: "POST", framing: .chunked, body: .stream(body)))
      let failure = try #require(outcome.failure)
      #expect(failure.phase == .send)
      guard case .wire = failure.error else {
        Issue.record("\(failure)")
        return
      }
    }
  }

  @Test func prioritiesDecideWhoGetsTheConnection() async throws {
    let go = try Latch()
    let answer: ScriptBytes = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    let server = try ScriptedServer([
      [.readHead, .stall(go), .send(answer)] + [[ScriptStep]](repeating: [.readHead, .send(answer)], count: 3).joined()
    ])
    defer { server.shutdown() }
    var configuration = PoolConfiguration()
    configuration.limits.perHost = 1
    try await withPool(configuration) { pool in
      let rows: [(String, TransferPriority)] = [
        ("/first", .default), ("/low", .low), ("/default", .default), ("/high", .high),
      ]
      try await withThrowingTaskGroup(of: Recorder.Outcome.self) { group in
        for (index, row) in rows.enumerated() {
          let request = try request(port: server.port, target: row.0, priority: row.1)
          let queued = Locked(false)
          group.addTask {
            await pool.run(request) { _ in pool.counters { _ in queued.withLock { $0 = true } } }
          }
          while !queued.withLock({ $0 }) { await Task.yield() }
          if index == 0 { while server.recordedRequests.isEmpty { await Task.yield() } }
        }
        go.release()
        for try await outcome in group { #expect(outcome.status == 200) }
      }
      #expect(server.recordedRequests.map(\.target) == ["/first", "/high", "/default", "/low"])
    }
  }

  /// The head cannot be written, as the peer is gone: nobody is asked for the body, which can perhaps be had only once, and is there for the
  /// next attempt.
  @Test func aBodyIsNotBegunBehindAHeadThatFailed() async throws {
    let go = try Latch()
    let server = try ScriptedServer([
      [.readHead, .send("HTTP/1.1 204 N\r\n\r\n"), .stall(go), .reset],
      [.readHead, .readBody, .send("HTTP/1.1 204 N\r\n\r\n"), .waitForClose],
    ])
    defer { server.shutdown() }
    let begun = Locked(0)
    let body = StreamBody(length: 3, isReplayable: false) { channel in
      begun.withLock { $0 += 1 }
      channel.write([1, 2, 3]) { _ in channel.finish() }
    }
    let (get, post) = try (
      request(port: server.port),
      request(port: server.port, method: "POST", framing: .length(3), body: .stream(body))
    )
    try await withPool { pool in
      let outcome = await withCheckedContinuation { (continuation: CheckedContinuation<Recorder.Outcome, Never>) in
        let second = Recorder { continuation.resume(returning: $0) }
        let first = Recorder { _ in
          // On the loop, which cannot hear meanwhile that the peer goes.
          go.release()
          _ = server.waitUntilPlayed(1, seconds: 60)
          pool.start(TransferHandle(Transfer(post, handler: second, createdAt: EventLoop.monotonicNow())))
        }
        pool.start(TransferHandle(Transfer(get, handler: first, createdAt: EventLoop.monotonicNow())))
      }
      #expect(begun.withLock { $0 } == 1)
      #expect(outcome.failure == nil && outcome.status == 204 && outcome.sent == 3, "\(outcome)")
      #expect(server.connectionCount == 2)
    }
  }

  /// The pool and its transfer come after the shutdown was asked for, and before the loop has ended.
  @Test func whatComesDuringAShutdownFails() async throws {
    let server = try ScriptedServer([[.stall(nil)]], surplus: .repeatLast)
    defer { server.shutdown() }
    let engine = try Engine.start(name: "lupine-test")
    let isHeld = try Latch()
    engine.loop.submit { _ = isHeld.wait(seconds: 30) }
    engine.shutdownSoon()
    let pool = PoolHandle(engine: engine, configuration: PoolConfiguration())
    let outcome = await pool.run(try request(port: server.port)) { _ in isHeld.release() }
    engine.loop.join()
    #expect(outcome.ends == 1)
    guard case .poolClosed? = outcome.failure?.error else {
      Issue.record("\(outcome)")
      return
    }
  }

  /// With so many descriptors left, an engine starts or does not; one that has started works once there are more.
  @Test(arguments: 0..<8) func shortageOfDescriptorsPasses(_ free: Int) async {
    await #expect(processExitsWith: .success) { [free] in
      let server = try ScriptedServer([[.readHead, .send("HTTP/1.1 204 N\r\n\r\n")]], surplus: .repeatLast)
      defer { server.shutdown() }
      let hoard = Hoard(leaving: free)
      let early = try? Engine.start(name: "lupine-test")
      hoard.release()
      let engine = try early ?? Engine.start(name: "lupine-test")
      let pool = PoolHandle(engine: engine, configuration: PoolConfiguration())
      let outcome = await pool.run(try request(port: server.port))
      engine.shutdown()
      guard outcome.status == 204, outcome.failure == nil else { fatalError("\(outcome)") }
    }
  }

  /// Several engines are started or none, however many descriptors there are: those before the one that lacks some are ended.
  @Test func shortageLeavesNoEngineBehind() async {
    await #expect(processExitsWith: .success) {
      // What the process keeps comes with the first.
      try Engine.start(name: "lupine-test").shutdown()
      let before = DescriptorCensus.now(threadsNamed: "lupine-test")
      var counts: Set<Int> = []
      for free in 0..<10 {
        counts.insert(Self.startAndEnd(4, leaving: free))
        guard before.isRestored(withinSeconds: 60) else { fatalError("of \(free) are left \(before.newcomers())") }
      }
      guard counts == [0, 4] else { fatalError("there were \(counts) engines") }
    }
  }

  /// How many were started.
  private static func startAndEnd(_ count: Int, leaving free: Int) -> Int {
    let hoard = Hoard(leaving: free)
    let engines = try? Engine.start(count, name: "lupine-test")
    hoard.release()
    for engine in engines ?? [] { engine.shutdown() }
    return engines?.count ?? 0
  }

  @Test func nothingStartsAfterShutdown() async throws {
    let engine = try Engine.start(name: "lupine-test")
    let pool = PoolHandle(engine: engine, configuration: PoolConfiguration())
    engine.shutdown()
    let outcome = await pool.run(try request(port: 1))
    guard case .poolClosed? = outcome.failure?.error else {
      Issue.record("\(outcome)")
      return
    }
  }
}
