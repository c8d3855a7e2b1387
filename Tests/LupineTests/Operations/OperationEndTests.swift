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

  /// Makes a manager for one operation, and lets it go. The operation's handler has it done once more, by a copy.
  private func begin(_ url: String, _ queue: DispatchQueue, _ ends: Calls<OperationOutcome>) throws {
    var configuration = SessionConfiguration.ephemeral
    configuration.engine = .own
    let manager = try HTTPRequestOperationManager(configuration: configuration)
    manager.responseSerializer = HTTPResponseSerializer()
    manager.completionQueue = queue
    let operation = manager.operation(with: try Request(url)) { _, value in
      ends.note(.success(value as? Data))
    } failure: { operation, error in
      ends.note(.failure(error))
      let copy = HTTPRequestOperation(copying: operation)
      copy.setCompletion(
        success: { _, value in ends.note(.success(value as? Data)) },
        failure: { _, error in ends.note(.failure(error)) })
      copy.start()
    }
    operation.start()
  }

  /// A copy that a handler makes can run, though the manager is gone; behind it nothing is held.
  @Test func copiesMadeByHandlersRun() async throws {
    let asked = Calls<Int>()
    let server = try LoopbackServer(routes: [
      ServerRoute("GET", "/second") { _, connection in
        asked.note(1)
        let isFirst = asked.all.count == 1
        try connection.respond(isFirst ? 503 : 200, text: isFirst ? "busy" : "done")
      }
    ])
    defer { server.shutdown() }
    let ends = Calls<OperationOutcome>()
    try begin(server.url("/second"), DispatchQueue(label: "ends"), ends)
    let outcomes = try await ends.first(2)
    #expect((outcomes[0].error as? SerializationError)?.code == .unacceptableStatusCode)
    #expect(outcomes[1].data == Data("done".utf8))
    #expect(await until { server.openConnectionCount == 0 })
  }
}
