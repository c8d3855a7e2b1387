import FoundationEssentials
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// Requests that wait for the answer to another one.
extension CacheSessionTests {
  /// Somebody fetches `/a`, which is there when the latch opens.
  private func withLateLeader(
    _ body: (Session, LoopbackServer, Task<String, any Error>, Latch) async throws -> Void
  ) async throws {
    let latch = try Latch()
    try await withCache(configure: { $0.mergesCacheMisses = true }) { _, connection in
      _ = latch.wait(seconds: 60)
      try connection.respond(fields: Self.fresh, text: "late")
    } _: { session, server, _ in
      let leader = Task { try await session.text(server.url("/a")).0 }
      #expect(await eventually { server.requestCount == 1 })
      try await body(session, server, leader, latch)
    }
  }

  /// Whoever waits for what another request fetches is held to its own deadlines, while that goes on.
  @Test(arguments: [true, false]) func aMergedMissHasItsOwnDeadline(_ isTotal: Bool) async throws {
    try await withLateLeader { session, server, leader, latch in
      var request = try Request(server.url("/a"))
      if isTotal { request.totalTimeout = .milliseconds(60) } else { request.timeoutInterval = .milliseconds(60) }
      let error = try await failure { [request] in try await session.text(request) }
      #expect(error.code == .timedOut && error.phase == (isTotal ? .total : .poolWait), "\(error)")
      // The others wait on, and get what came.
      let other = Task { try await session.text(server.url("/a")).0 }
      latch.release()
      #expect(try await leader.value == "late")
      #expect(try await other.value == "late")
      #expect(server.requestCount == 1)
    }
  }

  /// Nothing has to move while a task is suspended, though somebody else fetches its response.
  @Test func aMergedMissMayBeSuspended() async throws {
    var end = try await suspendMergedMiss(limit: .seconds(3))
    // The machine may have been so slow that the task has waited for all of its time.
    if !end.isServed, !end.isInTime { end = try await suspendMergedMiss(limit: .seconds(12)) }
    #expect(end.isServed)
  }

  /// Suspends a task for nearly twice its time, and lets it wait for a part of that behind it.
  ///
  /// - Returns: whether it was served, and whether it had some of its time left.
  private func suspendMergedMiss(limit: Duration) async throws -> (isServed: Bool, isInTime: Bool) {
    let end = Locked<(isServed: Bool, isInTime: Bool)>((false, false))
    try await withLateLeader { session, server, leader, latch in
      var request = try Request(server.url("/a"))
      request.timeoutInterval = limit
      let outcome = Locked<Result<(Data, Response), SessionError>?>(nil)
      let task = session.dataTask(with: request) { result in outcome.withLock { $0 = result } }
      let begun = ContinuousClock.now
      task.resume()
      task.suspend()
      let suspended = ContinuousClock.now
      // Others are over meanwhile. What is resumed has all of its time again.
      request.timeoutInterval = limit * 29 / 15
      let first = try await failure { [request] in try await session.text(request) }
      var isEarly = outcome.withLock { $0 != nil }
      let resumed = ContinuousClock.now
      task.resume()
      request.timeoutInterval = limit * 2 / 15
      let second = try await failure { [request] in try await session.text(request) }
      isEarly = isEarly || outcome.withLock { $0 != nil }
      #expect(first.code == .timedOut && second.code == .timedOut)
      latch.release()
      #expect(try await leader.value == "late")
      #expect(await eventually { outcome.withLock { $0 != nil } })
      let isServed = !isEarly && task.error == nil && task.response?.statusCode == 200
      let waited = (suspended - begun) + (ContinuousClock.now - resumed)
      end.withLock { $0 = (isServed, waited < limit) }
    }
    return end.withLock { $0 }
  }
}
