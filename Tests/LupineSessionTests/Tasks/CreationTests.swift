import FoundationEssentials
import HTTPTypes
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// A delegate that hears that a call has made its task may still say how it goes on: nothing has begun.
@Suite(.timeLimit(.minutes(5))) struct CreationTests {
  enum Call: CaseIterable, Sendable {
    case data, upload, bytes, download

    func run(_ session: Session, _ request: Request, _ delegate: (any SessionTaskDelegate)?) async throws {
      switch self {
      case .data: _ = try await session.data(for: request, delegate: delegate)
      case .upload: _ = try await session.upload(for: request, from: Data([1]), delegate: delegate)
      case .bytes:
        for try await _ in try await session.bytes(for: request, delegate: delegate).0.chunks {}
      case .download:
        let file = try await session.download(for: request, delegate: delegate)
        try FileManager.default.removeItem(atPath: file.path)
      }
    }
  }

  private final class Creator: SessionDownloadDelegate {
    let handledCallbacks: CallbackSet = .createdTask
    let states = Locked<[SessionTask.State]>([])
    private let change: @Sendable (Session, SessionTask) -> Void

    init(_ change: @escaping @Sendable (Session, SessionTask) -> Void) { self.change = change }

    /// Takes its time, so that a call that does not wait for it has begun.
    func session(_ session: Session, didCreateTask task: SessionTask) {
      let end = ContinuousClock.now + .milliseconds(20)
      while ContinuousClock.now < end {}
      states.withLock { $0.append(task.state) }
      change(session, task)
    }

    func session(_ session: Session, downloadTask: DownloadTask, didFinishDownloadingTo path: String) {}
  }

  /// All at a time: each is delayed by a second.
  @Test func callsBeginBehindTheirCreation() async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for call in Call.allCases {
        for isOfTheSession in [true, false] {
          group.addTask { try await beginsBehindItsCreation(call, isOfTheSession) }
        }
      }
      try await group.waitForAll()
    }
  }

  private func beginsBehindItsCreation(_ call: Call, _ isOfTheSession: Bool) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let listener = RecordingDelegate([.willBeginDelayed, .metrics, .wroteData])
    let requests = Locked(-1)
    let creator = Creator { _, task in
      requests.withLock { $0 = server.requestCount }
      task.delegate = listener
      task.earliestBeginDate = Date(timeIntervalSinceNow: 1)
    }
    let session = try Session(
      SessionConfiguration(), delegate: isOfTheSession ? creator : nil, delegateQueue: listener.queue)
    try await call.run(session, Request(server.url("/hello")), isOfTheSession ? nil : creator)
    #expect(creator.states.withLock { $0 } == [.suspended] && requests.withLock { $0 } == 0)
    let expected = call == .download ? ["delayed", "wrote", "metrics"] : ["delayed", "metrics"]
    // Whoever reads the bytes may be ahead of the callbacks.
    #expect(await eventually { listener.entries == expected }, "\(listener.entries)")
    #expect(listener.misplaced == 0)
    session.invalidateAndCancel()
  }

  @Test(arguments: Call.allCases) func aCallIsCancelledWhenItIsMade(_ call: Call) async throws {
    try await withServer { session, server in
      let creator = Creator { $1.cancel() }
      try await expectFailure(.cancelled) { try await call.run(session, Request(server.url("/hello")), creator) }
      #expect(server.requestCount == 0)
    }
  }

  /// A session whose delegate hears of its end, which is that of its last task.
  private func withEnd(_ body: (Session, LoopbackServer) async throws -> Void) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    try await withDelegate(.becameInvalid) { session, delegate in
      try await body(session, server)
      #expect(await delegate.hasEnded("invalid"), "a task has kept its place")
    }
  }

  @Test(arguments: Call.allCases) func theSessionEndsWhenACallIsMade(_ call: Call) async throws {
    try await withEnd { session, server in
      let creator = Creator { session, _ in session.invalidateAndCancel() }
      try await expectFailure(.cancelled) { try await call.run(session, Request(server.url("/hello")), creator) }
      #expect(server.requestCount == 0)
    }
  }

  /// A call that was made before is one of the tasks that finish.
  @Test(arguments: Call.allCases) func theSessionLetsACallFinish(_ call: Call) async throws {
    try await withEnd { session, server in
      let isListed = Locked(false)
      let creator = Creator { session, task in
        isListed.withLock { $0 = session.allTasks == [task] }
        session.finishTasksAndInvalidate()
      }
      try await call.run(session, Request(server.url("/hello")), creator)
      #expect(isListed.withLock { $0 } && server.requestCount == 1)
    }
  }

  /// What is over before it could be told of takes no place.
  @Test(arguments: Call.allCases) func aCallIsCancelledBeforeItIsMade(_ call: Call) async throws {
    try await withEnd { session, server in
      let request = try Request(server.url("/hello"))
      let task = Task {
        while !Task.isCancelled { await Task.yield() }
        try await call.run(session, request, Creator { _, _ in })
      }
      task.cancel()
      try await expectFailure(.cancelled) { try await task.value }
      session.finishTasksAndInvalidate()
    }
  }

  /// Whoever begins the task in the callback has begun it.
  @Test func aCallIsBegunWhenItIsMade() async throws {
    try await withServer { session, server in
      let creator = Creator { $1.resume() }
      try await Call.data.run(session, Request(server.url("/hello")), creator)
      #expect(server.requestCount == 1)
    }
  }
}
