import FoundationEssentials
import Glibc
import HTTPTypes
import LupineBase
import LupineRules
import LupineSession
import LupineTestSupport
import LupineTesting
import LupineWire
import Testing

/// The cache as part of a session.
@Suite struct CacheSessionTests {
  static let fresh: ServerFields = ["Cache-Control": "max-age=1000"]

  func withCache(
    _ cache: ResponseCache = ResponseCache(memoryCapacity: 32 << 20), isSecure: Bool = false,
    configure: (inout SessionConfiguration) -> Void = { _ in },
    handler: @escaping LoopbackServer.Handler,
    _ body: (Session, LoopbackServer, ResponseCache) async throws -> Void
  ) async throws {
    let server = try LoopbackServer(tls: isSecure ? try TestIdentity.server() : nil, handler: handler)
    defer { server.shutdown() }
    try await withSession(
      ports: [server.port],
      configure: {
        $0.responseCache = cache
        if !isSecure { $0.tls = TLSConfiguration() }
        configure(&$0)
      },
      { try await body($0, server, cache) })
  }

  /// An answer that is too much trouble to store takes the older one's place all the same.
  @Test func whatCannotBeStoredLeavesNothingOlder() async throws {
    let names = (0..<200).map { "x-\($0)" }.joined(separator: ", ")
    let count = Locked(0)
    try await withCache { _ in
    } handler: { _, connection in
      let number = count.withLock { count in
        count += 1
        return count
      }
      var fields = Self.fresh
      if number == 2 { fields.append("Connection", names) }
      try connection.respond(fields: fields, text: "\(number)")
    } _: { session, server, _ in
      var request = try Request(server.url("/a"))
      try await session.expect("1", from: request)
      try await session.expect("1", from: request)
      request.cachePolicy = .reloadIgnoringLocalCacheData
      try await session.expect("2", from: request)
      request.cachePolicy = .useProtocolCachePolicy
      try await session.expect("3", from: request)
      try await session.expect("3", from: request)
    }
  }

  /// What a session offers is part of what it looks for: programs look where it does.
  @Test(arguments: [true, false]) func programsSeeWhatTheSessionSees(_ namesCodings: Bool) async throws {
    try await withCache { configuration in
      if namesCodings {
        configuration.additionalFields[.acceptEncoding] = "gzip"
      } else {
        configuration.acceptsCompressedContent = false
      }
    } handler: { _, connection in
      try connection.respond(fields: Self.fresh, body: Array("served".utf8))
    } _: { session, server, cache in
      let request = try Request(server.url("/a"))
      _ = try await session.data(for: request)
      let stored = try #require(await cache.cachedResponse(for: request, in: session))
      #expect(stored.data == Data("served".utf8))
      let other = try Request(server.url("/b"))
      #expect(cache.store(stored, for: other, in: session))
      #expect(try await session.data(for: other).0 == stored.data && server.requestCount == 1)
    }
  }

  /// Cookies of the caller's own are sent in one field, and are looked for as such.
  @Test func programsSeeWhatIsForTheirCookies() async throws {
    try await withCache(configure: { _ in }) { _, connection in
      try connection.respond(
        fields: ["Cache-Control": "private, max-age=1000", "Vary": "Cookie"], body: Array("served".utf8))
    } _: { session, server, cache in
      var request = try Request(server.url("/a"))
      request.fields[.cookie] = "a=1; b=2"
      _ = try await session.data(for: request)
      let stored = try #require(await cache.cachedResponse(for: request, in: session))
      var other = try Request(server.url("/b"))
      other.fields[.cookie] = "a=1; b=2"
      #expect(cache.store(stored, for: other, in: session))
      #expect(try await session.data(for: other).0 == stored.data && server.requestCount == 1)
    }
  }

