import FoundationEssentials
import HTTPTypes
import LupineSession
import LupineTestSupport
import LupineTesting
import Synchronization
import Testing

/// Cancellation in every phase: one completion, and nothing left behind.
@Suite(.timeLimit(.minutes(5))) struct CancellationTests {
  struct Phase: Sendable, CustomTestStringConvertible {
    let name: String
    let script: [ScriptStep]
    var isSecure = false
    var hasBody = false
    var testDescription: String { name }

    static let all: [Phase] = [
      Phase(name: "TLS handshake", script: [.stall(nil)], isSecure: true),
      Phase(name: "first byte", script: [.readHead, .stall(nil)]),
      Phase(name: "head", script: [.readHead, .send("HTTP/1.1 200 OK\r\nA: "), .stall(nil)]),
      Phase(name: "body", script: [.readHead, .send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"), .stall(nil)]),
      Phase(name: "sending", script: [.readHead, .stall(nil)], hasBody: true),
    ]
  }

  @Test(arguments: Phase.all) func endsAtOnce(_ phase: Phase) async throws {
    let reached = try Latch()
    var script = phase.script
    script.insert(.release(reached), at: script.count - 1)
    // A connection that is being opened is left to whoever comes next, for the time that its handshake has.
    try await withScript([script], configure: { $0.tlsTimeout = .seconds(2) }) { session, server in
      let scheme = phase.isSecure ? "https" : "http"
      var request = try Request("\(scheme)://127.0.0.1:\(server.port)/", method: .put)
      if phase.hasBody { request.body = .bytes([UInt8](repeating: 1, count: 32 << 20)) }
      let task = Task { [request] in try await session.data(for: request) }
      #expect(await eventually { reached.isReleased })
      task.cancel()
      let error = try await failure { try await task.value }
      #expect(error.code == .cancelled)
      // The connection is closed at once: the stall ends because the peer hangs up. (A server that does not read cannot see it.)
      if !phase.hasBody { #expect(await server.hasPlayed(1)) }
    }
  }

  @Test func beforeItBegins() async throws {
    try await withServer { session, server in
      let task = Task {
        _ = await eventually { Task.isCancelled }
        return try await session.data(from: server.url("/hello"))
      }
      task.cancel()
      let error = try await failure { try await task.value }
      #expect(error.code == .cancelled)
      #expect(try #require(error.metrics).duration == .zero)
      #expect(try #require(error.metrics).start > 0)
    }
  }

  private final class Creations: SessionTaskDelegate {
    let count = Atomic<Int>(0)
    var handledCallbacks: CallbackSet { .createdTask }

    /// Takes its time, so that a call that does not wait for it ends before.
    func session(_ session: Session, didCreateTask task: SessionTask) {
      let end = ContinuousClock.now + .milliseconds(20)
      while ContinuousClock.now < end {}
      count.add(1, ordering: .relaxed)
    }
  }

  /// Also then a delegate hears of the task before the call ends.
  @Test func beforeItBeginsWithADelegate() async throws {
    try await withServer { session, server in
      let creations = Creations()
      let task = Task {
        _ = await eventually { Task.isCancelled }
        return try await session.data(from: server.url("/hello"), delegate: creations)
      }
      task.cancel()
      try await expectFailure(.cancelled) { try await task.value }
      #expect(creations.count.load(ordering: .relaxed) == 1)
    }
  }

  @Test func whileWaitingForAConnection() async throws {
    try await withScript([[.readHead, .stall(nil)]], configure: { $0.maximumConnectionsPerHost = 1 }) {
      session, server in
      let first = Task { try await session.data(from: server.url()) }
      #expect(await eventually { server.recordedRequests.count == 1 })
      let second = Task { try await session.data(from: server.url()) }
      #expect(await eventually { await session.poolStatistics().waits == 2 })
      second.cancel()
      try await expectFailure(.cancelled) { try await second.value }
      first.cancel()
      try await expectFailure(.cancelled) { try await first.value }
    }
  }

  @Test func lettingGoOfABodyCancelsIt() async throws {
    try await withScript([[.readHead, .send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"), .stall(nil)]]) {
      session, server in
      do {
        let (bytes, response) = try await session.bytes(for: Request(server.url()))
        #expect(response.statusCode == 200)
        _ = bytes
      }
      #expect(await server.hasPlayed(1))
    }
  }

  @Test func cancellingTheReaderCancelsTheBody() async throws {
    try await withScript([[.readHead, .send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"), .stall(nil)]]) {
      session, server in
      let (bytes, _) = try await session.bytes(for: Request(server.url()))
      let task = Task { try await bytes.collect(upTo: 100) }
      task.cancel()
      try await expectFailure(.cancelled) { try await task.value }
      #expect(await server.hasPlayed(1))
    }
  }

  @Test func duringARedirect() async throws {
    try await withScript([
      [.readHead, .send("HTTP/1.1 302 F\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"), .readHead, .stall(nil)]
    ]) { session, server in
      let task = Task { try await session.data(from: server.url()) }
      #expect(await eventually { server.recordedRequests.count == 2 })
      task.cancel()
      try await expectFailure(.cancelled) { try await task.value }
      #expect(await server.hasPlayed(1))
    }
  }

  /// Cancellation races completion: whichever wins, there is one answer, and the next request is well.
  @Test func raceWithCompletion() async throws {
    try await withServer { session, server in
      for _ in 0..<200 {
        let task = Task { try await session.text(server.url("/hello")).0 }
        await Task.yield()
        task.cancel()
        switch await task.result {
        case .success(let text): #expect(text == "Hello, world!")
        case .failure(let error): #expect((error as? SessionError)?.code == .cancelled, "\(error)")
        }
      }
      try await session.expect("Hello, world!", from: server.url("/hello"))
    }
  }

  // MARK: The end of a session

  @Test func invalidationEndsEverything() async throws {
    try await withScript([[.readHead, .stall(nil)]], configure: { $0.maximumConnectionsPerHost = 1 }) {
      session, server in
      let tasks = (0..<3).map { _ in Task { try await session.data(from: server.url()) } }
      #expect(await eventually { await session.poolStatistics().waits == 3 })
      #expect(await eventually { server.recordedRequests.count == 1 })
      session.invalidateAndCancel()
      for task in tasks { #expect(try await failure { try await task.value }.code == .cancelled) }
      let late = try await failure { try await session.data(from: server.url()) }
      #expect(late.code == .sessionInvalidated)
      #expect(server.connectionCount == 1)
    }
  }

  /// Finishing lets tasks go on, redirects and waiting ones included, and cancelling one of them still works.
  @Test func finishingLetsTasksFinish() async throws {
    let go = try Latch()
    try await withServer(
      [
        ServerRoute(nil, "/wait") { _, connection in
          guard try connection.stall(until: go) == .released else { return }
          try connection.respond(302, fields: ["Location": "/hello"])
        }
      ] + ServerRoute.standard(), configure: { $0.maximumConnectionsPerHost = 1 }
    ) { session, server in
      let first = Task { try await session.text(server.url("/wait")).0 }
      #expect(await eventually { server.requestCount == 1 })
      let second = Task { try await session.text(server.url("/hello")).0 }
      let third = Task { try await session.text(server.url("/hello")).0 }
      #expect(await eventually { await session.poolStatistics().waits == 3 })
      session.finishTasksAndInvalidate()
      try await expectFailure(.sessionInvalidated) { try await session.data(from: server.url()) }
      third.cancel()
      try await expectFailure(.cancelled) { try await third.value }
      go.release()
      for task in [first, second] {
        let text = try await task.value
        #expect(text == "Hello, world!")
      }
      #expect(await eventually { server.openConnectionCount == 0 })
    }
  }
}
