import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// A task that is suspended while it waits for a connection holds up nobody, and its request stays here.
@Suite(.timeLimit(.minutes(5))) struct SuspendedWaitTests {
  /// What a task ended with: a status, or 0 for an error.
  private typealias Ends = Locked<[Int: Int]>

  /// One connection, in use by a request that is held until the latch is released; the tasks wait for it, the first of them suspended.
  private func withQueue(
    totalTimeout: Duration? = nil, timeout: Duration? = nil,
    _ body: (Session, [DataTask], LoopbackServer, Latch, Ends) async throws -> Void
  ) async throws {
    let go = try Latch()
    let routes = [
      ServerRoute(nil, "/held") { _, connection in
        _ = try connection.stall(until: go)
        try connection.respond()
      },
      ServerRoute(nil, "/next") { _, connection in
        _ = try connection.readBody()
        try connection.respond()
      },
    ]
    let ends = Ends([:])
    try await withServer(routes, configure: { $0.maximumConnectionsPerHost = 1 }) { session, server in
      let held = Task { _ = try await session.data(from: server.url("/held")) }
      #expect(await eventually { server.requestCount == 1 })
      var tasks: [DataTask] = []
      for number in 0..<3 {
        var request = try Request(server.url("/next?\(number)"), method: .post, body: .bytes([1, 2, 3]))
        if number == 0 {
          request.totalTimeout = totalTimeout
          if let timeout { request.timeoutInterval = timeout }
        }
        let task = session.dataTask(with: request) { result in
          let status = (try? result.get().1.statusCode) ?? 0
          ends.withLock { $0[number] = status }
        }
        task.resume()
        tasks.append(task)
        #expect(await eventually { await session.poolStatistics().waits == number + 2 })
      }
      tasks[0].suspend()
      await Self.settle(session)
      try await body(session, tasks, server, go, ends)
      go.release()
      try await held.value
    }
  }

  /// The loop has carried out what was asked of it: this is asked behind it.
  private static func settle(_ session: Session) async { _ = await session.poolStatistics() }

  private static func pass(_ time: Duration) async {
    let start = ContinuousClock.now
    _ = await eventually { ContinuousClock.now - start > time }
  }

  @Test func othersGoPast() async throws {
    try await withQueue { _, tasks, server, go, ends in
      go.release()
      #expect(await eventually { ends[1] != nil && ends[2] != nil })
      #expect(server.recordedRequests.map(\.target) == ["/held", "/next?1", "/next?2"])
      tasks[0].resume()
      #expect(await eventually { ends[0] != nil })
      for number in 0..<3 { #expect(ends[number] == 200) }
      #expect(server.recordedRequests.last?.target == "/next?0" && server.recordedRequests.last?.body == [1, 2, 3])
    }
  }

  /// Suspended and resumed while everybody waits: behind the others, once.
  @Test func resumedBehindTheOthers() async throws {
    try await withQueue { session, tasks, server, go, ends in
      for _ in 0..<3 {
        tasks[0].resume()
        await Self.settle(session)
        tasks[0].suspend()
        await Self.settle(session)
      }
      tasks[0].resume()
      let waits = await session.poolStatistics().waits
      #expect(waits > 4)
      go.release()
      #expect(await eventually { (0..<3).allSatisfy { ends[$0] != nil } })
      #expect(server.recordedRequests.map(\.target) == ["/held", "/next?1", "/next?2", "/next?0"])
    }
  }

  @Test func cancellationEndsIt() async throws {
    try await withQueue { session, tasks, server, go, ends in
      tasks[0].cancel()
      #expect(await eventually { ends[0] != nil })
      #expect(ends[0] == 0)
      go.release()
      #expect(await eventually { ends[1] != nil && ends[2] != nil })
      #expect(server.requestCount == 3)
    }
  }

  /// The time for the whole task goes on; that in which something has to move does not.
  @Test func timeGoesOnForTheWholeAlone() async throws {
    try await withQueue(timeout: .seconds(2)) { session, tasks, server, go, ends in
      go.release()
      #expect(await eventually { ends[1] != nil && ends[2] != nil })
      await Self.pass(.milliseconds(2_500))
      #expect(ends[0] == nil)
      tasks[0].resume()
      #expect(await eventually { ends[0] != nil })
      #expect(ends[0] == 200)
    }
    try await withQueue(totalTimeout: .seconds(1)) { session, tasks, server, go, ends in
      #expect(await eventually { ends[0] != nil })
      #expect(ends[0] == 0)
      #expect(server.requestCount == 1)
    }
  }

  @Test func endOfTheSessionIsItsEnd() async throws {
    try await withQueue { session, tasks, server, go, ends in
      go.release()
      #expect(await eventually { ends[1] != nil && ends[2] != nil })
      session.invalidateAndCancel()
      #expect(await eventually { ends[0] != nil })
      #expect(ends[0] == 0)
      #expect(server.requestCount == 3)
    }
  }
}

extension Locked<[Int: Int]> {
  fileprivate subscript(number: Int) -> Int? { withLock { $0[number] } }
}
