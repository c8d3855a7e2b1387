import Dispatch
import FoundationEssentials
import HTTPTypes
import LupineBase
import LupineEngine
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// What a server is expected to say before a body goes out (RFC 9110 section 10.1.1).
@Suite(.timeLimit(.minutes(5))) struct ExpectationTests {
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
      var request = try Request(server.url(), method: .put, body: .sequence(UploadTests.chunks(2, of: 10)))
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
      var request = try Request(server.url(), method: .put, body: .sequence(UploadTests.chunks(2, of: 10)))
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
    try await withScript(
      [
        [
          .readHead, .send("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n"), .waitForClose,
        ],
        [.readHead, .readBody, ok, .waitForClose],
      ], configure: { $0.continueTimeout = .seconds(100) }
    ) { session, server in
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

  /// A server that has said 100 knows the expectation: its 417 says something else, and the body is not sent again.
  @Test func aRefusalBehindAHundredIsTheAnswer() async throws {
    try await withScript([
      [
        .readHead, .send("HTTP/1.1 100 Continue\r\n\r\n"), .readBody,
        .send("HTTP/1.1 417 No\r\nContent-Length: 2\r\n\r\nno"), .waitForClose,
      ]
    ]) { session, server in
      var request = try Request(server.url(), method: .post, body: .bytes(Array("body".utf8)))
      request.expectsContinue = true
      try await session.expect("no", from: request)
      #expect(server.recordedRequests.count == 1)
    }
  }
}
