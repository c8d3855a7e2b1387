import Dispatch
import FoundationEssentials
import Glibc
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Synchronization
import Testing

/// What becomes of tasks that were made and not resumed when their session ends (URLSession cancels them, or waits for them).
@Suite(.timeLimit(.minutes(5))) struct UnbegunTaskTests {
  enum Form: CaseIterable, Sendable {
    case data, upload, file, streamed, download
    case dataHandler, uploadHandler, fileHandler, streamedHandler, downloadHandler
    case ownDelegate

    var hasHandler: Bool {
      switch self {
      case .dataHandler, .uploadHandler, .fileHandler, .streamedHandler, .downloadHandler: true
      default: false
      }
    }

    /// - Parameter own: the delegate of the task alone.
    func make(
      _ session: Session, _ request: Request, _ ends: Locked<[String]>, _ own: any SessionTaskDelegate
    ) -> SessionTask {
      let handler: DataTaskCompletion = { result in note(result.map { $0.1 }, in: ends) }
      switch self {
      case .data: return session.dataTask(with: request)
      case .upload: return session.uploadTask(with: request, from: Data([1]))
      case .file: return session.uploadTask(with: request, fromFile: "/etc/passwd")
      case .streamed, .streamedHandler:
        var request = request
        request.body = .data(Data([1]))
        return self == .streamed
          ? session.uploadTask(withStreamedRequest: request)
          : session.uploadTask(withStreamedRequest: request, completionHandler: handler)
      case .download: return session.downloadTask(with: request)
      case .dataHandler: return session.dataTask(with: request, completionHandler: handler)
      case .uploadHandler:
        return session.uploadTask(with: request, from: Data([1]), completionHandler: handler)
      case .fileHandler:
        return session.uploadTask(with: request, fromFile: "/etc/passwd", completionHandler: handler)
      case .downloadHandler:
        return session.downloadTask(with: request) { result in note(result.map { $0.response }, in: ends) }
      case .ownDelegate:
        let task = session.dataTask(with: request)
        task.delegate = own
        return task
      }
    }
  }

  private static let handled: CallbackSet = [.completed, .becameInvalid]

  /// Who is told of a new task may end the session, and begin the task behind that, before the call that makes it has returned.
  @Test(arguments: [false, true], [false, true])
  func theSessionMayEndWhileATaskIsToldOf(_ isCancelled: Bool, _ resumes: Bool) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    try await withDelegate(Self.handled) { session, delegate in
      let task = session.unlistedDataTask(with: try Request(server.url("/hello")))
      task.enlist {
        if isCancelled { session.invalidateAndCancel() } else { session.finishTasksAndInvalidate() }
        if resumes { task.resume() }
      }
      if !isCancelled { if resumes { task.resume() } else { task.cancel() } }
      #expect(await delegate.hasEnded("invalid"))
      let end = isCancelled || !resumes ? "completed cancelled completed" : "completed well completed"
      #expect(delegate.entries == [end, "invalid"])
    }
  }

  /// Whoever may hear of the end of a task hears of it once, and before the session is invalid.
  @Test(arguments: Form.allCases) func theyAreCancelledWithTheirSession(_ form: Form) async throws {
    try await withDelegate(Self.handled) { session, delegate in
      let ends = Locked<[String]>([])
      let own = RecordingDelegate([.completed])
      let task = form.make(session, try Request("http://a.example/"), ends, own)
      let tasks = await session.tasks
      #expect(tasks == [task] && tasks.first === task)
      session.invalidateAndCancel()
      #expect(await delegate.hasEnded("invalid"))
      #expect(ends.withLock { $0 } == (form.hasHandler ? ["cancelled"] : []))
      let told = ["completed cancelled completed"]
      #expect(own.entries == (form == .ownDelegate ? told : []))
      #expect(delegate.entries == (form.hasHandler || form == .ownDelegate ? [] : told) + ["invalid"])
      #expect(task.state == .completed && task.error?.code == .cancelled)
      #expect(await session.tasks.isEmpty)
      task.resume()
      session.delegateQueue.sync {}
      #expect(own.misplaced == 0)
      #expect(delegate.entries.last == "invalid" && ends.withLock { $0.count } == (form.hasHandler ? 1 : 0))
    }
  }

  /// What was made before the end of the session is called for may begin behind that, and the session is invalid when it has finished.
  @Test(arguments: Form.allCases) func theyMayBeginBehindTheEnd(_ form: Form) async throws {
    let route = ServerRoute(nil, "/any") { _, connection in
      _ = try connection.readBody()
      try connection.respond(text: "")
    }
    let server = try LoopbackServer(routes: [route])
    defer { server.shutdown() }
    try await withDelegate(Self.handled) { session, delegate in
      let ends = Locked<[String]>([])
      let own = RecordingDelegate([.completed])
      var request = try Request(server.url("/any"))
      let sent: [Form] = [.upload, .file, .streamed, .uploadHandler, .fileHandler, .streamedHandler]
      if sent.contains(form) { request.method = .post }
      let task = form.make(session, request, ends, own)
      session.finishTasksAndInvalidate()
      session.delegateQueue.sync {}
      #expect(delegate.entries == [])
      let late = session.dataTask(with: request) { result in note(result.map { $0.1 }, in: ends) }
      late.resume()
      #expect(await eventually { ends.withLock { $0 } == ["sessionInvalidated"] })
      #expect(await session.tasks == [task])
      task.resume()
      #expect(await delegate.hasEnded("invalid"))
      #expect(ends.withLock { $0 } == ["sessionInvalidated"] + (form.hasHandler ? ["200"] : []))
      let told = ["completed well completed"]
      #expect(own.entries == (form == .ownDelegate ? told : []))
      #expect(own.misplaced == 0)
      #expect(delegate.entries == (form.hasHandler || form == .ownDelegate ? [] : told) + ["invalid"])
      #expect(server.requestCount == 1)
    }
  }

  enum Loss: CaseIterable, Sendable {
    case letGo
    /// By whoever is on the delegate queue, where the session says that it is invalid.
    case letGoOnTheQueue
    case cancelled
  }

  /// A task that is let go of, or cancelled, is not waited for.
  @Test(arguments: Loss.allCases) func theSessionWaitsForNoneThatIsGone(_ loss: Loss) async throws {
    try await withDelegate([.becameInvalid]) { session, delegate in
      let kept = Locked<[SessionTask]>([])
      let request = try Request("http://a.example/")
      let own = RecordingDelegate([])
      for form in Form.allCases {
        let task = form.make(session, request, Locked([]), own)
        kept.withLock { $0.append(task) }
      }
      session.finishTasksAndInvalidate()
      session.delegateQueue.sync {}
      #expect(delegate.entries == [])
      // All but one, and then that.
      for count in [Form.allCases.count - 1, 1] {
        session.delegateQueue.sync {}
        #expect(delegate.entries == [])
        switch loss {
        case .letGo: kept.withLock { $0.removeFirst(count) }
        case .letGoOnTheQueue: session.delegateQueue.sync { kept.withLock { $0.removeFirst(count) } }
        case .cancelled: for task in kept.withLock({ Array($0.prefix(count)) }) { task.cancel() }
        }
        if loss == .cancelled { kept.withLock { $0.removeFirst(count) } }
      }
      #expect(await delegate.hasEnded("invalid"))
      #expect(await session.tasks.isEmpty)
    }
  }

  private final class Weak: @unchecked Sendable {
    weak var task: SessionTask?
    weak var session: Session?
  }

  /// The list holds none of them, and they hold the session no longer than they are held.
  @Test func theListHoldsNone() async throws {
    let weak = Weak()
    func make() throws {
      let session = try Session()
      let task = session.dataTask(with: try Request("http://a.example/"))
      (weak.task, weak.session) = (task, session)
      #expect(session.allTasks == [task])
    }
    try make()
    #expect(await eventually { weak.task == nil && weak.session == nil })
  }

  private final class Counter: Sendable {
    let value = Atomic<Int>(0)
  }

  /// What the threads of a test were told.
  private struct Ends {
    var codes: [Int: [String]] = [:]
    var late = 0
  }

  /// Made by eight threads, and begun by some of them, while another one ends the session: each task completes once, before the session is invalid unless it
  /// was refused.
  @Test(arguments: [true, false]) func madeWhileTheSessionEnds(_ isCancelled: Bool) async throws {
    let (threads, each) = (8, 40)
    let server = try LoopbackServer(routes: ServerRoute.standard(), recording: .none)
    defer { server.shutdown() }
    for _ in 0..<4 {
      try await withDelegate([.becameInvalid]) { session, delegate in
        let request = try Request(server.url("/hello"))
        let ends = Locked(Ends())
        let tasks = Locked<[SessionTask]>([])
        let make: @Sendable (Int) -> SessionTask = { number in
          let task = session.dataTask(with: request) { result in
            let code = endCode(result.map { $0.1 })
            let isLate = code != "sessionInvalidated" && !delegate.entries.isEmpty
            ends.withLock { ends in
              ends.codes[number, default: []].append(code)
              if isLate { ends.late += 1 }
            }
          }
          tasks.withLock { $0.append(task) }
          return task
        }
        let firsts = (0..<threads).map { make(-1 - $0) }
        let made = Counter()
        try onThreads(threads + 1) { thread in
          guard thread < threads else {
            // Some are made before, some behind it.
            while made.value.load(ordering: .relaxed) < threads * each / 3 { sched_yield() }
            return isCancelled ? session.invalidateAndCancel() : session.finishTasksAndInvalidate()
          }
          for index in 0..<each {
            let task = make(thread * each + index)
            made.value.add(1, ordering: .relaxed)
            if index.isMultiple(of: 2) { task.resume() }
          }
        }
        if isCancelled {
          #expect(await eventually { firsts.allSatisfy { $0.error?.code == .cancelled } })
          #expect(await delegate.hasEnded("invalid"))
        }
        for task in tasks.withLock({ $0 }) { task.resume() }
        #expect(await delegate.hasEnded("invalid"))
        #expect(await eventually { ends.withLock { $0.codes.count } == threads * (each + 1) })
        session.delegateQueue.sync {}
        let (codes, late) = ends.withLock { ($0.codes, $0.late) }
        #expect(codes.values.allSatisfy { $0.count == 1 } && late == 0)
        let told = Set(codes.values.joined())
        let expected: Set<String> = ["200", "sessionInvalidated"]
        #expect(told.isSubset(of: isCancelled ? expected.union(["cancelled"]) : expected), "\(told)")
        #expect((0..<threads).allSatisfy { codes[-1 - $0] == [isCancelled ? "cancelled" : "200"] })
      }
    }
  }
}

/// The status, or the code of the error.
private func endCode(_ result: Result<Response, SessionError>) -> String {
  switch result {
  case .success(let response): "\(response.statusCode)"
  case .failure(let error): error.code.rawValue
  }
}

private func note(_ result: Result<Response, SessionError>, in ends: Locked<[String]>) {
  let code = endCode(result)
  ends.withLock { $0.append(code) }
}
