import LupineTestSupport
import LupineTesting
import Testing

@testable import LupineSession

/// What those leave behind who have given up what somebody else fetches for them.
@Suite(.timeLimit(.minutes(2))) struct CacheMergingTests {
  private struct Witness {
    weak var run: TaskRun?
  }

  /// A task that waits for what another one fetches, and is cancelled.
  private func giveUp(_ request: Request, in session: Session) -> Witness {
    let task = session.dataTask(with: request) { _ in }
    task.resume()
    task.cancel()
    return Witness(run: task.run)
  }

  /// They are not kept until it is there: a server that goes on sending now and then may take days, and others come and give up meanwhile.
  @Test func whoGivesUpIsNotKept() async throws {
    let latch = try Latch()
    defer { latch.release() }
    let route = ServerRoute(nil, "/a") { _, connection in
      _ = latch.wait(seconds: 100)
      try connection.respond(fields: ["Cache-Control": "max-age=1000"], text: "late")
    }
    try await withServer(
      [route],
      configure: {
        $0.responseCache = ResponseCache(memoryCapacity: 1 << 20)
        $0.mergesCacheMisses = true
      }
    ) { session, server in
      let request = try Request(server.url("/a"))
      let leader = Task { try await session.text(request).0 }
      let isAsked = await eventually { server.requestCount == 1 }
      #expect(isAsked)
      let witnesses = (0..<3).map { _ in giveUp(request, in: session) }
      let areGone = await eventually(seconds: 30) { witnesses.allSatisfy { $0.run == nil } }
      #expect(areGone && !latch.isReleased)
      latch.release()
      let text = try await leader.value
      #expect(text == "late" && server.requestCount == 1)
    }
  }
}
