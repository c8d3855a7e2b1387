import FoundationEssentials
import HTTPTypes
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// What the exchanges of a task after its first carry along, and what is said of those before them.
@Suite(.timeLimit(.minutes(5))) struct LaterExchangeTests {
  // MARK: Secrets

  private func key() throws -> HTTPField.Name { try #require(HTTPField.Name("X-Own-Key")) }

  private func keys(_ server: LoopbackServer) -> [String?] {
    server.recordedRequests.map { $0.fields.first("X-Own-Key") }
  }

  /// Two servers that redirect to where they are told.
  private func withTwo(_ body: (_ home: LoopbackServer, _ away: LoopbackServer) async throws -> Void) async throws {
    let home = try LoopbackServer(routes: ServerRoute.standard())
    let away = try LoopbackServer(routes: ServerRoute.standard())
    defer {
      home.shutdown()
      away.shutdown()
    }
    try await body(home, away)
  }

  /// A request that takes the place of the task's own has marks of its own.
  @Test func secretsOfADelayedRequestStayAtHome() async throws {
    try await withTwo { home, away in
      let key = try key()
      var marked = try Request(home.url("/redirect?to=\(away.url("/hello"))"))
      marked.fields[key] = "s"
      marked.sensitiveFields = [key]
      var answers = RecordingDelegate.Answers()
      answers.delayed = { [marked] _ in .useNewRequest(marked) }
      try await withDelegate(.all, answers) { session, delegate in
        let task = session.dataTask(with: try Request(home.url("/json")))
        task.earliestBeginDate = Date.now.addingTimeInterval(1)
        task.resume()
        #expect(await delegate.hasEnded())
        #expect(keys(home) == ["s"])
        #expect(keys(away) == [nil])
        #expect(task.currentRequest.fields[key] == nil)
      }
    }
  }

  /// So has one that a delegate answers a redirect with.
  @Test func secretsOfARedirectAnswerStayAtHome() async throws {
    try await withTwo { home, away in
      let key = try key()
      var answers = RecordingDelegate.Answers()
      answers.redirection = { [start = home.url("/")] proposed in
        guard proposed.urlString.hasPrefix(start) else { return proposed }
        var answer = proposed
        answer.fields[key] = "s"
        answer.sensitiveFields = [key]
        return answer
      }
      try await withDelegate(.all, answers) { session, delegate in
        let there = "\(home.url("/redirect"))%3Fto=\(away.url("/hello"))"
        let task = session.dataTask(with: try Request(home.url("/redirect?to=\(there)")))
        task.resume()
        #expect(await delegate.hasEnded())
        #expect(keys(home) == [nil, "s"])
        #expect(keys(away) == [nil])
      }
    }
  }

  /// Has a task sent with what it makes of the request.
  private final class Mover: RepeatingTaskDelegate {
    let handledCallbacks: CallbackSet = [.repetition]
    private let move: @Sendable (Request) -> Request

    init(_ move: @escaping @Sendable (Request) -> Request) { self.move = move }

    func session(
      _ session: Session, task: SessionTask, prepare request: Request,
      completionHandler: @escaping @Sendable (Result<Request, SessionError>) -> Void
    ) {
      completionHandler(.success(move(request)))
    }

    func session(
      _ session: Session, task: SessionTask, mayRepeatAfter error: SessionError?,
      completionHandler: @escaping @Sendable (Bool) -> Void
    ) {
      completionHandler(false)
    }
  }

  enum Asked: CaseIterable { case redirection, delayed, prepared }

  /// Who is shown a request and gives it another URL moves none of its secrets, those that the session marks included; what is set behind that goes.
  @Test(arguments: Asked.allCases) func secretsOfARequestThatIsMovedStayAtHome(_ asked: Asked) async throws {
    try await withTwo { home, away in
      let key = try key()
      let move: @Sendable (Request) -> Request = { [url = away.url("/hello")] shown in
        var answer = shown
        guard (try? answer.setURL(url)) != nil else { return shown }
        answer.fields[.acceptLanguage] = "en"
        return answer
      }
      var answers = RecordingDelegate.Answers()
      if asked == .redirection { answers.redirection = move }
      if asked == .delayed { answers.delayed = { .useNewRequest(move($0)) } }
      try await withDelegate(.all, answers, configure: { $0.sensitiveFields = [key] }) { session, delegate in
        var request = try Request(home.url(asked == .redirection ? "/redirect?to=/hello" : "/hello"))
        request.fields[key] = "s"
        request.fields[.authorization] = "Bearer t"
        request.fields[.cookie] = "a=b"
        let task = session.dataTask(with: request)
        if asked == .delayed { task.earliestBeginDate = Date.now.addingTimeInterval(0.1) }
        let mover = Mover(move)
        if asked == .prepared { task.delegate = mover }
        task.resume()
        #expect(await eventually { task.state == .completed })
        #expect(keys(home) == (asked == .redirection ? ["s"] : []))
        let there = try #require(away.recordedRequests.first)
        #expect(there.fields.first("Accept-Language") == "en")
        for name in [key.rawName, "Authorization", "Cookie"] { #expect(there.fields.first(name) == nil, "\(name)") }
      }
    }
  }

  // MARK: Cookies

  /// Whether cookies are kept is a matter of the request that was answered, not of the one that the task began with.
  @Test func cookiesOfARequestThatHandlesNone() async throws {
    let server = try LoopbackServer(routes: [
      ServerRoute(nil, "/from") { _, connection in
        try connection.respond(302, fields: ["Location": "/to", "Set-Cookie": "a=1"])
      },
      ServerRoute(nil, "/to") { _, connection in try connection.respond(fields: ["Set-Cookie": "b=2"], text: "there") },
    ])
    defer { server.shutdown() }
    for handles in [true, false] {
      var answers = RecordingDelegate.Answers()
      answers.redirection = { proposed in
        var answer = proposed
        answer.handlesCookies = handles
        return answer
      }
      let jar = CookieStorage()
      try await withDelegate(.all, answers, configure: { $0.cookieStorage = jar }) { session, delegate in
        session.dataTask(with: try Request(server.url("/from"))).resume()
        #expect(await delegate.hasEnded())
        #expect(jar.cookies.map(\.name).sorted() == (handles ? ["a", "b"] : ["a"]))
      }
    }
  }

  // MARK: What has left

  /// The answer to the first request shows that it has left, whatever becomes of the one that it leads to.
  @Test func anAnsweredRequestHasLeft() async throws {
    let gone = try RefusingPort()
    let receipt = gone.url + "/receipt"
    let pay = ServerRoute(nil, "/pay") { _, connection in
      _ = try connection.readBody()
      try connection.respond(303, fields: ["Location": receipt])
    }
    try await withServer([pay]) { session, server in
      let direct = try await failure { try await session.data(from: receipt) }
      #expect(direct.code == .cannotConnect && !direct.requestBytesSent, "\(direct)")
      let request = try Request(server.url("/pay"), method: .post, body: .bytes([1]))
      let error = try await failure { try await session.data(for: request) }
      #expect(error.code == .cannotConnect && error.requestBytesSent, "\(error)")
    }
    withExtendedLifetime(gone) {}
  }

  /// Not that of a cache: the second time nothing leaves at all.
  @Test func aStoredRedirectHasNotLeft() async throws {
    let gone = try RefusingPort()
    let target = gone.url + "/target"
    let moved = ServerRoute(nil, "/moved") { _, connection in
      try connection.respond(301, fields: ["Location": target, "Cache-Control": "max-age=1000"], text: "moved")
    }
    let cache = ResponseCache(memoryCapacity: 1 << 20)
    try await withServer([moved], configure: { $0.responseCache = cache }) { session, server in
      for hasLeft in [true, false] {
        let error = try await failure { try await session.data(from: server.url("/moved")) }
        #expect(error.code == .cannotConnect && error.requestBytesSent == hasLeft, "\(error)")
        #expect(error.metrics?.redirectCount == 1)
      }
      #expect(server.requestCount == 1)
    }
    withExtendedLifetime(gone) {}
  }

  /// So does an attempt of the engine on a connection that had died, when the next one finds nobody.
  @Test func anAttemptOfTheEngineHasLeft() async throws {
    let directory = try ScratchDirectory()
    let path = directory.path + "/socket"
    let script: [ScriptStep] = [
      .readHead, .send(reply("once")), .readHead, .perform { try? TextFile.remove(path) }, .close,
    ]
    try await withScript([script], address: .unix(path), configure: { $0.unixSocketPath = path }) { session, server in
      try await session.expect("once", from: "http://any.example/")
      let error = try await failure { try await session.data(from: "http://any.example/") }
      #expect(error.code == .cannotConnect && error.requestBytesSent, "\(error)")
    }
  }

  /// Bytes that died with a connection were not sent: neither to who counts them, nor to delegates.
  @Test func bytesOfADeadAttemptDoNotCount() async throws {
    let size = 4 << 20
    let data = Data(PatternBody.bytes(size))
    let script: [[ScriptStep]] = [
      [.readHead, .send(reply("one")), .readHead, .read(100_000), .reset],
      [.readHead, .readBody, .send(reply("two")), .waitForClose],
    ]
    try await withScript(script) { session, server in
      try await session.expect("one", from: server.url())
      let totals = Locked<[Int64]>([])
      let request = try Request(server.url(), method: .put)
      let (_, response) = try await session.upload(for: request, from: data) { total in
        totals.withLock { $0.append(total) }
      }
      #expect(response.metrics.transactions.last?.retryCount == 1)
      let (last, most) = totals.withLock { ($0.last, $0.max()) }
      #expect(last == Int64(size) && most == Int64(size))
    }
    try await withScript(script) { session, server in
      try await session.expect("one", from: server.url())
      let delegate = RecordingDelegate()
      let task = session.uploadTask(with: try Request(server.url(), method: .put), from: data)
      task.delegate = delegate
      task.resume()
      #expect(await delegate.hasEnded())
      #expect(task.countOfBytesSent == Int64(size) && delegate.sentBytes == Int64(size))
    }
  }

  // MARK: Streamed uploads

  /// Bodies with numbers.
  private func numbered() -> (answers: RecordingDelegate.Answers, asked: Locked<Int>) {
    let asked = Locked(0)
    var answers = RecordingDelegate.Answers()
    answers.newBody = {
      let number = asked.withLock { asked in
        asked += 1
        return asked
      }
      return BodyStream([Array("body \(number)".utf8)])
    }
    return (answers, asked)
  }

  /// A 401 makes the server ask for the body again, which the request does not have: the delegate has.
  @Test func aChallengedStreamIsAskedForAgain() async throws {
    let server = try LoopbackServer(handler: AuthenticationTests.demanding(AuthenticationTests.basic))
    defer { server.shutdown() }
    let (answers, asked) = numbered()
    try await withDelegate(.all, answers, configure: { $0.credentialStorage = CredentialStorage() }) {
      session, delegate in
      var request = try Request(server.url("/"), method: .put)
      request.credential = AuthenticationTests.aladdin
      session.uploadTask(withStreamedRequest: request).resume()
      #expect(await delegate.hasEnded())
      #expect(server.recordedRequests.map(\.text) == ["body 1", "body 2"])
      #expect(String(decoding: delegate.data, as: UTF8.self) == "welcome 6")
      #expect(asked.withLock { $0 } == 2)
    }
  }

  /// Digest with the body's hash: nobody can hash what a delegate makes, and the hash of nothing is not it.
  @Test func aStreamIsNotHashedAsNothing() async throws {
    var options = DigestAuthority.Options()
    options.quality = "auth-int"
    try await withDigest(options) { session, server, authority in
      let delegate = RecordingDelegate(.all, numbered().answers)
      var request = try Request(server.url("/"), method: .put)
      request.credential = .mufasa
      let task = session.uploadTask(withStreamedRequest: request)
      task.delegate = delegate
      task.resume()
      #expect(await delegate.hasEnded())
      #expect(delegate.error?.code == .cannotAuthenticate)
      #expect(delegate.error?.requestBytesSent == true)
      #expect(server.requestCount == 1 && authority.admitted == 0)
    }
  }

  // MARK: Waiting

  private final class Weak: @unchecked Sendable {
    weak var session: Session?
  }

  /// Nobody waits for the date of a task that was cancelled.
  @Test func aCancelledTaskLetsItsSessionGoBeforeItsDate() async throws {
    let weak = Weak()
    let delegate = RecordingDelegate()
    try begin(weak, delegate)
    #expect(await delegate.hasEnded())
    #expect(delegate.error?.code == .cancelled)
    #expect(await eventually { weak.session == nil })
  }

  /// Apart, so that nothing is held when this returns.
  private func begin(_ weak: Weak, _ delegate: RecordingDelegate) throws {
    var configuration = SessionConfiguration()
    configuration.engine = .own
    let session = try Session(configuration)
    weak.session = session
    let task = session.dataTask(with: try Request("http://127.0.0.1/"))
    task.delegate = delegate
    task.earliestBeginDate = Date.now.addingTimeInterval(86_400)
    task.resume()
    task.cancel()
  }
}
