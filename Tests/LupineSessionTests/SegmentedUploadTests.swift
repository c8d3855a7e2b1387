import FoundationEssentials
import HTTPTypes
import LupineBase
import LupineEngine
import LupineSession
import LupineTesting
import Testing

/// Bodies made of several pieces: bytes, parts of files and streams, in one message.
@Suite(.timeLimit(.minutes(5))) struct SegmentedUploadTests {
  private static let size = 300_000

  private static func stream(_ bytes: [UInt8], length: Int64?, isReplayable: Bool = true) -> Request.Body.Segment {
    .stream(length: length, isReplayable: isReplayable) {
      BodyStream([Array(bytes.prefix(7)), Array(bytes.dropFirst(7))])
    }
  }

  /// Every kind of piece, empty ones too, and what they make together.
  private static func pieces(
    _ directory: ScratchDirectory, streamLength: Int64?
  ) throws -> (segments: [Request.Body.Segment], bytes: [UInt8]) {
    let bytes = PatternBody.bytes(size)
    let path = try directory.write(bytes, to: "file")
    let empty = try directory.write([], to: "empty")
    let segments: [Request.Body.Segment] = [
      .bytes(Array("head".utf8)), .bytes([]), .file(path: path), .file(path: empty, fileSize: 0), .bytes([1, 2]),
      .file(path: path, offset: 1000, length: 5000, fileSize: Int64(size)),
      stream(Array("a stream of bytes".utf8), length: streamLength), .file(path: path, offset: Int64(size)),
      .bytes([9]),
    ]
    let whole = Array("head".utf8) + bytes + [1, 2] + Array(bytes[1000..<6000]) + Array("a stream of bytes".utf8) + [9]
    return (segments, whole)
  }

  @Test(arguments: [false, true], [17, nil] as [Int64?]) func piecesArriveInOrder(
    _ isSecure: Bool, _ streamLength: Int64?
  ) async throws {
    let directory = try ScratchDirectory()
    let (segments, bytes) = try Self.pieces(directory, streamLength: streamLength)
    try await withServer(isSecure: isSecure) { session, server in
      let request = try Request(server.url("/echo"), method: .post, body: .segments(segments))
      #expect(try await Array(session.data(for: request).0) == bytes)
      // The connection goes on.
      #expect(try await session.data(for: request).1.wasReused)
      let recorded = server.recordedRequests
      let length = streamLength.map { _ in String(bytes.count) }
      #expect(recorded.map { $0.fields.first("Content-Length") } == [length, length])
      #expect(recorded.map { $0.fields.first("Transfer-Encoding") == nil } == [length != nil, length != nil])
      #expect(recorded.allSatisfy { $0.bodyIsComplete && $0.body == bytes })
    }
  }

  /// What is told of each piece costs no look at all of them: it was 64 times as much for eight times as many.
  @Test(arguments: [false, true]) func manyPiecesAreToldOfInTheirTime(_ isWatched: Bool) async throws {
    try await withServer(configure: { $0.engine = .own }) { session, server in
      let clock = ContinuousClock()
      var best: [Int: Duration] = [:]
      // In turns, and the best of each: other work on the machine is not to count.
      for count in [500, 4_000, 500, 4_000, 500, 4_000] {
        let pieces = Request.Body.segments((0..<count).map { .bytes([UInt8(truncatingIfNeeded: $0), 1, 2, 3]) })
        let request = try Request(server.url("/echo"), method: .post, body: pieces)
        let recorder = RecordingDelegate(.all)
        let task = session.uploadTask(withStreamedRequest: request)
        if !isWatched { task.delegate = recorder }
        let start = clock.now
        let progress = task.progressUpdates
        task.resume()
        if isWatched { for await _ in progress {} } else { #expect(await recorder.hasEnded()) }
        best[count] = min(best[count] ?? .seconds(600), clock.now - start)
        #expect(task.countOfBytesSent == Int64(4 * count) && task.countOfBytesExpectedToSend == Int64(4 * count))
      }
      let (few, many) = (try #require(best[500]), try #require(best[4_000]))
      #expect(many < few * 24 + .milliseconds(200), "\(few), \(many)")
    }
  }

  @Test func noPiecesAreAnEmptyBody() async throws {
    try await withServer { session, server in
      let bodies: [Request.Body] = [.segments([]), .segments([.bytes([])]), .segments([.bytes([]), .bytes([])])]
      for body in bodies {
        let (answer, _) = try await session.data(for: Request(server.url("/echo"), method: .put, body: body))
        #expect(answer.isEmpty)
      }
      #expect(server.recordedRequests.map { $0.fields.first("Content-Length") } == ["0", "0", "0"])
    }
  }

  /// Without the network: what transports and recorders read, and what is known before.
  @Test(arguments: [17, nil] as [Int64?]) func reading(_ streamLength: Int64?) async throws {
    let directory = try ScratchDirectory()
    let (segments, bytes) = try Self.pieces(directory, streamLength: streamLength)
    let body = Request.Body.segments(segments)
    #expect(try await body.collect(upTo: 1 << 20) == bytes)
    #expect(body.isReplayable)
    // Files without a length are looked at only when the request starts.
    #expect(body.knownLength == nil)
    #expect(
      Request.Body.segments([.bytes([1]), Self.stream([2], length: streamLength)]).knownLength
        == streamLength.map { $0 + 1 })
    #expect(Request.Body.segments([Self.stream([], length: .max), .bytes([1])]).knownLength == nil)
    #expect(!Request.Body.segments([.bytes([1]), Self.stream([], length: 0, isReplayable: false)]).isReplayable)
    let taken = Locked(0)
    try await body.forEachChunk { chunk in
      taken.withLock { $0 += 1 }
      return false
    }
    #expect(taken.withLock { $0 } == 1)
    let copy = directory.path + "/copy"
    try await body.write(to: copy)
    #expect(try await Request.Body.file(path: copy).collect(upTo: 1 << 20) == bytes)
    try await expectFailure(.fileFailed) { try await body.write(to: copy) }
  }

  @Test func piecesThatCannotBeSent() async throws {
    let directory = try ScratchDirectory()
    let path = try directory.write([1, 2, 3], to: "file")
    try await withServer { session, server in
      let refused: [(Request.Body.Segment, SessionError.Code)] = [
        (.file(path: path + "-"), .fileFailed), (.file(path: path, offset: 1, length: 3), .fileFailed),
        (.file(path: "/dev/zero", length: 1), .fileFailed), (.file(path: path, fileSize: 2), .fileChanged),
        (.file(path: path, length: 1, fileSize: 4), .fileChanged), (Self.stream([], length: -1), .badRequest),
        (Self.stream([], length: .max), .badRequest),
      ]
      for (segment, code) in refused {
        let body = Request.Body.segments([.bytes([1]), segment])
        try await expectFailure(code) {
          try await session.data(for: Request(server.url("/echo"), method: .post, body: body))
        }
      }
      #expect(server.requestCount == 0)
    }
  }

  /// A stream that is shorter or longer than it was said to be must not shift what comes after it.
  @Test(arguments: [16, 18]) func streamOfAnotherLength(_ length: Int64) async throws {
    try await withScript([[.readHead, .waitForClose]]) { session, server in
      let body = Request.Body.segments([
        .bytes([1]), Self.stream(Array("a stream of bytes".utf8), length: length), .bytes([2]),
      ])
      try await expectFailure(.requestBodyFailed) {
        try await session.data(for: Request(server.url(), method: .post, body: body))
      }
      #expect(await server.hasPlayed(1))
    }
  }

  /// A file that has another size while it is sent than it must have: its request never gets its last bytes.
  @Test(arguments: [false, true], [-1, 1]) func fileThatChangesOnTheWay(_ isSecure: Bool, _ change: Int) async throws {
    let directory = try ScratchDirectory()
    let size = 64 << 20
    let path = try directory.write([1], to: "body")
    try TextFile.truncate(path, to: size)
    try await withScript(
      [[.readHead, .perform { try? TextFile.truncate(path, to: size + change) }, .readBody, .waitForClose]],
      isSecure: isSecure, expectsProblems: true
    ) { session, server in
      let body = Request.Body.segments([.bytes([1]), .file(path: path, fileSize: Int64(size)), .bytes([2])])
      let error = try await failure { try await session.data(for: Request(server.url(), method: .put, body: body)) }
      #expect(error.code == .fileChanged)
      #expect(error.phase == .send)
      guard case .fileChanged(let expected, let actual)? = error.underlying as? EngineError else {
        Issue.record("\(error)")
        return
      }
      #expect(expected == Int64(size) && actual != expected)
      #expect(server.recordedRequests.allSatisfy { !$0.bodyIsComplete })
    }
  }

  @Test(arguments: [307, 308], [17, nil] as [Int64?]) func areSentAgain(_ status: Int, _ length: Int64?) async throws {
    let directory = try ScratchDirectory()
    let (segments, bytes) = try Self.pieces(directory, streamLength: length)
    try await withServer(
      [
        ServerRoute("POST", "/from") { _, connection in
          _ = try connection.readBody()
          try connection.respond(status, fields: ["Location": "/echo"])
        }
      ] + ServerRoute.standard()
    ) { session, server in
      let (answer, response) = try await session.data(
        for: Request(server.url("/from"), method: .post, body: .segments(segments)))
      #expect(Array(answer) == bytes)
      #expect(response.redirects.count == 1)
      #expect(server.recordedRequests.map { $0.bodyLength } == [bytes.count, bytes.count])
    }
  }

  /// The server answers early and takes no more: the rest is not sent, and its streams are not even made.
  @Test func earlyAnswerEndsTheBody() async throws {
    let made = Locked(false)
    let body = Request.Body.segments([
      .bytes(PatternBody.bytes(50 << 20)),
      .stream(length: 1, isReplayable: true) {
        made.withLock { $0 = true }
        return BodyStream([[1]])
      },
    ])
    try await withScript([[.readHead, .send(reply("no").with(status: 413)), .waitForClose]]) { session, server in
      let (_, response) = try await session.data(for: Request(server.url(), method: .post, body: body))
      #expect(response.statusCode == 413)
      #expect(await server.hasPlayed(1))
    }
    #expect(!made.withLock { $0 })
  }

  @Test func isRecorded() async throws {
    let directory = try ScratchDirectory()
    for length in [17, nil] as [Int64?] {
      let (segments, bytes) = try Self.pieces(directory, streamLength: length)
      for segments in [segments, segments.filter { if case .stream = $0 { false } else { true } }] {
        let body = Request.Body.segments(segments)
        let expected = try await body.collect(upTo: 1 << 20)
        #expect(expected.count <= bytes.count)
        try await withServer { _, server in
          var configuration = SessionConfiguration()
          configuration.engine = .own
          let recording = RecordingTransport(try NetworkTransport(configuration))
          configuration.transport = recording
          let session = try Session(configuration)
          _ = try await session.data(for: Request(server.url("/echo"), method: .post, body: body))
          session.invalidateAndCancel()
          let archive = await recording.archive()
          #expect(archive.entries.map(\.request.body) == [expected])
        }
      }
    }
  }
}

extension ScriptBytes {
  fileprivate func with(status: Int) -> ScriptBytes {
    ScriptBytes(Array(String(decoding: bytes, as: UTF8.self).replacing(" 200 ", with: " \(status) ").utf8))
  }
}
