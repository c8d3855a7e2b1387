import Foundation
import HTTPTypes
import LupineBase
import LupineTestSupport
import LupineTesting
import Synchronization
import Testing

@testable import Lupine

/// Interceptors and retry policy for tasks with handlers: the task is sent again, and stays the same task.
@Suite(.timeLimit(.minutes(5))) struct TaskRetryTests {
  /// Answers 503 so many times, then 200.
  private func flaky(_ failures: Int, retryAfter: String = "2") -> ServerRoute {
    let count = Recorder<Int>()
    return ServerRoute(nil, "/flaky") { request, connection in
      _ = try connection.readBody()
      count.add(1)
      if count.values.count <= failures {
        try connection.respond(503, fields: ["Retry-After": retryAfter], text: "busy")
      } else {
        try connection.respond(text: "done")
      }
    }
  }

  /// A manager whose waits take no time.
  private func withRetries(
    _ routes: [ServerRoute], _ body: (HTTPSessionManager, LoopbackServer, Recorder<Duration>) async throws -> Void
  ) async throws {
    try await withManager(routes) { manager, server in
      let waits = Recorder<Duration>()
      manager.responseSerializer = HTTPResponseSerializer()
      manager.retryPolicy = RetryPolicy()
      manager.core.settings.change { $0.retrying.sleep = { waits.add($0) } }
      try await body(manager, server, waits)
    }
  }

  /// A task is repeated until it succeeds; it completes once, and tells of it once.
  @Test func tasksAreRepeated() async throws {
    try await withRetries([flaky(2)]) { manager, server, waits in
      let ends = Recorder<UInt64>()
      manager.taskDidComplete = { _, task, _ in ends.add(task.taskIdentifier) }
      let end = await ended { manager.get("flaky", success: $0, failure: $1) }
      #expect(end.value as? Data == Data("done".utf8))
      #expect(waits.values == [.seconds(2), .seconds(2)] && server.requestCount == 3 && server.connectionCount == 1)
      #expect(end.task?.state == .completed && end.task?.countOfBytesReceived == 4)
      let task = try #require(end.task)
      #expect(await eventually { ends.values == [task.taskIdentifier] })
    }
  }

  /// What an attempt brought that failed is nothing of the progress of the next.
  @Test func progressBeginsAnew() async throws {
    let count = Recorder<Int>()
    let latch = try Latch()
    let route = ServerRoute(nil, "/empty") { _, connection in
      count.add(1)
      if count.values.count > 1 {
        _ = latch.wait(seconds: 60)
        return try connection.respond(204)
      }
      try connection.begin(503, framing: .chunked)
      try connection.write(Array("busy".utf8))
      try connection.finish()
    }
    try await withRetries([route]) { manager, server, _ in
      let told = Recorder<[Int64]>()
      let live = Recorder<Progress>()
      let end = await ended { success, failure in
        let task = manager.get(
          "empty", progress: { told.add([$0.completedUnitCount, $0.totalUnitCount]) }, success: success,
          failure: failure)
        if let task, let progress = manager.downloadProgress(for: task) { live.add(progress) }
        latch.release()
        return task
      }
      #expect(end.error == nil && server.requestCount == 2)
      #expect(told.values == [[4, -1]])
      #expect(live.values.map(\.completedUnitCount) == [0] && live.values.map(\.totalUnitCount) == [-1])
    }
  }

  /// The last failure is the result, with the body of the last attempt alone.
  @Test func theLastFailureIsTheResult() async throws {
    try await withRetries([flaky(9)]) { manager, server, waits in
      let end = await ended { manager.get("flaky", success: $0, failure: $1) }
      let error = try #require(end.error as? SerializationError)
      #expect(error.response?.statusCode == 503 && error.data == Data("busy".utf8))
      #expect(server.requestCount == 3 && waits.values.count == 2)
    }
  }

  /// A wait that would outlast the task is none: its time, spent on waiting, would take the answer with it.
  @Test func waitsBeyondTheTimeOfTheTaskAreNone() async throws {
    try await withRetries([flaky(9, retryAfter: "60")]) { manager, server, waits in
      var request = try manager.request(.get, "flaky")
      request.totalTimeout = .seconds(50)
      let end = await ended { manager.dataTask(with: request, completion: $0) }
      let error = try #require(end.error as? SerializationError)
      #expect(error.response?.statusCode == 503 && error.data == Data("busy".utf8))
      #expect(server.requestCount == 1 && waits.values == [])
    }
  }

  /// An interceptor that takes longer than the task has is not waited for: before the first exchange that is an error, later the answer stays.
  @Test(arguments: [1, 2]) func slowInterceptorsAreNotWaitedFor(_ slowAttempt: Int) async throws {
    try await withRetries([flaky(9)]) { manager, server, waits in
      for limit in [2, 30] {
        let asked = Recorder<Int>()
        manager.interceptors = [
          ClosureInterceptor(
            adapt: { request, attempt in
              asked.add(attempt)
              if attempt == slowAttempt { try await Task.sleep(for: .seconds(3600)) }
              return request
            }, decide: { _ in .retry(after: .zero) })
        ]
        var request = try manager.request(.get, "flaky")
        request.totalTimeout = .seconds(limit)
        let end = await ended { manager.dataTask(with: request, completion: $0) }
        // On a busy machine the time may be over before it came to that: then there is more of it.
        if limit == 2, asked.values.count < slowAttempt { continue }
        if slowAttempt == 1 {
          let error = try #require(end.error as? SessionError)
          #expect(error.code == .timedOut && error.phase == .total && server.requestCount == 0)
        } else {
          let error = try #require(end.error as? SerializationError)
          #expect(error.response?.statusCode == 503 && error.data == Data("busy".utf8))
        }
        #expect(asked.values == Array(1...slowAttempt))
        break
      }
    }
  }

  /// A request that comes when the task is over, though its handler was not called, takes nothing from what the handler is given.
  @Test func lateRequestsForgetNothing() async throws {
    try await withRetries([flaky(9)]) { manager, server, waits in
      let queue = manager.session.delegateQueue
      for limit in [2, 30] {
        let (tasks, late) = (Recorder<DataTask>(), Recorder<Int>())
        let isTold = Locked(false)
        manager.interceptors = [
          ClosureInterceptor(
            adapt: { request, attempt in
              guard attempt > 1 else { return request }
              // Not behind its end, when nobody resumes the queue any more.
              let isLate = isTold.withLock { isTold in
                guard !isTold else { return false }
                queue.suspend()
                late.add(attempt)
                return true
              }
              guard isLate else { return request }
              _ = await eventually { tasks.values.first?.state == .completed }
              return request
            }, decide: { _ in .retry(after: .zero) })
        ]
        var request = try manager.request(.get, "flaky")
        request.totalTimeout = .seconds(limit)
        let end = await ended { handler in
          let task = manager.dataTask(with: request, completion: handler)
          tasks.add(task)
          Task {
            // Told without this, it was over before there was another attempt.
            _ = await eventually { isTold.withLock { $0 } || task.state == .completed && late.values == [2] }
            guard late.values == [2] else { return }
            if let managed = task.delegate as? ManagedTask { await managed.attempts.withLock { $0.work }?.value }
            queue.resume()
          }
          return task
        }
        isTold.withLock { $0 = true }
        // On a busy machine the time may be over before it came to that: then there is more of it.
        if limit == 2, late.values.isEmpty { continue }
        let error = try #require(end.error as? SerializationError)
        #expect(error.response?.statusCode == 503 && error.data == Data("busy".utf8) && late.values == [2])
        break
      }
    }
  }

  /// What the network loses is repeated too.
  @Test func lostConnectionsAreRepeated() async throws {
    let count = Recorder<Int>()
    let route = ServerRoute(nil, "/lost") { _, connection in
      count.add(1)
      guard count.values.count > 1 else {
        try connection.begin(200, framing: .length(4))
        try connection.write(Array("do".utf8))
        try connection.flush()
        return connection.abort()
      }
      try connection.respond(text: "done")
    }
    try await withRetries([route]) { manager, server, waits in
      let end = await ended { manager.get("lost", success: $0, failure: $1) }
      #expect(end.value as? Data == Data("done".utf8))
      #expect(waits.values.count == 1 && server.requestCount == 2)
    }
  }

  /// An upload whose body can be sent again is; a POST is not, as it may have had its effect.
  @Test func bodiesAreSentAgain() async throws {
    try await withRetries([flaky(1)]) { manager, server, waits in
      let form = await ended { success, failure in
        manager.put(
          "flaky", constructingBody: { $0.append(Data("file".utf8), name: "a") }, success: success, failure: failure)
      }
      #expect(form.isSuccess && server.requestCount == 2)
      let bodies = server.recordedRequests.filter(\.bodyIsComplete).map(\.text)
      #expect(bodies.count == 2 && bodies.first == bodies.last && bodies.first?.contains("\r\n\r\nfile\r\n") == true)
    }
    try await withRetries([flaky(1)]) { manager, server, waits in
      let end = await ended { manager.post("flaky", success: $0, failure: $1) }
      #expect(!end.isSuccess && server.requestCount == 1)
    }
  }

  /// A task that waits for its next attempt can be cancelled, and completes once.
  @Test func waitingTasksAreCancelled() async throws {
    try await withRetries([flaky(9)]) { manager, server, waits in
      manager.core.settings.change {
        $0.retrying.sleep = { delay in
          waits.add(delay)
          try await Task.sleep(for: .seconds(3600))
        }
      }
      let ends = Recorder<SessionError.Code?>()
      let task = manager.get("flaky", success: { _, _ in ends.add(nil) }) { _, error in
        ends.add((error as? SessionError)?.code)
      }
      #expect(await eventually { waits.values.count == 1 })
      #expect(task?.state == .running)
      task?.cancel()
      #expect(await eventually { ends.values == [.cancelled] })
      #expect(server.requestCount == 1)
    }
  }

  /// Every attempt is adapted, from the request that the task was made with; a 401 renews the token.
  @Test func tokensAreRenewed() async throws {
    let route = ServerRoute(nil, "/secret") { request, connection in
      let isRight = request.fields.first("Authorization") == "Bearer 2"
      try connection.respond(isRight ? 200 : 401, text: isRight ? "in" : "out")
    }
    try await withManager([route]) { manager, server in
      manager.responseSerializer = HTTPResponseSerializer()
      let token = Recorder<Int>()
      token.add(1)
      manager.interceptors = [
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
            token.add(2)
            return .retry(after: .zero)
          })
      ]
      let end = await ended { manager.get("secret", success: $0, failure: $1) }
      #expect(end.value as? Data == Data("in".utf8))
      #expect(server.recordedRequests.map { $0.fields.first("Authorization") } == ["Bearer 1", "Bearer 2"])
      #expect(end.task?.originalRequest.fields[.authorization] == nil)
      #expect(end.task?.currentRequest.fields[.authorization] == "Bearer 2")
    }
  }

  /// What an interceptor throws is the error of the task, and nothing is sent; one that forbids a repetition is asked before the policy.
  @Test func interceptorsDecide() async throws {
    struct NoToken: Error {}
    try await withRetries([flaky(9)]) { manager, server, _ in
      manager.interceptors = [ClosureInterceptor(decide: { _ in .doNotRetry })]
      let refused = await ended { manager.get("flaky", success: $0, failure: $1) }
      #expect(refused.error is SerializationError && server.requestCount == 1)
      manager.interceptors = [ClosureInterceptor(adapt: { _, _ in throw NoToken() })]
      let broken = await ended { manager.get("flaky", success: $0, failure: $1) }
      #expect(broken.error is NoToken && server.requestCount == 1)
    }
  }

  /// What the session refuses of an answer is a failure that interceptors hear of, as those of calls do: here a redirect to nowhere.
  @Test func refusedRedirectsAreFailures() async throws {
    let count = Recorder<Int>()
    let route = ServerRoute(nil, "/moved") { _, connection in
      count.add(1)
      if count.values.count % 2 == 1 {
        return try connection.respond(302, fields: ["Location": "ftp://example.org/"])
      }
      try connection.respond(text: "done")
    }
    try await withRetries([route]) { manager, server, _ in
      let seen = Recorder<SessionError.Code?>()
      manager.interceptors = [
        ClosureInterceptor(decide: { failure in
          seen.add(failure.error?.code)
          return .retry(after: .zero)
        })
      ]
      let end = await ended { manager.get("moved", success: $0, failure: $1) }
      #expect(end.value as? Data == Data("done".utf8) && seen.values == [.redirectRefused])
      let data = try await manager.get("moved", as: Data.self)
      #expect(data == Data("done".utf8) && seen.values.count == 2 && server.requestCount == 4)
    }
  }

  /// A download is adapted, and not sent again.
  @Test func downloadsAreAdapted() async throws {
    let folder = try ScratchFolder()
    let route = ServerRoute(nil, "/file") { request, connection in
      let status = request.fields.first("X-Key") == "k" ? 200 : 503
      try connection.respond(status, text: "file")
    }
    try await withRetries([route]) { manager, server, waits in
      let request = try manager.request(.get, "file")
      let refused = await downloaded {
        manager.downloadTask(with: request, destination: { _, _ in folder.file("no") }, completion: $0)
      }
      #expect(refused.error != nil && server.requestCount == 1 && waits.values == [])
      manager.interceptors = [
        ClosureInterceptor(adapt: { request, _ in
          var request = request
          if let name = HTTPField.Name("X-Key") { request.fields[name] = "k" }
          return request
        })
      ]
      let end = await downloaded {
        manager.downloadTask(with: request, destination: { _, _ in folder.file("file") }, completion: $0)
      }
      #expect(end.error == nil && folder.names == ["file"])
    }
  }

  /// An upload whose body a hook makes asks it for every attempt.
  @Test func streamedUploadsAreAskedForAgain() async throws {
    try await withRetries([flaky(1)]) { manager, server, waits in
      let asked = Recorder<Int>()
      manager.taskNeedNewBodyStream = { _, _ in
        asked.add(1)
        return BodyStream([Array("body \(asked.values.count)".utf8)])
      }
      let request = try Request(server.url("/flaky"), method: .put)
      let end = await ended { manager.uploadTask(withStreamedRequest: request, completion: $0) }
      #expect(end.value as? Data == Data("done".utf8))
      #expect(server.recordedRequests.map(\.text) == ["body 1", "body 2"])
    }
  }

  /// A POST that was answered has left, even if nobody is found where its answer leads.
  @Test func answeredPostsAreNotRepeated() async throws {
    let pay = ServerRoute(nil, "/pay") { _, connection in
      _ = try connection.readBody()
      try connection.respond(303, fields: ["Location": "http://127.0.0.1:1/receipt"])
    }
    try await withRetries([pay]) { manager, server, waits in
      let end = await ended { manager.post("pay", success: $0, failure: $1) }
      let error = try #require(end.error as? SessionError)
      #expect(error.code == .cannotConnect && error.requestBytesSent)
      #expect(server.requestCount == 1 && waits.values == [])
      do {
        let answer: Data = try await manager.post("pay")
        Issue.record("\(answer)")
      } catch {
        #expect((error as? SessionError)?.requestBytesSent == true)
      }
      #expect(server.requestCount == 2 && waits.values == [])
    }
  }

  /// What an interceptor adds and marks as a secret stays with the origin.
  @Test func secretsOfInterceptorsStayAtHome() async throws {
    let away = try LoopbackServer(routes: ServerRoute.standard())
    defer { away.shutdown() }
    let key = try #require(HTTPField.Name("X-Own-Key"))
    try await withManager { manager, server in
      manager.responseSerializer = HTTPResponseSerializer()
      manager.interceptors = [
        ClosureInterceptor(adapt: { request, _ in
          var request = request
          request.fields[key] = "s"
          request.sensitiveFields.insert(key)
          return request
        })
      ]
      let target = server.url("/redirect?to=\(away.url("/hello"))")
      let end = await ended { manager.get(target, success: $0, failure: $1) }
      #expect(end.value as? Data == Data("Hello, world!".utf8))
      #expect(server.recordedRequests.map { $0.fields.first("X-Own-Key") } == ["s"])
      #expect(away.recordedRequests.map { $0.fields.first("X-Own-Key") } == [nil])
    }
  }
}
