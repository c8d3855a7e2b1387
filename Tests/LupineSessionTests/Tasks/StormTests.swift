import CHeap
import FoundationEssentials
import Glibc
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// Thousands of tasks against a server that misbehaves, half of them cancelled at random moments, from many threads: each completes exactly
/// once, and nothing is left of it.
@Suite(.timeLimit(.minutes(10))) struct StormTests {
  private static let tasks = 10_000
  private static let threads = 8

  private struct Failed: Error, CustomStringConvertible {
    let description: String
  }

  /// How much of the heap a task may cost for good. What is in use is never the same: from storm to storm it moved by 9 to 90 bytes a task, as each thread
  /// keeps some of what it frees. What a task is made of takes far more.
  private static let bytesPerTask = 160

  /// In a process of its own, so that descriptors and threads can be counted, and memory.
  @Test func everyTaskCompletesExactlyOnce() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
      // What the process keeps is made by a small storm.
      let seed = UInt64(ProcessInfo.processInfo.environment["LUPINE_SEED"] ?? "") ?? UInt64.random(in: 0 ... .max)
      do {
        try await Self.storm(tasks: 400, seed: 1)
        let before = DescriptorCensus.now(threadsNamed: "lupine", except: ["lupine-dns", "lupine-file"])
        try await Self.storm(tasks: Self.tasks, seed: seed)
        try await Self.storm(tasks: Self.tasks / 5, seed: seed, isCancelled: true)
        guard before.isRestored(withinSeconds: 60) else {
          throw Failed(description: "\(before) is now \(DescriptorCensus.now()): \(before.newcomers())")
        }
        // Sanitizers have allocators of their own.
        guard unsafe getenv("LUPINE_SANITIZE") == nil else { return }
        let settled = heap_bytes_in_use()
        try await Self.storm(tasks: Self.tasks, seed: seed)
        // Threads that have nothing more to do end after some seconds, and give back what they kept.
        let isFlat = await eventually { heap_bytes_in_use() < settled + Self.tasks * Self.bytesPerTask }
        guard isFlat else {
          throw Failed(description: "the heap has grown from \(settled) to \(heap_bytes_in_use()) bytes")
        }
      } catch {
        Self.report("LUPINE_SEED=\(seed): \(error)")
        throw error
      }
    }
    if let said = result?.standardErrorContent, !said.isEmpty { print(String(decoding: said, as: UTF8.self)) }
  }

  private static func report(_ text: String) {
    let line = Array((text + "\n").utf8)
    _ = unsafe write(2, line, line.count)
  }

  /// What a task has said.
  private final class Ledger: SessionDataDelegate, SessionDownloadDelegate {
    let handledCallbacks: CallbackSet = [.completed, .receivedData, .finishedDownload, .redirection, .becameInvalid]
    let completions: Locked<[UInt64: Int]> = Locked([:])
    let late = Locked(0)
    let isInvalid = Locked(false)

    func note(_ identifier: UInt64) { completions.withLock { $0[identifier, default: 0] += 1 } }

    func session(_ session: Session, task: SessionTask, didCompleteWithError error: SessionError?) {
      note(task.taskIdentifier)
      if task.state != .completed { late.withLock { $0 += 1 } }
    }
    func session(_ session: Session, dataTask: DataTask, didReceive data: Data) {
      // Data after the completion would be one callback too many.
      if completions.withLock({ $0[dataTask.taskIdentifier] != nil }) { late.withLock { $0 += 1 } }
    }
    func session(_ session: Session, didBecomeInvalidWithError error: SessionError?) {
      isInvalid.withLock { $0 = true }
    }
  }

  private final class Weak: @unchecked Sendable {
    weak var task: SessionTask?

    init(_ task: SessionTask) { self.task = task }
  }

  /// - Parameter isCancelled: whether the session is cancelled as soon as all of the tasks are made, and most of them under way or waiting.
  private static func storm(tasks: Int, seed: UInt64, isCancelled: Bool = false) async throws {
    let server = try LoopbackServer(routes: misbehaviour(), recording: .none)
    defer { server.shutdown() }
    let ledger = Ledger()
    var configuration = SessionConfiguration()
    configuration.engine = .own
    configuration.maximumConnectionsPerHost = 32
    configuration.maximumWaitingRequests = tasks
    configuration.timeoutIntervalForRequest = .seconds(20)
    let session = try Session(configuration, delegate: ledger)
    let paths = [
      "/hello", "/chunked?n=20000", "/bytes?n=50000", "/gzip?n=5000", "/redirect?to=/hello", "/status?code=404",
      "/headCut", "/bodyCut", "/reset", "/garbage", "/early",
    ].map { server.url($0) }
    let made = Locked<[UInt64]>([])
    let handles = Locked<[Weak]>([])
    try onThreads(threads) { number in
      var random = SeededGenerator(seed: seed &+ UInt64(number))
      for _ in 0..<(tasks / threads) {
        guard let request = try? Request(paths[Int.random(in: 0..<paths.count, using: &random)]) else { continue }
        let task = make(session, request, ledger, Int.random(in: 0..<4, using: &random))
        made.withLock { $0.append(task.taskIdentifier) }
        let handle = Weak(task)
        handles.withLock { $0.append(handle) }
        let fate = Int.random(in: 0..<8, using: &random)
        if fate == 0 { task.cancel() }
        task.resume()
        if fate == 1 { task.suspend() }
        if fate == 2 { task.cancel() }
        if fate <= 3 || fate == 1 {
          for _ in 0..<Int.random(in: 0..<200, using: &random) { sched_yield() }
          task.cancel()
        }
        if fate == 4, let download = task as? DownloadTask { download.cancelByProducingResumeData { _ in } }
      }
    }
    let expected = made.withLock { $0 }
    if isCancelled { session.invalidateAndCancel() }
    let isComplete = await eventually(seconds: 240) { ledger.completions.withLock { $0.count } == expected.count }
    // A task is taken from the list just after it has said its last word.
    _ = await eventually { await session.tasks.isEmpty }
    let remaining = await session.tasks.count
    session.finishTasksAndInvalidate()
    let becameInvalid = await eventually { ledger.isInvalid.withLock { $0 } }
    let counts = ledger.completions.withLock { $0 }
    let weak = handles.withLock { $0 }
    // Whoever has just done something with a task holds it until then.
    let areGone = await eventually { weak.allSatisfy { $0.task == nil } }
    guard isComplete, remaining == 0, becameInvalid, areGone, ledger.late.withLock({ $0 }) == 0,
      Set(expected).count == expected.count, expected.allSatisfy({ counts[$0] == 1 })
    else {
      for task in await session.tasks.prefix(5) {
        report(
          "left: \(type(of: task)) \(task.state) \(task.currentRequest.urlString) \(task.response?.statusCode ?? 0)")
      }
      throw Failed(
        description: """
          of \(expected.count) tasks \(counts.count) completed, \(counts.count { $0.value > 1 }) more than once, \(remaining) remain; \
          invalid: \(becameInvalid); still held: \(weak.count { $0.task != nil }); callbacks too late: \(ledger.late.withLock { $0 })
          """)
    }
  }

  private static func make(_ session: Session, _ request: Request, _ ledger: Ledger, _ kind: Int) -> SessionTask {
    switch kind {
    case 0: return session.dataTask(with: request)
    case 1: return session.downloadTask(with: request)
    case 2:
      var upload = request
      upload.method = .post
      return session.uploadTask(with: upload, from: Data(repeating: 1, count: 3_000))
    default:
      let identifier = Locked<UInt64>(0)
      let task = session.dataTask(with: request) { _ in ledger.note(identifier.withLock { $0 }) }
      identifier.withLock { $0 = task.taskIdentifier }
      return task
    }
  }

  private static func misbehaviour() -> [ServerRoute] {
    [
      ServerRoute(nil, "/headCut") { _, connection in
        try connection.sendRaw("HTTP/1.1 200 OK\r\nContent-Le")
        connection.abort()
      },
      ServerRoute(nil, "/bodyCut") { _, connection in
        try connection.sendRaw("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this")
        connection.abort()
      },
      ServerRoute(nil, "/reset") { _, connection in connection.abort(reset: true) },
      ServerRoute(nil, "/garbage") { _, connection in
        try connection.sendRaw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n")
        connection.abort()
      },
      ServerRoute(nil, "/early") { _, connection in
        try connection.respond(413, text: "no")
        connection.closeAfterResponse()
      },
    ] + ServerRoute.standard()
  }
}

/// Runs `body` on so many threads at once, and waits for all of them.
func onThreads(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) throws {
  final class Job: Sendable {
    let work: @Sendable () -> Void
    init(_ work: @escaping @Sendable () -> Void) { self.work = work }
  }
  var threads: [pthread_t] = []
  for number in 0..<count {
    let job = unsafe Unmanaged.passRetained(Job { body(number) }).toOpaque()
    var thread = pthread_t()
    let code = unsafe pthread_create(
      &thread, nil,
      { argument in
        guard let argument = unsafe argument else { return nil }
        unsafe Unmanaged<Job>.fromOpaque(argument).takeRetainedValue().work()
        return nil
      }, job)
    try #require(code == 0)
    threads.append(thread)
  }
  for thread in threads { _ = pthread_join(thread, nil) }
}
