import Dispatch
import FoundationEssentials
import HTTPTypes
import LupineBase
import LupineTestSupport
import LupineTesting
import LupineWire
import Testing

@testable import LupineSession

/// Delegates that never answer: the task ends all the same, when it is cancelled and when its time is over.
@Suite(.timeLimit(.minutes(5))) struct UnansweredTests {
  /// Keeps the completion handlers of what it is asked: to drop one would be to answer with the default.
  private final class SilentDelegate: SessionDataDelegate {
    private struct Log {
      var asked: [String] = []
      var answers: [@Sendable () -> Void] = []
    }

    let handledCallbacks: CallbackSet
    private let followsRedirects: Bool
    private let log = Locked(Log())

    init(_ handled: CallbackSet, followsRedirects: Bool = true) {
      handledCallbacks = handled
      self.followsRedirects = followsRedirects
    }

    var asked: [String] { log.withLock { $0.asked } }

    /// Answers everything after all.
    func answer() {
      let answers = log.withLock { $0.answers }
      for answer in answers { answer() }
    }

    private func keep(_ question: String, _ answer: @escaping @Sendable () -> Void) {
      log.withLock { log in
        log.asked.append(question)
        log.answers.append(answer)
      }
    }

    func session(
      _ session: Session, dataTask: DataTask, didReceive response: Response,
      completionHandler: @escaping @Sendable (ResponseDisposition) -> Void
    ) {
      keep("response \(response.statusCode)") { completionHandler(.allow) }
    }

    func session(
      _ session: Session, task: SessionTask, willPerformHTTPRedirection response: Response, newRequest request: Request,
      completionHandler: @escaping @Sendable (Request?) -> Void
    ) {
      keep("redirect \(response.statusCode)") { [followsRedirects] in
        completionHandler(followsRedirects ? request : nil)
      }
    }

    func session(
      _ session: Session, task: SessionTask, willBeginDelayedRequest request: Request,
      completionHandler: @escaping @Sendable (DelayedRequestDisposition) -> Void
    ) {
      keep("delayed") { completionHandler(.continueLoading) }
    }

    func session(
      _ session: Session, task: SessionTask,
      needNewBodyStream completionHandler: @escaping @Sendable (BodyStream?) -> Void
    ) {
      keep("newBody") { completionHandler(BodyStream([Array("late".utf8)])) }
    }

    func session(
      _ session: Session, dataTask: DataTask, willCacheResponse proposedResponse: CachedResponse,
      completionHandler: @escaping @Sendable (CachedResponse?) -> Void
    ) {
      keep("store") { completionHandler(proposedResponse) }
    }
  }

  // MARK: Cancelled

  /// Says nothing until it is cancelled: then comes a head that was on its way, and after it the end.
  private final class LateTransport: Transport {
    private final class Exchange: TransportExchange {
      private let head: ResponseHead
      private let receiver: any TransportReceiver
      private let isCancelled = Locked(false)

      init(_ head: ResponseHead, _ receiver: any TransportReceiver) {
        self.head = head
        self.receiver = receiver
      }

      func cancel() {
        let isFirst = isCancelled.withLock { isCancelled in
          defer { isCancelled = true }
          return !isCancelled
        }
        guard isFirst else { return }
        receiver.receive(head: head, framing: .untilClose, of: self)
        receiver.end(
          SessionError(.cancelled, phase: .receive, message: "cancelled"), metrics: TransactionMetrics(), of: self)
      }

      func setPaused(_ state: PauseState) {}
      func discardBody() {}
    }

    private let head: ResponseHead

    init(_ status: Int) throws { head = try ResponseHead(status: status, fields: [("Location", "/next")]) }

    func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
      Exchange(head, receiver)
    }
  }

  /// A head that comes behind the cancellation asks nobody any more.
  @Test(arguments: [200, 302]) func aHeadBehindTheCancellation(_ status: Int) async throws {
    let transport = try LateTransport(status)
    try await withDelegate([.completed], configure: { $0.transport = transport }) { session, delegate in
      let silent = SilentDelegate([.response, .redirection])
      let task = session.dataTask(with: try Request("http://a.example/"))
      task.delegate = silent
      task.resume()
      task.cancel()
      #expect(await delegate.hasEnded())
      #expect(delegate.entries == ["completed cancelled completed"])
      #expect(silent.asked == [])
    }
  }

  // MARK: Out of time

  /// Expects the task to end when its time is over, although `question` is open, and an answer after that to be void.
  private func expectTimeout(
    _ task: SessionTask, _ question: String, _ silent: SilentDelegate, _ delegate: RecordingDelegate,
    of session: Session, sourceLocation: SourceLocation = #_sourceLocation
  ) async {
    task.delegate = silent
    task.resume()
    #expect(await delegate.hasEnded(), sourceLocation: sourceLocation)
    #expect(delegate.entries == ["completed timedOut completed"], sourceLocation: sourceLocation)
    #expect(delegate.error?.phase == .total, sourceLocation: sourceLocation)
    #expect(silent.asked == [question], sourceLocation: sourceLocation)
    silent.answer()
    session.delegateQueue.sync {}
    #expect(delegate.entries.count == 1 && task.error?.code == .timedOut, sourceLocation: sourceLocation)
  }

  @Test func aDispositionThatNeverComes() async throws {
    let server = try LoopbackServer(routes: [
      ServerRoute(nil, "/begun") { _, connection in
        try connection.begin(framing: .length(1000))
        try connection.write(PatternBody.bytes(400))
        try connection.stall(until: nil)
      }
    ])
    defer { server.shutdown() }
    try await withDelegate([.completed]) { session, delegate in
      var request = try Request(server.url("/begun"))
      request.totalTimeout = .seconds(2)
      await expectTimeout(
        session.dataTask(with: request), "response 200", SilentDelegate(.response), delegate, of: session)
    }
  }

  /// All has been received by then, so that no deadline of an exchange is left.
  @Test func aDispositionOfAWholeResponseThatNeverComes() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    try await withDelegate([.completed]) { session, delegate in
      var request = try Request(server.url("/hello"))
      request.totalTimeout = .seconds(2)
      await expectTimeout(
        session.dataTask(with: request), "response 200", SilentDelegate(.response), delegate, of: session)
    }
  }

  /// What a cache answers with has no exchange behind it, and so no deadline but its own.
  @Test func aDispositionOfAStoredResponseThatNeverComes() async throws {
    let server = try LoopbackServer { _, connection in
      try connection.respond(fields: ["Cache-Control": "max-age=1000"], body: PatternBody.bytes(1000))
    }
    defer { server.shutdown() }
    let cache = ResponseCache(memoryCapacity: 1 << 20)
    try await withDelegate([.completed], configure: { $0.responseCache = cache }) { session, delegate in
      var request = try Request(server.url("/a"))
      _ = try await session.data(for: request)
      let before = delegate.entries.count
      #expect(before == 0)
      request.totalTimeout = .seconds(2)
      await expectTimeout(
        session.dataTask(with: request), "response 200", SilentDelegate(.response), delegate, of: session)
      #expect(server.requestCount == 1)
    }
  }

  /// Nor does it wait for ever for a reader.
  @Test func aStoredBodyThatNobodyReads() async throws {
    let server = try LoopbackServer { _, connection in
      try connection.respond(fields: ["Cache-Control": "max-age=1000"], body: PatternBody.bytes(2_000_000))
    }
    defer { server.shutdown() }
    var configuration = SessionConfiguration()
    configuration.responseCache = ResponseCache(memoryCapacity: 32 << 20)
    let session = try Session(configuration)
    defer { session.invalidateAndCancel() }
    var request = try Request(server.url("/a"))
    _ = try await session.data(for: request)
    request.totalTimeout = .seconds(2)
    let (body, response) = try await session.bytes(for: request)
    #expect(response.statusCode == 200)
    #expect(await eventually { session.allTasks.isEmpty })
    let error = await #expect(throws: SessionError.self) { for try await _ in body.chunks {} }
    #expect(error?.code == .timedOut && error?.phase == .total)
  }

  /// The time counts from the date on: before it nothing is asked.
  @Test func aDelayedBeginningThatIsNeverAnswered() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    try await withDelegate([.completed]) { session, delegate in
      var request = try Request(server.url("/hello"))
      request.totalTimeout = .seconds(1)
      let task = session.dataTask(with: request)
      // Longer than that: counted from the beginning, it would be over before the date.
      task.earliestBeginDate = Date(timeIntervalSinceNow: 1.5)
      await expectTimeout(task, "delayed", SilentDelegate(.willBeginDelayed), delegate, of: session)
      #expect(server.requestCount == 0)
    }
  }

  /// Not with the time that the task may take: a week, where nothing is said, and as many timers as requests.
  @Test func anAnswerLetsGoOfItsTimer() async throws {
    let fired = Locked(0)
    for after in [Int64(0), 1_000_000] {
      // Before there is a timer, which may have fired by the time that anybody looks.
      let count = fired.withLock { $0 }
      var timer = AnswerTimer(after: after) { fired.withLock { $0 += 1 } }
      #expect(timer != nil)
      #expect(await eventually { fired.withLock { $0 } > count })
      timer = nil
    }
    weak var gone: AnswerTimer?
    do {
      let held = AnswerTimer(after: 1 << 59) { fired.withLock { $0 += 100 } }
      gone = held
      #expect(gone != nil)
    }
    #expect(gone == nil && fired.withLock { $0 } == 2)
    #expect(AnswerTimer(after: .max) {} == nil)
  }

  /// A redirect that wants the body again.
  private static let redirectOfABody =
    [
      ServerRoute(nil, "/from") { _, connection in
        _ = try connection.readBody()
        try connection.respond(307, fields: ["Location": "/echo"])
      }
    ] + ServerRoute.standard()

  /// No exchange is under way then, whose deadline could end the task.
  @Test func aNewBodyThatNeverComes() async throws {
    let server = try LoopbackServer(routes: Self.redirectOfABody)
    defer { server.shutdown() }
    try await withDelegate([.completed]) { session, delegate in
      var request = try Request(server.url("/from"), method: .post)
      request.body = .stream(length: nil, isReplayable: false) { BodyStream([Array("once".utf8)]) }
      request.totalTimeout = .seconds(2)
      let task = session.uploadTask(withStreamedRequest: request)
      await expectTimeout(task, "newBody", SilentDelegate(.needNewBodyStream), delegate, of: session)
      #expect(server.requestCount == 1)
    }
  }

  /// A redirect whose response is whole with its head, and what it leads to.
  private static let redirect =
    [ServerRoute(nil, "/from") { _, connection in try connection.respond(302, fields: ["Location": "/hello"]) }]
    + ServerRoute.standard()

  /// Until the engine has worked off what it has read: the end of the response is behind its head.
  private func isReceived(_ question: String, _ silent: SilentDelegate, _ session: Session) async -> Bool {
    guard await eventually({ silent.asked == [question] }) else { return false }
    _ = await session.poolStatistics()
    return true
  }

  /// The time of the first question does not end with its answer: the end of the response waits for the second one.
  @Test func aSecondAnswerThatNeverComes() async throws {
    let server = try LoopbackServer(routes: Self.redirect)
    defer { server.shutdown() }
    try await withDelegate([.completed]) { session, delegate in
      var request = try Request(server.url("/from"))
      request.totalTimeout = .seconds(2)
      let silent = SilentDelegate([.redirection, .response], followsRedirects: false)
      let task = session.dataTask(with: request)
      task.delegate = silent
      task.resume()
      #expect(await isReceived("redirect 302", silent, session))
      silent.answer()
      #expect(await eventually(seconds: 20) { task.state == .completed })
      // Where the machine is busy, the time may be over with the first one.
      #expect(task.error?.code == .timedOut && task.error?.phase == .total)
    }
  }

  /// A task that is suspended between two exchanges has none whose deadline could end it.
  @Test func aSuspensionThatNeverEnds() async throws {
    let server = try LoopbackServer(routes: Self.redirect)
    defer { server.shutdown() }
    try await withDelegate([.completed]) { session, delegate in
      var request = try Request(server.url("/from"))
      request.totalTimeout = .seconds(2)
      let silent = SilentDelegate(.redirection)
      let task = session.dataTask(with: request)
      task.delegate = silent
      task.resume()
      #expect(await isReceived("redirect 302", silent, session))
      task.suspend()
      silent.answer()
      #expect(await eventually(seconds: 20) { task.state == .completed })
      #expect(task.error?.code == .timedOut && task.error?.phase == .total)
      #expect(server.requestCount == 1)
    }
  }

  // MARK: Cancelled with its session

  /// Whatever is asked when the session is cancelled, the task is told its end, and then the session its own; an answer after that is void.
  @Test(
    arguments: [
      ("response 200", .response), ("redirect 302", .redirection), ("newBody", .needNewBodyStream),
      ("delayed", .willBeginDelayed),
    ] as [(String, CallbackSet)]) func cancelledWithItsSession(_ question: String, _ callback: CallbackSet) async throws
  {
    let sendsBody = callback == .needNewBodyStream
    let server = try LoopbackServer(routes: sendsBody ? Self.redirectOfABody : Self.redirect)
    defer { server.shutdown() }
    try await withDelegate([.completed, .becameInvalid]) { session, delegate in
      let silent = SilentDelegate(callback)
      var request = try Request(server.url(sendsBody || callback == .redirection ? "/from" : "/hello"))
      if sendsBody {
        request.method = .post
        request.body = .stream(length: nil, isReplayable: false) { BodyStream([Array("once".utf8)]) }
      }
      let task: SessionTask =
        sendsBody ? session.uploadTask(withStreamedRequest: request) : session.dataTask(with: request)
      if callback == .willBeginDelayed { task.earliestBeginDate = Date(timeIntervalSinceNow: 1) }
      task.delegate = silent
      task.resume()
      #expect(await eventually { silent.asked == [question] })
      session.invalidateAndCancel()
      #expect(await delegate.hasEnded("invalid"))
      silent.answer()
      session.delegateQueue.sync {}
      #expect(delegate.entries == ["completed cancelled completed", "invalid"])
      #expect(task.error?.code == .cancelled && silent.asked == [question])
    }
  }

  // MARK: What is stored

  @Test func aWordOnStoringThatNeverComes() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let store = KeptResponses()
    try await withDelegate([.completed], configure: { $0.responseStore = store }) { session, delegate in
      var request = try Request(server.url("/hello"))
      request.totalTimeout = .seconds(2)
      let task = session.dataTask(with: request)
      let silent = SilentDelegate(.willCacheResponse)
      await expectTimeout(task, "store", silent, delegate, of: session)
      #expect(task.error?.response?.statusCode == 200 && task.error?.metrics?.transactions.count == 1)
    }
    #expect(store.texts.isEmpty)
  }

  /// Cancelled by its owner or with its session, the task is over, and the session is: an answer after that is void.
  @Test(arguments: [false, true]) func cancelledBeforeTheWordOnStoring(_ bySession: Bool) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let store = KeptResponses()
    try await withDelegate([.completed, .becameInvalid], configure: { $0.responseStore = store }) {
      session, delegate in
      let silent = SilentDelegate(.willCacheResponse)
      let task = session.dataTask(with: try Request(server.url("/hello")))
      task.delegate = silent
      task.resume()
      #expect(await eventually { silent.asked == ["store"] })
      if !bySession { task.cancel() }
      session.invalidateAndCancel()
      #expect(await eventually(seconds: 20) { delegate.entries.last == "invalid" })
      silent.answer()
      session.delegateQueue.sync {}
      #expect(delegate.entries == ["completed cancelled completed", "invalid"])
      #expect(task.error?.code == .cancelled && task.error?.requestBytesSent == true)
      #expect(task.error?.response?.statusCode == 200)
      #expect(store.texts.isEmpty)
    }
  }
}
