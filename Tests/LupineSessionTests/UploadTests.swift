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
  static func chunks(_ count: Int, of size: Int) -> AsyncStream<[UInt8]> {
    let state = Counter()
    return AsyncStream {
      let index = state.next()
      return index < count ? PatternBody.bytes(size, from: index * size) : nil
    }
  }

  /// What can be made anew is sent again; what there is none of the delegate makes.
  @Test func whateverTheRequestHasIsUploaded() async throws {
    // What it does not wait for need not have begun.
    let moved = ServerRoute("POST", "/moved") { _, connection in
      _ = try connection.readBody()
      try connection.respond(307, fields: ["Location": "/echo"])
    }
    try await withServer(ServerRoute.standard() + [moved]) { session, server in
      let made = Counter()
      let stream = Request.Body.stream(length: nil, isReplayable: true) {
        _ = made.next()
        return BodyStream([[1, 2], [3]])
      }
      let redirected = try Request(server.url("/moved"), method: .post, body: stream)
      let (body, response) = try await session.upload(for: redirected)
      #expect(Array(body) == [1, 2, 3] && response.redirects.count == 1 && made.next() == 2)
      var answers = RecordingDelegate.Answers()
      answers.newBody = { BodyStream([[7]]) }
      let delegate = RecordingDelegate(.all, answers)
      let sent = Locked<Int64>(0)
      let asked = try Request(server.url("/echo"), method: .post)
      let answer = try await session.upload(for: asked, delegate: delegate) { count in sent.withLock { $0 = count } }
      #expect(Array(answer.0) == [7] && sent.withLock { $0 } == 1)
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
