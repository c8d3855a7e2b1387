import FoundationEssentials
import HTTPTypes
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// Bodies that can be sent only once, or that a delegate makes: when one is asked for, and what is said of its length.
@Suite(.timeLimit(.minutes(5))) struct StreamedUploadTests {
  /// A 307 keeps the body, but the delegate goes on with a request that has none: then nobody is asked for one.
  @Test(arguments: [false, true])
  func aBodyThatTheDelegateTakesAwayIsNotAskedFor(_ isMadeByDelegate: Bool) async throws {
    let server = try LoopbackServer(
      routes: [
        ServerRoute("POST", "/from") { _, connection in
          _ = try connection.readBody()
          try connection.respond(307, fields: ["Location": "/hello"])
        }
      ] + ServerRoute.standard())
    defer { server.shutdown() }
    var answers = RecordingDelegate.Answers()
    answers.newBody = { BodyStream([Array("made".utf8)]) }
    answers.redirection = { proposed in
      var answer = proposed
      answer.method = .get
      answer.body = .none
      return answer
    }
    try await withDelegate(.all, answers) { session, delegate in
      var request = try Request(server.url("/from"), method: .post)
      if !isMadeByDelegate {
        request.body = .stream(length: nil, isReplayable: false) { BodyStream([Array("once".utf8)]) }
      }
      session.uploadTask(withStreamedRequest: request).resume()
      #expect(await delegate.hasEnded())
      var expected = ["created", "sent", "redirect 307", "response 200", "data", "metrics", "completed well completed"]
      // For the first request only.
      if isMadeByDelegate { expected.insert("newBody", at: 1) }
      #expect(delegate.entries == expected)
      #expect(String(decoding: delegate.data, as: UTF8.self) == "Hello, world!")
      #expect(server.recordedRequests.map { $0.method } == ["POST", "GET"])
      #expect(server.recordedRequests.map { $0.text } == [isMadeByDelegate ? "made" : "once", ""])
      let last = try #require(server.recordedRequests.last)
      #expect(last.fields.first("Transfer-Encoding") == nil && last.fields.first("Content-Length") == nil)
    }
  }

  /// Gives a body, and keeps what it is told of its length.
  private final class Maker: SessionTaskDelegate {
    let handledCallbacks: CallbackSet = [.needNewBodyStream, .sentBodyData, .completed]
    let expected = Locked<[Int64?]>([])
    let isOver = Locked(false)
    private let chunks: AsyncStream<[UInt8]>

    init(_ chunks: AsyncStream<[UInt8]>) { self.chunks = chunks }

    func session(
      _ session: Session, task: SessionTask,
      needNewBodyStream completionHandler: @escaping @Sendable (BodyStream?) -> Void
    ) {
      completionHandler(BodyStream(chunks))
    }

    func session(
      _ session: Session, task: SessionTask, didSendBodyData bytesSent: Int64, totalBytesSent: Int64,
      totalBytesExpectedToSend: Int64?
    ) {
      expected.withLock { $0.append(totalBytesExpectedToSend) }
    }

    func session(_ session: Session, task: SessionTask, didCompleteWithError error: SessionError?) {
      isOver.withLock { $0 = true }
    }
  }

  /// The request has no body, which is not to say that nothing is sent.
  @Test func aStreamOfADelegateHasNoKnownLength() async throws {
    try await withServer { session, server in
      let (chunks, producer) = AsyncStream<[UInt8]>.makeStream()
      let maker = Maker(chunks)
      let task = session.uploadTask(withStreamedRequest: try Request(server.url("/echo"), method: .post))
      task.delegate = maker
      task.resume()
      producer.yield(PatternBody.bytes(1000))
      #expect(await eventually { task.countOfBytesSent == 1000 && maker.expected.withLock { !$0.isEmpty } })
      #expect(task.state == .running)
      #expect(task.countOfBytesExpectedToSend == nil)
      #expect(task.progress.countOfBytesExpectedToSend == nil && task.progress.fractionSent == nil)
      producer.finish()
      #expect(await eventually { maker.isOver.withLock { $0 } })
      let expected = maker.expected.withLock { $0 }
      #expect(expected.allSatisfy { $0 == nil })
      #expect(task.error == nil)
      let sent = try #require(server.recordedRequests.first)
      #expect(sent.bodyLength == 1000 && sent.fields.values("Transfer-Encoding") == ["chunked"])
    }
  }

  /// A length that the caller gives among the fields frames nothing besides: it is that of the stream, or the request is not sent. URLSession on Linux sends
  /// it beside the chunks, with an expectation.
  @Test(arguments: [nil, 8, 9] as [Int64?]) func aLengthAmongTheFields(_ announced: Int64?) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    try await withDelegate { session, delegate in
      var request = try Request(server.url("/echo"), method: .post)
      request.fields[.contentLength] = "8"
      request.body = .stream(length: announced, isReplayable: false) { BodyStream([Array("streamed".utf8)]) }
      session.uploadTask(withStreamedRequest: request).resume()
      #expect(await delegate.hasEnded())
      guard announced == 8 else {
        #expect(delegate.entries == ["created", "metrics", "completed badRequest completed"])
        #expect(server.connectionCount == 0)
        return
      }
      #expect(String(decoding: delegate.data, as: UTF8.self) == "streamed")
      let fields = try #require(server.recordedRequests.first).fields
      #expect(fields.values("Content-Length") == ["8"])
      #expect(fields.first("Transfer-Encoding") == nil && fields.first("Expect") == nil)
    }
  }

  /// With a completion handler: the stream of the request, which can be made again, or that of a delegate, which is asked again where the body has to be
  /// sent again.
  @Test(arguments: [false, true]) func aStreamWithACompletionHandler(_ isMadeByDelegate: Bool) async throws {
    let routes = [
      ServerRoute("POST", "/from") { _, connection in
        _ = try connection.readBody()
        try connection.respond(307, fields: ["Location": "/to"])
      },
      ServerRoute("POST", "/to") { _, connection in
        let body = try connection.readBody()
        try connection.respond(body: body)
      },
    ]
    try await withServer(routes) { session, server in
      var answers = RecordingDelegate.Answers()
      answers.newBody = { BodyStream([Array("made".utf8)]) }
      let delegate = RecordingDelegate([.needNewBodyStream, .receivedData, .completed], answers)
      var request = try Request(server.url("/from"), method: .post)
      if !isMadeByDelegate {
        request.body = .stream(length: nil, isReplayable: true) { BodyStream([Array("given".utf8)]) }
      }
      let ends = Locked<[String]>([])
      let task = session.uploadTask(withStreamedRequest: request) { result in
        let end =
          switch result {
          case .success(let answer): "\(answer.1.statusCode) \(String(decoding: answer.0, as: UTF8.self))"
          case .failure(let error): error.code.rawValue
          }
        ends.withLock { $0.append(end) }
      }
      task.delegate = delegate
      task.resume()
      #expect(await eventually { ends.withLock { !$0.isEmpty } })
      let body = isMadeByDelegate ? "made" : "given"
      #expect(ends.withLock { $0 } == ["200 \(body)"])
      // What was received is the handler's.
      #expect(delegate.entries == (isMadeByDelegate ? ["newBody", "newBody"] : []))
      #expect(server.recordedRequests.map { $0.text } == [body, body])
      #expect(server.recordedRequests.allSatisfy { $0.fields.values("Transfer-Encoding") == ["chunked"] })
    }
  }
}
