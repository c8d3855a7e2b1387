import Dispatch
import Foundation
import LupineBase
import LupineTestSupport
import LupineTesting
import Testing

@testable import Lupine

/// What handlers of progress are told, and where.
@Suite(.timeLimit(.minutes(1))) struct ByteProgressTests {
  /// On a concurrent queue, too, one state is told after the other: they are told by one object, and Foundation's has no lock of its own.
  @Test func statesAreToldInOrderOnAConcurrentQueue() async throws {
    let session = try Session(.ephemeral)
    defer { session.invalidateAndCancel() }
    let task = session.dataTask(with: try Request("http://127.0.0.1/"))
    let told = Calls<Int64>()
    let overlap = OverlapDetector()
    let queue = DispatchQueue(label: "progress", attributes: .concurrent)
    let (key, isElsewhere) = (DispatchSpecificKey<Bool>(), Calls<Bool>())
    queue.setSpecific(key: key, value: true)
    let handler: TaskProgressHandler = { progress in
      overlap.during { told.note(progress.completedUnitCount) }
      if DispatchQueue.getSpecific(key: key) == nil { isElsewhere.note(true) }
    }
    let progress = ByteProgress(handler, queue: queue)
    let all = Array(Int64(1)...500)
    for completed in all { progress.update(completed, of: 500, for: task) }
    let seen = try await told.first(500)
    #expect(seen == all && isElsewhere.all.isEmpty && !overlap.isFound)
  }

  /// Between two tasks, where the one before hears nothing any more.
  @Test func aCancelledProgressBeginsNothing() async throws {
    let session = try Session(.ephemeral)
    defer { session.invalidateAndCancel() }
    let tasks = try (0..<2).map { _ in session.dataTask(with: try Request("http://127.0.0.1:1/")) }
    let progress = ByteProgress(nil, queue: nil)
    progress.progress(of: tasks[0]).cancel()
    #expect(await eventually { progress.isCancelled })
    progress.begin(tasks[1])
    #expect(await eventually { tasks[1].state == .completed })
    #expect(tasks[1].error?.code == .cancelled)
  }
}

/// Notices calls that run at the same time.
final class OverlapDetector: Sendable {
  private let running = Locked(0)
  private let found = Locked(false)

  var isFound: Bool { found.withLock { $0 } }

  /// Calls `body`, and gives others time to come in between.
  func during(_ body: () -> Void) {
    let count = running.withLock { running in
      running += 1
      return running
    }
    if count > 1 { found.withLock { $0 = true } }
    body()
    for _ in 0..<10 { sched_yield() }
    running.withLock { $0 -= 1 }
  }
}
