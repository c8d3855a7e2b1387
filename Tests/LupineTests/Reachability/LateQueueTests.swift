import Dispatch
import Foundation
import LupineBase
import Testing

@testable import Lupine
@testable import LupineRules

/// A block and its queue that are named when there is a status already.
@Suite(.timeLimit(.minutes(1))) struct LateQueueTests {
  private let manager = NetworkReachabilityManager(.target(.anywhere), facts: { _ in LinkFacts() })
  private let key = DispatchSpecificKey<String>()
  private let told = Calls<String>()

  private func queue(_ name: String) -> DispatchQueue {
    let queue = DispatchQueue(label: name)
    queue.setSpecific(key: key, value: name)
    return queue
  }

  /// Notes the status and the queue.
  private func listen(on queue: DispatchQueue) {
    manager.setReachabilityStatusChangeBlock(queue: queue) { [told, key] status in
      told.note("\(status.rawValue) on \(DispatchQueue.getSpecific(key: key) ?? "another")")
    }
  }

  /// Statuses that wait behind a queue that nobody runs come, in order, where the next one that is named is; a block is called on its own queue only.
  @Test func waitingStatusesMoveToTheQueueThatIsNamed() async throws {
    let (first, second) = (queue("first"), queue("second"))
    first.suspend()
    listen(on: first)
    manager.networkChanged(.withDefaultRoute, since: 0)
    manager.networkChanged(NetworkTable(), since: 0)
    listen(on: second)
    manager.networkChanged(.withDefaultRoute, since: 0)
    #expect(await until { told.all.count == 3 })
    #expect(told.all == ["3 on second", "0 on second", "3 on second"])
    first.resume()
    first.sync {}
    #expect(told.all.count == 3)
  }

  /// What waits when the monitoring stops is not told any more, neither to the block nor by a notification.
  @Test func nothingIsToldBehindTheStop() async throws {
    let queue = queue("only")
    let posted = NotificationRecorder(.networkReachabilityDidChange, object: manager)
    queue.suspend()
    listen(on: queue)
    manager.networkChanged(.withDefaultRoute, since: 0)
    manager.stopMonitoring()
    queue.resume()
    queue.sync {}
    #expect(told.all.isEmpty && posted.count == 0 && manager.isReachable)
    listen(on: queue)
    queue.sync {}
    #expect(told.all.isEmpty)
  }

  /// The first status is told to the first block, though it was known before that was set; it was posted then, and is not once more.
  @Test func theFirstBlockHearsTheFirstStatus() async throws {
    let (before, queue) = (queue("before"), queue("later"))
    let posted = NotificationRecorder(.networkReachabilityDidChange, object: manager)
    manager.setReachabilityStatusChangeBlock(queue: before, nil)
    manager.networkChanged(.withDefaultRoute, since: 0)
    before.sync {}
    #expect(posted.count == 1)
    listen(on: queue)
    queue.sync {}
    #expect(told.all == ["3 on later"] && posted.count == 1)
    listen(on: queue)
    queue.sync {}
    #expect(told.all.count == 1, "a status that was told is not told again")
  }
}
