import Foundation
import HTTPTypes
import LupineTesting
import Testing

@testable import Lupine

/// Operations of a manager ask its interceptors, and are sent again as its tasks are.
@Suite struct OperationRetryTests {
  private func withOperations(
    _ routes: [ServerRoute],
    _ body: (HTTPRequestOperationManager, LoopbackServer, Recorder<Duration>) async throws -> Void
  ) async throws {
    try await withManager(routes) { sessions, server in
      let waits = Recorder<Duration>()
      sessions.core.settings.change { $0.retrying.sleep = { waits.add($0) } }
      let manager = HTTPRequestOperationManager(sessionManager: sessions)
      manager.responseSerializer = HTTPResponseSerializer()
      manager.completionQueue = DispatchQueue(label: "operations")
      try await body(manager, server, waits)
    }
  }

  /// Runs an operation, and says how it ended.
  private func outcome(_ operation: HTTPRequestOperation) async throws -> OperationOutcome {
    let calls = operation.outcomes()
    operation.start()
    return try await calls.first(1)[0]
  }

  /// Answers 503 so many times, then 200.
  private func flaky(_ failures: Int) -> ServerRoute {
    let count = Recorder<Int>()
    return ServerRoute(nil, "/flaky") { _, connection in
      count.add(1)
      let isBusy = count.values.count <= failures
      try connection.respond(isBusy ? 503 : 200, text: isBusy ? "busy" : "done")
    }
  }

  /// How an operation ends that is paused when so many bytes have come, and resumed at once.
  private func outcome(_ operation: HTTPRequestOperation, pausedAt count: Int64) async throws -> OperationOutcome {
    let received = Recorder<Int64>()
    operation.setDownloadProgress { _, total, _ in received.add(total) }
    let outcomes = operation.outcomes()
    operation.start()
    #expect(await until { received.values.last == count })
    operation.pause()
    operation.resume()
    return try await outcomes.first(1)[0]
  }

  /// Until it succeeds, or has been tried often enough; of a file, too, only the last body stays.
  @Test(arguments: [false, true]) func failuresAreRepeated(_ toFile: Bool) async throws {
    let folder = try ScratchFolder()
    try await withOperations([flaky(2)]) { manager, server, waits in
      manager.sessionManager.retryPolicy = RetryPolicy()
      let operation = manager.operation(with: try Request(server.url("/flaky")))
      if toFile { operation.output = .file(path: folder.file("body").path) }
      let end = try await outcome(operation)
      #expect(end.error == nil && operation.response?.statusCode == 200)
      #expect(server.requestCount == 3 && waits.values.count == 2)
      let body = toFile ? try Data(contentsOf: folder.file("body")) : operation.responseData
      #expect(body == Data("done".utf8))
    }
    try await withOperations([flaky(9)]) { manager, server, waits in
      manager.sessionManager.retryPolicy = RetryPolicy()
      let end = try await outcome(manager.operation(with: Request(server.url("/flaky"))))
      let error = end.error as? SerializationError
      #expect(error?.response?.statusCode == 503 && error?.data == Data("busy".utf8))
      #expect(server.requestCount == 3)
    }
  }

  /// How the first request for the rest fails.
  enum Failure: CaseIterable { case breaksOff, isRefused }

  /// What came before a pause is asked for once, however often the rest is.
  @Test(arguments: [false, true], Failure.allCases) func theRestIsAskedForAgain(
    _ toFile: Bool, _ failure: Failure
  ) async throws {
    let bytes = PatternBody.bytes(1000)
    let latch = try Latch()
    let asked = Recorder<String?>()
    let route = ServerRoute("GET", "/rest") { request, connection in
      asked.add(request.fields.first("Range"))
      var fields: ServerFields = ["ETag": "\"a\""]
      guard asked.values.count > 1 else {
        try connection.begin(fields: fields, framing: .length(1000))
        try connection.write(bytes[..<100])
        _ = try connection.stall(until: latch)
        return
      }
      if asked.values.count == 2, failure == .isRefused { return try connection.respond(503, text: "busy") }
      guard let start = request.fields.first("Range").flatMap({ Int($0.dropFirst(6).dropLast()) }) else {
        return try connection.respond(200, fields: fields, text: "all of it")
      }
      fields.append("Content-Range", "bytes \(start)-999/1000")
      try connection.begin(206, fields: fields, framing: .length(1000 - start))
      if asked.values.count == 2 {
        try connection.write(bytes[start..<start + 50])
        try connection.flush()
        return connection.abort()
      }
      try connection.write(bytes[start...])
      try connection.finish()
    }
    let folder = try ScratchFolder()
    try await withOperations([route]) { manager, server, waits in
      manager.sessionManager.retryPolicy = RetryPolicy()
      let operation = manager.operation(with: try Request(server.url("/rest")))
      if toFile { operation.output = .file(path: folder.file("body").path) }
      let end = try await outcome(operation, pausedAt: 100)
      #expect(end.error == nil)
      #expect(asked.values == [nil, "bytes=100-", "bytes=100-"] && waits.values.count == 1)
      let body = toFile ? try Data(contentsOf: folder.file("body")) : operation.responseData
      #expect(body.map { [UInt8]($0) } == bytes)
      latch.release()
    }
  }

