import FoundationEssentials
import HTTPTypes
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// Whom a stored response may answer.
@Suite struct CacheSharingTests {
  private static let fresh: ServerFields = ["Cache-Control": "max-age=1000"]

  /// A response that changes the jar is stored under the cookies that it was asked for with: neither without cookies, nor with those that it has set,
  /// nor by another session, is anybody else answered with it.
  @Test(arguments: ["; Max-Age=0", "bob"]) func whatVariesByCookieIsForWhoAsked(_ successor: String) async throws {
    let server = try LoopbackServer { request, connection in
      let cookie = request.fields.first("Cookie") ?? "nobody"
      var fields: ServerFields = ["Cache-Control": "private, max-age=1000", "Vary": "Cookie"]
      if request.path == "/in" { fields = ["Set-Cookie": "sid=alice; Path=/", "Cache-Control": "no-store"] }
      if cookie == "sid=alice" { fields.append("Set-Cookie", "sid=\(successor); Path=/") }
      try connection.respond(fields: fields, text: "page of \(cookie)")
    }
    defer { server.shutdown() }
    let cache = ResponseCache()
    try await withSession(configure: { $0.responseCache = cache }) { session in
      _ = try await session.data(from: server.url("/in"))
      try await session.expect("page of sid=alice", from: server.url("/page"))
      let next = successor == "bob" ? "sid=bob" : "nobody"
      try await session.expect("page of \(next)", from: server.url("/page"))
      let fromMemory = try await session.expect("page of \(next)", from: server.url("/page"))
      #expect(fromMemory.metrics.transactions.map(\.fetchType) == [.localCache])
    }
    try await withSession(ports: [server.port], configure: { $0.responseCache = cache }) { session in
      try await session.expect("page of nobody", from: server.url("/page"))
    }
  }

