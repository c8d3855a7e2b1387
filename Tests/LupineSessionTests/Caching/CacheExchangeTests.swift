import Dispatch
import FoundationEssentials
import HTTPTypes
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import LupineWire
import Testing

/// What a cache must leave as it is without one: cookies, times, cancellation, what is sent and what is said of it; and what it may take.
@Suite(.timeLimit(.minutes(2))) struct CacheExchangeTests {
  private static let fresh: ServerFields = ["Cache-Control": "max-age=1000"]

  private func withCache(
    _ cache: ResponseCache = ResponseCache(), configure: (inout SessionConfiguration) -> Void = { _ in },
    handler: @escaping LoopbackServer.Handler, _ body: (Session, LoopbackServer) async throws -> Void
  ) async throws {
    let server = try LoopbackServer(handler: handler)
    defer { server.shutdown() }
    try await withSession(
      ports: [server.port],
      configure: {
        $0.responseCache = cache
        configure(&$0)
      },
      { try await body($0, server) })
  }

  // MARK: Cookies

  /// A 304, a failure that is answered with what is stored, and an answer that nobody waits for: the cookies of each are kept.
  @Test(arguments: ["no-cache", "max-age=0, stale-if-error=1000", "max-age=0, stale-while-revalidate=1000"])
  func cookiesOfHiddenHeadsAreKept(_ directives: String) async throws {
    try await withCache { request, connection in
      var fields: ServerFields = ["Cache-Control": directives, "ETag": "\"1\"", "Age": "10"]
      let isFirst = request.fields.first("If-None-Match") == nil
      if !isFirst { fields.append("Set-Cookie", "sid=renewed; Path=/") }
      try connection.respond(
        isFirst ? 200 : directives.contains("error") ? 503 : 304, fields: fields, text: isFirst ? "x" : "")
    } _: { session, server in
      for _ in 0..<2 { try await session.expect("x", from: server.url()) }
      let jar = try #require(session.configuration.cookieStorage)
      let isKept = try await eventually { try jar.cookies(for: server.url()).map(\.value) == ["renewed"] }
      #expect(isKept)
      #expect(server.requestCount == 2)
    }
  }

  // MARK: Bodies that nobody wants

  /// A redirect whose body does not come is followed as soon as without a cache, not when nothing has moved for a while.
  @Test(arguments: ["Content-Length: 10", "Transfer-Encoding: chunked"])
  func aRedirectDoesNotWaitForItsBody(_ framing: String) async throws {
    let latch = try Latch()
    try await withCache(configure: { $0.timeoutIntervalForRequest = .seconds(60) }) { request, connection in
      guard request.path == "/old" else { return try connection.respond(fields: Self.fresh, text: "new") }
      try connection.sendRaw(
        "HTTP/1.1 301 Moved\r\nLocation: /new\r\nCache-Control: max-age=1000\r\n\(framing)\r\n\r\n")
      _ = try connection.stall(until: latch)
    } _: { session, server in
      let begin = ContinuousClock.now
      try await session.expect("new", from: server.url("/old"))
      #expect(ContinuousClock.now - begin < .seconds(50))
      latch.release()
    }
  }

  /// Nobody stops what was asked behind an answer: a response that is not kept is not downloaded either.
  @Test(arguments: ["no-store", "max-age=1000"]) func noEndlessBodyIsReadForNobody(_ directives: String) async throws {
    let ended = try Latch()
    try await withCache(ResponseCache(memoryCapacity: 100_000)) { request, connection in
      guard request.fields.first("If-None-Match") != nil else {
        return try connection.respond(
          fields: ["Cache-Control": "max-age=0, stale-while-revalidate=1000", "ETag": "\"1\"", "Age": "1"], text: "x")
      }
      defer { ended.release() }
      try connection.begin(200, fields: ["Cache-Control": directives], framing: .chunked)
      // Until nobody takes it any more.
      let deadline = ContinuousClock.now + .seconds(80)
      let part = [UInt8](repeating: 1, count: 10_000)
      while ContinuousClock.now < deadline {
        try connection.write(part)
        try connection.flush()
      }
    } _: { session, server in
      for _ in 0..<2 { try await session.expect("x", from: server.url()) }
      let isOver = await eventually(seconds: 50) { ended.isReleased }
      #expect(isOver)
    }
  }

  /// What there is no room for is not collected, so that those who wait for it go on at its head, or as soon as too much has come.
  @Test(arguments: [false, true]) func noBodyIsCollectedThatIsTooLargeForTheStore(_ isChunked: Bool) async throws {
    let latch = try Latch()
    let cache = ResponseCache(memoryCapacity: 10_000)
    try await withCache(cache, configure: { $0.mergesCacheMisses = true }) { _, connection in
      try connection.begin(200, fields: Self.fresh, framing: isChunked ? .chunked : .length(20_000))
      let early = isChunked ? 15_000 : 0
      if isChunked { try connection.write([UInt8](repeating: 1, count: early)) }
      try connection.flush()
      _ = latch.wait(seconds: 60)
      try connection.write([UInt8](repeating: 1, count: 20_000 - early))
      try connection.finish()
    } _: { session, server in
      async let first = session.data(from: server.url())
      async let second = session.data(from: server.url())
      let isAsked = await eventually(seconds: 40) { server.requestCount == 2 }
      latch.release()
      #expect(isAsked)
      let counts = try await [first.0.count, second.0.count]
      #expect(counts == [20_000, 20_000])
    }
  }

  /// What is too large to be kept would have taken the place of what is stored, which is no answer any more.
  @Test(arguments: [false, true]) func whatIsTooLargeTakesAwayWhatIsStored(_ isChunked: Bool) async throws {
    let isLarge = Locked(false)
    try await withCache(ResponseCache(memoryCapacity: 10_000)) { _, connection in
      guard isLarge.withLock({ $0 }) else { return try connection.respond(fields: Self.fresh, text: "x") }
      try connection.begin(200, fields: Self.fresh, framing: isChunked ? .chunked : .length(20_000))
      try connection.write([UInt8](repeating: 1, count: 20_000))
      try connection.finish()
    } _: { session, server in
      try await session.expect("x", from: server.url())
      isLarge.withLock { $0 = true }
      var reload = try Request(server.url())
      reload.cachePolicy = .reloadIgnoringLocalCacheData
      let reloaded = try await session.data(for: reload).0.count
      let next = try await session.data(from: server.url()).0.count
      #expect([reloaded, next] == [20_000, 20_000])
    }
  }

  /// So does a redirect whose body is too long, or too slow, to be read for the store alone.
  @Test(arguments: [70_000, nil]) func aRedirectTakesAwayWhatIsStored(_ length: Int?) async throws {
    let latch = try Latch()
    let hasMoved = Locked(false)
    try await withCache { request, connection in
      guard request.path == "/old" else {
        return try connection.respond(fields: ["Cache-Control": "no-store"], text: "new")
      }
      guard hasMoved.withLock({ $0 }) else { return try connection.respond(fields: Self.fresh, text: "old") }
      let framing = length.map { "Content-Length: \($0)" } ?? "Transfer-Encoding: chunked"
      try connection.sendRaw(
        "HTTP/1.1 301 Moved\r\nLocation: /new\r\nCache-Control: max-age=1000\r\n\(framing)\r\n\r\n")
      if let length {
        try connection.sendRaw(String(repeating: "x", count: length))
      } else {
        _ = try connection.stall(until: latch)
      }
    } _: { session, server in
      try await session.expect("old", from: server.url("/old"))
      hasMoved.withLock { $0 = true }
      var reload = try Request(server.url("/old"))
      reload.cachePolicy = .reloadIgnoringLocalCacheData
      try await session.expect("new", from: reload)
      try await session.expect("new", from: server.url("/old"))
      latch.release()
    }
  }

  /// A HEAD that tells of another length speaks of another body than the one that is stored.
  @Test func headOfAnotherLengthTakesAwayWhatIsStored() async throws {
    try await withCache { request, connection in
      try connection.respond(fields: Self.fresh, text: request.method == "HEAD" ? "longer" : "x")
    } _: { session, server in
      try await session.expect("x", from: server.url())
      var request = try Request(server.url(), method: .head)
      request.cachePolicy = .reloadRevalidatingCacheData
      _ = try await session.data(for: request)
      try await session.expect("x", from: server.url())
      #expect(server.requestCount == 3)
    }
  }

  /// A place in bytes that are no UTF-8 is forgotten by these bytes, as a redirect leads to it by them.
  @Test func aRedirectLeadsToWhatItMakesForgotten() async throws {
    let isChanged = Locked(false)
    try await withCache { request, connection in
      guard request.method == "POST" else {
        return try connection.respond(fields: Self.fresh, text: isChanged.withLock { $0 } ? "new" : "old")
      }
      isChanged.withLock { $0 = true }
      let head = Array("HTTP/1.1 303 See Other\r\nContent-Length: 0\r\nLocation: /caf".utf8)
      try connection.sendRaw(head + [0xE9] + Array("\r\n\r\n".utf8))
    } _: { session, server in
      try await session.expect("old", from: server.url("/caf%E9"))
      try await session.expect("new", from: Request(server.url("/x"), method: .post))
      #expect(server.recordedRequests.map(\.target) == ["/caf%E9", "/x", "/caf%E9"])
    }
  }

  // MARK: What is sent

  /// The head of the request is known where a 304 has confirmed what is stored, and where it failed.
  @Test func theRequestHeadIsKnownAtTheEnd() async throws {
    try await withCache { request, connection in
      if request.path == "/cut" {
        try connection.begin(200, fields: Self.fresh, framing: .length(10))
        return connection.abort()
      }
      let isFirst = request.fields.first("If-None-Match") == nil
      try connection.respond(
        isFirst ? 200 : 304, fields: ["Cache-Control": "no-cache", "ETag": "\"1\""], text: isFirst ? "x" : "")
    } _: { session, server in
      try await session.expect("x", from: server.url("/a"))
      let confirmed = try await session.expect("x", from: server.url("/a"))
      #expect(String(decoding: confirmed.requestHead, as: UTF8.self).contains("If-None-Match: \"1\""))
      let error = try await failure { try await session.data(from: server.url("/cut")) }
      #expect(String(decoding: error.requestHead, as: UTF8.self).hasPrefix("GET /cut HTTP/1.1\r\n"))
    }
  }

  /// A policy adds to what the request says to caches on the way, and takes nothing from it.
  @Test(arguments: [
    (RequestCachePolicy.reloadIgnoringLocalAndRemoteCacheData, "no-cache, no-store"),
    (.reloadRevalidatingCacheData, "max-age=0, no-store"),
  ])
  func directivesOfTheRequestAreSent(_ policy: RequestCachePolicy, _ expected: String) async throws {
    try await withCache { request, connection in
      try connection.respond(text: request.fields.values("Cache-Control").joined(separator: "|"))
    } _: { session, server in
      var request = try Request(server.url())
      request.cachePolicy = policy
      request.fields[.cacheControl] = "no-store"
      try await session.expect(expected, from: request)
    }
  }

  // MARK: The end

  /// Notes how much time each request is given. Asked whether something still holds, it speaks of something else, when the test says so.
  private final class NotingTransport: Transport {
    private let queue = DispatchQueue(label: "test.transport")
    private let found: ResponseHead
    private let other: ResponseHead
    let times = Locked<[Duration]>([])
    let answer = Locked<(@Sendable () -> Void)?>(nil)

    init() throws {
      found = try ResponseHead(
        status: 200, fields: [("Cache-Control", "no-cache"), ("ETag", "\"1\""), ("Content-Length", "1")])
      other = try ResponseHead(status: 304, fields: [("ETag", "\"2\"")])
    }

    func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
      let exchange = IdleExchange()
      times.withLock { $0.append(request.totalTimeout) }
      let isQuestion = request.fields.contains { $0.name == "If-None-Match" }
      let head = isQuestion ? other : found
      let reply: @Sendable () -> Void = { [queue] in
        queue.async {
          receiver.receive(head: head, framing: isQuestion ? .none : .length(1), of: exchange)
          if !isQuestion { receiver.receive(body: Array("x".utf8).span, of: exchange) }
          receiver.end(nil, metrics: TransactionMetrics(), of: exchange)
        }
      }
      if isQuestion { answer.withLock { $0 = reply } } else { reply() }
      return exchange
    }
  }

  /// A 304 that speaks of something else has taken its time: what is asked for next has as much less.
  @Test func theSecondQuestionHasWhatIsLeftOfTheTime() async throws {
    let transport = try NotingTransport()
    try await withSession(configure: {
      $0.responseCache = ResponseCache()
      $0.transport = transport
    }) { session in
      try await session.expect("x", from: "http://a.example/")
      let second = Task { try await session.text("http://a.example/").0 }
      #expect(await eventually { transport.answer.withLock { $0 != nil } })
      let start = ContinuousClock.now
      let passed = Duration.milliseconds(50)
      _ = await eventually { ContinuousClock.now - start > passed }
      transport.answer.withLock { $0 }?()
      #expect(try await second.value == "x")
      let times = transport.times.withLock { $0 }
      try #require(times.count == 3)
      #expect(times[2] <= times[1] - passed)
    }
  }

  /// A transport whose `start` takes its time.
  private final class SlowTransport: Transport {
    final class Exchange: TransportExchange {
      private let receiver: any TransportReceiver
      let isCancelled = Locked(false)

      init(_ receiver: any TransportReceiver) { self.receiver = receiver }

      func cancel() {
        let isFirst = isCancelled.withLock { isCancelled in
          defer { isCancelled = true }
          return !isCancelled
        }
        guard isFirst else { return }
        receiver.end(
          SessionError(.cancelled, phase: .receive, message: "cancelled"), metrics: TransactionMetrics(), of: self)
      }

      func setPaused(_ state: PauseState) {}
      func discardBody() {}
    }

    let isStarting: Latch
    let mayStart: Latch
    let exchanges = Locked<[Exchange]>([])

    init() throws {
      isStarting = try Latch()
      mayStart = try Latch()
    }

    func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
      isStarting.release()
      _ = mayStart.wait(seconds: 60)
      let exchange = Exchange(receiver)
      exchanges.withLock { $0.append(exchange) }
      return exchange
    }
  }

  /// Cancelled between the look at a file and the return of `start`: the exchange is cancelled, and ends once.
  @Test func cancellingWhileTheTransportStarts() async throws {
    let scratch = try ScratchDirectory()
    let path = scratch.path + "/cache"
    let transport = try SlowTransport()
    let cache = try ResponseCache(memoryCapacity: 0, directory: path)
    try await withSession(configure: {
      $0.responseCache = cache
      $0.transport = transport
    }) { session in
      let ends = Locked<[SessionError.Code?]>([])
      let task = session.dataTask(with: try Request("http://a.example/")) { result in
        let code: SessionError.Code? = if case .failure(let error) = result { error.code } else { nil }
        ends.withLock { $0.append(code) }
      }
      task.resume()
      let isStarting = await eventually { transport.isStarting.isReleased }
      #expect(isStarting)
      task.cancel()
      // It must not end before the transport says so.
      let isEarly = await eventually(seconds: 0.3) { ends.withLock { !$0.isEmpty } }
      #expect(!isEarly)
      transport.mayStart.release()
      let isOver = await eventually { ends.withLock { !$0.isEmpty } }
      #expect(isOver)
      let isCancelled = await eventually {
        transport.exchanges.withLock { $0.first }?.isCancelled.withLock { $0 } ?? false
      }
      #expect(isCancelled)
      #expect(ends.withLock { $0 } == [.cancelled])
    }
    try CacheFolder.remove(path)
  }
}
