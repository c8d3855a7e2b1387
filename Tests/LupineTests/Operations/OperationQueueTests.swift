import Dispatch
import Foundation
import Lupine
import LupineTesting
import Testing

/// Operations that queues start.
@Suite(.timeLimit(.minutes(1))) struct OperationQueueTests {
  /// Paused before a queue starts it, an operation waits for `resume()`; paused while it runs, it keeps its place.
  @Test func pausedInAQueue() async throws {
    try await withOperations { service in
      let queue = OperationQueue()
      queue.maxConcurrentOperationCount = 1
      let first = try service.operation("/parts?n=1000&version=a")
      let outcomes = first.outcomes()
      first.pause()
      queue.addOperation(first)
      #expect(!first.isReady && first.isPaused)
      first.resume()
      #expect(await until { first.responseData?.count == 500 })
      let second = try service.operation("/hello")
      let secondOutcomes = second.outcomes()
      queue.addOperation(second)
      first.pause()
      let begins = await until(seconds: 1) { second.isExecuting || second.isFinished }
      #expect(first.isPaused && !begins)
      first.resume()
      #expect(try await outcomes.first(1)[0].data?.count == 1000)
      #expect(try await secondOutcomes.first(1)[0].data?.count == 13)
      let paused = try service.operation("/hello")
      let pausedOutcomes = paused.outcomes()
      paused.pause()
      queue.addOperation(paused)
      paused.cancel()
      #expect(try await pausedOutcomes.first(1)[0].isCancelled, "a paused operation that is cancelled does not hang")
      #expect(service.server.recordedRequests.map(\.path) == ["/parts", "/parts", "/hello"])
    }
  }

  /// After the queue has taken it off its list, and before it has started it.
  @Test(arguments: [false, true]) func pausedWhileItsQueueStartsIt(isCancelled: Bool) async throws {
    try await withOperations { service in
      let queue = OperationQueue()
      let worker = DispatchQueue(label: "worker")
      worker.suspend()
      unsafe queue.underlyingQueue = worker
      queue.maxConcurrentOperationCount = 1
      let operation = try service.operation("/hello")
      let outcomes = operation.outcomes()
      queue.addOperation(operation)
      let isTaken = DispatchSemaphore(value: 0)
      operation.pause()
      worker.resume()
      worker.async { isTaken.signal() }
      #expect(await until { isTaken.wait(timeout: .now()) == .success })
      if isCancelled { operation.cancel() } else { operation.resume() }
      let outcome = try await outcomes.first(1)[0]
      #expect(isCancelled ? outcome.isCancelled : outcome.data?.count == 13)
      // Its place is free again.
      let next = try service.operation("/hello")
      let nextOutcomes = next.outcomes()
      queue.addOperation(next)
      #expect(try await nextOutcomes.first(1)[0].data?.count == 13)
    }
  }
}
