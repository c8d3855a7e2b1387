import FoundationEssentials
import HTTPTypes
import LupineBase
import LupineSession
import Testing

@testable import LupineTesting

/// A clock that is moved as soon as a test sees what it waits for, and only once.
@Suite(.timeLimit(.minutes(5))) struct ManualClockTests {
  /// What was sent before the clock was moved is no sign of life behind that, though the transport's thread tells it later.
  @Test func whatWasSentBeforeCountsBefore() async throws {
    let clock = ManualClock()
    let transport = CannedTransport([.init(nil, "*", .silence)], clock: .manual(clock))
    let session = try Session(over: transport)
    let held = try Latch()
    let chunks = AsyncStream<[UInt8]> { continuation in
      for _ in 0..<2 { continuation.yield([1]) }
      continuation.finish()
    }
    let outcome = Locked<SessionError.Code?>(nil)
    let upload = Task {
      let error = try await failure {
        try await session.upload(for: Request("http://a.example/", method: .post), from: chunks) { _ in
          _ = held.wait(seconds: 60)
        }
      }
      outcome.withLock { $0 = error.code }
    }
    #expect(await eventually { transport.requests.first?.bodyIsComplete ?? false })
    clock.advance(by: .seconds(90))
    held.release()
    #expect(await eventually(seconds: 20) { outcome.withLock { $0 == .timedOut } })
    upload.cancel()
  }

  /// What an exchange waits for counts from before anybody sees its fault, or that its body was read.
  @Test(arguments: [false, true]) func timeCountsBeforeAnybodySeesIt(_ hasBody: Bool) async throws {
    var reply = CannedReply.text("late")
    reply.delay = hasBody ? .seconds(10) : .zero
    let request = try Request(
      "http://a.example/", method: hasBody ? .post : .get, body: hasBody ? .bytes([1, 2, 3]) : .none)
    for _ in 0..<20 {
      let clock = ManualClock()
      let canned = CannedTransport([.init(nil, "*", reply)], clock: .manual(clock))
      let faulty = FaultTransport(canned, clock: .manual(clock)) { _, _ in [.delay(.seconds(10))] }
      let transport: any Transport = hasBody ? canned : faulty
      let session = try Session(over: transport)
      let mover = try ServerThread {
        let deadline = MonotonicClock.now + 30_000_000_000
        // Without a pause: the very next moment is the one that matters.
        while MonotonicClock.now < deadline {
          let isSeen = hasBody ? canned.requests.first?.bodyIsComplete ?? false : !faulty.injections.isEmpty
          if isSeen { break }
        }
        clock.advance(by: .seconds(10))
      }
      let arrived = Total()
      let answer = Task {
        _ = try await session.data(for: request)
        arrived.set(1)
      }
      let isAnswered = await eventually(seconds: 20) { arrived.value == 1 }
      answer.cancel()
      mover.join()
      try #require(isAnswered)
    }
  }
}
