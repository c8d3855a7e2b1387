import LupineBase
import LupineTestSupport
import LupineTesting
import Testing

@testable import LupineSession

/// What a cache schedules stays no longer than what it is for.
@Suite(.timeLimit(.minutes(5))) struct CacheTimerTests {
  /// However long a body that nobody wants may take, nothing waits for it once it has come.
  @Test func aBodyThatHasComeIsNotWaitedFor() async throws {
    let rest = try Latch()
    let head = ScriptBytes(
      "HTTP/1.1 302 Found\r\nLocation: /next\r\nCache-Control: max-age=60\r\nContent-Length: 10\r\n\r\n")
    try await withScript(
      [[.readHead, .send(head), .stall(rest), .send("0123456789"), .readHead, .send(reply("ok")), .waitForClose]],
      configure: {
        $0.drainTimeout = .seconds(600)
        $0.responseCache = ResponseCache(memoryCapacity: 1 << 20)
      }
    ) { session, server in
      let transport = try #require(session.exchanges as? CachingTransport)
      let url = server.url()
      let answer = Task { try await session.text(url).0 }
      let isWaitedFor = await eventually { transport.scheduled.withLock { $0 } > 0 }
      #expect(isWaitedFor)
      rest.release()
      let text = try await answer.value
      #expect(text == "ok")
      let isOver = await eventually { transport.scheduled.withLock { $0 } == 0 }
      #expect(isOver)
    }
  }
}
