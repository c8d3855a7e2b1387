import Dispatch
import Foundation
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Synchronization
import Testing

/// What a task holds goes when it is over: its delegate may hold the task, and in the usual case does.
@Suite(.timeLimit(.minutes(5))) struct LettingGoTests {
  enum Kind: CaseIterable, Sendable {
    case data, handler, upload, download, becomesDownload, cancelledBeforeItBegins, asynchronous
    /// Calls of a Swift task that is cancelled already.
    case cancelledCall, cancelledBytes, cancelledDownload
    /// The delegate wants to hear nothing.
    case silent
  }

  private final class Keeper: SessionDataDelegate, SessionDownloadDelegate {
    let tasks = Locked<[SessionTask]>([])
    let handledCallbacks: CallbackSet
    private let becomesDownload: Bool
    private let give: @Sendable (@escaping @Sendable () -> Void) -> Void

    init(_ kind: Kind) {
      handledCallbacks = kind == .silent ? [] : .all
      becomesDownload = kind == .becomesDownload
      give = { $0() }
    }

    /// Of a task that becomes a download when the test says so.
    init(_ handled: CallbackSet, _ give: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void) {
      handledCallbacks = handled
      becomesDownload = true
      self.give = give
    }

    func keep(_ task: SessionTask) { tasks.withLock { $0.append(task) } }

    func session(_ session: Session, didCreateTask task: SessionTask) { keep(task) }

    func session(
      _ session: Session, dataTask: DataTask, didReceive response: Response,
      completionHandler: @escaping @Sendable (ResponseDisposition) -> Void
    ) {
      give { [becomesDownload] in completionHandler(becomesDownload ? .becomeDownload : .allow) }
    }

    func session(_ session: Session, dataTask: DataTask, didBecome downloadTask: DownloadTask) {
      keep(downloadTask)
      downloadTask.delegate = self
    }

    func session(_ session: Session, downloadTask: DownloadTask, didFinishDownloadingTo path: String) {}
  }

  private final class Weak: @unchecked Sendable {
    weak var keeper: Keeper?
  }

  @Test(arguments: Kind.allCases) func aDelegateThatKeepsItsTaskGoes(_ kind: Kind) async throws {
    try await withServer { session, server in
      let weak = Weak()
      try await begin(kind, Request(server.url("/bytes?n=1000")), session, weak)
      #expect(await eventually { weak.keeper == nil })
    }
  }

  /// Apart, so that nothing is held when this returns.
  private func begin(_ kind: Kind, _ request: Request, _ session: Session, _ weak: Weak) async throws {
    let keeper = Keeper(kind)
    weak.keeper = keeper
    let task: SessionTask
    switch kind {
    case .asynchronous:
      _ = try await session.data(for: request, delegate: keeper)
      let count = keeper.tasks.withLock { $0.count }
      #expect(count == 1)
      return
    case .cancelledCall, .cancelledBytes, .cancelledDownload:
      let call = Task {
        unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
        switch kind {
        case .cancelledBytes: _ = try await session.bytes(for: request, delegate: keeper)
        case .cancelledDownload: _ = try await session.download(for: request, delegate: keeper)
        default: _ = try await session.data(for: request, delegate: keeper)
        }
      }
      await #expect(throws: SessionError.self) { try await call.value }
      return
    case .data, .becomesDownload, .cancelledBeforeItBegins, .silent: task = session.dataTask(with: request)
    case .handler: task = session.dataTask(with: request) { _ in }
    case .upload: task = session.uploadTask(with: request, from: Data([1]))
    case .download: task = session.downloadTask(with: request)
    }
    task.delegate = keeper
    keeper.keep(task)
    if kind == .cancelledBeforeItBegins { task.cancel() } else { task.resume() }
  }

  /// Told what the task has become when that is over already, a delegate that wants no word of the end goes all the same.
  @Test func aDelegateThatIsToldLateGoes() async throws {
    try await withServer { session, server in
      let weak = Weak()
      let answers = KeptAnswers()
      do {
        let keeper = Keeper([.response, .becameDownload]) { answers.keep($0) }
        weak.keeper = keeper
        let task = session.dataTask(with: try Request(server.url("/bytes?n=1000")))
        task.delegate = keeper
        task.resume()
      }
      #expect(await answers.hasOne())
      session.delegateQueue.suspend()
      answers.give()
      #expect(await eventually { session.allTasks.isEmpty })
      session.delegateQueue.resume()
      #expect(await eventually { weak.keeper == nil })
    }
  }

  private final class WeakTask: @unchecked Sendable {
    weak var task: SessionTask?
  }

  /// Whoever lists the tasks gets handles on calls that have none; they go with their calls, and what came of those can be read until then.
  @Test(arguments: [false, true]) func aListedCallGoes(_ isCancelled: Bool) async throws {
    let go = try Latch()
    try await withServer(ServerRoute.standard(latch: go)) { session, server in
      let call = Task { try await session.data(from: server.url("/slow")) }
      #expect(await eventually { server.requestCount == 1 })
      let weak = WeakTask()
      weak.task = await session.tasks.first
      do {
        let task = try #require(weak.task)
        if isCancelled { task.cancel() } else { go.release() }
        let result = await call.result
        #expect((try? result.get()) == nil ? isCancelled : !isCancelled)
        #expect(task.state == .completed && task.error?.code == (isCancelled ? .cancelled : nil))
        #expect(task.response?.statusCode == (isCancelled ? nil : 200))
      }
      #expect(await eventually(seconds: 20) { weak.task == nil })
    }
  }

  /// Counts the ends that it hears of, and its own.
  private final class Witness: SessionDataDelegate, SessionDownloadDelegate {
    let handledCallbacks: CallbackSet = [.completed, .finishedDownload]
    private let ends: Locked<(told: Int, gone: Int)>
    private let tasks = Locked<[SessionTask]>([])

    init(_ ends: Locked<(told: Int, gone: Int)>) { self.ends = ends }
    deinit { ends.withLock { $0.gone += 1 } }

    func keep(_ task: SessionTask) { tasks.withLock { $0.append(task) } }
    func session(_ session: Session, task: SessionTask, didCompleteWithError error: SessionError?) {
      ends.withLock { $0.told += 1 }
    }
    func session(_ session: Session, downloadTask: DownloadTask, didFinishDownloadingTo path: String) {}
  }

  /// Begun by one thread and cancelled by another at the same moment, a task is told to be over, and holds nothing then.
  @Test(arguments: [Kind.data, .download]) func begunAndCancelledAtTheSameMoment(_ kind: Kind) async throws {
    let rounds = 2_000
    try await withServer { session, server in
      let request = try Request(server.url("/hello"))
      let ends = Locked((told: 0, gone: 0))
      for _ in 0..<rounds {
        let task = kind == .data ? session.dataTask(with: request) : session.downloadTask(with: request)
        let witness = Witness(ends)
        witness.keep(task)
        task.delegate = witness
        let ready = Atomic<Int>(0)
        DispatchQueue.concurrentPerform(iterations: 2) { number in
          ready.add(1, ordering: .relaxed)
          // Both are there, or the other one has no processor.
          for _ in 0..<10_000 where ready.load(ordering: .relaxed) < 2 {}
          if number == 0 { task.resume() } else { task.cancel() }
        }
      }
      let isOver = await eventually(seconds: 200) { ends.withLock { $0 == (rounds, rounds) } }
      #expect(isOver, "\(ends.withLock { $0 })")
    }
  }

  /// Whoever follows the data task hears of the download that it became, to its end.
  @Test func progressOfATaskThatBecameADownloadEnds() async throws {
    let go = try Latch()
    try await withServer([
      ServerRoute(nil, "/file") { _, connection in
        try connection.begin(framing: .length(1000))
        try connection.write(PatternBody.bytes(400))
        _ = try connection.stall(until: go)
        try connection.write(PatternBody.bytes(600, from: 400))
        try connection.finish()
      }
    ]) { session, server in
      let keeper = Keeper(.becomesDownload)
      let task = session.dataTask(with: try Request(server.url("/file")))
      task.delegate = keeper
      let updates = task.progressUpdates
      task.resume()
      var counts: [Int64] = []
      for await progress in updates {
        counts.append(progress.countOfBytesReceived)
        if progress.countOfBytesReceived == 400 { go.release() }
      }
      #expect(counts.last == 1000)
    }
  }
}
