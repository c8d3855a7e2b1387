import Dispatch
import Foundation
import LupineTesting
import Synchronization
import Testing

@testable import Lupine

/// What is promised of the end of an operation, and of what its handlers may do then.
@Suite(.timeLimit(.minutes(1))) struct OperationEndTests {
  /// Cancelled when its last byte has come, and nobody was told yet: it is cancelled all the same.
  @Test func cancelledBehindItsLastByte() async throws {
    try await withOperations { service in
      let operation = try service.operation("/parts?n=1000")
      let outcomes = service.outcomes(of: operation)
      operation.start()
      #expect(await until { operation.responseData?.count == 500 })
      let task = try #require(operation.state.withLock { $0.transfer.task })
      // Nothing of the exchange is told meanwhile.
      service.session.delegateQueue.suspend()
      service.latch.release()
      #expect(await until { task.state == .completed })
      operation.cancel()
      service.session.delegateQueue.resume()
      #expect(try await outcomes.first(1)[0].isCancelled)
      #expect((operation.error as? SessionError)?.code == .cancelled && operation.responseObject == nil)
    }
  }
}
