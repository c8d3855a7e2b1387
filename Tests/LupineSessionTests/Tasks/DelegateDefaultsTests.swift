import FoundationEssentials
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// A task's own delegate that does not say what it handles gets every callback; what it has no method for is the
/// session's delegate's.
@Suite(.timeLimit(.minutes(5))) struct DelegateDefaultsTests {
  /// Has one method, and wants to hear everything.
  private final class Measurer: SessionDataDelegate, SessionDownloadDelegate {
    let collected = Locked(0)

    func session(_ session: Session, task: SessionTask, didFinishCollecting metrics: TaskMetrics) {
      collected.withLock { $0 += 1 }
    }
  }

  @Test func theRestIsToldToTheSessionsDelegate() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    try await withDelegate { session, delegate in
      let own = Measurer()
      let task = session.dataTask(with: try Request(server.url("/redirect?to=/hello")))
      task.delegate = own
      task.resume()
      #expect(await delegate.hasEnded())
      #expect(
        delegate.entries == ["created", "redirect 302", "response 200", "data", "completed well completed"])
      #expect(String(decoding: delegate.data, as: UTF8.self) == "Hello, world!")
      #expect(own.collected.withLock { $0 } == 1)
    }
    // Where there is nobody else, the default is the answer: also where the task's delegate is the session's, which
    // must not ask itself.
    for isSessions in [false, true] {
      let own = Measurer()
      let shared: (any SessionDelegate)? = isSessions ? own : nil
      var configuration = SessionConfiguration()
      configuration.engine = .own
      let session = try Session(configuration, delegate: shared)
      defer { session.invalidateAndCancel() }
      let (data, response) = try await session.data(
        for: Request(server.url("/redirect?to=/hello")), delegate: own)
      #expect(String(decoding: data, as: UTF8.self) == "Hello, world!")
      #expect(response.redirects.count == 1)
      #expect(own.collected.withLock { $0 } == 1)
    }
  }

  /// The session lets go of its delegate behind the last callback that a task's own delegate leaves to it.
  @Test func theLastOfThemToo() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    for _ in 0..<20 {
      try await withDelegate { session, delegate in
        let task = session.dataTask(with: try Request(server.url("/hello")))
        task.delegate = Measurer()
        task.resume()
        session.finishTasksAndInvalidate()
        #expect(await delegate.hasEnded())
      }
    }
  }

  /// Passes on what it hears to somebody who has no method for it.
  private final class Relay: SessionDataDelegate {
    let handledCallbacks: CallbackSet = [.metrics, .redirection, .completed]
    let child = Measurer()
    let heard = Locked<[String]>([])

    func session(
      _ session: Session, task: SessionTask, willPerformHTTPRedirection response: Response, newRequest request: Request,
      completionHandler: @escaping @Sendable (Request?) -> Void
    ) {
      heard.withLock { $0.append("redirection") }
      child.session(
        session, task: task, willPerformHTTPRedirection: response, newRequest: request,
        completionHandler: completionHandler)
    }

    func session(_ session: Session, task: SessionTask, didFinishCollecting metrics: TaskMetrics) {
      heard.withLock { $0.append("metrics") }
      child.session(session, task: task, didFinishCollecting: metrics)
    }

    func session(_ session: Session, task: SessionTask, didCompleteWithError error: SessionError?) {
      heard.withLock { $0.append("completed") }
      child.session(session, task: task, didCompleteWithError: error)
    }
  }

  /// Only whom the session asks leaves a callback to its delegate: a delegate that passes all on would hear of it again, and again.
  @Test(arguments: [false, true]) func aDelegateThatPassesOnHearsOnce(_ hasOwn: Bool) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let relay = Relay()
    let session = try Session(delegate: relay)
    defer { session.invalidateAndCancel() }
    let task = session.dataTask(with: try Request(server.url("/redirect?to=/hello")))
    let own = Measurer()
    if hasOwn { task.delegate = own }
    task.resume()
    #expect(await eventually { relay.heard.withLock { $0.contains("completed") } })
    #expect(
      relay.heard.withLock { $0 } == (hasOwn ? ["redirection", "completed"] : ["redirection", "metrics", "completed"]))
    #expect((hasOwn ? own : relay.child).collected.withLock { $0 } == 1)
  }

  /// Not only told: what the session's delegate answers is done.
  @Test(arguments: RecordingDelegate.Manner.all) func theSessionsDelegateIsAsked(
    _ manner: RecordingDelegate.Manner
  ) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    var answers = RecordingDelegate.Answers()
    answers.redirection = { _ in nil }
    answers.disposition = { _ in .cancel }
    answers.manner = manner
    try await withDelegate(.all, answers) { session, delegate in
      let task = session.dataTask(with: try Request(server.url("/redirect?to=/hello")))
      task.delegate = Measurer()
      task.resume()
      #expect(await delegate.hasEnded())
      #expect(
        delegate.entries == ["created", "redirect 302", "response 302", "completed cancelled completed"])
      #expect(server.requestCount == 1)
    }
  }

  @Test func downloadsAreTheSessionsDelegatesToo() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let size = Locked(0)
    var answers = RecordingDelegate.Answers()
    answers.finished = { path in
      let count = (try? Data(contentsOf: URL(filePath: path)))?.count ?? -1
      size.withLock { $0 = count }
    }
    try await withDelegate(.all, answers) { session, delegate in
      let own = Measurer()
      let task = session.downloadTask(with: try Request(server.url("/bytes?n=100000")))
      task.delegate = own
      task.resume()
      #expect(await delegate.hasEnded())
      #expect(delegate.entries == ["created", "wrote", "finished", "completed well completed"])
      #expect(size.withLock { $0 } == 100_000 && delegate.sentBytes == 100_000)
      #expect(own.collected.withLock { $0 } == 1)
    }
  }
}