  @Test func everyFaceIsAnsweredFromMemory() async throws {
    let bytes = PatternBody.bytes(1_000_000)
    try await withCache { request, connection in
      try connection.respond(fields: Self.fresh, body: bytes)
    } _: { session, server, _ in
      let url = server.url("/a")
      #expect(try await Array(session.data(from: url).0) == bytes)
      let (data, response) = try await session.data(from: url)
      #expect(Array(data) == bytes)
      #expect(response.metrics.transactions.map(\.fetchType) == [.localCache])
      #expect(response.metrics.transactions.last?.requestStart == nil)
      var streamed: [UInt8] = []
      for try await chunk in try await session.bytes(for: Request(url)).0.chunks { streamed += chunk }
      #expect(streamed == bytes)
      let done = AsyncStream<[UInt8]>.makeStream()
      session.data(for: try Request(url)) { result in
        done.continuation.yield((try? result.get()).map { Array($0.0) } ?? [])
        done.continuation.finish()
      }
      for await body in done.stream { #expect(body == bytes) }
      #expect(server.requestCount == 1)
      // Downloads ask for the body as it is, which is another representation.
      for _ in 0..<2 {
        let file = try await session.download(for: Request(url))
        #expect(TextFile.bytes(file.path) == bytes)
        #expect(unsafe unlink(file.path) == 0)
      }
      #expect(server.requestCount == 2)
    }
  }

  /// Each completion starts the next request: none runs within the one before.
  @Test func completionsDoNotPileUp() async throws {
    try await withCache { _, connection in
      try connection.respond(fields: Self.fresh, text: "x")
    } _: { session, server, _ in
      let request = try Request(server.url())
      _ = try await session.data(for: request)
      let done = AsyncStream<Int>.makeStream()
      @Sendable func next(_ left: Int) {
        guard left > 0 else { return done.continuation.finish() }
        session.data(for: request) { result in
          done.continuation.yield((try? result.get())?.0.count ?? 0)
          next(left - 1)
        }
      }
      next(5000)
      var sum = 0
      for await count in done.stream { sum += count }
      #expect(sum == 5000 && server.requestCount == 1)
    }
  }

  @Test func aRedirectIsStoredToo() async throws {
    try await withCache { request, connection in
      if request.path == "/old" {
        try connection.respond(
          301, fields: ["Cache-Control": "max-age=1000", "Location": "/new"], text: "moved")
      } else {
        try connection.respond(fields: Self.fresh, text: "new")
      }
    } _: { session, server, _ in
      for _ in 0..<3 {
        let (text, response) = try await session.text(server.url("/old"))
        #expect(text == "new" && response.redirects.count == 1)
      }
      #expect(server.requestCount == 2)
    }
  }

  @Test func halfABodyIsNotStored() async throws {
    let latch = try Latch()
    try await withCache { request, connection in
      try connection.begin(200, fields: Self.fresh, framing: .length(1000))
      try connection.write([UInt8](repeating: 1, count: 500))
      if request.path == "/cut" { return connection.abort() }
      _ = latch.wait(seconds: 60)
      try connection.write([UInt8](repeating: 1, count: 500))
      try connection.finish()
    } _: { session, server, cache in
      try await expectFailure(.truncatedResponse) { try await session.data(from: server.url("/cut")) }
      let reader = Task { try await session.data(from: server.url("/cancelled")) }
      #expect(await eventually { server.requestCount == 2 })
      reader.cancel()
      _ = try? await reader.value
      latch.release()
      for path in ["/cut", "/cancelled"] {
        #expect(await cache.cachedResponse(for: try Request(server.url(path))) == nil)
      }
    }
  }

  @Test func concurrentMissesAreMergedOnRequest() async throws {
    let latch = try Latch()
    try await withCache(configure: { $0.mergesCacheMisses = true }) { request, connection in
      _ = latch.wait(seconds: 60)
      try connection.respond(
        fields: request.path == "/kept" ? Self.fresh : ["Cache-Control": "no-store"], text: request.path)
    } _: { session, server, _ in
      for (path, expected) in [("/kept", 1), ("/not", 9)] {
        let before = server.requestCount
        try await withThrowingTaskGroup(of: String.self) { group in
          for _ in 0..<8 { group.addTask { try await session.text(server.url(path)).0 } }
          let cancelled = Task { try await session.text(server.url(path)) }
          #expect(await eventually { server.requestCount > before })
          if path == "/kept" { cancelled.cancel() }
          latch.release()
          for try await text in group { #expect(text == path) }
          _ = try? await cancelled.value
        }
        #expect(server.requestCount - before <= expected + 1 && server.requestCount > before)
      }
    }
  }

  /// Answers when the test says so.
  private final class Undecided: SessionDataDelegate {
    let handledCallbacks: CallbackSet = .willCacheResponse
    let answers = Locked<[@Sendable () -> Void]>([])

    func session(
      _ session: Session, dataTask: DataTask, willCacheResponse proposedResponse: CachedResponse,
      completionHandler: @escaping @Sendable (CachedResponse?) -> Void
    ) {
      answers.withLock { $0.append { completionHandler(proposedResponse) } }
    }
  }

  /// Refuses whatever is to be stored.
  private final class Refusing: SessionDataDelegate {
    let handledCallbacks: CallbackSet = .willCacheResponse
    let isAsked = Locked(false)

    func session(
      _ session: Session, dataTask: DataTask, willCacheResponse proposedResponse: CachedResponse,
      completionHandler: @escaping @Sendable (CachedResponse?) -> Void
    ) {
      isAsked.withLock { $0 = true }
      completionHandler(nil)
    }
  }

  /// Answers with something else.
  private final class Changing: SessionDataDelegate {
    let handledCallbacks: CallbackSet = .willCacheResponse
    private let body: Data
    private let fields: [(String, String)]

    init(body: Data, fields: [(String, String)]) {
      self.body = body
      self.fields = fields
    }

    func session(
      _ session: Session, dataTask: DataTask, willCacheResponse proposedResponse: CachedResponse,
      completionHandler: @escaping @Sendable (CachedResponse?) -> Void
    ) {
      let head = try? ResponseHead(status: 200, fields: fields)
      let response = head.map { Response(head: $0, url: proposedResponse.response.parsedURL) }
      completionHandler(response.map { CachedResponse(response: $0, data: body) } ?? proposedResponse)
    }
  }

  /// Too large; no request is like any other; forbidden.
  @Test(arguments: zip([64 << 20, 3, 3], [("Age", "0"), ("Vary", "*"), ("Cache-Control", "no-store")]))
  func whatADelegateMakesUnstorableTakesAwayWhatIsStored(_ size: Int, _ field: (String, String)) async throws {
    try await withCache(configure: { _ in }, handler: Self.numbered()) { session, server, _ in
      #expect(try await session.text(server.url()).0 == "1")
      var reload = try Request(server.url())
      reload.cachePolicy = .reloadIgnoringLocalCacheData
      let delegate = Changing(body: Data(count: size), fields: [("Cache-Control", "max-age=1000"), field])
      let task = session.dataTask(with: reload)
      task.delegate = delegate
      task.resume()
      let isForgotten = try await eventually { try await session.text(server.url()).0 == "3" }
      #expect(isForgotten)
    }
  }

  /// What a delegate refuses would have taken the place of what is stored, which is no answer any more.
  @Test func whatADelegateRefusesTakesAwayWhatIsStored() async throws {
    try await withCache(configure: { _ in }, handler: Self.numbered()) { session, server, _ in
      #expect(try await session.text(server.url()).0 == "1")
      var reload = try Request(server.url())
      reload.cachePolicy = .reloadIgnoringLocalCacheData
      let delegate = Refusing()
      let task = session.dataTask(with: reload)
      task.delegate = delegate
      task.resume()
      let isForgotten = try await eventually { try await session.text(server.url()).0 == "3" }
      #expect(isForgotten && delegate.isAsked.withLock { $0 })
    }
  }

  /// Answers with the number of the answer.
  private static func numbered() -> LoopbackServer.Handler {
    let count = Locked(0)
    return { _, connection in
      let number = count.withLock { count in
        count += 1
        return count
      }
      try connection.respond(fields: fresh, text: "\(number)")
    }
  }

  /// A delegate that does not say whether a response may be stored holds up its own task, and nobody else for long.
  @Test func aMergedMissDoesNotWaitForADelegate() async throws {
    try await withCache(configure: { $0.mergesCacheMisses = true }, handler: Self.numbered()) { session, server, _ in
      let delegate = Undecided()
      for (number, path) in ["/a", "/alone"].enumerated() {
        let leader = session.dataTask(with: try Request(server.url(path)))
        leader.delegate = delegate
        leader.resume()
        #expect(await eventually { delegate.answers.withLock { $0.count } == number + 1 })
      }
      var request = try Request(server.url("/a"))
      request.timeoutInterval = .seconds(10)
      try await session.expect("3", from: request)
      // Of what that one has stored there is nothing left to wait for, and a late word puts nothing older in its place.
      for answer in delegate.answers.withLock({ $0 }) { answer() }
      try await session.expect("3", from: request)
      // Where nobody has fetched anything since, it counts.
      try await session.expect("2", from: server.url("/alone"))
      #expect(server.requestCount == 3)
    }
  }

  /// Without merging as well: what was asked for first and is allowed last does not take the place of what came in between, be that in memory or in a
  /// file alone.
  @Test(arguments: [false, true]) func aLateWordStoresNothingOlder(_ isInFiles: Bool) async throws {
    let scratch = try ScratchDirectory()
    let path = scratch.path + "/cache"
    let cache = isInFiles ? try ResponseCache(memoryCapacity: 0, directory: path) : ResponseCache()
    try await withCache(cache, handler: Self.numbered()) { session, server, _ in
      let delegate = Undecided()
      let first = session.dataTask(with: try Request(server.url("/a")))
      first.delegate = delegate
      first.resume()
      #expect(await eventually { delegate.answers.withLock { $0.count } == 1 })
      try await session.expect("2", from: server.url("/a"))
      await cache.flush()
      for answer in delegate.answers.withLock({ $0 }) { answer() }
      try await session.expect("2", from: server.url("/a"))
      #expect(server.requestCount == 2)
    }
    await cache.flush()
    try CacheFolder.remove(path)
  }

  @Test func theDelegateDecidesWhatIsStored() async throws {
    final class Delegate: SessionDataDelegate {
      let bodies = Locked<[String]>([])
      let ends = Locked(0)

      func session(
        _ session: Session, dataTask: DataTask, willCacheResponse proposedResponse: CachedResponse,
        completionHandler: @escaping @Sendable (CachedResponse?) -> Void
      ) {
        let body = String(decoding: proposedResponse.data, as: UTF8.self)
        bodies.withLock { $0.append(body) }
        var changed = proposedResponse
        changed.data = Data("changed".utf8)
        completionHandler(body == "/veto" ? nil : changed)
      }

      func session(_ session: Session, task: SessionTask, didCompleteWithError error: SessionError?) {
        ends.withLock { $0 += 1 }
      }
    }
    try await withCache { request, connection in
      try connection.respond(fields: Self.fresh, text: request.path)
    } _: { session, server, _ in
      let delegate = Delegate()
      for path in ["/veto", "/changed"] {
        let task = session.dataTask(with: try Request(server.url(path)))
        task.delegate = delegate
        task.resume()
      }
      let isOver = await eventually { delegate.ends.withLock { $0 } == 2 }
      #expect(isOver)
      #expect(delegate.bodies.withLock { $0.sorted() } == ["/changed", "/veto"])
      #expect(try await session.text(server.url("/veto")).0 == "/veto")
      let isChanged = try await eventually { try await session.text(server.url("/changed")).0 == "changed" }
      #expect(isChanged)
    }
  }

  /// Neither a response that says `no-store`, nor what credentials or cookies have brought, nor those themselves.
  @Test func secretsLeaveNoTraceOnTheDisk() async throws {
    let scratch = try ScratchDirectory()
    let path = scratch.path + "/cache"
    let cache = try ResponseCache(directory: path)
    try await withCache(cache) { request, connection in
      let fields: ServerFields =
        switch request.path {
        case "/store": ["Cache-Control": "no-store, max-age=100"]
        case "/vary": ["Cache-Control": "max-age=100", "Vary": "Cookie"]
        case "/marked": ["Cache-Control": "max-age=100", "Vary": "X-Key"]
        case "/keyed": ["Cache-Control": "max-age=100", "Vary": "X-Api-Key"]
        default: ["Cache-Control": "max-age=100", "Set-Cookie": "secret=hidden"]
        }
      try connection.respond(fields: fields, text: request.path == "/cookie" ? "plain" : "hidden")
    } _: { session, server, _ in
      for name in ["/store", "/vary", "/auth", "/marked", "/keyed", "/cookie"] {
        var request = try Request(server.url(name))
        if name == "/auth" { request.fields[.authorization] = "Bearer hidden" }
        if name == "/vary" { request.fields[.cookie] = "a=hidden" }
        if name == "/keyed", let key = HTTPField.Name("X-Api-Key") { request.fields[key] = "hidden" }
        if name == "/marked", let key = HTTPField.Name("X-Key") {
          request.fields[key] = "hidden"
          request.sensitiveFields = [key]
        }
        _ = try await session.data(for: request)
      }
      await cache.flush()
      let files = try CacheFolder.files(path)
      #expect(files.count == 1)
      for file in files { #expect(!String(decoding: TextFile.bytes(file), as: UTF8.self).contains("hidden")) }
    }
    try CacheFolder.remove(path)
  }

  /// A request that takes the place of the task's own has marks of its own, for the cache and for archives.
  @Test func secretsOfADelegatesRequestLeaveNoTrace() async throws {
    final class Delegate: SessionTaskDelegate {
      let key: HTTPField.Name

      init(_ key: HTTPField.Name) { self.key = key }

      func session(
        _ session: Session, task: SessionTask, willPerformHTTPRedirection response: Response,
        newRequest request: Request, completionHandler: @escaping @Sendable (Request?) -> Void
      ) {
        var answer = request
        answer.fields[key] = "hidden"
        answer.sensitiveFields = [key]
        completionHandler(answer)
      }
    }
    let scratch = try ScratchDirectory()
    let path = scratch.path + "/cache"
    let cache = try ResponseCache(directory: path)
    let delegate = Delegate(try #require(HTTPField.Name("X-Key")))
    try await withCache(cache) { request, connection in
      let next = request.path == "/lost" ? "/cut" : "/vary"
      switch request.path {
      case "/vary":
        try connection.respond(fields: ["Cache-Control": "max-age=100", "Vary": "X-Key"], text: "x")
      case "/cut": connection.abort(reset: true)
      default: try connection.respond(302, fields: ["Location": next, "Cache-Control": "no-store"])
      }
    } _: { session, server, _ in
      var archive = HTTPArchive()
      let request = try Request(server.url("/start"))
      let (body, response) = try await session.data(for: request, delegate: delegate)
      archive.append(request, response: response, body: body)
      let lost = try Request(server.url("/lost"))
      let error = try await failure { try await session.data(for: lost, delegate: delegate) }
      archive.append(lost, error: error)
      let secrets = server.recordedRequests.filter { $0.fields.first("X-Key") == "hidden" }
      #expect(secrets.map(\.path).prefix(2) == ["/vary", "/cut"])
      let text = String(decoding: archive.json(), as: UTF8.self)
      #expect(text.contains("X-Key") && !text.contains("hidden"))
      await cache.flush()
      for file in try CacheFolder.files(path) {
        #expect(!String(decoding: TextFile.bytes(file), as: UTF8.self).contains("hidden"))
      }
    }
    try CacheFolder.remove(path)
  }
}
