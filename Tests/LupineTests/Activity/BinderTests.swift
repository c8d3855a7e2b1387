import Dispatch
import Foundation
import Lupine
import LupineTesting
import Testing

@testable import LupineSession

/// The headless facts of `AFUIActivityIndicatorViewTests` and `AFUIRefreshControlTests`, and of the progress view.
@Suite struct BinderTests {
  private let queue = DispatchQueue(label: "binder")

  private func binder(_ calls: Calls<String>) -> TaskStateBinder {
    TaskStateBinder(
      queue: queue,
      callbacks: TaskStateBinder.Callbacks(
        resumed: { calls.note("resumed") }, suspended: { calls.note("suspended") },
        completed: { calls.note("completed") }))
  }

  private func told(_ calls: Calls<String>) -> [String] { queue.sync { calls.all } }

  private func post(_ name: Notification.Name, _ task: SessionTask) {
    NotificationCenter.default.post(name: name, object: task)
  }

  private func task() throws -> DataTask { try Session().dataTask(with: try Request("http://localhost:1/")) }

  @Test func followsOneTask() throws {
    let calls = Calls<String>()
    let binder = binder(calls)
    let (task, other) = (try task(), try task())
    binder.bind(task)
    #expect(told(calls) == ["suspended"])
    post(.taskDidResume, task)
    post(.taskDidResume, other)
    post(.taskDidSuspend, task)
    post(.taskDidComplete, task)
    #expect(told(calls) == ["suspended", "resumed", "suspended", "completed"])
  }

  /// On a queue that is concurrent too, one callback comes after the other, and in the order of what happened.
  @Test func concurrentQueues() async throws {
    let calls = Calls<Int>()
    let overlap = OverlapDetector()
    let binder = TaskStateBinder(
      queue: DispatchQueue(label: "binder", attributes: .concurrent),
      callbacks: TaskStateBinder.Callbacks(
        resumed: { overlap.during { calls.note(1) } }, suspended: { overlap.during { calls.note(0) } }, completed: {}))
    let task = try task()
    binder.bind(task)
    for _ in 0..<200 {
      post(.taskDidResume, task)
      post(.taskDidSuspend, task)
    }
    #expect(try await calls.first(401) == [0] + (0..<200).flatMap { _ in [1, 0] })
    #expect(!overlap.isFound)
  }

  /// What is told of a task that is bound is its state when it is told: an older one behind a newer would stay.
  @Test func theStateIsReadWhenItIsTold() throws {
    let calls = Calls<String>()
    let binder = binder(calls)
    let task = try task()
    queue.suspend()
    binder.bind(task)
    task.cancel()
    queue.resume()
    #expect(task.state == .completed && told(calls) == ["completed"])
  }

  /// Another task takes the place of the first; nil ends it.
  @Test func bindingReplaces() throws {
    let calls = Calls<String>()
    let binder = binder(calls)
    let (first, second) = (try task(), try task())
    binder.bind(first)
    binder.bind(second)
    post(.taskDidResume, first)
    post(.taskDidComplete, second)
    #expect(told(calls).suffix(1) == ["completed"] && !told(calls).contains("resumed"))
    binder.bind(nil)
    post(.taskDidResume, second)
    #expect(!told(calls).contains("resumed"))
  }

  /// Binds a task that holds somebody who binds anew when he goes, and is held by nobody but the binder.
  private func bindWheel(_ binder: TaskStateBinder, _ gone: Calls<Bool>) throws {
    let wheel = Farewell {
      binder.bind(nil)
      gone.note(true)
    }
    binder.bind(try Session().dataTask(with: try Request("http://localhost:1/")) { _ in _ = wheel })
  }

