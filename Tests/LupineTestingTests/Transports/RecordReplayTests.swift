import FoundationEssentials
import HTTPTypes
import LupineSession
import LupineTesting
import LupineWire
import Testing

@Suite(.timeLimit(.minutes(5))) struct RecordReplayTests {
  /// Records what `body` does over the network against the standard routes.
  private func record(
    limits: ArchiveRecorder.Limits = ArchiveRecorder.Limits(),
    _ body: (Session, LoopbackServer) async throws -> Void
  ) async throws -> (HTTPArchive, base: String) {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let transport = RecordingTransport(try NetworkTransport(), recorder: ArchiveRecorder(limits: limits))
    let session = try Session(over: transport)
    try await body(session, server)
    session.invalidateAndCancel()
    return (await transport.archive(), server.url(""))
  }

  @Test func whatTheNetworkSaidIsSaidAgainWithoutIt() async throws {
    let bytes = PatternBody.bytes(200_000)
    let scratch = FileManager.default.temporaryDirectory.path + "/lupine-record-\(UUID().uuidString)"
    try Data(bytes).write(to: URL(filePath: scratch))
    defer { try? FileManager.default.removeItem(atPath: scratch) }
    var requests: [Request] = []
    let (archive, _) = try await record { session, server in
      requests = [
        try Request(server.url("/hello?x=1")),
        try Request(server.url("/echo"), method: .post, body: .bytes(bytes)),
        try Request(server.url("/echo"), method: .put, body: .file(path: scratch)),
        try Request(
          server.url("/echo"), method: .patch,
          body: .stream(length: nil, isReplayable: true) { BodyStream([bytes, bytes]) }),
        try Request(server.url("/trailers")),
        try Request(server.url("/gzip")),
      ]
      for request in requests { _ = try await session.data(for: request) }
    }
    #expect(archive.entries.count == 6)
    #expect(archive.entries.map { $0.request.body?.count } == [nil, 200_000, 200_000, 400_000, nil, nil])
    // Through a file and back, as a test would have it.
    let read = try HTTPArchive(json: archive.json())
    for matching in [ReplayTransport.Matching.strict, .loose] {
      let transport = ReplayTransport(read, matching: matching, order: .recorded)
      let session = try Session(over: transport)
      for (request, entry) in zip(requests, archive.entries) {
        let (body, response) = try await session.data(for: request)
        #expect(Array(body) == entry.response?.body)
        #expect(response.statusCode == entry.response?.status)
        #expect(response.trailers.count == entry.response?.trailers.count)
        #expect(response.metrics.transactions.first?.requestBodyBytes == Int64(entry.request.body?.count ?? 0))
      }
      #expect(transport.remaining == [])
    }
  }

  /// A stream of known length and a file behind it are announced as they are without a recorder.
  @Test func aRecorderChangesNoFraming() async throws {
    let scratch = FileManager.default.temporaryDirectory.path + "/lupine-framing-\(UUID().uuidString)"
    try Data([4, 5]).write(to: URL(filePath: scratch))
    defer { try? FileManager.default.removeItem(atPath: scratch) }
    let stream = Request.Body.Segment.stream(length: 3, isReplayable: true) { BodyStream([[1, 2, 3]]) }
    let (archive, _) = try await record { session, server in
      let body = Request.Body.segments([stream, .file(path: scratch)])
      let (echo, _) = try await session.data(for: Request(server.url("/echo"), method: .post, body: body))
      #expect(Array(echo) == [1, 2, 3, 4, 5])
      let fields = try #require(server.recordedRequests.first).fields
      #expect(fields.first("Content-Length") == "5" && fields.first("Transfer-Encoding") == nil)
    }
    #expect(archive.entries.map(\.request.body) == [[1, 2, 3, 4, 5]])
  }

  @Test func redirectsAndFailuresAreRecordedAndPlayed() async throws {
    let (archive, base) = try await record { session, server in
      _ = try await session.data(from: server.url("/redirect?to=/hello"))
      _ = try await failure { try await session.data(from: "http://127.0.0.1:1/") }
    }
    let statuses = archive.entries.map { $0.response?.status }
    #expect(statuses == [302, 200, nil])
    let session = try Session(over: ReplayTransport(archive))
    let error = try await failure { try await session.data(from: "http://127.0.0.1:1/") }
    #expect(error.code == .cannotConnect)
    let (body, response) = try await session.text(base + "/redirect?to=/hello")
    let recorded = archive.entries.dropLast().last
    #expect(Array(body.utf8) == recorded?.response?.body)
    #expect(response.statusCode == recorded?.response?.status)
    #expect(response.redirects.count == archive.entries.count - 2)
  }

  /// A body of which nothing had left was not none: if it was not kept, any is taken in its place.
  @Test(arguments: [true, false]) func bodiesThatNeverLeftMatchAny(_ isRecorded: Bool) async throws {
    var route = CannedTransport.Route("POST", "*", .failure(.cannotConnect))
    route.readsBody = false
    var limits = ArchiveRecorder.Limits()
    limits.bodyBytes = 2
    let recording = RecordingTransport(CannedTransport([route]), recorder: ArchiveRecorder(limits: limits))
    let request = try Request("http://a.example/", method: .post, body: .bytes([1, 2, 3]))
    let error = try await failure { try await Session(over: recording).data(for: request) }
    var archive = HTTPArchive()
    if isRecorded { archive = await recording.archive() } else { archive.append(request, error: error) }
    #expect(archive.entries.map { $0.request.body?.count } == [nil])
    #expect(archive.entries.map(\.request.bodyBytes) == [0])
    let replay = ReplayTransport(try HTTPArchive(json: archive.json()), matching: .strict)
    let again = try await failure { try await Session(over: replay).data(for: request) }
    #expect(again.code == .cannotConnect)
  }

  /// What the request or the session marks is as secret here as the known names.
  @Test func markedFieldsAreLeftOutOfTheFile() async throws {
    let names = try (#require(HTTPField.Name("X-Request-Key")), #require(HTTPField.Name("X-Session-Key")))
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let recording = RecordingTransport(try NetworkTransport())
    var configuration = SessionConfiguration()
    configuration.transport = recording
    configuration.additionalFields[names.1] = "S3CRET"
    configuration.sensitiveFields = [names.1]
    let session = try Session(configuration)
    var request = try Request(server.url("/hello"))
    request.fields[names.0] = "S3CRET"
    request.sensitiveFields = [names.0]
    _ = try await session.data(for: request)
    session.invalidateAndCancel()
    let text = String(decoding: await recording.archive().json(), as: UTF8.self)
    #expect(text.contains("X-Request-Key") && text.contains("X-Session-Key") && !text.contains("S3CRET"))
  }

  /// The network's second attempt is no request of the session's, and none of a replay.
  @Test func attemptsThatWereRepeatedAreNotPlayed() async throws {
    func entry(_ path: String, _ status: Int?, _ comment: String? = nil) -> HTTPArchive.Entry {
      var entry = HTTPArchive.Entry(
        startedAt: Date(), request: HTTPArchive.Request(method: "GET", url: "http://a.example" + path),
        response: status.map { HTTPArchive.Response(status: $0) })
      entry.comment = comment
      return entry
    }
    var archive = HTTPArchive()
    archive.entries = [
      entry("/a", 201), entry("/b", 202), entry("/b", nil, "an attempt that was repeated"), entry("/c", 203),
    ]
    for order in [ReplayTransport.Order.recorded, .any] {
      let transport = ReplayTransport(archive, order: order)
      let session = try Session(over: transport)
      for (path, status) in [("/a", 201), ("/b", 202), ("/c", 203)] {
        #expect(try await session.data(from: "http://a.example" + path).1.statusCode == status)
      }
      #expect(transport.remaining == [])
    }
  }

  /// An attempt stands before the one that took its place, and not behind all that began since.
  @Test func attemptsStandWhereTheyBegan() async throws {
    func reply(_ text: String) -> ScriptStep {
      .send(ScriptBytes("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n" + text))
    }
    let server = try ScriptedServer([
      [.readHead, reply("1"), .readHead, .close],
      [.readHead, reply("2"), .readHead, reply("3"), .waitForClose],
    ])
    defer { server.shutdown() }
    let recording = RecordingTransport(try NetworkTransport())
    let session = try Session(over: recording)
    for number in 1...3 { #expect(try await session.text(server.url("/\(number)")).0 == "\(number)") }
    session.invalidateAndCancel()
    let entries = await recording.archive().entries
    #expect(entries.map(\.request.url) == [1, 2, 2, 3].map { server.url("/\($0)") })
    #expect(entries.map { $0.response?.status } == [200, nil, 200, 200])
    #expect(entries.map { $0.comment != nil } == [false, true, false, false])
  }

  /// Whether it is safe to send again is said as it was, also by files that do not say it.
  @Test func failuresSayWhetherAnythingHadLeft() async throws {
    let cases: [(String, Bool?, Bool)] = [("connect", nil, false), ("receive", nil, true), ("connect", true, true)]
    for (phase, said, expected) in cases {
      var archive = HTTPArchive()
      var entry = HTTPArchive.Entry(
        startedAt: Date(), request: HTTPArchive.Request(method: "GET", url: "http://a.example/"), response: nil)
      entry.failure = HTTPArchive.Failure(
        code: "cannotConnect", phase: phase, message: "no", requestBytesSent: said)
      archive.entries = [entry]
      let session = try Session(over: ReplayTransport(try HTTPArchive(json: archive.json())))
      let error = try await failure { try await session.data(from: "http://a.example/") }
      #expect(error.requestBytesSent == expected)
    }
  }

  /// An answer that came before the body had gone says nothing about the rest of it: the same request is answered again.
  @Test(arguments: [false, true]) func bodiesThatWereNotWantedMatchAny(_ expectsContinue: Bool) async throws {
    let server = try LoopbackServer(routes: [
      ServerRoute("POST", "/early") { _, connection in
        try connection.respond(413, fields: ["Connection": "close"], text: "too much")
      }
    ])
    defer { server.shutdown() }
    var request = try Request(server.url("/early"), method: .post)
    request.expectsContinue = expectsContinue
    let chunk = [UInt8](repeating: 7, count: 100_000)
    request.body = .stream(length: nil, isReplayable: true) { BodyStream(Array(repeating: chunk, count: 300)) }
    let recording = RecordingTransport(try NetworkTransport())
    let session = try Session(over: recording)
    let answer = try await session.data(for: request)
    #expect(answer.1.statusCode == 413)
    session.invalidateAndCancel()
    let archive = try HTTPArchive(json: await recording.archive().json())
    for order in [ReplayTransport.Order.recorded, .any] {
      let replay = try Session(over: ReplayTransport(archive, matching: .strict, order: order))
      #expect(try await replay.data(for: request).1.statusCode == 413)
    }
  }

  @Test func bodiesPastTheLimitsAreLeftOutAndSoSaid() async throws {
    var limits = ArchiveRecorder.Limits()
    limits.bodyBytes = 100
    limits.entries = 2
    let (archive, _) = try await record(limits: limits) { session, server in
      _ = try await session.data(for: Request(server.url("/bytes?n=1000")))
      _ = try await session.data(from: server.url("/hello"))
      _ = try await session.data(from: server.url("/hello"))
    }
    #expect(archive.entries.count == 2)
    #expect(archive.comment == "1 more exchanges were not kept")
    #expect(archive.entries[1].response?.body == Array("Hello, world!".utf8))
  }

  /// What the limits left out cannot be played: nothing comes in its place, neither from memory nor from a file.
  @Test func bodiesThatWereLeftOutAreNotPlayed() async throws {
    var limits = ArchiveRecorder.Limits()
    // The room of one greeting.
    limits.totalBodyBytes = 13
    let (archive, base) = try await record(limits: limits) { session, server in
      for path in ["/hello", "/bytes?n=1000"] { _ = try await session.data(from: server.url(path)) }
    }
    for recorded in [archive, try HTTPArchive(json: archive.json())] {
      let session = try Session(over: ReplayTransport(recorded))
      #expect(try await session.text(base + "/hello").0 == "Hello, world!")
      try await expectUnplayable(base + "/bytes?n=1000", session)
    }
  }

  /// Nor can what was kept of a longer one.
  @Test func bodiesThatWereCutAreNotPlayed() async throws {
    var limits = ArchiveRecorder.Limits()
    limits.bodyBytes = 100_000
    let path = "/chunked?n=200000&size=1000"
    let (archive, base) = try await record(limits: limits) { session, server in
      _ = try await session.data(from: server.url(path))
    }
    try await expectUnplayable(base + path, try Session(over: ReplayTransport(archive)))
  }

  private func expectUnplayable(_ url: String, _ session: Session) async throws {
    let error = try await failure { try await session.data(from: url) }
    #expect(error.code == .noAnswer)
    guard case .unplayable? = error.underlying as? NoAnswer else { return #expect(Bool(false), "\(error)") }
  }

  /// A request body that is too long to be kept says nothing of the response's.
  @Test func eachBodyHasItsOwnLimit() async throws {
    var limits = ArchiveRecorder.Limits()
    limits.bodyBytes = 1_000
    let part = PatternBody.bytes(50_000)
    var answer = Data()
    let (archive, base) = try await record(limits: limits) { session, server in
      let stream = Request.Body.stream(length: nil, isReplayable: true) { BodyStream([part, part]) }
      answer = try await session.data(for: Request(server.url("/upload"), method: .post, body: stream)).0
    }
    let entry = try #require(archive.entries.first)
    #expect(entry.request.body == nil && entry.comment == "a body is longer than what is kept")
    #expect(!answer.isEmpty && entry.response?.body == Array(answer))
    let session = try Session(over: ReplayTransport(archive))
    let (played, _) = try await session.data(for: Request(base + "/upload", method: .post, body: .bytes([1])))
    #expect(played == answer)
  }

  private func archive(_ urls: [String]) -> HTTPArchive {
    var archive = HTTPArchive()
    for (index, url) in urls.enumerated() {
      var response = HTTPArchive.Response(status: 200)
      response.body = Array("\(index)".utf8)
      archive.entries.append(
        HTTPArchive.Entry(startedAt: Date(), request: .init(method: "GET", url: url), response: response))
    }
    return archive
  }

  @Test func orderAndRepetitionAreRules() async throws {
    let recorded = archive(["http://a.example/1", "http://a.example/2", "http://a.example/1"])
    let anyOrder = ReplayTransport(recorded)
    var session = try Session(over: anyOrder)
    #expect(try await session.text("http://a.example/2").0 == "1")
    #expect(try await session.text("http://a.example/1").0 == "0")
    #expect(anyOrder.remaining == ["GET http://a.example/1"])
    #expect(try await session.text("http://a.example/1").0 == "2")
    let error = try await failure { try await session.data(from: "http://a.example/1") }
    #expect(error.code == .noAnswer)
    #expect(error.underlying as? NoAnswer == .notRecorded(method: "GET", url: "http://a.example/1"))
    session = try Session(over: ReplayTransport(recorded, repeats: true))
    for answer in ["0", "2", "2"] { #expect(try await session.text("http://a.example/1").0 == answer) }
    session = try Session(over: ReplayTransport(recorded, order: .recorded, repeats: true))
    for (path, answer) in [("1", "0"), ("2", "1"), ("1", "2"), ("2", "1"), ("1", "2")] {
      #expect(try await session.text("http://a.example/\(path)").0 == answer)
    }
    session = try Session(over: ReplayTransport(recorded, order: .recorded))
    let early = try await failure { try await session.data(from: "http://a.example/2") }
    #expect(
      early.underlying as? NoAnswer
        == .outOfOrder(expected: "GET http://a.example/1", actual: "GET http://a.example/2"))
    #expect(try await session.text("http://a.example/1").0 == "0")
  }

  @Test func looseMatchingAllowsOtherQueryOrdersAndRedactedValues() async throws {
    let recorded = archive(["http://a.example/?b=2&a=1&sig=REDACTED"])
    #expect(
      try await Session(over: ReplayTransport(recorded)).text("http://a.example/?a=1&sig=xyz&b=2").0 == "0")
    let joined = try Session(over: ReplayTransport(archive(["http://a.example/?b=2&a=1;sig=REDACTED"])))
    #expect(try await joined.text("http://a.example/?a=1;sig=xyz&b=2").0 == "0")
    let strict = try Session(over: ReplayTransport(recorded, matching: .strict))
    #expect(try await failure { try await strict.data(from: "http://a.example/?a=1&sig=x&b=2") }.code == .noAnswer)
    let other = try Session(over: ReplayTransport(recorded))
    #expect(try await failure { try await other.data(from: "http://a.example/?a=1&sig=x&b=3") }.code == .noAnswer)
  }

  @Test func strictMatchingComparesFieldsAndBody() async throws {
    var recorded = archive(["http://a.example/"])
    recorded.entries[0].request.method = "POST"
    recorded.entries[0].request.body = Array("body".utf8)
    recorded.entries[0].request.fields = [
      .init("Host", "a.example"), .init("X-A", "1"), .init("Authorization", "Bearer [redacted]"),
      .init("User-Agent", "another"), .init("Accept", "*/*"), .init("Accept-Encoding", "gzip, deflate"),
    ]
    func send(_ value: String, _ body: String) async throws -> String? {
      var request = try Request("http://a.example/", method: .post, body: .bytes(Array(body.utf8)))
      request.fields[try #require(HTTPField.Name("X-A"))] = value
      request.fields[.authorization] = "Bearer anything"
      let session = try Session(over: ReplayTransport(recorded, matching: .strict))
      do {
        return String(decoding: try await session.data(for: request).0, as: UTF8.self)
      } catch let error as SessionError {
        guard case .differs(_, _, _)? = error.underlying as? NoAnswer else { throw error }
        return nil
      }
    }
    #expect(try await send("1", "body") == "0")
    #expect(try await send("2", "body") == nil)
    #expect(try await send("1", "other") == nil)
    // By bytes, as bodies are.
    recorded.entries[0].request.fields[1] = .init("X-A", "\u{E9}")
    #expect(try await send("\u{E9}", "body") == "0")
    #expect(try await send("e\u{301}", "body") == nil)
  }

  /// What a browser recorded over HTTP/2 has pseudo fields, and some have the host besides.
  @Test(arguments: [["Host"], [":authority"], [":authority", "host"]])
  func strictMatchingReadsPseudoFields(_ hosts: [String]) async throws {
    var recorded = archive(["http://a.example/?b"])
    recorded.entries[0].request.fields = [
      .init(":method", "GET"), .init(":path", "/?b"), .init(":scheme", "http"), .init("Accept", "*/*"),
      .init("Accept-Encoding", "gzip, deflate"),
    ]
    recorded.entries[0].request.fields += hosts.map { HTTPArchive.Field($0, "a.example") }
    let session = try Session(over: ReplayTransport(recorded, matching: .strict))
    #expect(try await session.text("http://a.example/?b").0 == "0")
    recorded.entries[0].request.fields.append(.init("X-A", "1"))
    let other = try Session(over: ReplayTransport(recorded, matching: .strict))
    #expect(try await failure { try await other.data(from: "http://a.example/?b") }.code == .noAnswer)
  }

  /// With and without what a storage adds, each gets its own, in whichever order they come.
  @Test func exactMatchesGoFirst() async throws {
    var recorded = archive(["http://a.example/me", "http://a.example/me"])
    for index in 0..<2 {
      recorded.entries[index].request.fields = [
        .init("Host", "a.example"), .init("Accept", "*/*"), .init("Accept-Encoding", "gzip, deflate"),
      ]
    }
    recorded.entries[1].request.fields.append(.init("Authorization", "Bearer [redacted]"))
    let session = try Session(over: ReplayTransport(recorded, matching: .strict)) { $0.cookieStorage = CookieStorage() }
    var request = try Request("http://a.example/me")
    request.fields[.authorization] = "Bearer anything"
    #expect(try await session.data(for: request).0 == Data("1".utf8))
    #expect(try await session.text("http://a.example/me").0 == "0")
  }

  @Test func browsersArchivesCanBePlayedAndNonsenseIsTyped() async throws {
    var recorded = archive(["https://a.example/", "https://a.example/bad"])
    recorded.entries[0].response?.httpVersion = "http/2.0"
    recorded.entries[0].response?.fields = [
      .init(":status", "200"), .init("set-cookie", "a=1\nb=2"), .init("content-type", "text/plain"),
    ]
    recorded.entries[1].response?.fields = [.init("no name", "x")]
    let session = try Session(over: ReplayTransport(recorded)) { $0.cookieStorage = CookieStorage() }
    let (_, response) = try await session.text("https://a.example/")
    #expect(response.head.fields.values(named: "set-cookie") == ["a=1", "b=2"])
    let error = try await failure { try await session.data(from: "https://a.example/bad") }
    guard case .unplayable? = error.underlying as? NoAnswer else { return #expect(Bool(false), "\(error)") }
  }

  @Test func hundredsAtOnceGetWhatWasRecordedForThem() async throws {
    let recorded = archive((0..<300).map { "http://a.example/\($0)" })
    let transport = ReplayTransport(recorded)
    let session = try Session(over: transport)
    try await withThrowingTaskGroup(of: Bool.self) { group in
      for number in 0..<300 {
        group.addTask { try await session.text("http://a.example/\(number)").0 == "\(number)" }
      }
      for try await isRight in group { #expect(isRight) }
    }
    #expect(transport.remaining.isEmpty)
  }

  /// The sessions share a cookie storage, so that the second one sends at once what the first one was given.
  @Test(arguments: [false, true]) func whatStoragesAddDoesNotStandInTheWay(_ isThroughAFile: Bool) async throws {
    let cookies = CookieStorage()
    func session(_ transport: any Transport) throws -> Session {
      var configuration = SessionConfiguration()
      configuration.cookieStorage = cookies
      configuration.transport = transport
      return try Session(configuration)
    }
    let canned = CannedTransport([
      .init(nil, "*", CannedReply(status: 200, fields: ["Set-Cookie": "id=secret"], body: Array("hi".utf8)))
    ])
    let recording = RecordingTransport(canned)
    for path in ["/1", "/2"] { _ = try await session(recording).data(from: "http://a.example\(path)") }
    var archive = await recording.archive()
    if isThroughAFile { archive = try HTTPArchive(json: archive.json()) }
    let replay = ReplayTransport(archive, matching: .strict, order: .recorded)
    for path in ["/1", "/2"] {
      #expect(try await session(replay).text("http://a.example\(path)").0 == "hi")
    }
    #expect(replay.remaining == [])
  }

  /// The message names what differs, and shows no value.
  @Test(arguments: [ReplayTransport.Order.recorded, .any]) func whatDiffersIsSaid(
    _ order: ReplayTransport.Order
  ) async throws {
    var recorded = archive(["http://a.example/"])
    recorded.entries[0].request.method = "POST"
    recorded.entries[0].request.body = Array("body".utf8)
    recorded.entries[0].request.fields = [
      .init("Host", "a.example"), .init("X-A", "hidden"), .init("Accept", "*/*"),
      .init("Accept-Encoding", "gzip, deflate"),
    ]
    func message(_ fields: [(String, String)], _ body: String = "body") async throws -> String {
      var request = try Request("http://a.example/", method: .post, body: .bytes(Array(body.utf8)))
      for (name, value) in fields { request.fields[try #require(HTTPField.Name(name))] = value }
      let session = try Session(over: ReplayTransport(recorded, matching: .strict, order: order))
      let error = try await failure { [request] in try await session.data(for: request) }
      #expect(error.code == .noAnswer)
      #expect(!error.message.contains("hidden"))
      return error.message
    }
    #expect(try await message([("X-A", "other")]).contains("the field x-a has another value"))
    #expect(try await message([]).contains("it has no field x-a"))
    #expect(
      try await message([("X-A", "hidden"), ("X-B", "hidden")]).contains("it has a field x-b, which was not recorded"))
    #expect(
      try await message([("X-A", "hidden")], "other").contains(
        "its body of 5 bytes is not the recorded one of 4, from byte 0 on"))
  }
}
