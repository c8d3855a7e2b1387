import Dispatch
import Foundation
import Lupine
import LupineTestSupport
import LupineTesting
import Testing

/// Where notifications are posted: a program that runs no main queue must not gather them there, with the bodies in them.
@Suite struct NotificationQueueTests {
  private let key = DispatchSpecificKey<Bool>()

  private func queue(_ attributes: DispatchQueue.Attributes = []) -> DispatchQueue {
    let queue = DispatchQueue(label: "named", attributes: attributes)
    queue.setSpecific(key: key, value: true)
    return queue
  }

  private func place(_ notification: Notification) -> [String: String] {
    ["isNamed": "\(DispatchQueue.getSpecific(key: key) ?? false)", "name": notification.name.rawValue]
  }

  /// On the queue that is named, one after another even if that is concurrent.
  @Test(arguments: [false, true]) func tasksPostOnTheCompletionQueue(_ isConcurrent: Bool) async throws {
    let latch = try Latch()
    try await withManager(ServerRoute.standard(latch: latch)) { manager, _ in
      manager.completionQueue = queue(isConcurrent ? .concurrent : [])
      let task = manager.dataTask(with: try manager.request(.get, "slow")) { _, _, _ in }
      let names = [Notification.Name.taskDidResume, .taskDidSuspend, .taskDidComplete]
      let recorders = names.map { NotificationRecorder($0, object: task, place) }
      task.resume()
      task.suspend()
      task.resume()
      latch.release()
      #expect(await eventually { recorders.map(\.count) == [2, 1, 1] })
      #expect(recorders.flatMap(\.values).allSatisfy { $0["isNamed"] == "true" })
    }
  }

  /// Another queue that is named while a task or an operation runs: what began here ends here.
  @Test func aQueueThatIsNamedLaterIsForLaterTasks() async throws {
    let latch = try Latch()
    try await withManager(ServerRoute.standard(latch: latch)) { manager, _ in
      let (first, later) = (queue(), DispatchQueue(label: "later"))
      manager.completionQueue = first
      let task = manager.dataTask(with: try manager.request(.get, "slow")) { _, _, _ in }
      let names = [Notification.Name.taskDidResume, .taskDidComplete]
      let recorders = names.map { NotificationRecorder($0, object: task, place) }
      first.suspend()
      task.resume()
      manager.completionQueue = later
      latch.release()
      #expect(await eventually { task.state == .completed })
      #expect(recorders.map(\.count) == [0, 0])
      first.resume()
      #expect(await eventually { recorders.map(\.count) == [1, 1] })
      #expect(recorders.flatMap(\.values).allSatisfy { $0["isNamed"] == "true" })
    }
    try await withOperations { service in
      let operation = try service.operation("/hello")
      let (first, later) = (queue(), DispatchQueue(label: "later"))
      operation.completionQueue = first
      let names = [Notification.Name.operationDidStart, .operationDidFinish]
      let recorders = names.map { NotificationRecorder($0, object: operation, place) }
      first.suspend()
      operation.start()
      operation.completionQueue = later
      #expect(await eventually { operation.isFinished })
      #expect(recorders.map(\.count) == [0, 0])
      first.resume()
      #expect(await eventually { recorders.map(\.count) == [1, 1] })
      #expect(recorders.flatMap(\.values).allSatisfy { $0["isNamed"] == "true" })
    }
  }

  private final class Successor: SessionTaskDelegate {
    let handledCallbacks: CallbackSet = .completed
    let ends = Recorder<Bool>()
    func session(_ session: Session, task: SessionTask, didCompleteWithError error: SessionError?) { ends.add(true) }
  }

  /// Another delegate takes a task out of the manager's hands: nobody would post the end of what is told to have begun. One that comes too late to hear
  /// of the task takes nothing.
  @Test(arguments: [true, false]) func aTaskWithAnotherDelegatePostsNothing(_ isInTime: Bool) async throws {
    let latch = try Latch()
    try await withManager(ServerRoute.standard(latch: latch)) { manager, _ in
      let queue = queue()
      manager.completionQueue = queue
      let task = manager.dataTask(with: try manager.request(.get, "slow")) { _, _, _ in }
      let names = [Notification.Name.taskDidResume, .taskDidSuspend, .taskDidComplete]
      let recorders = names.map { NotificationRecorder($0, object: task) }
      let successor = Successor()
      if isInTime { task.delegate = successor }
      task.resume()
      if !isInTime { task.delegate = successor }
      task.suspend()
      task.resume()
      latch.release()
      if isInTime {
        #expect(await eventually { successor.ends.values.count == 1 })
        queue.sync {}
        #expect(recorders.map(\.count) == [0, 0, 0])
      } else {
        #expect(await eventually { recorders.map(\.count) == [2, 1, 1] })
        #expect(successor.ends.values.isEmpty)
      }
    }
  }

  @Test func operationsPostOnTheirCompletionQueue() async throws {
    try await withOperations { service in
      let operation = try service.operation("/hello")
      operation.completionQueue = queue()
      let names = [Notification.Name.operationDidStart, .operationDidFinish]
      let recorders = names.map { NotificationRecorder($0, object: operation, place) }
      operation.start()
      #expect(await eventually { recorders.map(\.count) == [1, 1] })
      #expect(recorders.flatMap(\.values).allSatisfy { $0["isNamed"] == "true" })
    }
  }

  /// What was named can be taken back.
  @Test func withoutAQueueItIsTheMainOne() async throws {
    try await withManager { manager, _ in
      manager.completionQueue = queue()
      manager.completionQueue = nil
      let task = manager.dataTask(with: try manager.request(.get, "json")) { _, _, _ in }
      let end = NotificationRecorder(.taskDidComplete, object: task) { _ in ["isMain": "\(isOnMainQueue)"] }
      task.resume()
      #expect(await eventually { end.values == [["isMain": "true"]] })
    }
  }
}
