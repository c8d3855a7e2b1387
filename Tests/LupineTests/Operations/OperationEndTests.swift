import Dispatch
import Foundation
import LupineBase
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
      let outcomes = operation.outcomes()
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

  /// Who sees what an operation has become, and waits for its queue, has seen that posted: commands of two threads are posted in the order in which
  /// they count.
  @Test func whatIsSeenIsPosted() async throws {
    let session = try Session(.ephemeral)
    let request = try Request("http://127.0.0.1/")
    let queue = DispatchQueue(label: "posts")
    var missed = 0
    // Nothing of the exchanges is told meanwhile.
    session.delegateQueue.suspend()
    for _ in 0..<300 {
      let operation = HTTPRequestOperation(request: request, session: session)
      operation.completionQueue = queue
      let posted = Calls<Notification.Name>()
      let observers = [Notification.Name.operationDidStart, .operationDidFinish].map { name in
        NotificationCenter.default.addObserver(forName: name, object: operation, queue: nil) { _ in posted.note(name) }
      }
      defer { for observer in observers { NotificationCenter.default.removeObserver(observer) } }
      DispatchQueue.global().async { operation.start() }
      while !operation.isExecuting { sched_yield() }
      queue.sync {}
      if posted.all != [.operationDidStart] { missed += 1 }
      DispatchQueue.global().async { operation.pause() }
      while !operation.isPaused { sched_yield() }
      queue.sync {}
      if posted.all != [.operationDidStart, .operationDidFinish] { missed += 1 }
    }
    session.delegateQueue.resume()
    session.invalidateAndCancel()
    #expect(missed == 0)
  }

  /// What left before a pause has left.
  @Test func aPausedRequestHasLeft() async throws {
    try await withOperations { service in
      let silent = try ScriptedServer([[.readHead, .waitForClose]])
      defer { silent.shutdown() }
      let request = try Request(silent.url(), method: .post, body: .bytes(Array("body".utf8)))
      let operation = HTTPRequestOperation(request: request, session: service.session)
      operation.completionQueue = service.queue
      let sent = Calls<Int64>()
      operation.setUploadProgress { _, total, _ in sent.note(total) }
      let outcomes = operation.outcomes()
      operation.start()
      _ = try await sent.first(1)
      operation.pause()
      operation.cancel()
      _ = try await outcomes.first(1)
      let error = try #require(operation.error as? SessionError)
      #expect(error.code == .cancelled && error.requestBytesSent)
    }
  }
}
