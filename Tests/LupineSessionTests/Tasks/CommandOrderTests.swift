import Dispatch
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// Who follows the commands of a task hears of them in the order in which they changed it.
@Suite(.timeLimit(.minutes(2))) struct CommandOrderTests {
  /// A thread that lets the task go on again, while the one that has suspended it has not told so yet, waits for that.
  @Test func aResumptionIsToldBehindTheSuspension() async throws {
    let latch = try Latch()
    try await withServer(ServerRoute.standard(latch: latch)) { session, server in
      let task = session.dataTask(with: try Request(server.url("/slow"))) { _ in }
      let told = Locked<[SessionTask.State]>([])
      let resumed = DispatchSemaphore(value: 0)
      task.onChange = { task, state in
        if state == .suspended {
          DispatchQueue.global().async {
            task.resume()
            resumed.signal()
          }
          // In the right order it comes to that behind this only.
          _ = resumed.wait(timeout: .now() + .milliseconds(300))
        }
        told.withLock { $0.append(state) }
      }
      task.resume()
      task.suspend()
      #expect(await eventually { told.withLock { $0.count } == 3 })
      #expect(told.withLock { $0 } == [.running, .suspended, .running])
      #expect(task.state == .running)
      latch.release()
      #expect(await eventually { task.state == .completed })
    }
  }
}
