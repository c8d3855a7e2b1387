import Dispatch
import Foundation
import Lupine
import LupineTestSupport
import LupineTesting
import Testing

/// What becomes of a manager's tasks that were made and not resumed when its session ends.
@Suite(.timeLimit(.minutes(5))) struct UnbegunTaskTests {
  enum Kind: CaseIterable, Sendable {
    case data, upload, file, streamed, download

    func make(
      _ manager: HTTPSessionManager, _ request: Request, _ ends: Recorder<SessionError.Code?>
    ) -> SessionTask {
      let end: @Sendable ((any Error)?) -> Void = { error in ends.add((error as? SessionError)?.code) }
      switch self {
      case .data: return manager.dataTask(with: request) { _, _, error in end(error) }
      case .upload: return manager.uploadTask(with: request, from: Data([1])) { _, _, error in end(error) }
      case .file:
        let file = URL(fileURLWithPath: "/etc/passwd")
        return manager.uploadTask(with: request, fromFile: file) { _, _, error in end(error) }
      case .streamed:
        var request = request
        request.body = .data(Data([1]))
        return manager.uploadTask(withStreamedRequest: request) { _, _, error in end(error) }
      case .download: return manager.downloadTask(with: request, destination: nil) { _, _, error in end(error) }
      }
    }
  }

  @Test(arguments: Kind.allCases, [false, true])
  func theyAreCancelledWithTheirSession(_ kind: Kind, _ isReset: Bool) async throws {
    try await withManager { manager, server in
      let ends = Recorder<SessionError.Code?>()
      let ended = Recorder<Bool>()
      manager.sessionDidBecomeInvalid = { _, _ in ended.add(true) }
      let request = try Request(server.url("/hello"))
      let task = kind.make(manager, request, ends)
      #expect(manager.tasks == [task])
      try manager.invalidateSession(cancellingTasks: true, resettingSession: isReset)
      #expect(await eventually { ends.values.count == 1 && ended.values == [true] })
      task.resume()
      #expect(ends.values == [.cancelled] && task.error?.code == .cancelled && manager.tasks.isEmpty)
      #expect(server.requestCount == 0)
    }
  }

  @Test(arguments: Kind.allCases) func theyMayBeginBehindTheEnd(_ kind: Kind) async throws {
    let route = ServerRoute(nil, "/any") { _, connection in
      _ = try connection.readBody()
      try connection.respond(text: "any")
    }
    try await withManager([route]) { manager, server in
      manager.responseSerializer = HTTPResponseSerializer()
      let ends = Recorder<SessionError.Code?>()
      let ended = Recorder<Bool>()
      manager.sessionDidBecomeInvalid = { _, _ in ended.add(true) }
      var request = try Request(server.url("/any"))
      if kind != .data, kind != .download { request.method = .post }
      let task = kind.make(manager, request, ends)
      try manager.invalidateSession(cancellingTasks: false)
      manager.delegateQueue.sync {}
      #expect(ended.values == [] && manager.tasks == [task])
      task.resume()
      #expect(await eventually { ends.values.count == 1 && ended.values == [true] })
      #expect(ends.values == [nil] && server.requestCount == 1)
    }
  }

  /// The manager is the delegate of a task before the end of the session can come to it: the handler hears of every one.
  @Test func madeWhileTheSessionEnds() async throws {
    let (threads, each) = (8, 25)
    for round in 0..<8 {
      let ending = try Latch()
      try await withManager { manager, server in
        manager.completionQueue = DispatchQueue(label: "test")
        if round.isMultiple(of: 2) { manager.taskWasCreated = { _, _ in } }
        let request = try Request(server.url("/hello"))
        let ends = Recorder<SessionError.Code?>()
        let tasks = Recorder<SessionTask>()
        for thread in 0..<threads {
          // Threads of their own: those of tasks may be too few for anything to happen meanwhile.
          Thread.detachNewThread {
            for index in 0..<each {
              if index == each / 2 { _ = ending.wait(seconds: 60) }
              let kind = Kind.allCases[(thread + index) % Kind.allCases.count]
              tasks.add(kind.make(manager, request, ends))
            }
          }
        }
        // Half of them before the end, the others while it comes, and one behind it.
        #expect(await eventually { tasks.values.count == threads * (each / 2) })
        ending.release()
        manager.session.invalidateAndCancel()
        #expect(await eventually { tasks.values.count == threads * each })
        tasks.add(Kind.allCases[round % Kind.allCases.count].make(manager, request, ends))
        let count = threads * each + 1
        // Those that were made behind the end are refused.
        for task in tasks.values { task.resume() }
        #expect(await eventually { ends.values.count == count })
        let (made, told) = (tasks.values, Set(ends.values))
        #expect(made.allSatisfy { $0.state == .completed } && made.count == count)
        let both: Set<SessionError.Code?> = [.cancelled, .sessionInvalidated]
        #expect(told == both)
        #expect(ends.values.count == count && server.requestCount == 0)
      }
    }
  }
}
