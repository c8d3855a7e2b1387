import Dispatch
import Foundation
import Lupine
import LupineTesting
import Testing

/// The facts of `AFNetworkActivityManagerTests`. Serialized: every manager hears of every task.
@Suite(.serialized) struct NetworkActivityIndicatorTests {
  private let timer = ManualTimer()
  private let queue = DispatchQueue(label: "indicator")

  private func manager(_ calls: Calls<Bool>) -> NetworkActivityIndicatorManager {
    let manager = NetworkActivityIndicatorManager(queue: queue, timer: timer)
    manager.action = { calls.note($0) }
    manager.isEnabled = true
    return manager
  }

  private func shown(_ calls: Calls<Bool>) -> [Bool] { queue.sync { calls.all } }

  @Test func defaults() {
    let manager = NetworkActivityIndicatorManager(queue: queue, timer: timer)
    #expect(
      !manager.isEnabled && manager.activationDelay == .seconds(1) && manager.completionDelay == .milliseconds(170))
    #expect(!manager.isNetworkActivityIndicatorVisible && manager.activityCount == 0)
    #expect(NetworkActivityIndicatorManager.shared === NetworkActivityIndicatorManager.shared)
  }

  /// Visible after more than a second of activity, hidden after 0.17 seconds without.
  @Test func delays() {
    let calls = Calls<Bool>()
    let manager = manager(calls)
    manager.incrementActivityCount()
    timer.advance(by: .milliseconds(999))
    #expect(shown(calls) == [] && !manager.isNetworkActivityIndicatorVisible)
    timer.advance(by: .milliseconds(1))
    #expect(shown(calls) == [true] && manager.isNetworkActivityIndicatorVisible)
    manager.decrementActivityCount()
    timer.advance(by: .milliseconds(169))
    #expect(shown(calls) == [true])
    timer.advance(by: .milliseconds(1))
    #expect(shown(calls) == [true, false] && !manager.isNetworkActivityIndicatorVisible)
  }

  /// Two overlapping requests: shown once, hidden once.
  @Test func overlappingRequests() {
    let calls = Calls<Bool>()
    let manager = manager(calls)
    manager.activationDelay = .zero
    manager.completionDelay = .zero
    manager.incrementActivityCount()
    manager.incrementActivityCount()
    timer.advance(by: .zero)
    manager.decrementActivityCount()
    timer.advance(by: .zero)
    manager.decrementActivityCount()
    #expect(shown(calls) == [true])
    timer.advance(by: .zero)
    #expect(shown(calls) == [true, false] && manager.activityCount == 0)
  }

  /// On a queue that is concurrent too, the sign is shown and hidden in turn.
  @Test func concurrentQueues() async throws {
    let (calls, overlap) = (Calls<Bool>(), OverlapDetector())
    let manager = NetworkActivityIndicatorManager(
      queue: DispatchQueue(label: "indicator", attributes: .concurrent), timer: timer)
    manager.activationDelay = .zero
    manager.completionDelay = .zero
    manager.action = { isVisible in overlap.during { calls.note(isVisible) } }
    manager.isEnabled = true
    for _ in 0..<100 {
      manager.incrementActivityCount()
      timer.advance(by: .zero)
      manager.decrementActivityCount()
      timer.advance(by: .zero)
    }
    #expect(try await calls.first(200) == (0..<100).flatMap { _ in [true, false] })
    #expect(!overlap.isFound)
  }

  /// Nothing shows while disabled; what was counted meanwhile counts.
  @Test func disabled() {
    let calls = Calls<Bool>()
    let manager = manager(calls)
    manager.isEnabled = false
    manager.incrementActivityCount()
    timer.advance(by: .seconds(5))
    #expect(shown(calls) == [] && manager.activityCount == 1)
    manager.isEnabled = true
    timer.advance(by: .seconds(1))
    manager.isEnabled = false
    #expect(shown(calls) == [true, false])
  }

  /// A task counts while it runs, once: resumed, suspended and cancelled it is taken off once. Other objects do not count.
  @Test func tasksCountOnce() throws {
    let manager = manager(Calls<Bool>())
    let task = try Session().dataTask(with: try Request("http://localhost:1/"))
    func post(_ name: Notification.Name, _ object: Any?) { NotificationCenter.default.post(name: name, object: object) }
    manager.incrementActivityCount()
    post(.taskDidResume, task)
    post(.taskDidResume, task)
    #expect(manager.activityCount == 2)
    post(.taskDidSuspend, task)
    post(.taskDidComplete, task)
    post(.taskDidResume, nil)
    post(.taskDidResume, "task")
    #expect(manager.activityCount == 1)
    post(.taskDidResume, task)
    post(.taskDidComplete, task)
    #expect(manager.activityCount == 1)
  }

  /// A timer may call back at once, on the thread that starts it.
  @Test func aTimerMayCallBackAtOnce() {
    struct Immediate: DelayTimer {
      func after(_ delay: Duration, _ work: @escaping @Sendable () -> Void) { work() }
    }
    let calls = Calls<Bool>()
    let manager = NetworkActivityIndicatorManager(queue: queue, timer: Immediate())
    manager.action = { calls.note($0) }
    manager.isEnabled = true
    manager.incrementActivityCount()
    #expect(shown(calls) == [true] && manager.isNetworkActivityIndicatorVisible)
    manager.decrementActivityCount()
    #expect(shown(calls) == [true, false] && !manager.isNetworkActivityIndicatorVisible)
  }

  /// A manager that has gone hears nothing.
  @Test func droppedManager() throws {
    let calls = Calls<Bool>()
    var manager: NetworkActivityIndicatorManager? = manager(calls)
    weak let observed = manager
    manager?.incrementActivityCount()
    manager = nil
    #expect(observed == nil)
    timer.advance(by: .seconds(1))
    let task = try Session().dataTask(with: try Request("http://localhost:1/"))
    NotificationCenter.default.post(name: .taskDidResume, object: task)
    #expect(shown(calls) == [])
  }
}

extension NetworkActivityIndicatorTests {
  /// The system's timer waits as long as it is told, and for nothing that is over.
  @Test(.timeLimit(.minutes(1)), arguments: [Duration.milliseconds(50), .zero, .seconds(-1)])
  func theTimerOfTheSystem(_ delay: Duration) async {
    let start = ContinuousClock.now
    await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
      SystemDelayTimer().after(delay) { continuation.resume() }
    }
    #expect(ContinuousClock.now - start >= delay)
  }

  /// Asks the manager when it goes, as a screen does that takes its sign back.
  private final class Screen: Sendable {
    let manager: NetworkActivityIndicatorManager
    let asked: Calls<Bool>

    init(_ manager: NetworkActivityIndicatorManager, _ asked: Calls<Bool>) {
      self.manager = manager
      self.asked = asked
    }

    deinit { asked.note(manager.isNetworkActivityIndicatorVisible) }

    /// Gives the screen to the action, and keeps nothing.
    static func show(_ manager: NetworkActivityIndicatorManager, _ asked: Calls<Bool>) {
      let screen = Screen(manager, asked)
      manager.action = { [screen] _ in _ = screen }
    }
  }

  /// The last reference to somebody who asks the manager goes outside of its lock.
  @Test func aFormerActionMayAskTheManager() {
    let manager = NetworkActivityIndicatorManager(queue: queue, timer: timer)
    let asked = Calls<Bool>()
    Screen.show(manager, asked)
    manager.action = nil
    #expect(asked.all == [false])
  }
}
