import FoundationEssentials
import HTTPTypes
import LupineBase
import LupineSession
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
}
