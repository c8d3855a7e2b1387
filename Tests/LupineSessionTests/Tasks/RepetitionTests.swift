import Dispatch
import FoundationEssentials
import LupineBase
import LupineSession
import LupineTesting
import LupineWire
import Testing

/// Tasks whose delegate has them sent again.
@Suite(.timeLimit(.minutes(2))) struct RepetitionTests {
  /// Repeats whatever may be repeated.
  final class Patient: RepeatingTaskDelegate {
    let handledCallbacks: CallbackSet = [.repetition, .waitingForConnectivity]
    let waits = Locked(0)
    let repetitions = Locked(0)
    private let limit: Int

    /// Has tasks sent again so many times.
    init(_ limit: Int = .max) { self.limit = limit }

    func session(_ session: Session, taskIsWaitingForConnectivity task: SessionTask) { waits.withLock { $0 += 1 } }

    func session(
      _ session: Session, task: SessionTask, prepare request: Request,
      completionHandler: @escaping @Sendable (Result<Request, SessionError>) -> Void
    ) {
      dispatchPrecondition(condition: .onQueue(session.delegateQueue))
      completionHandler(.success(request))
    }

    func session(
      _ session: Session, task: SessionTask, mayRepeatAfter error: SessionError?,
      completionHandler: @escaping @Sendable (Bool) -> Void
    ) {
      dispatchPrecondition(condition: .onQueue(session.delegateQueue))
      completionHandler(
        repetitions.withLock { repetitions in
          repetitions += 1
          return repetitions <= limit
        })
    }
  }

  /// Every other request fails, for example as on a machine without network.
  private final class Shaky: Transport {
    private let network: NetworkTransport
    private let code: SessionError.Code
    private let isDown = Locked(false)

    init(_ network: NetworkTransport, _ code: SessionError.Code = .notConnected) {
      self.network = network
      self.code = code
    }

    func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
      let isDown = isDown.withLock { isDown in
        isDown.toggle()
        return isDown
      }
      guard isDown else { return network.start(request, receiver) }
      let exchange = IdleExchange()
      receiver.end(
        SessionError(code, phase: .connect, message: "no network"), metrics: TransactionMetrics(), of: exchange)
      return exchange
    }
  }

  /// However many attempts wait for a network, the task says so once.
  @Test func theWaitForConnectivityIsToldOnce() async throws {
    let count = Locked(0)
    let server = try LoopbackServer(
      routes: [
        ServerRoute(nil, "/busy") { _, connection in
          let number = count.withLock { count in
            count += 1
            return count
          }
          try connection.respond(number < 3 ? 503 : 200)
        }
      ])
    defer { server.shutdown() }
    let transport = Shaky(try NetworkTransport(SessionConfiguration()))
    try await withDelegate([.completed]) {
      $0.transport = transport
      $0.waitsForConnectivity = true
    } _: { session, delegate in
      let patient = Patient()
      let task = session.dataTask(with: try Request(server.url("/busy")))
      task.delegate = patient
      task.resume()
      #expect(await delegate.hasEnded())
      #expect(delegate.entries == ["completed well completed"])
      #expect(task.response?.statusCode == 200)
      #expect(patient.repetitions.withLock { $0 } == 2 && server.requestCount == 3)
      #expect(patient.waits.withLock { $0 } == 1)
    }
  }

  /// Every attempt may follow as many redirects as a task; those of all of them were followed.
  @Test func redirectsOfEveryAttempt() async throws {
    let count = Locked(0)
    let server = try LoopbackServer(routes: [
      ServerRoute(nil, "/from") { _, connection in try connection.respond(302, fields: ["Location": "/busy"]) },
      ServerRoute(nil, "/busy") { _, connection in
        let number = count.withLock { count in
          count += 1
          return count
        }
        try connection.respond(number == 1 ? 503 : 200)
      },
    ])
    defer { server.shutdown() }
    try await withDelegate([.completed], configure: { $0.redirects.limit = 1 }) { session, delegate in
      let patient = Patient()
      let task = session.dataTask(with: try Request(server.url("/from")))
      task.delegate = patient
      task.resume()
      #expect(await delegate.hasEnded())
      let response = try #require(task.response)
      #expect(response.statusCode == 200 && response.redirects.count == 1)
      #expect(response.metrics.redirectCount == 2 && response.metrics.transactions.count == 4)
    }
  }

  /// Nobody is asked about what was cancelled, be it by the end of another session that has the same transport.
  @Test func nobodyIsAskedAboutACancellation() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let transport = Shaky(try NetworkTransport(SessionConfiguration()), .cancelled)
    try await withDelegate([.completed], configure: { $0.transport = transport }) { session, delegate in
      let patient = Patient()
      let task = session.dataTask(with: try Request(server.url("/hello")))
      task.delegate = patient
      task.resume()
      #expect(await delegate.hasEnded())
      #expect(task.error?.code == .cancelled)
      #expect(patient.repetitions.withLock { $0 } == 0 && server.requestCount == 0)
    }
  }

  /// Gives the request of each attempt so much time.
  private final class Generous: RepeatingTaskDelegate {
    let handledCallbacks: CallbackSet = .repetition
    let takesTimeToPrepare = false

    func session(
      _ session: Session, task: SessionTask, prepare request: Request,
      completionHandler: @escaping @Sendable (Result<Request, SessionError>) -> Void
    ) {
      var request = request
      request.totalTimeout = .seconds(60)
      completionHandler(.success(request))
    }

    func session(
      _ session: Session, task: SessionTask, mayRepeatAfter error: SessionError?,
      completionHandler: @escaping @Sendable (Bool) -> Void
    ) {
      completionHandler(false)
    }
  }

  /// A network is waited for as long as the request has that is sent, and not the one that the task was made with.
  @Test func theWaitForConnectivityHasTheTimeOfTheRequestThatIsSent() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let transport = Shaky(try NetworkTransport(SessionConfiguration()))
    try await withDelegate([.completed]) {
      $0.transport = transport
      $0.waitsForConnectivity = true
    } _: { session, delegate in
      var request = try Request(server.url("/hello"))
      request.totalTimeout = .nanoseconds(1)
      let task = session.dataTask(with: request)
      task.delegate = Generous()
      task.resume()
      #expect(await delegate.hasEnded())
      #expect(task.error == nil && task.response?.statusCode == 200)
    }
  }

  /// Each attempt may answer as many challenges as the first one; a password that was refused stays refused.
  @Test(arguments: [true, false]) func everyAttemptAnswersItsChallenges(_ isRight: Bool) async throws {
    let right = "Basic " + Data("user:right".utf8).base64EncodedString()
    let server = try LoopbackServer { request, connection in
      if request.fields.first("Authorization") == right { return try connection.respond(503) }
      try connection.respond(401, fields: ["WWW-Authenticate": "Basic realm=\"r\""])
    }
    defer { server.shutdown() }
    try await withDelegate([.completed], configure: { $0.authentication.isPreemptive = false }) { session, delegate in
      var request = try Request(server.url("/"))
      request.credential = .password(user: "user", password: isRight ? "right" : "wrong")
      let task = session.dataTask(with: request)
      task.delegate = Patient(7)
      task.resume()
      #expect(await delegate.hasEnded())
      #expect(task.error == nil && task.response?.statusCode == (isRight ? 503 : 401))
      #expect(server.authorizations.compactMap { $0 }.count == (isRight ? 8 : 1))
      #expect(server.requestCount == (isRight ? 16 : 9))
    }
  }

  /// Nobody is asked about a task whose time is over: whoever repeats time-outs would go on for ever.
  @Test func nobodyIsAskedWhenTheTimeIsOver() async throws {
    let server = try LoopbackServer(
      routes: [ServerRoute(nil, "/silent") { _, connection in try connection.stall(until: nil) }])
    defer { server.shutdown() }
    try await withDelegate([.completed]) { session, delegate in
      let patient = Patient()
      var request = try Request(server.url("/silent"))
      request.totalTimeout = .seconds(2)
      let task = session.dataTask(with: request)
      task.delegate = patient
      task.resume()
      #expect(await delegate.hasEnded())
      #expect(task.error?.code == .timedOut && task.error?.phase == .total)
      #expect(patient.repetitions.withLock { $0 } == 0 && server.requestCount == 1)
    }
  }

  /// Leaves one of its questions open.
  final class Undecided: RepeatingTaskDelegate {
    enum Question { case repetition, secondRequest }

    let handledCallbacks: CallbackSet = [.repetition]
    let requests = Locked(0)
    let forgotten = Locked(0)
    /// What answers the question.
    let answers = Locked<[@Sendable () -> Void]>([])
    private let question: Question

    init(_ question: Question) { self.question = question }

    func session(
      _ session: Session, task: SessionTask, prepare request: Request,
      completionHandler: @escaping @Sendable (Result<Request, SessionError>) -> Void
    ) {
      dispatchPrecondition(condition: .onQueue(session.delegateQueue))
      let isFirst = requests.withLock { requests in
        requests += 1
        return requests == 1
      }
      guard question == .secondRequest, !isFirst else { return completionHandler(.success(request)) }
      answers.withLock { $0.append { completionHandler(.success(request)) } }
    }

    func session(
      _ session: Session, task: SessionTask, mayRepeatAfter error: SessionError?,
      completionHandler: @escaping @Sendable (Bool) -> Void
    ) {
      dispatchPrecondition(condition: .onQueue(session.delegateQueue))
      guard question == .repetition else { return completionHandler(true) }
      answers.withLock { $0.append { completionHandler(true) } }
    }

    func forgetData() { forgotten.withLock { $0 += 1 } }
  }

  /// The answer that there is, is the result when the time for another one is over: as it came, whatever is decided behind that.
  @Test(arguments: [Undecided.Question.repetition, .secondRequest])
  func aDecisionThatNeverComes(_ question: Undecided.Question) async throws {
    let server = try LoopbackServer(
      routes: [ServerRoute(nil, "/busy") { _, connection in try connection.respond(503, text: "busy") }])
    defer { server.shutdown() }
    try await withDelegate([.completed]) { session, delegate in
      let undecided = Undecided(question)
      var request = try Request(server.url("/busy"))
      request.totalTimeout = .seconds(2)
      let task = session.dataTask(with: request)
      task.delegate = undecided
      task.resume()
      #expect(await delegate.hasEnded())
      #expect(task.error == nil && task.response?.statusCode == 503)
      let answers = undecided.answers.withLock { $0 }
      #expect(answers.count == 1, "nobody was asked")
      for answer in answers { answer() }
      session.delegateQueue.sync {}
      #expect(undecided.requests.withLock { $0 } == (question == .repetition ? 1 : 2))
      #expect(delegate.entries.count == 1 && server.requestCount == 1)
      #expect(task.countOfBytesReceived == 4 && undecided.forgotten.withLock { $0 } == 0)
    }
  }
}
