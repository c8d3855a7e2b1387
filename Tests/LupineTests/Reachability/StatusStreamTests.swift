import Foundation
import LupineBase
import LupineIO
import LupineRules
import Testing

@testable import Lupine

/// Readers of `statuses` that are cancelled while somebody is told.
@Suite(.timeLimit(.minutes(2))) struct StatusStreamTests {
  /// To yield resumes a task, and that waits for handlers of its cancellation, which may ask the manager for anything.
  @Test func cancellingAReaderWhileItIsToldLeavesNobodyWaiting() async throws {
    let manager = NetworkReachabilityManager(.target(.anywhere))
    // Not the main queue, on which other tests wait.
    manager.setReachabilityStatusChangeBlock(queue: DispatchQueue(label: "told"), nil)
    let isOver = Locked(false)
    let teller = Thread {
      var isReachable = false
      while !isOver.withLock({ $0 }) {
        isReachable.toggle()
        manager.networkChanged(isReachable ? .withDefaultRoute : NetworkTable(), since: 0)
        usleep(20)
      }
    }
    teller.start()
    defer {
      isOver.withLock { $0 = true }
      manager.stopMonitoring()
    }
    for _ in 0..<3_000 {
      let reader = Task.detached {
        await withTaskCancellationHandler {
          for await _ in manager.statuses where Task.isCancelled { break }
        } onCancel: {
          _ = manager.isReachable
        }
      }
      await Task.yield()
      reader.cancel()
      await reader.value
    }
    #expect(manager.networkReachabilityStatus != .unknown)
  }
}
