import Dispatch
import FoundationEssentials
import HTTPTypes
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// Tasks by themselves: what URLSession on Linux does not deliver above all (`suspend` of a running task crashes there, suspensions add up,
/// invalidation forgets completions, counts stay 0, a streamed upload is framed twice, a 307 of it hangs).
@Suite(.timeLimit(.minutes(5))) struct TaskTests {
  /// The socket is not read: the server cannot get rid of more than the buffers between hold.
  @Test func suspendStopsReading() async throws {
    let total = 64 << 20
    let piece = [UInt8](repeating: 0x61, count: 64 << 10)
    let isSuspended = try Latch()
    let server = try LoopbackServer(routes: [
      ServerRoute(nil, "/flood") { _, connection in
        try connection.begin(framing: .length(total))
        try connection.write(piece)
        // However long it takes to come to that.
        _ = try connection.stall(until: isSuspended)
        for _ in 1..<(total / piece.count) { try connection.write(piece) }
        try connection.finish()
      }
    ])
    defer { server.shutdown() }
    try await withDelegate { session, delegate in
      let task = session.dataTask(with: try Request(server.url("/flood")))
      task.resume()
      #expect(await eventually { task.countOfBytesReceived > 0 })
      task.suspend()
      task.suspend()
      #expect(task.state == .suspended)
      isSuspended.release()
      // What was on its way arrives; then nothing does.
      var last = Int64(-1)
      var still = 0
      #expect(
        await eventually {
          let now = task.countOfBytesReceived
          still = now == last ? still + 1 : 0
          last = now
          return still > 2_000
        })
      #expect(last < total)
      #expect(!delegate.entries.contains { $0.hasPrefix("completed") })
      task.resume()
      #expect(await delegate.hasEnded())
      #expect(delegate.data.count == total)
      #expect(delegate.entries.last == "completed well completed")
    }
  }

  /// A suspended task follows no redirect until it is resumed.
  @Test func suspendHoldsTheNextExchange() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let current = Locked<SessionTask?>(nil)
    var answers = RecordingDelegate.Answers()
    answers.redirection = { request in
      current.withLock { $0 }?.suspend()
      return request
    }
    try await withDelegate(.all, answers) { session, delegate in
      let task = session.dataTask(with: try Request(server.url("/redirect?to=/hello")))
      current.withLock { $0 = task }
      task.resume()
      #expect(await eventually { task.state == .suspended })
      // Another task comes and goes meanwhile: this one has had its chance.
      _ = try await session.data(from: server.url("/json"))
      #expect(server.recordedRequests.map(\.path) == ["/redirect", "/json"])
      task.resume()
      #expect(await delegate.hasEnded())
      #expect(String(decoding: delegate.data, as: UTF8.self) == "Hello, world!")
    }
  }

  @Test func cancelBeforeResumeCompletes() async throws {
    try await withDelegate { session, delegate in
      let task = session.dataTask(with: try Request("http://127.0.0.1:1/"))
      task.cancel()
      #expect(await delegate.hasEnded())
      #expect(delegate.entries == ["created", "metrics", "completed cancelled completed"])
      task.resume()
      task.cancel()
      #expect(task.state == .completed)
    }
  }

  @Test func invalidateAndCancelCompletesEveryTask() async throws {
    let server = try ScriptedServer(Array(repeating: [.readHead, .stall(nil)], count: 6))
    defer { server.shutdown() }
    let delegate = RecordingDelegate()
    let session = try Session(delegate: delegate, delegateQueue: delegate.queue)
    let tasks = try (0..<20).map { _ in session.dataTask(with: try Request(server.url())) }
    for task in tasks { task.resume() }
    #expect(await eventually { server.recordedRequests.count == 6 })
    #expect(await session.tasks.count == 20)
    session.invalidateAndCancel()
    #expect(await delegate.hasEnded("invalid"))
    // One each: a second one of the same task would be misplaced.
    #expect(delegate.entries.count { $0.hasPrefix("completed cancelled") } == 20)
    #expect(delegate.entries.last == "invalid")
    for task in tasks { #expect(task.state == SessionTask.State.completed && task.error != nil) }
    #expect(await session.tasks.isEmpty)
    // One that comes later says so, and the session stays silent.
    let late = session.dataTask(with: try Request(server.url()))
    late.resume()
    #expect(late.error?.code == .sessionInvalidated)
    #expect(delegate.misplaced == 0)
  }

  @Test func theListOfTasksHoldsAsyncCallsToo() async throws {
    try await withScript([[.readHead, .stall(nil)]]) { session, server in
      let call = Task { try await session.data(from: server.url("/x")) }
      #expect(await eventually { server.recordedRequests.count == 1 })
      let listed = await session.tasks
      #expect(listed.count == 1)
      let task = try #require(listed.first)
      #expect(task is DataTask && task.state == .running)
      #expect(task.originalRequest.urlString == server.url("/x"))
      let again = await session.tasks
      #expect(again == listed && again.first === task)
      let byCallback = Locked<[SessionTask]?>(nil)
      session.getAllTasks { tasks in byCallback.withLock { $0 = tasks } }
      #expect(await eventually { byCallback.withLock { $0 == listed } })
      task.cancel()
      try await expectFailure(.cancelled) { try await call.value }
      #expect(task.state == .completed)
    }
  }

  @Test func identifiersAreUniqueAcrossSessions() throws {
    let sessions = [try Session(), try Session()]
    let request = try Request("http://127.0.0.1:1/")
    let identifiers = (0..<1_000).map { sessions[$0 % 2].dataTask(with: request).taskIdentifier }
    #expect(Set(identifiers).count == 1_000)
    #expect(identifiers == identifiers.sorted())
  }

  @Test func progressIsCountedAndStreamed() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    try await withDelegate { session, delegate in
      let task = session.uploadTask(
        with: try Request(server.url("/echo"), method: .post), from: Data(repeating: 7, count: 500_000))
      let updates = task.progressUpdates
      task.taskDescription = "an upload"
      #expect(task.countOfBytesExpectedToSend == 500_000)
      task.resume()
      var last: TaskProgress?
      for await progress in updates { last = progress }
      #expect(await delegate.hasEnded())
      #expect(last == task.progress)
      #expect(last?.countOfBytesSent == 500_000 && last?.countOfBytesExpectedToSend == 500_000)
      #expect(last?.countOfBytesReceived == 500_000 && last?.fractionReceived == 1 && last?.fractionSent == 1)
      #expect(delegate.sentBytes == 500_000)
      // The server answers when it has all of it.
      #expect(
        delegate.entries == ["created", "sent", "response 200", "data", "metrics", "completed well completed"])
      #expect(task.taskDescription == "an upload")
    }
  }

  // MARK: Streamed uploads

  @Test func aStreamedUploadIsFramedOnce() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    try await withDelegate { session, delegate in
      var request = try Request(server.url("/echo"), method: .post)
      request.body = .stream(length: nil, isReplayable: false) { BodyStream([Array("str".utf8), Array("eamed".utf8)]) }
      let task = session.uploadTask(withStreamedRequest: request)
      task.resume()
      #expect(await delegate.hasEnded())
      let sent = try #require(server.recordedRequests.first)
      #expect(sent.fields.values("Transfer-Encoding") == ["chunked"])
      #expect(sent.fields.first("Content-Length") == nil)
      #expect(String(decoding: delegate.data, as: UTF8.self) == "streamed")
      #expect(task.countOfBytesExpectedToSend == nil)
    }
  }

  /// A 307 asks for the body again: from the delegate, if the request's stream cannot be read twice.
  @Test(arguments: [true, false]) func aRedirectedStreamIsAskedForAgain(_ hasOne: Bool) async throws {
    let server = try LoopbackServer(
      routes: [
        ServerRoute(nil, "/from") { _, connection in
          _ = try connection.readBody()
          try connection.respond(307, fields: ["Location": "/echo"])
        }
      ] + ServerRoute.standard())
    defer { server.shutdown() }
    var answers = RecordingDelegate.Answers()
    let asked = Locked(0)
    answers.newBody = {
      let number = asked.withLock { asked in
        asked += 1
        return asked
      }
      return hasOne || number == 1 ? BodyStream([Array("body \(number)".utf8)]) : nil
    }
    try await withDelegate(.all, answers) { session, delegate in
      let task = session.uploadTask(withStreamedRequest: try Request(server.url("/from"), method: .post))
      task.resume()
      #expect(await delegate.hasEnded())
      #expect(server.recordedRequests.first?.text == "body 1")
      let calls = delegate.entries
      #expect(calls.prefix(5) == ["created", "newBody", "sent", "redirect 307", "newBody"])
      if hasOne {
        #expect(calls.dropFirst(5) == ["sent", "response 200", "data", "metrics", "completed well completed"])
        #expect(String(decoding: delegate.data, as: UTF8.self) == "body 2")
      } else {
        #expect(calls.dropFirst(5) == ["metrics", "completed requestBodyFailed completed"])
        #expect(asked.withLock { $0 } == 2)
      }
    }
  }

  // MARK: Delays

  @Test(arguments: 0..<3) func earliestBeginDate(_ disposition: Int) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let other = try Request(server.url("/json"))
    var answers = RecordingDelegate.Answers()
    answers.delayed = { _ in [.continueLoading, .useNewRequest(other), .cancel][disposition] }
    var isDelayed = false
    // On a busy machine the first dates may have come before the task begins: then nothing is delayed.
    for seconds in [0.05, 1, 30] where !isDelayed {
      try await withDelegate(.all, answers) { session, delegate in
        let task = session.dataTask(with: try Request(server.url("/hello")))
        let begin = Date.now.addingTimeInterval(seconds)
        task.earliestBeginDate = begin
        task.resume()
        #expect(await delegate.hasEnded())
        isDelayed = delegate.entries.contains("delayed")
        guard isDelayed || seconds == 30 else { return }
        #expect(Date.now >= begin)
        let rest =
          disposition == 2
          ? ["metrics", "completed cancelled completed"]
          : ["response 200", "data", "metrics", "completed well completed"]
        #expect(delegate.entries == ["created", "delayed"] + rest)
        if disposition < 2 {
          #expect(task.currentRequest.urlString == server.url(disposition == 0 ? "/hello" : "/json"))
        }
      }
    }
  }

  // MARK: Connectivity

  /// Fails so many requests as a machine without network does, then passes them on.
  private final class Unplugged: Transport {
    let network: NetworkTransport
    let failures: Locked<Int>
    /// When exchanges were begun, and what was left then of the time for the whole task.
    let begun = Locked<[(Date, Duration)]>([])

    init(failures: Int, _ network: NetworkTransport) {
      self.network = network
      self.failures = Locked(failures)
    }

    func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
      begun.withLock { $0.append((Date.now, request.totalTimeout)) }
      let fails = failures.withLock { failures in
        failures -= 1
        return failures >= 0
      }
      guard fails else { return network.start(request, receiver) }
      let exchange = IdleExchange()
      receiver.end(
        SessionError(.notConnected, phase: .connect, message: "no network"), metrics: TransactionMetrics(), of: exchange
      )
      return exchange
    }
  }

  private func withUnplugged(
    failures: Int, waits: Bool = true, _ body: (Session, RecordingDelegate, Unplugged) async throws -> Void
  ) async throws {
    let transport = Unplugged(failures: failures, try NetworkTransport(SessionConfiguration()))
    try await withDelegate(configure: { configuration in
      configuration.transport = transport
      configuration.waitsForConnectivity = waits
    }) { session, delegate in
      try await body(session, delegate, transport)
    }
  }

  /// The wait for a date is no part of the time for the whole task: everything else is, whatever the task begins with.
  @Test(arguments: [false, true]) func theDateIsNoPartOfTheResourceTimeout(_ isDownload: Bool) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    try await withUnplugged(failures: 3) { session, delegate, transport in
      var request = try Request(server.url("/hello"))
      request.totalTimeout = .seconds(60)
      let task = isDownload ? session.downloadTask(with: request) : session.dataTask(with: request)
      let begin = Date.now.addingTimeInterval(0.3)
      task.earliestBeginDate = begin
      task.resume()
      #expect(await delegate.hasEnded())
      let begun = transport.begun.withLock { $0 }
      try #require(begun.count == 4)
      let (first, left) = begun[0]
      #expect(left <= .seconds(60))
      #expect(left > .seconds(60 - first.timeIntervalSince(begin) - 0.01))
      // Between them are waits of 100, 200 and 400 ms.
      let (last, rest) = begun[3]
      #expect(left - rest > .seconds(last.timeIntervalSince(first) - 0.35))
    }
  }

  @Test(arguments: [true, false]) func waitingForConnectivity(_ waits: Bool) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    try await withUnplugged(failures: 2, waits: waits) { session, delegate, _ in
      let task = session.dataTask(with: try Request(server.url("/hello")))
      task.resume()
      #expect(await delegate.hasEnded())
      let expected =
        waits
        ? ["waiting", "response 200", "data", "metrics", "completed well completed"]
        : ["metrics", "completed notConnected completed"]
      #expect(delegate.entries == ["created"] + expected)
    }
  }

  /// A task that waits for a network can be cancelled, and its time is limited.
  @Test func waitingForConnectivityEnds() async throws {
    try await withUnplugged(failures: .max) { session, delegate, _ in
      var request = try Request("http://127.0.0.1:1/")
      request.totalTimeout = .milliseconds(300)
      let patient = session.dataTask(with: request)
      patient.resume()
      #expect(await delegate.hasEnded())
      #expect(patient.error?.code == .notConnected)
      let cancelled = session.dataTask(with: try Request("http://127.0.0.1:1/"))
      cancelled.resume()
      #expect(await eventually { delegate.entries.last == "waiting" })
      cancelled.cancel()
      #expect(await eventually { cancelled.state == .completed })
      #expect(cancelled.error?.code == .cancelled)
    }
  }
}
