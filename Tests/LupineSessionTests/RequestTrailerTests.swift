import FoundationEssentials
import HTTPTypes
import LupineBase
import LupineRules
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// Fields behind the body of a request, over real connections.
@Suite(.timeLimit(.minutes(5))) struct RequestTrailerTests {
  private static let sum = HTTPField.Name("X-Sum") ?? .eTag
  private static let attempt = HTTPField.Name("X-Attempt") ?? .eTag
  private static let bytes = PatternBody.bytes(25_000)
  private static let total = bytes.reduce(0) { $0 + Int($1) }

  struct Failure: Error {}

  /// What must have followed the body of the attempt of that number.
  private static func trailers(_ number: Int) -> ServerFields { ["X-Sum": "\(total)", "X-Attempt": "\(number)"] }

  /// A stream of the bytes that ends with their sum, worked out while they pass.
  private static func summed(_ number: Int) -> BodyStream {
    let sum = Locked(0)
    let chunks = stride(from: 0, to: bytes.count, by: 10_000).map { Array(bytes[$0..<min(bytes.count, $0 + 10_000)]) }
    return BodyStream(chunks)
      .observed(by: { chunk in sum.withLock { sum in for byte in chunk { sum += Int(byte) } } })
      .withTrailers { [Self.sum: "\(sum.withLock { $0 })", Self.attempt: "\(number)"] }
  }

  /// A request with such a stream, made anew for each attempt.
  private static func request(
    _ url: String, _ method: HTTPRequest.Method = .post, length: Int64? = nil
  ) throws -> Request {
    let made = Counter()
    var request = try Request(
      url, method: method, body: .stream(length: length, isReplayable: true) { summed(made.next() + 1) })
    request.trailerNames = [sum, attempt]
    return request
  }

  // MARK: On the wire

  @Test(arguments: [false, true], [nil, 25_000] as [Int64?]) func followTheBody(
    _ isSecure: Bool, _ length: Int64?
  ) async throws {
    try await withServer(isSecure: isSecure) { session, server in
      let (answer, _) = try await session.data(for: Self.request(server.url("/echo"), length: length))
      #expect(Array(answer) == Self.bytes)
      // The connection goes on.
      #expect(try await session.text(server.url("/hello")).1.wasReused)
      let recorded = try #require(server.recordedRequests.first)
      #expect(recorded.trailers == Self.trailers(1))
      #expect(recorded.fields.values("Trailer") == ["X-Sum, X-Attempt"])
      #expect(recorded.fields.values("Transfer-Encoding") == ["chunked"])
      #expect(recorded.fields.first("Content-Length") == nil && recorded.bodyIsComplete)
    }
  }

  /// What is no stream becomes one, an empty body too.
  @Test func anyBodyCanHaveThem() async throws {
    let directory = try ScratchDirectory()
    let path = try directory.write(Self.bytes, to: "file")
    let pieces: [Request.Body.Segment] = [
      .bytes([1]), .file(path: path, offset: 1), .stream(length: 1, isReplayable: true) { BodyStream([[2]]) },
    ]
    let nothing = AsyncStream<[UInt8]> { $0.finish() }
    let bodies: [(Request.Body, Int)] = [
      (.none, 0), (.bytes([]), 0), (.bytes([1, 2]), 2), (.file(path: path), 25_000), (.segments(pieces), 25_001),
      (.sequence(nothing), 0),
    ]
    try await withServer { session, server in
      for (body, _) in bodies {
        let sent = body.withTrailers { [Self.sum: "a", Self.attempt: "b"] }
        #expect(sent.isReplayable == body.isReplayable)
        var request = try Request(server.url("/upload"), method: .put, body: sent)
        request.trailerNames = [Self.attempt, Self.sum]
        _ = try await session.data(for: request)
      }
      let recorded = server.recordedRequests
      #expect(recorded.map(\.bodyLength) == bodies.map(\.1))
      let expected: ServerFields = ["X-Sum": "a", "X-Attempt": "b"]
      #expect(recorded.allSatisfy { $0.trailers == expected })
    }
  }

  /// One announcement goes to one request, and nothing that requests share has it.
  @Test func announcements() async throws {
    try await withServer { session, server in
      let shared = EncodedFields()
      for names in [[Self.sum], [], [Self.sum]] {
        var request = try Request(
          server.url("/upload"), method: .post, body: .stream(length: nil, isReplayable: true) { BodyStream([[1]]) })
        request.fields[.trailer] = "X-Other"
        request.encodedFields = shared
        request.trailerNames = names
        _ = try await session.data(for: request)
      }
      // Without a body nothing follows; one that only announces is complete.
      var bare = try Request(server.url("/upload"), method: .post)
      bare.trailerNames = [Self.sum]
      _ = try await session.data(for: bare)
      let recorded = server.recordedRequests
      #expect(recorded.map { $0.fields.values("Trailer") } == [["X-Sum"], ["X-Other"], ["X-Sum"], []])
      #expect(recorded.allSatisfy { $0.trailers.isEmpty && $0.bodyIsComplete })
    }
  }

  /// A length that is the body's is no contradiction, and not sent; another one is refused, as without trailers.
  @Test(arguments: [(3, true), (4, false)]) func ownLength(_ length: Int, _ isRight: Bool) async throws {
    try await withServer { session, server in
      var request = try Request(
        server.url("/upload"), method: .put, body: .bytes([1, 2, 3]).withTrailers { [Self.sum: "6"] })
      request.trailerNames = [Self.sum]
      request.fields[.contentLength] = "\(length)"
      guard isRight else {
        let error = try await failure { [request] in try await session.data(for: request) }
        #expect(!error.requestBytesSent && server.requestCount == 0)
        return
      }
      _ = try await session.data(for: request)
      let recorded = try #require(server.recordedRequests.first)
      #expect(recorded.fields.first("Content-Length") == nil && recorded.bodyLength == 3)
      #expect(recorded.trailers.first("X-Sum") == "6")
    }
  }

  // MARK: Again

  @Test(arguments: [307, 308], [false, true]) func redirectsHaveThemSentAgain(
    _ status: Int, _ crossesOrigin: Bool
  ) async throws {
    try await withServer { _, other in
      let location = crossesOrigin ? other.url("/echo") : "/echo"
      try await withServer(
        [
          ServerRoute("POST", "/from") { _, connection in
            _ = try connection.readBody()
            try connection.respond(status, fields: ["Location": location])
          }
        ] + ServerRoute.standard()
      ) { session, server in
        let (answer, _) = try await session.data(for: Self.request(server.url("/from")))
        #expect(Array(answer) == Self.bytes)
        #expect(server.recordedRequests.first?.trailers == Self.trailers(1))
        let last = try #require((crossesOrigin ? other : server).recordedRequests.last)
        #expect(last.trailers == Self.trailers(2) && last.fields.first("Trailer") == "X-Sum, X-Attempt")
      }
    }
  }

  @Test func redirectThatDropsTheBody() async throws {
    try await withServer(
      [
        ServerRoute("POST", "/from") { _, connection in
          _ = try connection.readBody()
          try connection.respond(303, fields: ["Location": "/hello"])
        }
      ] + ServerRoute.standard()
    ) { session, server in
      #expect(try await session.text(Self.request(server.url("/from"))).0 == "Hello, world!")
      let last = try #require(server.recordedRequests.last)
      #expect(last.method == "GET" && last.fields.first("Trailer") == nil)
    }
  }

  private static func guarded() -> ServerRoute {
    ServerRoute("PUT", "/guarded") { request, connection in
      _ = try connection.readBody()
      guard request.fields.first("Authorization") == nil else { return try connection.respond(text: "in") }
      try connection.respond(401, fields: ["WWW-Authenticate": "Basic realm=\"x\""])
    }
  }

  @Test func challengesHaveThemSentAgain() async throws {
    try await withServer([Self.guarded()]) { session, server in
      var request = try Self.request(server.url("/guarded"), .put)
      request.credential = .password(user: "u", password: "p")
      try await session.expect("in", from: request)
      #expect(server.recordedRequests.map(\.trailers) == [Self.trailers(1), Self.trailers(2)])
    }
  }

  /// Makes streams.
  private final class Maker: SessionTaskDelegate {
    let handledCallbacks: CallbackSet = .needNewBodyStream

    func session(
      _ session: Session, task: SessionTask,
      needNewBodyStream completionHandler: @escaping @Sendable (BodyStream?) -> Void
    ) {
      completionHandler(RequestTrailerTests.summed(7))
    }
  }

  @Test func delegatesStreamHasItsOwn() async throws {
    try await withServer([Self.guarded()]) { session, server in
      var request = try Self.request(server.url("/guarded"), .put)
      request.body = .stream(length: nil, isReplayable: false) { Self.summed(1) }
      request.credential = .password(user: "u", password: "p")
      let (answer, _) = try await session.data(for: request, delegate: Maker())
      #expect(String(decoding: answer, as: UTF8.self) == "in")
      #expect(server.recordedRequests.map(\.trailers) == [Self.trailers(1), Self.trailers(7)])
    }
  }

  /// A connection that had died is no reason to send less.
  @Test func lostConnectionsHaveThemSentAgain() async throws {
    try await withScript([
      [.readHead, .send(reply("first")), .readHead, .readBody, .close],
      [.readHead, .readBody, .send(reply("again")), .waitForClose],
    ]) { session, server in
      try await session.expect("first", from: server.url())
      try await session.expect("again", from: Self.request(server.url(), .put))
      #expect(server.recordedRequests.map(\.trailers) == [ServerFields(), Self.trailers(1), Self.trailers(2)])
    }
  }

  @Test(arguments: [false, true]) func expectationsHoldThemBack(_ isRefused: Bool) async throws {
    let answer: [ScriptStep] = [.readBody, .send(reply("taken")), .waitForClose]
    let scripts: [[ScriptStep]] =
      isRefused
      ? [[.readHead, .send("HTTP/1.1 417 No\r\nContent-Length: 3\r\n\r\nno!"), .waitForClose], [.readHead] + answer]
      : [[.readHead, .send("HTTP/1.1 100 Continue\r\n\r\n")] + answer]
    try await withScript(scripts, expectsProblems: isRefused, configure: { $0.continueTimeout = .seconds(100) }) {
      session, server in
      var request = try Self.request(server.url(), .put)
      request.expectsContinue = true
      try await session.expect("taken", from: request)
      let recorded = server.recordedRequests
      let expected: [String?] = isRefused ? ["100-continue", nil] : ["100-continue"]
      #expect(recorded.map { $0.fields.first("Expect") } == expected)
      #expect(recorded.allSatisfy { $0.fields.values("Trailer") == ["X-Sum, X-Attempt"] })
      #expect(recorded.last?.trailers == Self.trailers(1))
    }
  }

  // MARK: Refusals

  @Test func whatIsNotAnnounced() async throws {
    let marked = try #require(HTTPField.Name("X-Marked"))
    let kept = try #require(HTTPField.Name("X-Kept"))
    try await withServer(configure: { $0.sensitiveFields = [kept] }) { session, server in
      let key = try #require(HTTPField.Name("X-Api-Key"))
      let refused: [HTTPField.Name] = [
        .authorization, .cookie, .contentLength, .trailer, .ifMatch, .accept, key, marked, kept,
      ]
      for name in refused {
        var request = try Self.request(server.url("/echo"))
        request.sensitiveFields = [marked]
        request.trailerNames.append(name)
        let error = try await failure { [request] in try await session.data(for: request) }
        #expect(error.code == .badTrailers && error.phase == .prepare && !error.requestBytesSent, "\(error)")
        #expect(error.underlying is TrailerRefusal && error.message.contains(name.rawName))
      }
      // Nobody could give them.
      for body in [Request.Body.bytes([1]), .file(path: "/dev/null"), .segments([])] {
        var request = try Self.request(server.url("/echo"))
        request.body = body
        let error = try await failure { [request] in try await session.data(for: request) }
        #expect(error.code == .badTrailers && error.phase == .prepare, "\(error)")
      }
      #expect(server.requestCount == 0)
    }
  }

  /// What a stream gives at its end, the names that were announced, and what is said against it.
  static let given: [(fields: HTTPFields, names: [HTTPField.Name], refusal: TrailerRefusal?)] = [
    ([attempt: "1"], [sum], .notAnnounced(name: "X-Attempt")),
    ([sum: "1", .contentLength: "5"], [sum], .notAnnounced(name: "Content-Length")),
    ([sum: String(repeating: "x", count: 16 << 10)], [sum], .tooLarge(limit: 16 << 10)),
    (HTTPFields((0..<129).map { HTTPField(name: sum, value: "\($0)") }), [sum], .tooMany(limit: 128)),
    // Before the first chunk.
    ([sum: "1"], [], nil),
  ]

  @Test(arguments: given.indices, [nil, 3] as [Int64?]) func whatIsNotSent(
    _ index: Int, _ length: Int64?
  ) async throws {
    let (fields, names, refusal) = Self.given[index]
    try await withScript([[.readHead, .waitForClose]]) { session, server in
      var request = try Request(
        server.url(), method: .post,
        body: .stream(length: length, isReplayable: true) { BodyStream([[1, 2, 3]]).withTrailers { fields } })
      request.trailerNames = names
      let error = try await failure { [request] in try await session.data(for: request) }
      #expect(error.code == .badTrailers && error.phase == .send && error.requestBytesSent, "\(error)")
      if let refusal { #expect(error.underlying as? TrailerRefusal == refusal) }
      // The server sees the end of the connection, and none of the message.
      #expect(await server.hasPlayed(1))
      #expect(!String(decoding: server.bytesReceived(connection: 1), as: UTF8.self).contains("\r\n0\r\n"))
    }
  }

  /// They belong behind the whole.
  @Test(arguments: [nil, 1] as [Int64?]) func partsHaveNone(_ length: Int64?) async throws {
    let body = Request.Body.segments([
      .bytes([1]),
      .stream(length: length, isReplayable: true) { BodyStream([[2]]).withTrailers { [Self.sum: "1"] } },
    ])
    try await withScript([[.readHead, .waitForClose]]) { session, server in
      try await expectFailure(.badTrailers) {
        try await session.data(for: Request(server.url(), method: .post, body: body))
      }
      #expect(await server.hasPlayed(1))
    }
  }

  /// Read through a stream, it says the same as it does without.
  @Test func fileThatChanged() async throws {
    let directory = try ScratchDirectory()
    let path = try directory.write([1, 2, 3], to: "file")
    let body = Request.Body.segments([.bytes([1]), .file(path: path, length: 3, fileSize: 4)])
    try await withScript([[.readHead, .waitForClose]]) { session, server in
      var request = try Request(server.url(), method: .post, body: body.withTrailers { [Self.sum: "1"] })
      request.trailerNames = [Self.sum]
      try await expectFailure(.fileChanged) { [request] in try await session.data(for: request) }
      #expect(await server.hasPlayed(1))
    }
  }

  @Test func whatGivesThemMayThrow() async throws {
    try await withScript([[.readHead, .waitForClose]]) { session, server in
      var request = try Request(
        server.url(), method: .post, body: .bytes([1]).withTrailers { throw Failure() })
      request.trailerNames = [Self.sum]
      let error = try await failure { [request] in try await session.data(for: request) }
      #expect(error.code == .requestBodyFailed && error.underlying is Failure, "\(error)")
      #expect(await server.hasPlayed(1))
      #expect(!String(decoding: server.bytesReceived(connection: 1), as: UTF8.self).contains("\r\n0\r\n"))
    }
  }

  /// Opens a latch when its last reference goes.
  private final class Ending: Sendable {
    private let latch: Latch

    init(_ latch: Latch) { self.latch = latch }

    deinit { latch.release() }
  }

  /// A sequence ends when nobody needs it any more; that is no end that anything follows.
  @Test func earlyAnswerHasNothingFollow() async throws {
    let ended = try Latch()
    let asked = Counter()
    try await withScript([
      [
        // Answered before there is a chunk, the request may be over before anybody was asked for its sequence.
        .readHead, .read(Array("1\r\nx\r\n".utf8).count),
        .send("HTTP/1.1 413 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"), .waitForClose,
      ]
    ]) { session, server in
      // It yields nothing more and never ends by itself.
      let (chunks, producer) = AsyncStream<[UInt8]>.makeStream()
      producer.yield(Array("x".utf8))
      var request = try Request(
        server.url(), method: .post,
        body: .stream(length: nil, isReplayable: false) {
          let ending = Ending(ended)
          return BodyStream(chunks).withTrailers {
            asked.set(1)
            withExtendedLifetime(ending) {}
            return [Self.sum: "1"]
          }
        })
      request.trailerNames = [Self.sum]
      #expect(try await session.data(for: request).1.statusCode == 413)
      #expect(await eventually { ended.isReleased })
      #expect(asked.value == 0)
      producer.finish()
    }
  }

  /// The socket refuses the end of the body: that was not sent, whatever has been given to follow it.
  @Test func refusedEndIsNotSent() async throws {
    let directory = try ScratchDirectory()
    let path = directory.path + "/socket"
    let isDeaf = try Latch()
    let isOver = try Latch()
    try await withScript(
      [
        [
          .readHead, .read(Array("1\r\nx\r\n".utf8).count), .finishReading, .release(isDeaf),
          .perform { _ = isOver.wait(seconds: 100) },
        ]
      ], address: .unix(path),
      configure: {
        $0.unixSocketPath = path
        $0.timeoutIntervalForRequest = .seconds(100)
      }
    ) { session, _ in
      defer { isOver.release() }
      var request = try Request(
        "http://any.example/", method: .post,
        body: .bytes(Array("x".utf8)).withTrailers {
          _ = await eventually { isDeaf.isReleased }
          return [Self.sum: "1"]
        })
      request.trailerNames = [Self.sum]
      let error = try await failure { [request] in try await session.data(for: request) }
      #expect(error.code == .connectionLost, "\(error)")
      let last = try #require(error.metrics?.transactions.last)
      #expect(last.requestStart != nil && last.requestEnd == nil && last.requestBodyBytes == 1)
    }
  }

  // MARK: Without the network

  @Test func streamsKeepThem() async throws {
    let seen = Locked(0)
    let stream = Self.summed(1).observed(by: { chunk in seen.withLock { $0 += chunk.count } })
      .paced(packetSize: 4_096, delay: .zero)
    try await withServer { session, server in
      var request = try Self.request(server.url("/upload"))
      request.body = .stream(length: 25_000, isReplayable: false) { stream }
      _ = try await session.data(for: request)
      #expect(server.recordedRequests.first?.trailers == Self.trailers(1))
      #expect(seen.withLock { $0 } == 25_000)
    }
    // Who wants the body alone is given that alone.
    #expect(try await Self.request("http://a.example/").body.collect(upTo: 1 << 20) == Self.bytes)
  }

  @Test func curlHasNone() throws {
    var request = try Self.request("http://a.example/", .put)
    request.fields[.trailer] = "X-Other"
    let command = request.curlCommand(configuration: .ephemeral)
    let comment = "\n# curl sends no trailer fields; the request itself has X-Sum, X-Attempt behind its body"
    #expect(command.contains(comment))
    #expect(!command.contains("Trailer:"))
    request.trailerNames = []
    #expect(request.curlCommand(configuration: .ephemeral).contains("Trailer: X-Other"))
  }
}