  /// The last reference to a task goes outside the binder's lock.
  @Test func aFormerTaskMayBindAnew() throws {
    let binder = binder(Calls<String>())
    let gone = Calls<Bool>()
    try bindWheel(binder, gone)
    // What is on its way to the queue holds the task as well.
    queue.sync {}
    binder.bind(nil)
    #expect(gone.all == [true])
    try bindWheel(binder, gone)
    queue.sync {}
    binder.bind(try task())
    #expect(gone.all == [true, true])
  }

  /// Notifications after the binder has gone do nothing.
  @Test func droppedBinder() throws {
    let calls = Calls<String>()
    var binder: TaskStateBinder? = binder(calls)
    weak let observed = binder
    let task = try task()
    binder?.bind(task)
    #expect(told(calls) == ["suspended"])
    binder = nil
    #expect(observed == nil)
    for name in [Notification.Name.taskDidResume, .taskDidSuspend, .taskDidComplete] { post(name, task) }
    #expect(told(calls) == ["suspended"])
  }

  @Test func startAndStop() throws {
    let calls = Calls<String>()
    let callbacks = TaskStateBinder.Callbacks(start: { calls.note("start") }, stop: { calls.note("stop") })
    let binder = TaskStateBinder(queue: queue, callbacks: callbacks)
    let task = try task()
    binder.bind(task)
    post(.taskDidResume, task)
    post(.taskDidComplete, task)
    #expect(told(calls) == ["stop", "start", "stop"])
  }

  /// A task that is over calls nothing. A running one reports until its end.
  @Test func progressEndsWithTheTask() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let session = try Session()
    defer { session.invalidateAndCancel() }
    let calls = Calls<TaskProgress>()
    let ended = Calls<Bool>()
    let task = session.dataTask(with: try Request(server.url("/bytes?n=300000"))) { _ in ended.note(true) }
    let binder = TaskProgressBinder(queue: queue) { calls.note($0) }
    binder.bind(task)
    task.resume()
    _ = try await ended.first(1)
    #expect(await until { calls.all.last?.countOfBytesReceived == 300_000 })
    #expect(calls.all.last?.fractionReceived == 1)
    // Who looks late sees the latest only, so that the first need not be none.
    let counts = calls.all.map(\.countOfBytesReceived)
    #expect(counts == counts.sorted())
    // The end tells the last state once more, and that may be on its way: behind this it comes to nobody.
    binder.bind(nil)
    let count = queue.sync { calls.all.count }
    binder.bind(task)
    #expect(queue.sync { calls.all.count } == count)
    binder.bind(nil)
  }

  /// Of a task that is faster than the queue, the queue holds one state, and then the latest.
  @Test func slowQueuesGetTheLatestAlone() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let session = try Session()
    defer { session.invalidateAndCancel() }
    let (calls, seen, ended) = (Calls<TaskProgress>(), Calls<TaskProgress>(), Calls<Bool>())
    let slow = DispatchQueue(label: "slow")
    slow.suspend()
    var isHeld = true
    defer { if isHeld { slow.resume() } }
    let task = session.dataTask(with: try Request(server.url("/bytes?n=8000000"))) { _ in ended.note(true) }
    let binder = TaskProgressBinder(queue: slow) { calls.note($0) }
    let watch = TaskProgressBinder(queue: queue) { seen.note($0) }
    binder.bind(task)
    watch.bind(task)
    task.resume()
    _ = try await ended.first(1)
    #expect(await until { seen.all.last?.countOfBytesReceived == 8_000_000 })
    slow.resume()
    isHeld = false
    #expect(await until { calls.all.last?.countOfBytesReceived == 8_000_000 })
    // The last state may be told once more, as that of the task's end.
    #expect(calls.all.count <= 3)
    withExtendedLifetime((binder, watch)) {}
  }

  static let lines: [(TaskProgress, String)] = [
    (
      .init(
        countOfBytesSent: 0, countOfBytesReceived: 0, countOfBytesExpectedToReceive: 1_048_576,
        countOfDecodedBytesExpectedToReceive: 1_048_576),
      "[>         ]   0% 0 B of 1.0 MiB"
    ),
    (
      .init(
        countOfBytesSent: 0, countOfBytesReceived: 524_288, countOfBytesExpectedToReceive: 1_048_576,
        countOfDecodedBytesExpectedToReceive: 1_048_576),
      "[=====>    ]  50% 512 KiB of 1.0 MiB"
    ),
    (
      .init(
        countOfBytesSent: 0, countOfBytesReceived: 1_048_576, countOfBytesExpectedToReceive: 1_048_576,
        countOfDecodedBytesExpectedToReceive: 1_048_576),
      "[==========] 100% 1.0 MiB of 1.0 MiB"
    ),
    (
      .init(
        countOfBytesSent: 0, countOfBytesReceived: 2_000_000, countOfBytesExpectedToReceive: 1_000_000,
        countOfDecodedBytesExpectedToReceive: 1_000_000),
      "[==========] 100% 1.9 MiB of 976 KiB"
    ),
    // Of a body that is decoded on the way the announced length says nothing.
    (.init(countOfBytesSent: 0, countOfBytesReceived: 1000, countOfBytesExpectedToReceive: 10), "1000 B"),
    (.init(countOfBytesSent: 0, countOfBytesReceived: 1000), "1000 B"),
    (.init(countOfBytesSent: 0, countOfBytesReceived: .max), "8.0 EiB"),
  ]

  @Test(arguments: lines) func terminalBar(_ progress: TaskProgress, _ expected: String) {
    #expect(TerminalProgressBar(width: 10).line(progress) == expected)
  }

  @Test func terminalBarOfAnUpload() {
    let progress = TaskProgress(countOfBytesSent: 1, countOfBytesExpectedToSend: 2, countOfBytesReceived: 0)
    #expect(TerminalProgressBar(direction: .upload, width: 0).line(progress) == "[>]  50% 1 B of 2 B")
    #expect(
      TerminalProgressBar(direction: .upload, width: .max).line(progress).utf8.count == 1_000
        + "[]  50% 1 B of 2 B".utf8.count)
  }
}