  /// All was there before the pause, which a server says that was busy when it was asked first: the body is that of its own response.
  @Test(arguments: [false, true]) func pagesOfFailuresAreForgotten(_ toFile: Bool) async throws {
    let bytes = PatternBody.bytes(1000)
    let latch = try Latch()
    let asked = Recorder<String?>()
    let route = ServerRoute("GET", "/all") { request, connection in
      asked.add(request.fields.first("Range"))
      switch asked.values.count {
      case 1:
        try connection.begin(fields: ["ETag": "\"a\""], framing: .chunked)
        try connection.write(bytes)
        try connection.flush()
        _ = try connection.stall(until: latch)
      case 2: try connection.respond(503, text: "busy")
      default: try connection.respond(416, fields: ["Content-Range": "bytes */1000"], text: "no")
      }
    }
    let folder = try ScratchFolder()
    try await withOperations([route]) { manager, server, waits in
      manager.sessionManager.retryPolicy = RetryPolicy()
      let operation = manager.operation(with: try Request(server.url("/all")))
      if toFile { operation.output = .file(path: folder.file("body").path) }
      let end = try await outcome(operation, pausedAt: 1000)
      #expect(end.error == nil && operation.response?.statusCode == 200)
      #expect(asked.values == [nil, "bytes=1000-", "bytes=1000-"] && waits.values.count == 1)
      let body = toFile ? try Data(contentsOf: folder.file("body")) : operation.responseData
      #expect(body.map { [UInt8]($0) } == bytes)
      latch.release()
    }
  }

  /// Of servers that have two versions, one gives all of its own instead of the rest, and breaks off; the other one then gives the rest of the first.
  @Test(arguments: [false, true]) func versionsAreNotMixed(_ toFile: Bool) async throws {
    let bytes = PatternBody.bytes(1000)
    let latch = try Latch()
    let asked = Recorder<String?>()
    let route = ServerRoute("GET", "/versions") { request, connection in
      asked.add(request.fields.first("Range"))
      switch asked.values.count {
      case 1:
        try connection.begin(fields: ["ETag": "\"a\""], framing: .length(1000))
        try connection.write(bytes[..<100])
        _ = try connection.stall(until: latch)
      case 2:
        try connection.begin(fields: ["ETag": "\"b\""], framing: .length(1000))
        try connection.write(bytes[..<150].map { ~$0 })
        try connection.flush()
        connection.abort()
      case 3:
        let fields: ServerFields = ["ETag": "\"a\"", "Content-Range": "bytes 100-999/1000"]
        try connection.respond(206, fields: fields, body: Array(bytes[100...]))
      default: try connection.respond(fields: ["ETag": "\"a\""], body: bytes)
      }
    }
    let folder = try ScratchFolder()
    try await withOperations([route]) { manager, server, waits in
      manager.sessionManager.retryPolicy = RetryPolicy()
      let operation = manager.operation(with: try Request(server.url("/versions")))
      if toFile { operation.output = .file(path: folder.file("body").path) }
      let end = try await outcome(operation, pausedAt: 100)
      #expect(end.error == nil)
      #expect(asked.values == [nil, "bytes=100-", "bytes=100-", nil] && waits.values.count == 1)
      let body = toFile ? try Data(contentsOf: folder.file("body")) : operation.responseData
      #expect(body.map { [UInt8]($0) } == bytes)
      latch.release()
    }
  }

