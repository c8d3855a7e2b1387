import Dispatch
import FoundationEssentials
import HTTPTypes
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// The callbacks of URLSession's delegates in their order, on the delegate queue, each as often as documented.
@Suite(.timeLimit(.minutes(5))) struct DelegateTests {
  /// A data task hears everything that concerns it, in order.
  @Test func dataTask() async throws {
    let server = try LoopbackServer(routes: [
      ServerRoute(nil, "/hints") { _, connection in
        try connection.sendInformational(103, fields: ["Link": "</style.css>"])
        try connection.respond(text: "body")
      }
    ])
    defer { server.shutdown() }
    try await withDelegate { session, delegate in
      let task = session.dataTask(with: try Request(server.url("/hints")))
      #expect(task.state == .suspended)
      task.resume()
      #expect(await delegate.hasEnded())
      #expect(
        delegate.entries == [
          "created", "informational 103", "response 200", "data", "metrics", "completed well completed",
        ])
      #expect(String(decoding: delegate.data, as: UTF8.self) == "body")
      #expect(task.state == .completed && task.error == nil && task.response?.statusCode == 200)
      #expect(task.countOfBytesReceived == 4 && task.countOfBytesExpectedToReceive == 4)
      #expect(delegate.metrics?.transactions.count == 1)
      session.finishTasksAndInvalidate()
      #expect(await delegate.hasEnded("invalid"))
      #expect(session.delegate == nil)
    }
  }

  @Test(arguments: RecordingDelegate.Manner.all) func redirectIsFollowedRefusedOrChanged(
    _ manner: RecordingDelegate.Manner
  ) async throws {
    let server = try LoopbackServer(
      routes: [
        ServerRoute(nil, "/from") { _, connection in
          try connection.respond(302, fields: ["Location": "/hello"], body: Array("moved".utf8))
        },
        ServerRoute(nil, "/other") { request, connection in
          try connection.respond(text: request.fields.first("X-Mark") ?? "none")
        },
      ] + ServerRoute.standard())
    defer { server.shutdown() }
    let request = try Request(server.url("/from"))
    let rows: [(answer: (@Sendable (Request) -> Request?)?, body: String, hops: Int)] = [
      (nil, "Hello, world!", 2),
      ({ _ in nil }, "moved", 1),
      (
        { proposed in
          var other = proposed
          other = (try? Request(server.url("/other"), fields: [.init("X-Mark") ?? .accept: "changed"])) ?? other
          return other
        }, "changed", 2
      ),
    ]
    for row in rows {
      var answers = RecordingDelegate.Answers()
      answers.redirection = row.answer
      answers.manner = manner
      try await withDelegate(.all, answers) { session, delegate in
        session.dataTask(with: request).resume()
        #expect(await delegate.hasEnded())
        #expect(String(decoding: delegate.data, as: UTF8.self) == row.body)
        let status = row.hops == 1 ? 302 : 200
        #expect(
          delegate.entries == [
            "created", "redirect 302", "response \(status)", "data", "metrics", "completed well completed",
          ])
        #expect(delegate.metrics?.transactions.count == row.hops)
      }
    }
  }

  @Test(arguments: [RecordingDelegate.Manner.elsewhere, .twice])
  func dispositions(_ manner: RecordingDelegate.Manner) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let path = FileManager.default.temporaryDirectory.path + "/lupine-test-\(UUID().uuidString)"
    defer { try? FileManager.default.removeItem(atPath: path) }
    for disposition in [ResponseDisposition.allow, .cancel, .becomeDownload] {
      var answers = RecordingDelegate.Answers()
      answers.disposition = { _ in disposition }
      answers.manner = manner
      let shown = Locked("")
      answers.finished = { temporary in
        shown.withLock { $0 = temporary }
        try? FileManager.default.copyItem(atPath: temporary, toPath: path)
      }
      try await withDelegate(.all, answers) { session, delegate in
        session.dataTask(with: try Request(server.url("/bytes?n=100000"))).resume()
        #expect(await delegate.hasEnded())
        let expected: [String] =
          switch disposition {
          case .allow: ["data", "metrics", "completed well completed"]
          case .cancel: ["metrics", "completed cancelled completed"]
          case .becomeDownload: ["became true", "wrote", "metrics", "finished", "completed well completed"]
          }
        #expect(
          delegate.entries.filter { $0 != "wrote" }
            == (["created", "response 200"] + expected).filter { $0 != "wrote" })
        guard disposition == .becomeDownload else { return }
        #expect(delegate.sentBytes == 100_000)
        #expect(try Data(contentsOf: URL(filePath: path)).count == 100_000)
        // Whoever does not move the file loses it.
        let temporary = shown.withLock { $0 }
        #expect(!temporary.isEmpty && !FileManager.default.fileExists(atPath: temporary))
      }
    }
  }

  /// The answer comes late: nothing of the body is lost, and nothing comes before it.
  @Test func aLateDispositionLosesNothing() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let held = Locked<(@Sendable () -> Void)?>(nil)
    final class Late: SessionDataDelegate {
      let received = Locked<[UInt8]>([])
      let isDone = Locked(false)
      let held: @Sendable (@escaping @Sendable () -> Void) -> Void
      init(_ held: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void) { self.held = held }
      func session(
        _ session: Session, dataTask: DataTask, didReceive response: Response,
        completionHandler: @escaping @Sendable (ResponseDisposition) -> Void
      ) {
        held { completionHandler(.allow) }
      }
      func session(_ session: Session, dataTask: DataTask, didReceive data: Data) {
        received.withLock { $0 += [UInt8](data) }
      }
      func session(_ session: Session, task: SessionTask, didCompleteWithError error: SessionError?) {
        isDone.withLock { $0 = error == nil }
      }
    }
    let delegate = Late { answer in held.withLock { $0 = answer } }
    let session = try Session(delegate: delegate)
    defer { session.invalidateAndCancel() }
    let task = session.dataTask(with: try Request(server.url("/bytes?n=3000000")))
    task.resume()
    #expect(await eventually { held.withLock { $0 != nil } })
    // What came too early would be here by then: the engine has turned, another answer came, and the queue is empty.
    _ = try await session.data(from: server.url("/hello"))
    _ = await session.poolStatistics()
    session.delegateQueue.sync {}
    #expect(delegate.received.withLock { $0.isEmpty })
    held.withLock { $0 }?()
    #expect(await eventually { delegate.isDone.withLock { $0 } })
    #expect(delegate.received.withLock { $0.count } == 3_000_000)
  }

  /// A callback that nobody handles costs no hop: the default is taken at once.
  @Test func onlyWhatIsHandledIsCalled() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    try await withDelegate([.completed]) { session, delegate in
      session.dataTask(with: try Request(server.url("/redirect?to=/hello"))).resume()
      #expect(await delegate.hasEnded())
      #expect(delegate.entries == ["completed well completed"])
    }
  }

  /// The task's own delegate comes first; the session's hears what that one leaves.
  @Test func theTasksOwnDelegateComesFirst() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    try await withDelegate { session, delegate in
      let own = RecordingDelegate([.metrics, .response], name: "own ")
      let task = session.dataTask(with: try Request(server.url("/hello")))
      task.delegate = own
      task.resume()
      #expect(await delegate.hasEnded())
      #expect(own.entries == ["own response 200", "own metrics"])
      #expect(own.misplaced == 0)
      #expect(delegate.entries == ["created", "data", "completed well completed"])
    }
  }

  /// An `async` call brings its result after the last callback, and leaves the callbacks out that the result replaces.
  @Test func asyncCallsHaveDelegatesToo() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    try await withDelegate { session, delegate in
      let own = RecordingDelegate([.redirection], name: "own ")
      let (data, response) = try await session.data(
        for: Request(server.url("/redirect?to=/hello")), delegate: own)
      #expect(String(decoding: data, as: UTF8.self) == "Hello, world!")
      #expect(response.redirects.count == 1)
      // A callback behind the result would be queued by now.
      session.delegateQueue.sync {}
      #expect(own.entries == ["own redirect 302"])
      #expect(own.misplaced == 0)
      #expect(delegate.entries == ["created", "metrics"])
    }
  }

  @Test func completionHandlersReplaceDataAndCompletion() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    try await withDelegate { session, delegate in
      let results = Locked<[String]>([])
      let task = session.dataTask(with: try Request(server.url("/hello"))) { result in
        dispatchPrecondition(condition: .onQueue(delegate.queue))
        results.withLock { $0.append((try? result.get()).map { String(decoding: $0.0, as: UTF8.self) } ?? "failed") }
      }
      task.resume()
      #expect(await eventually { results.withLock { !$0.isEmpty } })
      session.delegateQueue.sync {}
      #expect(results.withLock { $0 } == ["Hello, world!"])
      #expect(delegate.entries == ["created", "metrics"])
    }
  }

  @Test func storingAResponseIsOffered() async throws {
    let server = try LoopbackServer(
      routes: [
        ServerRoute(nil, "/private") { _, connection in
          try connection.respond(fields: ["Cache-Control": "max-age=1, No-Store"], body: Array("x".utf8))
        },
        ServerRoute(nil, "/second") { _, connection in
          let fields = ["max-age=1", "no-store"].map { ServerFields.Field("Cache-Control", $0) }
          try connection.respond(fields: ServerFields(fields), body: Array("x".utf8))
        },
      ] + ServerRoute.standard())
    defer { server.shutdown() }
    let store = KeptResponses()
    var answers = RecordingDelegate.Answers()
    answers.stored = { proposed in
      proposed.data.count == 13 ? CachedResponse(response: proposed.response, data: Data("changed".utf8)) : nil
    }
    try await withDelegate(.all, answers, configure: { $0.responseStore = store }) { session, delegate in
      for path in ["/hello", "/private", "/second", "/bytes?n=5"] {
        let before = delegate.entries.count { $0.hasPrefix("completed") }
        session.dataTask(with: try Request(server.url(path))).resume()
        #expect(await eventually { delegate.entries.count { $0.hasPrefix("completed") } > before })
      }
      #expect(delegate.entries.filter { $0.hasPrefix("willCache") } == ["willCache 13", "willCache 5"])
      #expect(store.texts == ["changed"])
    }
  }

  /// A body at the limit is offered, one byte more is not.
  @Test func whatIsTooLargeIsNotOffered() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let size = CachedResponse.maximumSize
    try await withDelegate([.willCacheResponse, .completed], configure: { $0.responseStore = KeptResponses() }) {
      session, delegate in
      for (index, count) in [size + 1, size].enumerated() {
        session.dataTask(with: try Request(server.url("/bytes?n=\(count)"))).resume()
        #expect(await eventually { delegate.entries.count { $0.hasPrefix("completed") } == index + 1 })
      }
      #expect(
        delegate.entries == ["completed well completed", "willCache \(size)", "completed well completed"])
    }
  }

  /// A task whose delegate takes its time over what is stored is not over before that, and the session not before the task.
  @Test(arguments: [RecordingDelegate.Manner.elsewhere, .twice])
  func nothingIsToldBehindTheEndOfTheSession(_ manner: RecordingDelegate.Manner) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    var answers = RecordingDelegate.Answers()
    answers.manner = manner
    let store = KeptResponses()
    try await withDelegate(.all, answers, configure: { $0.responseStore = store }) { session, delegate in
      session.dataTask(with: try Request(server.url("/hello"))).resume()
      session.finishTasksAndInvalidate()
      #expect(await delegate.hasEnded("invalid"))
      #expect(
        delegate.entries == [
          "created", "response 200", "data", "willCache 13", "metrics", "completed well completed", "invalid",
        ])
    }
    #expect(store.texts == ["Hello, world!"])
  }
}
