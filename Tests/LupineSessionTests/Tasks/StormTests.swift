import CHeap
import Dispatch
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
        // Nothing is known of what a process has said that ends in another way.
        Self.report("LUPINE_SEED=\(seed): \(error)")
      }
    }
    let said = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    #expect(!said.contains("LUPINE_SEED="), "\(said)")
  }

  private static func report(_ text: String) {
    let line = Array((text + "\n").utf8)
    _ = unsafe write(2, line, line.count)
  }

  /// What a body must be, wherever it is that of a 200.
  private enum Expected {
    case pattern(Int)
    case greeting

    private static let text = Array("Hello, world!".utf8)

    /// - Parameter url: of the request that the task was made with; nil: any body will do.
    init?(_ url: String) {
      if url.hasSuffix("/bytes?n=50000") {
        self = .pattern(50_000)
      } else if url.hasSuffix("/chunked?n=20000") {
        self = .pattern(20_000)
      } else if url.hasSuffix("/hello") {
        // Also that of the redirect.
        self = .greeting
      } else {
        return nil
      }
    }

    var count: Int {
      switch self {
      case .pattern(let count): count
      case .greeting: Self.text.count
      }
    }

    func matches(_ bytes: [UInt8], from position: Int) -> Bool {
      switch self {
      case .pattern: PatternBody.matches(bytes, from: position)
      case .greeting: Self.text.dropFirst(position).starts(with: bytes)
      }
    }
  }

  /// What the tasks of a storm have said.
  private struct Record: Sendable {
    var completions: [UInt64: Int] = [:]
    /// How many tasks came to each end.
    var ends: [String: Int] = [:]
    /// Of bodies that come in parts: how many bytes were right from the first on, and whether all were.
    var bodies: [UInt64: (count: Int, isRight: Bool)] = [:]
    var whole = 0
    var wrong = 0
    /// Callbacks behind the last one of their task, or behind that of the session.
    var late: [String] = []
    var invalidations = 0
    /// Tasks that were under way when they were cancelled.
    var runningWhenCancelled = 0

    mutating func note(_ isRight: Bool) {
      whole += 1
      if !isRight { wrong += 1 }
    }
  }

  private final class Ledger: SessionDataDelegate, SessionDownloadDelegate {
    let handledCallbacks: CallbackSet = [
      .completed, .receivedData, .finishedDownload, .wroteData, .sentBodyData, .redirection, .metrics, .becameInvalid,
    ]
    let record = Locked(Record())

    /// Whatever is said of a task comes before its end, and before that of the session.
    private func hear(_ callback: String, _ task: SessionTask) {
      let identifier = task.taskIdentifier
      record.withLock { record in
        guard record.completions[identifier] != nil || record.invalidations > 0 else { return }
        record.late.append(callback)
      }
    }

    func note(_ identifier: UInt64, _ error: SessionError?) {
      let code = error?.code.rawValue ?? "well"
      record.withLock { record in
        if record.invalidations > 0 { record.late.append("end") }
        record.completions[identifier, default: 0] += 1
        record.ends[code, default: 0] += 1
      }
    }

    /// The body came as one.
    func check(_ body: Data, of url: String) {
      guard let expected = Expected(url) else { return }
      let isRight = body.count == expected.count && expected.matches([UInt8](body), from: 0)
      record.withLock { $0.note(isRight) }
    }

    func willCancel(_ task: SessionTask) {
      guard task.state == .running else { return }
      record.withLock { $0.runningWhenCancelled += 1 }
    }

    func session(_ session: Session, task: SessionTask, didCompleteWithError error: SessionError?) {
      let identifier = task.taskIdentifier
      if task.state != .completed { record.withLock { $0.late.append("completed \(task.state)") } }
      let body = record.withLock { $0.bodies.removeValue(forKey: identifier) }
      if error == nil, task is DataTask, task.response?.statusCode == 200,
        let expected = Expected(task.originalRequest.urlString)
      {
        let isRight = body.map { $0.isRight && $0.count == expected.count } ?? false
        record.withLock { $0.note(isRight) }
      }
      note(identifier, error)
    }
    func session(_ session: Session, dataTask: DataTask, didReceive data: Data) {
      hear("data", dataTask)
      guard let expected = Expected(dataTask.originalRequest.urlString) else { return }
      let (identifier, bytes) = (dataTask.taskIdentifier, [UInt8](data))
      record.withLock { record in
        let body = record.bodies[identifier] ?? (count: 0, isRight: true)
        let isRight = body.isRight && expected.matches(bytes, from: body.count)
        record.bodies[identifier] = (count: body.count + bytes.count, isRight: isRight)
      }
    }
    func session(_ session: Session, downloadTask: DownloadTask, didFinishDownloadingTo path: String) {
      hear("finished", downloadTask)
      check((try? Data(contentsOf: URL(filePath: path))) ?? Data(), of: downloadTask.originalRequest.urlString)
    }
    func session(
      _ session: Session, downloadTask: DownloadTask, didWriteData bytesWritten: Int64, totalBytesWritten: Int64,
      totalBytesExpectedToWrite: Int64?
    ) {
      hear("wrote", downloadTask)
    }
    func session(
      _ session: Session, task: SessionTask, didSendBodyData bytesSent: Int64, totalBytesSent: Int64,
      totalBytesExpectedToSend: Int64?
    ) {
      hear("sent", task)
    }
    func session(
      _ session: Session, task: SessionTask, willPerformHTTPRedirection response: Response, newRequest request: Request,
      completionHandler: @escaping @Sendable (Request?) -> Void
    ) {
      hear("redirection", task)
      completionHandler(request)
    }
    func session(_ session: Session, task: SessionTask, didFinishCollecting metrics: TaskMetrics) {
      hear("metrics", task)
    }
    func session(_ session: Session, didBecomeInvalidWithError error: SessionError?) {
      record.withLock { $0.invalidations += 1 }
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
    // Longer than the storm may take: what hangs is to be seen, and does not end by itself.
    configuration.timeoutIntervalForRequest = .seconds(600)
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
        if fate == 2 {
          ledger.willCancel(task)
          task.cancel()
        }
        if fate <= 3 {
          for _ in 0..<Int.random(in: 0..<200, using: &random) { sched_yield() }
          ledger.willCancel(task)
          task.cancel()
        }
        if fate == 4, let download = task as? DownloadTask { download.cancelByProducingResumeData { _ in } }
      }
    }
    let expected = made.withLock { $0 }
    if isCancelled { session.invalidateAndCancel() }
    let isComplete = await eventually(seconds: 240) { ledger.record.withLock { $0.completions.count } == tasks }
    // A task is taken from the list just after it has said its last word.
    _ = await eventually { await session.tasks.isEmpty }
    let remaining = await session.tasks.count
    session.finishTasksAndInvalidate()
    let becameInvalid = await eventually { ledger.record.withLock { $0.invalidations } > 0 }
    let weak = handles.withLock { $0 }
    // Whoever has just done something with a task holds it until then.
    let areGone = await eventually { weak.allSatisfy { $0.task == nil } }
    // A callback too many would be queued by now.
    session.delegateQueue.sync {}
    let record = ledger.record.withLock { $0 }
    let complaints = complaints(about: record, tasks, isCancelled)
    guard isComplete, remaining == 0, becameInvalid, areGone, complaints.isEmpty, expected.count == tasks,
      Set(expected).count == tasks, expected.allSatisfy({ record.completions[$0] == 1 })
    else {
      for task in await session.tasks.prefix(5) {
        report(
          "left: \(type(of: task)) \(task.state) \(task.currentRequest.urlString) \(task.response?.statusCode ?? 0)")
      }
      throw Failed(
        description: """
          of \(tasks) tasks \(expected.count) were made, \(record.completions.count) completed, \
          \(record.completions.count { $0.value > 1 }) more than once, \(remaining) remain; invalid: \(becameInvalid); \
          still held: \(weak.count { $0.task != nil }); \(complaints); ends: \(record.ends)
          """)
    }
  }

  /// What is wrong with what was said, beside how often.
  private static func complaints(about record: Record, _ tasks: Int, _ isCancelled: Bool) -> [String] {
    // Nothing that the routes do ends in another way. A time-out would be a hang that healed itself.
    let possible: Set<SessionError.Code> = [.cancelled, .connectionLost, .truncatedResponse, .badResponse]
    let others = Set(record.ends.keys).subtracting(possible.map { $0.rawValue } + ["well"])
    var complaints: [String] = []
    if !others.isEmpty { complaints.append("ended by \(others.sorted())") }
    if !record.late.isEmpty {
      complaints.append("\(record.late.count) callbacks too late: \(Set(record.late).sorted())")
    }
    if record.invalidations != 1 { complaints.append("invalid \(record.invalidations) times") }
    if record.wrong > 0 { complaints.append("\(record.wrong) of \(record.whole) bodies are wrong") }
    // Otherwise the storm was none. How many succeed before their session is cancelled is a matter of speed.
    if record.runningWhenCancelled <= tasks / 50 {
      complaints.append("only \(record.runningWhenCancelled) were under way when they were cancelled")
    }
    if record.ends["cancelled", default: 0] <= tasks / 10 { complaints.append("too few were cancelled") }
    if !isCancelled {
      if record.ends["well", default: 0] <= tasks / 10 { complaints.append("too few succeeded") }
      if record.whole == 0 { complaints.append("no body was looked at") }
    }
    return complaints
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
      let url = request.urlString
      let task = session.dataTask(with: request) { result in
        switch result {
        case .success(let answer):
          if answer.1.statusCode == 200 { ledger.check(answer.0, of: url) }
          ledger.note(identifier.withLock { $0 }, nil)
        case .failure(let error): ledger.note(identifier.withLock { $0 }, error)
        }
      }
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