  /// A copy of an operation that is over asks the same interceptors, and is sent again as that was.
  @Test func copiesAreRepeatedToo() async throws {
    let count = Recorder<Int>()
    let route = ServerRoute(nil, "/second") { request, connection in
      count.add(1)
      let isRight = request.fields.first("Authorization") == "Bearer 1"
      try connection.respond(isRight ? (count.values.count == 2 ? 503 : 200) : 401)
    }
    try await withOperations([route]) { manager, server, waits in
      manager.sessionManager.retryPolicy = RetryPolicy()
      manager.sessionManager.interceptors = [
        ClosureInterceptor(adapt: { request, _ in
          var request = request
          request.fields.append(HTTPField(name: .authorization, value: "Bearer 1"))
          return request
        })
      ]
      let operation = manager.operation(with: try Request(server.url("/second")))
      #expect(try await outcome(operation).error == nil && server.requestCount == 1)
      let copy = HTTPRequestOperation(copying: operation)
      #expect(try await outcome(copy).error == nil)
      #expect(server.requestCount == 3 && waits.values.count == 1)
    }
  }

  /// Every exchange is adapted, that of a resumed operation too; a 401 renews the token.
  @Test func requestsAreAdapted() async throws {
    let token = Recorder<Int>()
    let secret = ServerRoute(nil, "/secret") { request, connection in
      let isRight = request.fields.first("Authorization") == "Bearer 1"
      try connection.respond(isRight ? 200 : 401, text: isRight ? "in" : "out")
    }
    try await withOperations([secret]) { manager, server, _ in
      manager.sessionManager.interceptors = [
        ClosureInterceptor(
          adapt: { request, _ in
            var request = request
            request.fields.append(HTTPField(name: .authorization, value: "Bearer \(token.values.count)"))
            return request
          },
          decide: { failure in
            guard failure.response?.statusCode == 401, failure.data == Data("out".utf8), failure.attempt == 1 else {
              return .undecided
            }
            token.add(1)
            return .retry(after: .zero)
          })
      ]
      let operation = manager.operation(with: try Request(server.url("/secret")))
      #expect(try await outcome(operation).data == Data("in".utf8))
      #expect(server.recordedRequests.map { $0.fields.first("Authorization") } == ["Bearer 0", "Bearer 1"])
      #expect(operation.request.fields[.authorization] == nil)
    }
  }

  /// One that is sent again and gets no response then has none, and no page of the attempt before: who looks at the status of a failure sees no 401 that
  /// was dealt with. Nor is the page shown to interceptors as what the second attempt brought.
  @Test func whatWasRepeatedIsForgotten() async throws {
    let asked = Recorder<Int>()
    let route = ServerRoute(nil, "/out") { _, connection in
      asked.add(1)
      guard asked.values.count > 1 else { return try connection.respond(401, text: "out") }
      connection.abort()
    }
    try await withOperations([route]) { manager, server, _ in
      let seen = Recorder<Data>()
      manager.sessionManager.interceptors = [
        ClosureInterceptor(decide: { failure in
          seen.add(failure.data)
          return failure.attempt == 1 ? .retry(after: .zero) : .doNotRetry
        })
      ]
      let operation = manager.operation(with: try Request(server.url("/out")))
      let end = try await outcome(operation)
      #expect(end.error is SessionError)
      #expect(operation.response == nil && operation.responseData == Data())
      #expect(seen.values == [Data("out".utf8), Data()])
    }
  }

  /// What an interceptor throws is the error of the operation, and nothing is sent.
  @Test func interceptorsRefuse() async throws {
    struct NoToken: Error {}
    try await withOperations([flaky(0)]) { manager, server, _ in
      manager.sessionManager.interceptors = [ClosureInterceptor(adapt: { _, _ in throw NoToken() })]
      let end = try await outcome(manager.operation(with: Request(server.url("/flaky"))))
      #expect(end.error is NoToken && server.requestCount == 0)
    }
  }

  /// An operation that waits for its next attempt can be paused, and go on; and cancelled.
  @Test func waitingOperationsArePausedAndCancelled() async throws {
    try await withOperations([flaky(2)]) { manager, server, waits in
      manager.sessionManager.retryPolicy = RetryPolicy()
      manager.sessionManager.core.settings.change {
        $0.retrying.sleep = { delay in
          waits.add(delay)
          try await Task.sleep(for: .seconds(3600))
        }
      }
      let operation = manager.operation(with: try Request(server.url("/flaky")))
      let calls = operation.outcomes()
      operation.start()
      #expect(await until { waits.values.count == 1 })
      operation.pause()
      operation.resume()
      #expect(await until { waits.values.count == 2 })
      operation.cancel()
      #expect(try await calls.first(1)[0].isCancelled)
      #expect(server.requestCount == 2 && calls.all.count == 1)
    }
  }
}