  /// What is `private` is for who asked, by whatever of the request says who that is, though no `Vary` names it: another session with the same cache is
  /// not answered with it, and no file has it. What is not private is for all.
  @Test(arguments: ["jar", "Cookie", "X-Own-Key", "X-Api-Key"])
  func whatIsPrivateIsForWhoAsked(_ means: String) async throws {
    let server = try LoopbackServer { request, connection in
      let user = ["Cookie", "X-Own-Key", "X-Api-Key"].compactMap { request.fields.first($0) }.first ?? "nobody"
      let directives = request.path == "/page" ? "private, max-age=1000" : "max-age=1000"
      try connection.respond(fields: ["Cache-Control": directives], text: "\(request.path) of \(user)")
    }
    defer { server.shutdown() }
    let scratch = try ScratchDirectory()
    let path = scratch.path + "/cache"
    let cache = try ResponseCache(directory: path)
    let key = try #require(HTTPField.Name("X-Own-Key"))
    for user in ["u=alice", "u=bob"] {
      try await withSession(
        ports: [server.port],
        configure: {
          $0.responseCache = cache
          $0.sensitiveFields = [key]
        },
        { session in
          var request = try Request(server.url("/page"))
          switch means {
          case "jar": try session.configuration.cookieStorage?.setCookies(["\(user); Path=/"], from: server.url())
          case "Cookie": request.fields[.cookie] = user
          default: request.fields[try #require(HTTPField.Name(means))] = user
          }
          for _ in 0..<2 { try await session.expect("/page of \(user)", from: request) }
        })
    }
    #expect(server.requestCount == 2)
    await cache.flush()
    #expect(try CacheFolder.files(path) == [])
    try await withSession(ports: [server.port], configure: { $0.responseCache = cache }) { session in
      for user in ["u=alice", "u=bob"] {
        var request = try Request(server.url("/public"))
        request.fields[.cookie] = user
        try await session.expect("/public of u=alice", from: request)
      }
    }
    await cache.flush()
    #expect(try CacheFolder.files(path).count == 1)
    try CacheFolder.remove(path)
  }

  /// What came for one key is for that alone, as it is for `Authorization`, unless the response says that it is for all.
  @Test(arguments: ["X-Api-Key", "X-Own-Key"]) func whatCameForAKeyIsForThat(_ field: String) async throws {
    let server = try LoopbackServer { request, connection in
      let directives = request.path == "/open" ? "public, max-age=1000" : "max-age=1000"
      let user = request.fields.first(field) ?? "nobody"
      try connection.respond(fields: ["Cache-Control": directives], text: "\(request.path) of \(user)")
    }
    defer { server.shutdown() }
    let scratch = try ScratchDirectory()
    let path = scratch.path + "/cache"
    let cache = try ResponseCache(directory: path)
    let name = try #require(HTTPField.Name(field))
    let own = try #require(HTTPField.Name("X-Own-Key"))
    try await withSession(
      ports: [server.port],
      configure: {
        $0.responseCache = cache
        $0.sensitiveFields = [own]
      },
      { session in
        for user in ["alice", "bob"] {
          var request = try Request(server.url("/page"))
          request.fields[name] = user
          for _ in 0..<2 { try await session.expect("/page of \(user)", from: request) }
        }
        try await session.expect("/page of nobody", from: server.url("/page"))
        #expect(server.requestCount == 3)
        // What came for nobody is not for a key either.
        var request = try Request(server.url("/page"))
        request.fields[name] = "alice"
        try await session.expect("/page of alice", from: request)
        #expect(server.requestCount == 4)
        for user in ["alice", "bob"] {
          var request = try Request(server.url("/open"))
          request.fields[name] = user
          try await session.expect("/open of alice", from: request)
        }
      })
    #expect(server.requestCount == 5)
    await cache.flush()
    var kept = ""
    for file in try CacheFolder.files(path) {
      kept += String(decoding: try Data(contentsOf: URL(fileURLWithPath: file)), as: UTF8.self)
    }
    #expect(kept.contains("/open of alice") && !kept.contains("/page of alice") && !kept.contains("/page of bob"))
    try CacheFolder.remove(path)
  }

  /// Answers the same to everybody.
  private final class Decider: SessionDelegate {
    let handledCallbacks: CallbackSet = .sessionChallenge
    private let disposition: ConnectionChallengeDisposition

    init(_ disposition: ConnectionChallengeDisposition) { self.disposition = disposition }

    func session(
      _ session: Session, didReceive challenge: ConnectionChallenge,
      completionHandler: @escaping @Sendable (ConnectionChallengeDisposition) -> Void
    ) {
      completionHandler(disposition)
    }
  }

  /// What one delegate let in does not answer where another one decides, nor the next process; nor the same one after `flush()`.
  @Test func whatADelegateLetInIsOfItsSession() async throws {
    let server = try LoopbackServer(tls: try TestIdentity.server()) { _, connection in
      try connection.respond(fields: Self.fresh, text: "x")
    }
    defer { server.shutdown() }
    let scratch = try ScratchDirectory()
    let path = scratch.path + "/cache"
    let cache = try ResponseCache(directory: path)
    var configuration = SessionConfiguration.ephemeral
    configuration.responseCache = cache
    let trusting = try Session(configuration, delegate: Decider(.trustServer))
    let distrusting = try Session(configuration, delegate: Decider(.reject))
    defer {
      trusting.invalidateAndCancel()
      distrusting.invalidateAndCancel()
    }
    for _ in 0..<2 { try await trusting.expect("x", from: server.url()) }
    #expect(server.requestCount == 1)
    try await expectFailure(.serverCertificateUntrusted) { try await distrusting.data(from: server.url()) }
    await cache.flush()
    #expect(try CacheFolder.files(path) == [])
    trusting.flush()
    try await trusting.expect("x", from: server.url())
    #expect(server.requestCount == 2)
    try CacheFolder.remove(path)
  }

  /// Numbers what it is asked for; a PUT is told of, and answered when the test says so.
  private func changing(_ isAsked: Latch, _ goOn: Latch) -> LoopbackServer.Handler {
    let count = Locked(0)
    return { request, connection in
      guard request.method != "PUT" else {
        isAsked.release()
        _ = goOn.wait(seconds: 60)
        return try connection.respond(fields: ["Cache-Control": "no-store"], text: "put")
      }
      let number = count.withLock { count in
        count += 1
        return count
      }
      try connection.respond(fields: Self.fresh, text: "\(number)")
    }
  }

  /// What is stored when a PUT is answered is forgotten, though it is stored elsewhere than the PUT was asked for, since `flush()`.
  @Test func aPutForgetsWhatIsStoredSinceAFlush() async throws {
    let (isAsked, goOn) = try (Latch(), Latch())
    let server = try LoopbackServer(tls: try TestIdentity.server(), handler: changing(isAsked, goOn))
    defer { server.shutdown() }
    var configuration = SessionConfiguration.ephemeral
    configuration.responseCache = ResponseCache()
    let session = try Session(configuration, delegate: Decider(.trustServer))
    defer { session.invalidateAndCancel() }
    let put = Task { try await session.text(Request(server.url(), method: .put)).0 }
    #expect(await eventually { isAsked.isReleased })
    session.flush()
    for _ in 0..<2 { try await session.expect("1", from: server.url()) }
    goOn.release()
    #expect(try await put.value == "put")
    try await session.expect("2", from: server.url())
  }

  /// So is what a session finds again once it is settled who decides, though the PUT was asked for and answered before that.
  @Test func aPutForgetsWhatIsFoundAfterAChangeOfTrust() async throws {
    let (isAsked, goOn) = try (Latch(), Latch())
    goOn.release()
    let server = try LoopbackServer(handler: changing(isAsked, goOn))
    defer { server.shutdown() }
    try await withSession(ports: [server.port], configure: { $0.responseCache = ResponseCache() }) { session in
      for _ in 0..<2 { try await session.expect("1", from: server.url()) }
      let put = try Request(server.url(), method: .put)
      let isOver = try Latch()
      session.changeTrust {
        session.data(for: put) { _ in isOver.release() }
        _ = isOver.wait(seconds: 60)
      }
      #expect(isAsked.isReleased && isOver.isReleased)
      try await session.expect("2", from: server.url())
    }
  }

  /// A network that the caller has made trusts as its own configuration says: not as the session's.
  @Test func aNetworkOfTheCallersHasItsOwnRules() async throws {
    let server = try LoopbackServer(tls: try TestIdentity.server()) { _, connection in
      try connection.respond(fields: Self.fresh, text: "x")
    }
    defer { server.shutdown() }
    let cache = ResponseCache()
    var lax = SessionConfiguration()
    lax.tls.verifiesServer = false
    let network = try NetworkTransport(lax)
    try await withSession(configure: {
      $0.responseCache = cache
      $0.tls = TLSConfiguration()
      $0.transport = network
    }) { session in
      for _ in 0..<2 { try await session.expect("x", from: server.url()) }
      #expect(server.requestCount == 1)
    }
    try await withSession(
      ports: [server.port],
      configure: {
        $0.responseCache = cache
        $0.tls = TLSConfiguration()
      },
      { session in
        try await expectFailure(.serverCertificateUntrusted) { try await session.data(from: server.url()) }
      })
  }

  /// Revocation lists and versions decide about trust as well.
  @Test func listsOfRevokedCertificatesArePartOfTheKey() async throws {
    let server = try LoopbackServer(tls: try TestIdentity.server()) { _, connection in
      try connection.respond(fields: Self.fresh, text: "x")
    }
    defer { server.shutdown() }
    let cache = ResponseCache()
    try await withSession(ports: [server.port], configure: { $0.responseCache = cache }) { session in
      for _ in 0..<2 { try await session.expect("x", from: server.url()) }
      #expect(server.requestCount == 1)
    }
    try await withSession(
      ports: [server.port],
      configure: {
        $0.responseCache = cache
        $0.tls.revocationListPath = "/nowhere"
      },
      { session in
        _ = try await failure { try await session.data(from: server.url()) }
      })
  }

  /// The methods for programs meet what a session stores, if they are told which.
  @Test func theCacheIsAskedForASession() async throws {
    let server = try LoopbackServer { _, connection in try connection.respond(fields: Self.fresh, text: "x") }
    defer { server.shutdown() }
    let cache = ResponseCache()
    try await withSession(ports: [server.port], configure: { $0.responseCache = cache }) { session in
      let request = try Request(server.url())
      try await session.expect("x", from: request)
      // Its roots are not the default ones.
      #expect(await cache.cachedResponse(for: request) == nil)
      var stored = try #require(await cache.cachedResponse(for: request, in: session))
      #expect(stored.data == Data("x".utf8))
      stored.data = Data("y".utf8)
      cache.store(stored, for: request, in: session)
      try await session.expect("y", from: request)
      cache.remove(for: request)
      try await session.expect("y", from: request)
      #expect(server.requestCount == 1)
      cache.remove(for: request, in: session)
      try await session.expect("x", from: request)
      #expect(server.requestCount == 2)
    }
  }

  /// A `Host` of the caller's own names another resource than the URL: what is stored of that is no answer, nor is the
  /// answer stored in its place.
  @Test func anotherHostIsAnotherResource() async throws {
    let server = try LoopbackServer { request, connection in
      try connection.respond(fields: Self.fresh, text: request.fields.first("Host") ?? "none")
    }
    defer { server.shutdown() }
    try await withSession(ports: [server.port], configure: { $0.responseCache = ResponseCache() }) { session in
      let name = try #require(HTTPField.Name("Host"))
      for host in ["a.example", "b.example", "a.example"] {
        var request = try Request(server.url())
        request.fields[name] = host
        let response = try await session.expect(host, from: request)
        #expect(response.metrics.transactions.map(\.fetchType) == [.networkLoad])
      }
      #expect(server.requestCount == 3)
      // That of the URL, said or not, is the resource of the URL.
      let own = "127.0.0.1:\(server.port)"
      try await session.expect(own, from: server.url())
      var request = try Request(server.url())
      request.fields[name] = own
      try await session.expect(own, from: request)
      #expect(server.requestCount == 4)
    }
  }

  /// What is asked behind an answer is asked by who was answered: with the cookies that the response was found with,
  /// though others are in the jar by the time that it is sent.
  @Test func theQuestionBehindAnAnswerKeepsItsCookies() async throws {
    let server = try LoopbackServer { request, connection in
      let fields: ServerFields = [
        "Cache-Control": "private, max-age=0, stale-while-revalidate=1000", "Vary": "Cookie", "ETag": "\"1\"",
        "Age": "1",
      ]
      try connection.respond(fields: fields, text: "page of \(request.fields.first("Cookie") ?? "nobody")")
    }
    defer { server.shutdown() }
    try await withSession(ports: [server.port], configure: { $0.responseCache = ResponseCache() }) { session in
      let jar = try #require(session.configuration.cookieStorage)
      let url = server.url()
      try jar.setCookies(["sid=alice; Path=/"], from: url)
      try await session.expect("page of sid=alice", from: url)
      // The engine stands still: what is in memory is found all the same, and nothing is sent.
      let (isHeld, goOn) = try (Latch(), Latch())
      session.onEngine {
        isHeld.release()
        _ = goOn.wait(seconds: 60)
      }
      #expect(await eventually { isHeld.isReleased })
      let answer = Locked<String?>(nil)
      session.data(for: try Request(url)) { result in
        let text = (try? result.get()).map { String(decoding: $0.0, as: UTF8.self) } ?? "failed"
        answer.withLock { $0 = text }
      }
      try jar.setCookies(["sid=bob; Path=/"], from: url)
      goOn.release()
      #expect(await eventually { answer.withLock { $0 != nil } })
      #expect(answer.withLock { $0 } == "page of sid=alice")
      #expect(await eventually { server.requestCount == 2 })
      #expect(server.recordedRequests.map { $0.fields.first("Cookie") } == ["sid=alice", "sid=alice"])
      try await session.expect("page of sid=bob", from: url)
    }
  }
}
