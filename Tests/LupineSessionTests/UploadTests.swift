import Dispatch
import FoundationEssentials
import Glibc
import HTTPTypes
import LupineBase
import LupineEngine
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// Bodies out: bytes, files and sequences, with and without a length, and what the server may do meanwhile.
@Suite(.timeLimit(.minutes(5))) struct UploadTests {
  struct ProducerFailure: Error {}

  /// Chunks of the pattern, made when asked for.
  private static func chunks(_ count: Int, of size: Int) -> AsyncStream<[UInt8]> {
    let state = Counter()
    return AsyncStream {
      let index = state.next()
      return index < count ? PatternBody.bytes(size, from: index * size) : nil
    }
  }

  @Test(arguments: [false, true], [0, 1, 70_000, 3_000_000]) func bytesFileAndSequenceArriveWhole(
    _ isSecure: Bool, _ count: Int
  ) async throws {
    let directory = try ScratchDirectory()
    let bytes = PatternBody.bytes(count)
    let path = try directory.write(bytes, to: "body")
    try await withServer(isSecure: isSecure) { session, server in
      let request = try Request(server.url("/echo"), method: .post)
      let total = Counter()
      #expect(try await Array(session.upload(for: request, from: Data(bytes)) { total.set(Int($0)) }.0) == bytes)
      #expect(total.value == count)
      #expect(try await Array(session.upload(for: request, fromFile: path).0) == bytes)
      let sequence = Self.chunks((count + 9_999) / 10_000, of: 10_000)
      let (body, _) = try await session.upload(for: request, from: sequence)
      #expect(PatternBody.matches(body.prefix(count), from: 0))
      let known = Self.chunks(count / 1000, of: 1000)
      _ = try await session.upload(for: request, from: known, length: Int64(count / 1000 * 1000))
      let recorded = server.recordedRequests
      #expect(recorded.map { $0.fields.first("Content-Length") != nil } == [true, true, false, true])
      #expect(recorded.map { $0.fields.first("Transfer-Encoding") } == [nil, nil, "chunked", nil])
      #expect(recorded.allSatisfy { $0.bodyIsComplete || $0.bodyLength == 0 })
    }
  }

  @Test func partOfAFile() async throws {
    let directory = try ScratchDirectory()
    let path = try directory.write(PatternBody.bytes(100_000), to: "body")
    try await withServer { session, server in
      let request = try Request(
        server.url("/echo"), method: .put, body: .file(path: path, offset: 1234, length: 50_000))
      let (body, _) = try await session.data(for: request)
      #expect(body.count == 50_000)
      #expect(PatternBody.matches(body, from: 1234))
      let past = try Request(server.url("/echo"), method: .put, body: .file(path: path, offset: 99_999, length: 2))
      try await expectFailure(.fileFailed) { try await session.data(for: past) }
      let missing = try Request(server.url("/echo"), method: .put, body: .file(path: path + "-"))
      try await expectFailure(.fileFailed) { try await session.data(for: missing) }
      let special = try Request(server.url("/echo"), method: .put, body: .file(path: "/dev/zero"))
      try await expectFailure(.fileFailed) { try await session.data(for: special) }
      #expect(server.requestCount == 1)
    }
  }

  /// A file that shrinks while it is sent: an error, and never padding or a hang.
  @Test(arguments: [false, true]) func shrinkingFileIsAnError(_ isSecure: Bool) async throws {
    let directory = try ScratchDirectory()
    let size = 64 << 20
    let path = try directory.write([1], to: "body")
    try TextFile.truncate(path, to: size)
    try await withScript(
      [[.readHead, .perform { try? TextFile.truncate(path, to: 4096) }, .waitForClose]], isSecure: isSecure
    ) { session, server in
      let error = try await failure {
        try await session.data(for: Request(server.url(), method: .put, body: .file(path: path)))
      }
      #expect(error.code == .requestBodyFailed)
      #expect(error.phase == .send)
      guard case .fileShrank(let expected, let actual)? = error.underlying as? EngineError else {
        Issue.record("\(error)")
        return
      }
      #expect(expected == Int64(size) && actual < expected)
    }
  }

  @Test(arguments: [nil, 100] as [Int64?]) func producerThatThrows(_ length: Int64?) async throws {
    try await withScript([[.readHead, .waitForClose]]) { session, server in
      let chunks = AsyncThrowingStream<[UInt8], any Error> { continuation in
        continuation.yield([1, 2, 3])
        continuation.finish(throwing: ProducerFailure())
      }
      let error = try await failure {
        try await session.upload(for: Request(server.url(), method: .post), from: chunks, length: length)
      }
      #expect(error.code == .requestBodyFailed)
      #expect(error.phase == .send)
      #expect(error.underlying is ProducerFailure, "\(error)")
      // An unfinished chunked body must not look finished.
      #expect(await server.hasPlayed(1))
      #expect(!String(decoding: server.bytesReceived(connection: 1), as: UTF8.self).hasSuffix("0\r\n\r\n"))
    }
  }

  /// The other request has lost its response, and this one has lost nothing: whoever repeats requests, or reads the error, goes by the code.
  @Test(arguments: [nil, 100] as [Int64?], [SessionError.Code.truncatedResponse, .cancelled])
  func producerThatPassesAnotherResponseOn(_ length: Int64?, _ code: SessionError.Code) async throws {
    let other = SessionError(
      code, phase: .receive, message: "cut", failingURL: "http://other.example/", underlying: ProducerFailure())
    try await withScript([[.readHead, .waitForClose]]) { session, server in
      let chunks = AsyncThrowingStream<[UInt8], any Error> { continuation in
        continuation.yield([1, 2, 3])
        continuation.finish(throwing: other)
      }
      let error = try await failure {
        try await session.upload(for: Request(server.url(), method: .post), from: chunks, length: length)
      }
      #expect(error.code == .requestBodyFailed && error.phase == .send, "\(error)")
      let cause = error.underlying as? SessionError
      #expect(cause?.code == code && cause?.failingURL == "http://other.example/", "\(error)")
      #expect(await server.hasPlayed(1))
    }
  }

  @Test(arguments: [(3, 2), (2, 3), (0, 1)]) func wrongLengthIsAnError(_ announced: Int, _ actual: Int) async throws {
    try await withScript([[.readHead, .waitForClose]]) { session, server in
      let error = try await failure {
        try await session.upload(
          for: Request(server.url(), method: .post), from: Self.chunks(actual, of: 1), length: Int64(announced))
      }
      #expect(error.code == .requestBodyFailed)
      #expect(await server.hasPlayed(1))
      // Whatever was sent, it is no more than what was announced.
      let received = server.bytesReceived(connection: 1)
      let head = try #require(String(decoding: received, as: UTF8.self).components(separatedBy: "\r\n\r\n").first)
      #expect(received.count - head.utf8.count - 4 <= announced)
    }
  }

  /// A file that calls itself empty and is not would be sent as nothing.
  @Test func filesWithoutATrueSizeAreRefused() async throws {
    try await withServer { session, server in
      let request = try Request(server.url("/echo"), method: .post, body: .file(path: "/proc/self/status"))
      let error = await #expect(throws: SessionError.self) { try await session.data(for: request) }
      #expect(error?.code == .fileFailed && error?.phase == .prepare)
      #expect(server.requestCount == 0)
    }
  }

  /// RFC 9110 sections 9.3.6 and 9.3.8.
  @Test func methodsThatCannotBeSentSo() async throws {
    try await withServer { session, server in
      for (method, body) in [("TRACE", Request.Body.bytes([65])), ("CONNECT", .none)] {
        let request = try Request(
          server.url("/echo"), method: #require(HTTPRequest.Method(rawValue: method)), body: body)
        let error = await #expect(throws: SessionError.self) { try await session.data(for: request) }
        #expect(error?.code == .badRequest && error?.requestBytesSent == false)
      }
      #expect(server.requestCount == 0)
    }
  }

  @Test(arguments: [307, 308]) func replayableBodiesAreSentAgain(_ status: Int) async throws {
    let directory = try ScratchDirectory()
    let bytes = PatternBody.bytes(30_000)
    let path = try directory.write(bytes, to: "body")
    let bodies: [Request.Body] = [
      .bytes(bytes), .file(path: path),
      .stream(length: nil, isReplayable: true) { BodyStream([bytes]) },
      .stream(length: 30_000, isReplayable: true) { BodyStream([bytes]) },
    ]
    for body in bodies {
      try await withServer(
        [
          ServerRoute("POST", "/from") { _, connection in
            _ = try connection.readBody()
            try connection.respond(status, fields: ["Location": "/echo"])
          }
        ] + ServerRoute.standard()
      ) { session, server in
        let (answer, response) = try await session.data(for: Request(server.url("/from"), method: .post, body: body))
        #expect(Array(answer) == bytes)
        #expect(response.redirects.count == 1)
        #expect(server.recordedRequests.map { $0.bodyLength } == [30_000, 30_000])
      }
    }
  }

  @Test(arguments: [307, 308]) func unreplayableBodyReturnsTheRedirect(_ status: Int) async throws {
    try await withScript([
      [
        .readHead, .readBody, .send("HTTP/1.1 \(status) R\r\nLocation: /next\r\nContent-Length: 2\r\n\r\nhi"),
        .waitForClose,
      ]
    ]) { session, server in
      let (body, response) = try await session.upload(
        for: Request(server.url(), method: .post), from: Self.chunks(2, of: 10))
      #expect(response.statusCode == status)
      #expect(body.count == 2)
      #expect(server.recordedRequests.count == 1)
    }
  }

  // MARK: 100-continue

  /// When somebody says what becomes of a refusal.
  enum Decision: CaseIterable { case atOnce, late, atOnceWithCache, lateWithCache }

  /// Answers when the exchange is over.
  private final class Deliberate: SessionTaskDelegate {
    let handledCallbacks: CallbackSet = [.redirection, .taskChallenge]
    private let server: ScriptedServer

    init(_ server: ScriptedServer) { self.server = server }

    func session(
      _ session: Session, task: SessionTask, willPerformHTTPRedirection response: Response, newRequest request: Request,
      completionHandler: @escaping @Sendable (Request?) -> Void
    ) {
      later { completionHandler(request) }
    }

    func session(
      _ session: Session, task: SessionTask, didReceive challenge: AuthenticationChallenge,
      completionHandler: @escaping @Sendable (ChallengeDisposition) -> Void
    ) {
      later { completionHandler(.useCredential(.password(user: "u", password: "p"))) }
    }

    private func later(_ body: @escaping @Sendable () -> Void) {
      DispatchQueue.global().async { [server] in
        #expect(server.waitUntilPlayed(1, seconds: 60))
        body()
      }
    }
  }

  /// What was withheld is there still: the usual way to redirect an upload, and to ask who sends it.
  @Test(
    arguments: ["307 R\r\nLocation: /next", "308 R\r\nLocation: /next", "401 U\r\nWWW-Authenticate: Basic realm=x"],
    [Decision.atOnce, .late, .atOnceWithCache, .lateWithCache])
  func withheldBodyIsSentElsewhere(_ refusal: String, _ decision: Decision) async throws {
    let hasCache = [.atOnceWithCache, .lateWithCache].contains(decision)
    try await withScript(
      [
        [
          .readHead, .send(ScriptBytes("HTTP/1.1 \(refusal)\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")),
          .expectNothing,
        ],
        [
          .readHead, .send("HTTP/1.1 100 Continue\r\n\r\n"), .readBody, .send(reply("taken")), .waitForClose,
        ],
      ],
      configure: {
        $0.continueTimeout = .seconds(100)
        if hasCache { $0.responseCache = ResponseCache(memoryCapacity: 1 << 20) }
      }
    ) { session, server in
      var request = try Request(server.url(), method: .put, body: .sequence(Self.chunks(2, of: 10)))
      request.expectsContinue = true
      if [.late, .lateWithCache].contains(decision) {
        let task = session.dataTask(with: request)
        task.delegate = Deliberate(server)
        task.resume()
        #expect(await eventually { task.state == .completed })
        #expect(task.error == nil && task.response?.statusCode == 200)
      } else {
        request.credential = .password(user: "u", password: "p")
        try await session.expect("taken", from: request)
      }
      #expect(server.recordedRequests.map(\.bodyLength) == [0, 20])
    }
  }

  /// It was asked for, and is gone, if nobody had it wait long enough.
  @Test(arguments: ["307 R\r\nLocation: /next", "401 U\r\nWWW-Authenticate: Basic realm=x"])
  func bodyThatWasBegunIsNotSentElsewhere(_ refusal: String) async throws {
    try await withScript(
      [
        [
          .readHead, .readBody, .send(ScriptBytes("HTTP/1.1 \(refusal)\r\nContent-Length: 0\r\n\r\n")), .waitForClose,
        ]
      ], configure: { $0.continueTimeout = .milliseconds(50) }
    ) { session, server in
      var request = try Request(server.url(), method: .put, body: .sequence(Self.chunks(2, of: 10)))
      request.expectsContinue = true
      request.credential = .password(user: "u", password: "p")
      do {
        #expect(try await session.data(for: request).1.statusCode == 307)
      } catch let error as SessionError {
        #expect(error.code == .bodyNotReplayable && error.response?.statusCode == 401)
      }
      #expect(server.recordedRequests.map(\.bodyLength) == [20])
    }
  }

  @Test(arguments: [false, true]) func continueIsAwaited(_ isSecure: Bool) async throws {
    let checked = try Latch()
    try await withScript(
      [
        [
          .readHead, .stall(checked), .send("HTTP/1.1 100 Continue\r\n\r\n"), .readBody, .send(reply("ok")), .readHead,
          .send(reply("again")), .waitForClose,
        ]
      ], isSecure: isSecure, configure: { $0.continueTimeout = .seconds(100) }
    ) { session, server in
      var request = try Request(server.url(), method: .put, body: .bytes([7, 7, 7]))
      request.expectsContinue = true
      let task = Task { [request] in try await session.text(request) }
      #expect(await eventually { server.recordedRequests.count == 1 })
      // The head has come, and nothing of the body behind it.
      #expect(server.bytesReceived(connection: 1).suffix(4) == Array("\r\n\r\n".utf8)[...])
      checked.release()
      let (text, response) = try await task.value
      #expect(text == "ok")
      #expect(response.informational.isEmpty)
      #expect(try await session.text(server.url()).1.wasReused)
    }
  }

  /// 417: the request goes out once more, without the expectation, whatever becomes of the refusal's own body.
  @Test(
    arguments: [
      [.send("HTTP/1.1 417 No\r\nContent-Length: 3\r\n\r\nno!")],
      [.send("HTTP/1.1 417 No\r\nContent-Length: 1000000\r\n\r\n"), .sendPattern(1_000_000)],
      [.send("HTTP/1.1 417 No\r\nContent-Length: 1000\r\n\r\n"), .stall(nil)],
      [.sendAndFinish("HTTP/1.1 417 No\r\nContent-Length: 1000\r\n\r\n")],
      [.send("HTTP/1.1 417 No\r\nTransfer-Encoding: chunked\r\n\r\nXYZ\r\n")],
      [.sendAndFinish("HTTP/1.1 417 No\r\nConnection: close\r\n\r\n")],
    ] as [[ScriptStep]]) func refusedExpectationIsDropped(_ refusal: [ScriptStep]) async throws
  {
    let answer: [ScriptStep] = [.readHead, .readBody, .send(reply("taken")), .waitForClose]
    try await withScript(
      [[.readHead] + refusal + [.waitForClose], answer], expectsProblems: true,
      configure: { $0.continueTimeout = .seconds(100) }
    ) { session, server in
      var request = try Request(server.url(), method: .post, body: .bytes(Array("body".utf8)))
      request.expectsContinue = true
      try await session.expect("taken", from: request)
      let recorded = server.recordedRequests
      #expect(recorded.map { $0.fields.first("Expect") } == ["100-continue", nil])
      #expect(recorded.last?.text == "body")
    }
  }

  /// Also where it comes behind the time after which the body goes out, as long as that can be had again; the head is told of as it was sent.
  @Test(arguments: [true, false]) func aLateRefusalOfTheExpectation(_ isReplayable: Bool) async throws {
    let refusal: [ScriptStep] = [
      .readHead, .readBody, .send("HTTP/1.1 417 No\r\nContent-Length: 2\r\n\r\nno"),
    ]
    let answer: [ScriptStep] = [.readHead, .readBody, .send(reply("taken")), .waitForClose]
    // All of the body has been sent: the connection serves on.
    try await withScript([refusal + answer], configure: { $0.continueTimeout = .milliseconds(50) }) {
      session, server in
      var request = try Request(server.url(), method: .post)
      request.body = .stream(length: 4, isReplayable: isReplayable) { BodyStream([Array("body".utf8)]) }
      request.expectsContinue = true
      let (text, response) = try await session.text(request)
      #expect(text == (isReplayable ? "taken" : "no"))
      let head = String(decoding: response.requestHead, as: UTF8.self)
      #expect(head.contains("Expect: 100-continue") == !isReplayable)
      let transactions = response.metrics.transactions
      #expect(transactions.last?.requestHeaderBytes == response.requestHead.count)
      #expect(transactions.last?.retryCount == (isReplayable ? 1 : 0))
      if !isReplayable { try await session.expect("taken", from: server.url()) }
      let recorded = server.recordedRequests
      #expect(recorded.map { $0.fields.first("Expect") } == ["100-continue", nil] && recorded[0].text == "body")
    }
  }

  @Test func finalResponseInsteadOfContinueWithholdsTheBody() async throws {
    try await withScript(
      [[.readHead, .send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"), .expectNothing]],
      configure: { $0.continueTimeout = .seconds(100) }
    ) { session, server in
      var request = try Request(server.url(), method: .post, body: .bytes(Array("body".utf8)))
      request.expectsContinue = true
      let (body, response) = try await session.text(request)
      #expect(body == "no")
      #expect(response.statusCode == 403)
      // A connection on which a body was announced and never sent does not serve again (Go CVE-2024-24791).
      #expect(await server.hasPlayed(1))
    }
  }

  /// A list of two is another value than the one that servers know; and what 417 refused is not said again.
  @Test func anExpectationAmongTheFieldsIsNotSaidBesideOurs() async throws {
    let ok: ScriptStep = .send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    try await withScript([
      [
        .readHead, .send("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n"), .waitForClose,
      ],
      [.readHead, .readBody, ok, .waitForClose],
    ]) { session, server in
      var request = try Request(server.url(), method: .post, body: .bytes([1, 2, 3]))
      request.fields[.expect] = "100-continue"
      request.expectsContinue = true
      let (_, response) = try await session.data(for: request)
      #expect(response.statusCode == 200)
      #expect(server.recordedRequests.map { $0.fields.values("Expect") } == [["100-continue"], []])
    }
  }

  @Test func noExpectationWithoutContent() async throws {
    try await withServer { session, server in
      for body in [Request.Body.none, .bytes([])] {
        var request = try Request(server.url("/echo"), method: .post, body: body)
        request.expectsContinue = true
        _ = try await session.data(for: request)
      }
      #expect(server.recordedRequests.allSatisfy { $0.fields.first("Expect") == nil })
    }
  }

  // MARK: Early responses

  /// 413 while the body is on its way, then close: the answer is read, not lost to the reset that follows.
  @Test(arguments: [false, true]) func earlyRefusalStopsTheUpload(_ isSecure: Bool) async throws {
    try await withScript(
      [
        [
          .readHead, .read(1000),
          .send("HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig"), .finishSending,
          .waitForClose,
        ]
      ], isSecure: isSecure
    ) { session, server in
      let request = try Request(server.url(), method: .post, body: .bytes([UInt8](repeating: 1, count: 64 << 20)))
      let (body, response) = try await session.text(request)
      #expect(response.statusCode == 413)
      #expect(body == "big")
      #expect(try #require(response.metrics.transactions.last).requestBodyBytes < 64 << 20)
    }
  }

  /// 200 before the body has been sent: full duplex, echo by echo.
  @Test func fullDuplex() async throws {
    try await withServer([
      ServerRoute("POST", "/duplex") { _, connection in
        try connection.begin(framing: .chunked)
        try connection.flush()
        while let part = try connection.readBodyPart() { try connection.write(part) }
        try connection.finish()
      }
    ]) { session, server in
      let (chunks, producer) = AsyncStream<[UInt8]>.makeStream()
      let request = try Request(server.url("/duplex"), method: .post, body: .sequence(chunks))
      let (bytes, response) = try await session.bytes(for: request)
      #expect(response.statusCode == 200)
      var echoes = bytes.makeAsyncIterator()
      for value in UInt8(0)..<50 {
        producer.yield([value])
        #expect(try await echoes.next() == value)
      }
      producer.finish()
      #expect(try await echoes.next() == nil)
    }
  }

  /// A producer that waits for something else is told, by cancellation, that nobody needs it any more.
  @Test func producerIsCancelledWhenTheRequestEnds() async throws {
    try await withScript([
      [.readHead, .read(8), .sendAndFinish("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"), .waitForClose]
    ]) {
      session, server in
      let ended = try Latch()
      let (chunks, producer) = AsyncStream<[UInt8]>.makeStream()
      producer.onTermination = { _ in ended.release() }
      producer.yield([1, 2, 3])
      let (_, response) = try await session.upload(for: Request(server.url(), method: .post), from: chunks)
      #expect(response.statusCode == 500)
      #expect(await eventually { ended.isReleased })
    }
  }
}

/// A number that several threads share.
final class Counter: Sendable {
  private let state = Locked(0)

  /// The number before it is raised.
  func next() -> Int {
    state.withLock {
      $0 += 1
      return $0 - 1
    }
  }

  func set(_ value: Int) { state.withLock { $0 = value } }

  var value: Int { state.withLock { $0 } }
}
