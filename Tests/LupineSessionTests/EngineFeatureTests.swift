import FoundationEssentials
import Glibc
import LupineBase
import LupineRules
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// What a session does beside sending requests, on each of its engines.
@Suite(.timeLimit(.minutes(5))) struct EngineFeatureTests {
  private static func spread(_ configuration: inout SessionConfiguration) {
    configuration.engine = .several(3, spreading: true)
  }

  /// The list of public suffixes is not there yet when each engine has a cookie; each is kept before its redirect is followed, on another engine.
  @Test func cookiesAreKeptBeforeRedirectsAreFollowed() async throws {
    let isThere = try Latch()
    let asked = Locked(0)
    let jar = CookieStorage {
      asked.withLock { $0 += 1 }
      _ = isThere.wait(seconds: 60)
      let list: [UInt8] = Array("com\n".utf8)
      return PublicSuffixList(reading: list.span)
    }
    let routes = [
      ServerRoute(nil, "/from") { _, connection in
        try connection.respond(302, fields: ["Location": "/to", "Set-Cookie": "a=1"], text: "moved")
      },
      ServerRoute(nil, "/to") { request, connection in
        try connection.respond(text: request.fields.first("Cookie") ?? "none")
      },
    ]
    try await withServer(
      routes,
      configure: {
        Self.spread(&$0)
        $0.cookieStorage = jar
        // More than those that wait for the list.
        $0.maximumConnectionsPerHost = 12
      }
    ) { session, server in
      let tasks = (0..<6).map { _ in Task { try await session.text(server.url("/from")).0 } }
      #expect(await eventually { server.requestCount == 6 })
      #expect(await eventually { asked.withLock { $0 } == 1 })
      // The engines do not wait for it.
      try await session.expect("none", from: server.url("/to"))
      isThere.release()
      for task in tasks { #expect(try await task.value == "a=1") }
      #expect(server.requestCount == 13)
    }
  }

  /// What one engine has fetched is served to all; what has to be asked about is asked about on each that has a connection.
  @Test(arguments: [(true, 3), (false, 1)])
  func storedResponsesAreServed(_ spreads: Bool, _ connections: Int) async throws {
    let routes = [
      ServerRoute(nil, "/fresh") { _, connection in
        try connection.respond(fields: ["Cache-Control": "max-age=1000"], text: "fresh")
      },
      ServerRoute(nil, "/asked") { request, connection in
        let fields: ServerFields = ["Cache-Control": "no-cache", "ETag": "\"1\""]
        if request.fields.first("If-None-Match") != nil { return try connection.respond(304, fields: fields) }
        try connection.respond(fields: fields, text: "asked")
      },
    ]
    try await withServer(
      routes,
      configure: {
        $0.engine = .several(3, spreading: spreads)
        $0.responseCache = ResponseCache(memoryCapacity: 1 << 20)
      }
    ) { session, server in
      for _ in 0..<9 {
        try await session.expect("fresh", from: server.url("/fresh"))
        try await session.expect("asked", from: server.url("/asked"))
      }
      #expect(server.recordedRequests.count { $0.path == "/fresh" } == 1)
      #expect(server.recordedRequests.count { $0.fields.first("If-None-Match") != nil } == 8)
      #expect(server.connectionCount == connections)
    }
  }

  /// What the cache answers takes no turn: else of two engines, with every second request answered from the cache, one would carry all others.
  @Test func answersOfTheCacheTakeNoTurn() async throws {
    let routes = [
      ServerRoute(nil, "/fresh") { _, connection in
        try connection.respond(fields: ["Cache-Control": "max-age=1000"], text: "fresh")
      },
      ServerRoute(nil, "/never") { _, connection in
        try connection.respond(fields: ["Cache-Control": "no-store"], text: "never")
      },
    ]
    try await withServer(
      routes,
      configure: {
        $0.engine = .several(2, spreading: true)
        $0.responseCache = ResponseCache(memoryCapacity: 1 << 20)
      }
    ) { session, server in
      try await session.expect("fresh", from: server.url("/fresh"))
      for _ in 0..<4 {
        try await session.expect("fresh", from: server.url("/fresh"))
        try await session.expect("never", from: server.url("/never"))
      }
      #expect(server.requestCount == 5 && server.connectionCount == 2)
      // The first one took a turn as well.
      let counts = [1, 2].map { number in server.recordedRequests.count { $0.connectionNumber == number } }
      #expect(counts == [3, 2])
    }
  }

  /// Who says which proxy a request goes through is asked once for each, behind a cache too, and what he says is what is done.
  @Test(arguments: [false, true]) func proxiesAreChosenOnce(_ spreads: Bool) async throws {
    let questions = Locked(0)
    let server = try LoopbackServer { request, connection in
      try connection.respond(
        fields: ["Cache-Control": "no-store"], text: request.target.hasPrefix("http://") ? "proxy" : "origin")
    }
    defer { server.shutdown() }
    let proxy = try Proxy("http://127.0.0.1:\(server.port)")
    try await withSession(
      ports: [server.port],
      configure: {
        $0.engine = .several(2, spreading: spreads)
        $0.responseCache = ResponseCache(memoryCapacity: 1 << 20)
        $0.proxy = .choose { _ in
          let number = questions.withLock { count in
            count += 1
            return count
          }
          return number % 2 == 0 ? proxy : nil
        }
      }
    ) { session in
      for number in 1...8 {
        try await session.expect(number % 2 == 0 ? "proxy" : "origin", from: server.url("/\(number)"))
      }
      #expect(questions.withLock { $0 } == 8)
    }
  }

  @Test func downloadsArrive() async throws {
    try await withServer(configure: Self.spread) { session, server in
      let request = try Request(server.url("/bytes?n=300000"))
      try await withThrowingTaskGroup(of: Bool.self) { group in
        for _ in 0..<12 {
          group.addTask {
            let (path, _) = try await session.download(for: request)
            defer { unsafe unlink(path) }
            let bytes = TextFile.bytes(path)
            return bytes.count == 300_000 && PatternBody.matches(bytes, from: 0)
          }
        }
        for try await isRight in group { #expect(isRight) }
      }
      #expect(server.connectionCount <= 6)
    }
  }

  /// Streams are pulled from by every engine.
  @Test func bodiesAreSent() async throws {
    try await withServer(configure: Self.spread) { session, server in
      let body = PatternBody.bytes(200_000)
      let request = try Request(server.url("/echo"), method: .put)
      let chunks = (0..<20).map { Array(body[$0 * 10_000..<($0 + 1) * 10_000]) }
      try await withThrowingTaskGroup(of: Bool.self) { group in
        for _ in 0..<9 {
          group.addTask {
            let stream = AsyncStream<[UInt8]> { continuation in
              for chunk in chunks { continuation.yield(chunk) }
              continuation.finish()
            }
            let (echo, _) = try await session.upload(for: request, from: stream)
            return echo.count == 200_000 && PatternBody.matches(echo, from: 0)
          }
        }
        for try await isRight in group { #expect(isRight) }
      }
    }
  }

  /// Pins hold for the connections of every engine.
  @Test func pinsHold() async throws {
    let identity = try TestIdentity.authority.get().issue()
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: ServerTLS(identity))
    defer { server.shutdown() }
    let pin = try identity.publicKeySHA256()
    for (pin, isRight) in [(pin, true), ([UInt8](repeating: 7, count: 32), false)] {
      try await withSession(
        ports: [server.port],
        configure: {
          Self.spread(&$0)
          $0.tls.publicKeyPins = [pin]
        }
      ) { session in
        for _ in 0..<6 {
          if isRight {
            try await session.expect("Hello, world!", from: server.url("/hello"))
          } else {
            try await expectFailure(.serverCertificateUntrusted) { try await session.data(from: server.url("/hello")) }
          }
        }
        #expect(server.requestCount == 6)
      }
    }
  }

  private final class Judge: SessionDelegate {
    let handledCallbacks: CallbackSet = .sessionChallenge
    let questions = Locked(0)
    private let disposition: ConnectionChallengeDisposition

    init(_ disposition: ConnectionChallengeDisposition) { self.disposition = disposition }

    func session(
      _ session: Session, didReceive challenge: ConnectionChallenge,
      completionHandler: @escaping @Sendable (ConnectionChallengeDisposition) -> Void
    ) {
      questions.withLock { $0 += 1 }
      let disposition = disposition
      // From a thread that is nobody's.
      Task.detached { completionHandler(disposition) }
    }
  }

  /// A delegate is asked for each engine, and its word reaches the connection of that one; it is forgotten on all at a reset.
  @Test func delegatesDecideForEachEngine() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: try TestIdentity.server())
    defer { server.shutdown() }
    var configuration = SessionConfiguration.ephemeral
    Self.spread(&configuration)
    configuration.tls.roots = .certificates([])
    let trusting = Judge(.trustServer)
    let session = try Session(configuration, delegate: trusting)
    defer { session.invalidateAndCancel() }
    for round in 1...2 {
      for _ in 0..<6 { try await session.expect("Hello, world!", from: server.url("/hello")) }
      #expect(trusting.questions.withLock { $0 } == 3 * round)
      session.flush()
    }
    let refusing = Judge(.reject)
    let other = try Session(configuration, delegate: refusing)
    defer { other.invalidateAndCancel() }
    for _ in 0..<3 {
      try await expectFailure(.serverCertificateUntrusted) { try await other.data(from: server.url("/hello")) }
    }
    #expect(refusing.questions.withLock { $0 } == 3)
  }
}
