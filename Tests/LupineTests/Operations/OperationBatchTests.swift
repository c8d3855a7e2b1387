import Foundation
import Lupine
import LupineTesting
import Testing

/// Several operations, and an end of them all.
@Suite struct OperationBatchTests {
  /// The completion comes behind the handlers of all; the progress counts them.
  @Test func batch() async throws {
    try await withOperations { service in
      let calls = Calls<String>()
      let operations = try (1...4).map { number in
        let operation = try service.operation(number == 3 ? "/status?code=404" : "/hello")
        operation.setCompletion(
          success: { _, _ in calls.note("own") }, failure: { _, _ in calls.note("own") })
        return operation
      }
      let batch = HTTPRequestOperation.batch(operations, queue: service.queue) { finished, total in
        calls.note("\(finished) of \(total)")
      } completion: { finished in
        calls.note("all \(finished.count)")
      }
      #expect(batch.count == 5)
      let batchQueue = OperationQueue()
      for operation in batch { batchQueue.addOperation(operation) }
      let all = try await calls.first(9)
      #expect(all.filter { $0 == "own" }.count == 4 && all.last == "all 4")
      #expect(all.filter { $0.contains("of") } == ["1 of 4", "2 of 4", "3 of 4", "4 of 4"])
    }
  }

  /// On a queue that is concurrent too, one step of the progress comes after the other.
  @Test func progressOnAConcurrentQueue() async throws {
    try await withOperations { service in
      let (steps, overlap) = (Calls<Int>(), OverlapDetector())
      let operations = try (1...60).map { _ in try service.operation("/hello") }
      let queue = DispatchQueue(label: "batch", attributes: .concurrent)
      let batch = HTTPRequestOperation.batch(operations, queue: queue) { finished, _ in
        overlap.during { steps.note(finished) }
      } completion: { _ in
        steps.note(0)
      }
      let batchQueue = OperationQueue()
      for operation in batch { batchQueue.addOperation(operation) }
      #expect(try await steps.first(61) == Array(1...60) + [0])
      #expect(!overlap.isFound)
    }
  }

  /// Whoever cancels a queue cancels the end of the batch as well, and is told of it all the same.
  @Test func cancelledBatch() async throws {
    try await withOperations { service in
      let calls = Calls<Int>()
      let operations = try (1...2).map { _ in try service.operation("/slow") }
      let batch = HTTPRequestOperation.batch(operations, queue: service.queue) { calls.note($0.count) }
      let queue = OperationQueue()
      for operation in batch { queue.addOperation(operation) }
      queue.cancelAllOperations()
      #expect(try await calls.first(1) == [2])
      #expect(operations.allSatisfy { $0.isFinished })
    }
  }

  @Test func emptyBatch() async throws {
    let calls = Calls<Int>()
    let queue = DispatchQueue(label: "batch")
    let batch = HTTPRequestOperation.batch([], queue: queue) { calls.note($0.count) }
    #expect(batch.count == 1)
    let batchQueue = OperationQueue()
    for operation in batch { batchQueue.addOperation(operation) }
    #expect(try await calls.first(1) == [0])
  }
}