/// The titles and messages of `UIAlertView+AFNetworking`.
@Suite struct ErrorPresentationTests {
  private struct Described: LocalizedError {
    var errorDescription: String?
    var failureReason: String?
    var recoverySuggestion: String?
  }

  @Test func titleAndMessage() {
    let full = ErrorPresentation(
      Described(errorDescription: "what", failureReason: "why", recoverySuggestion: "what to do"))
    #expect(full.title == "what" && full.message == "what to do")
    let reason = ErrorPresentation(Described(errorDescription: "what", failureReason: "why"))
    #expect(reason.title == "what" && reason.message == "why")
    let description = ErrorPresentation(Described(errorDescription: "what"))
    #expect(description.title == "Error" && description.message == "what")
    let native = ErrorPresentation(
      NSError(
        domain: "D", code: 7, userInfo: [NSLocalizedDescriptionKey: "what", NSLocalizedFailureReasonErrorKey: "why"]))
    #expect(native.title == "what" && native.message == "why")
    let bare = ErrorPresentation(NSError(domain: "D", code: 7))
    #expect(bare.title == "Error" && bare.message == "D Error: 7")
  }

  @Test func errorsOfOurs() {
    let session = ErrorPresentation(SessionError(.timedOut, phase: .receive, message: "nothing moved for 60 s"))
    #expect(session.title == "Error" && session.message == "nothing moved for 60 s")
    // By Foundation's word for every error, in which it would be `error 1` of its type.
    let error: any Error = SessionError(.timedOut, phase: .receive, message: "nothing moved for 60 s")
    #expect(error.localizedDescription == "nothing moved for 60 s")
    let serialization = ErrorPresentation(SerializationError(.cannotParseResponse, message: "no JSON"))
    #expect(serialization.title == "Error" && serialization.message == "no JSON")
  }
}
