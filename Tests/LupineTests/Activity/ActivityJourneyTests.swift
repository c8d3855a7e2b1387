import Dispatch
import Foundation
import Lupine
import LupineTestSupport
import LupineTesting
import Testing

/// The indicator, from real requests to a real server, in time that the test moves on. Serialized: every indicator hears of every task.
@Suite(.serialized) struct ActivityJourneyTests {
  private let timer = ManualTimer()
  private let queue = DispatchQueue(label: "indicator")

  private func shown(_ calls: Calls<Bool>) -> [Bool] { queue.sync { calls.all } }

  private func indicator(_ calls: Calls<Bool>) -> NetworkActivityIndicatorManager {
    let indicator = NetworkActivityIndicatorManager(queue: queue, timer: timer)
    indicator.action = { calls.note($0) }
    indicator.isEnabled = true
    return indicator
  }

  /// A request shows the sign after a second, and hides it 0.17 seconds after its end; whether it succeeds or fails.
  @Test(arguments: ["slow", "status?code=404"]) func tasksShowIt(_ path: String) async throws {
    let latch = try Latch()
    let calls = Calls<Bool>()
    let indicator = indicator(calls)
    try await withManager(ServerRoute.standard(latch: latch)) { manager, server in
      manager.responseSerializer = HTTPResponseSerializer()
      let isHeld = path == "slow"
      let made = manager.dataTask(method: .get, path) { _, _ in }
      let task = try #require(made)
      let end = NotificationRecorder(.taskDidComplete, object: task)
      task.resume()
      if isHeld {
        #expect(await eventually { indicator.activityCount == 1 && timer.started == 1 })
        timer.advance(by: .milliseconds(999))
        #expect(shown(calls) == [])
        timer.advance(by: .milliseconds(1))
        #expect(shown(calls) == [true])
        latch.release()
      }
      #expect(await eventually { end.count == 1 && indicator.activityCount == 0 && timer.started == (isHeld ? 2 : 1) })
      timer.advance(by: .milliseconds(170))
      #expect(shown(calls) == (isHeld ? [true, false] : []))
      // What was over before its second had passed never shows.
      timer.advance(by: .seconds(5))
      #expect(shown(calls) == (isHeld ? [true, false] : []))
    }
  }

  /// A suspended task is no activity; two at a time are one sign.
  @Test func suspendedTasksDoNotCount() async throws {
    let latch = try Latch()
    let calls = Calls<Bool>()
    let indicator = indicator(calls)
    indicator.activationDelay = .zero
    indicator.completionDelay = .zero
    try await withManager(ServerRoute.standard(latch: latch)) { manager, server in
      manager.responseSerializer = HTTPResponseSerializer()
      let tasks = (0..<2).compactMap { _ in manager.get("slow", success: { _, _ in }) }
      #expect(await eventually { indicator.activityCount == 2 && timer.started == 1 })
      timer.advance(by: .zero)
      tasks.first?.suspend()
      #expect(await eventually { indicator.activityCount == 1 })
      timer.advance(by: .zero)
      #expect(shown(calls) == [true])
      tasks.last?.cancel()
      #expect(await eventually { indicator.activityCount == 0 && timer.started == 2 })
      timer.advance(by: .zero)
      #expect(shown(calls) == [true, false])
      latch.release()
      tasks.first?.cancel()
    }
  }

  /// An operation counts from its start to its end.
  @Test func operationsShowIt() async throws {
    let calls = Calls<Bool>()
    let indicator = indicator(calls)
    try await withOperations { service in
      let operation = try service.operation("/slow")
      operation.start()
      #expect(await until { indicator.activityCount == 1 && timer.started == 1 })
      timer.advance(by: .seconds(1))
      #expect(shown(calls) == [true])
      service.latch.release()
      #expect(await until { indicator.activityCount == 0 && timer.started == 2 })
      timer.advance(by: .milliseconds(170))
      #expect(shown(calls) == [true, false])
    }
  }
}
