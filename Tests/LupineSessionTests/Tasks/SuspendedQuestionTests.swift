import Dispatch
import FoundationEssentials
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// Tasks that wait for a date, a network or a delegate, while they are suspended or their session is to end behind them.
@Suite(.timeLimit(.minutes(2))) struct SuspendedQuestionTests {
  /// A session that is to end finishes what waits for a network.
  @Test func aNetworkThatComesBehindTheEnd() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let isThere = Locked(false)
    try await withDelegate(configure: { $0.waitForNetwork(Locked(0)) { _ in isThere.withLock { $0 } } }) {
      session, delegate in
      session.dataTask(with: try Request(server.url("/hello"))).resume()
      #expect(await eventually { delegate.entries == ["created", "waiting"] })
      session.finishTasksAndInvalidate()
      isThere.withLock { $0 = true }
      #expect(await delegate.hasEnded("invalid"))
      #expect(
        delegate.entries == [
          "created", "waiting", "response 200", "data", "metrics", "completed well completed", "invalid",
        ])
    }
  }

  /// A session that is to end finishes what waits for its date.
  @Test func aDateBehindTheEnd() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    try await withDelegate([.completed, .becameInvalid]) { session, delegate in
      let task = session.dataTask(with: try Request(server.url("/hello")))
      let date = Date(timeIntervalSinceNow: 0.5)
      task.earliestBeginDate = date
      task.resume()
      session.finishTasksAndInvalidate()
      #expect(await delegate.hasEnded("invalid"))
      #expect(delegate.entries == ["completed well completed", "invalid"] && date.timeIntervalSinceNow <= 0)
    }
  }

  /// A task that is suspended between two exchanges goes on when it is resumed, also behind the word that its session is to end.
  @Test func resumedBehindTheEnd() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let answers = KeptAnswers()
    var behaviour = RecordingDelegate.Answers()
    behaviour.manner = answers.manner
    try await withDelegate([.redirection, .completed, .becameInvalid], behaviour) { session, delegate in
      let task = session.dataTask(with: try Request(server.url("/redirect?to=/hello")))
      task.resume()
      #expect(await answers.hasOne())
      task.suspend()
      answers.give()
      session.finishTasksAndInvalidate()
      _ = await session.poolStatistics()
      #expect(server.requestCount == 1 && delegate.entries == ["redirect 302"])
      task.resume()
      #expect(await delegate.hasEnded("invalid"))
      #expect(delegate.entries == ["redirect 302", "completed well completed", "invalid"] && server.requestCount == 2)
    }
  }

  /// A body that is made anew while its task is suspended is sent once, when it is resumed.
  @Test func aNewBodyOfASuspendedTask() async throws {
    let server = try LoopbackServer(
      routes: [
        ServerRoute(nil, "/from") { _, connection in
          _ = try connection.readBody()
          try connection.respond(307, fields: ["Location": "/echo"])
        }
      ] + ServerRoute.standard())
    defer { server.shutdown() }
    let answers = KeptAnswers()
    var behaviour = RecordingDelegate.Answers()
    behaviour.newBody = { BodyStream([Array("an".utf8), Array("ew".utf8)]) }
    behaviour.manner = answers.manner
    try await withDelegate([.needNewBodyStream, .receivedData, .completed], behaviour) { session, delegate in
      var request = try Request(server.url("/from"), method: .post)
      request.body = .stream(length: nil, isReplayable: false) { BodyStream([Array("once".utf8)]) }
      let task = session.uploadTask(withStreamedRequest: request)
      task.resume()
      #expect(await answers.hasOne())
      task.suspend()
      answers.give()
      _ = await session.poolStatistics()
      #expect(server.requestCount == 1)
      task.resume()
      #expect(await delegate.hasEnded())
      #expect(delegate.entries == ["newBody", "data", "completed well completed"] && server.requestCount == 2)
      #expect(String(decoding: delegate.data, as: UTF8.self) == "anew")
    }
  }

  /// Once is enough, before it began and between, however often it was suspended.
  @Test func suspensionsDoNotAddUp() async throws {
    let go = try Latch()
    let server = try LoopbackServer(routes: ServerRoute.standard(latch: go))
    defer {
      go.release()
      server.shutdown()
    }
    try await withDelegate([.completed]) { session, delegate in
      let task = session.dataTask(with: try Request(server.url("/slow?n=100000&after=1000")))
      for _ in 0..<2 { task.suspend() }
      _ = await session.poolStatistics()
      #expect(task.state == .suspended && server.requestCount == 0)
      task.resume()
      #expect(await eventually { task.countOfBytesReceived == 1000 })
      for _ in 0..<2 { task.suspend() }
      // The engine has heard of it before the rest is sent, else one turn could read all of that first.
      _ = await session.poolStatistics()
      go.release()
      _ = await session.poolStatistics()
      #expect(task.state == .suspended && delegate.entries == [])
      task.resume()
      #expect(await delegate.hasEnded())
      #expect(delegate.entries == ["completed well completed"] && task.countOfBytesReceived == 100_000)
    }
  }

  /// The task ends when its time is over, and what it is told of a challenge after that is neither sent nor kept.
  @Test(arguments: [true, false]) func aChallengeThatIsNeverAnswered(_ isWhole: Bool) async throws {
    let go = try Latch()
    let server = try LoopbackServer { _, connection in
      let fields: ServerFields = ["WWW-Authenticate": "Basic realm=\"a\""]
      if isWhole { return try connection.respond(401, fields: fields, body: []) }
      try connection.begin(401, fields: fields, framing: .length(10))
      try connection.write([1, 2, 3])
      _ = try connection.stall(until: go)
    }
    defer {
      go.release()
      server.shutdown()
    }
    let storage = CredentialStorage()
    let answers = KeptAnswers()
    var behaviour = RecordingDelegate.Answers()
    behaviour.challenge = { _ in .useCredential(AuthenticationTests.aladdin) }
    behaviour.manner = answers.manner
    try await withDelegate([.taskChallenge, .completed], behaviour, configure: { $0.credentialStorage = storage }) {
      session, delegate in
      var request = try Request(server.url("/"))
      request.totalTimeout = .seconds(3)
      session.dataTask(with: request).resume()
      #expect(await delegate.hasEnded())
      #expect(delegate.entries == ["challenge 401", "completed timedOut completed"])
      #expect(delegate.error?.phase == .total)
      answers.give()
      session.delegateQueue.sync {}
      _ = await session.poolStatistics()
      #expect(delegate.entries.count == 2 && server.requestCount == 1)
      #expect(storage.protectionSpaces.isEmpty)
    }
  }
}
