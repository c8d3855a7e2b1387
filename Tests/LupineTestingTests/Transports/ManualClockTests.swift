import FoundationEssentials
import HTTPTypes
import LupineBase
import LupineSession
import LupineTestSupport
import LupineWire
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
      let isOver =
        if hasBody {
          try await isAnswered(request, over: canned, clock) { canned.requests.first?.bodyIsComplete ?? false }
        } else {
          try await isAnswered(request, over: faulty, clock) { !faulty.injections.isEmpty }
        }
      try #require(isOver)
    }
  }

  /// What is played again after its body was compared counts from before `remaining` tells of it.
  @Test func timeCountsBeforeAnybodySeesWhatIsPlayed() async throws {
    let request = try Request("http://a.example/", method: .post, body: .bytes([1, 2, 3]))
    let recording = RecordingTransport(CannedTransport([.init(nil, "*", .text("late"))]))
    _ = try await Session(over: recording).data(for: request)
    var archive = await recording.archive()
    try #require(archive.entries.count == 1)
    archive.entries[0].timings = HTTPArchive.Timings()
    archive.entries[0].timings.wait = .seconds(10)
    for _ in 0..<20 {
      let clock = ManualClock()
      let replay = ReplayTransport(archive, matching: .strict, playsTimings: true, clock: .manual(clock))
      let isOver = try await isAnswered(request, over: replay, clock) { replay.remaining.isEmpty }
      try #require(isOver)
    }
  }

  /// What no clock counts up to is as far as it counts.
  @Test func timesWithoutEnd() async throws {
    let endless = Duration(attoseconds: .max)
    let clock = ManualClock()
    var reply = CannedReply.text("late")
    reply.delay = endless
    let canned = CannedTransport([.init(nil, "*", reply)], clock: .manual(clock))
    var request = try Request("http://a.example/")
    request.timeoutInterval = endless
    request.totalTimeout = endless
    let session = try Session(over: canned)
    let asked = request
    let answer = Task { try await session.data(for: asked).1.statusCode }
    let isAsked = await eventually { !canned.requests.isEmpty }
    #expect(isAsked)
    clock.advance(by: endless)
    let status = try await answer.value
    #expect(status == 200 && clock.elapsed > .seconds(5_000_000_000))
    let script = FaultScript([.delay(endless), .delay(endless)])
    #expect(script.delay > .seconds(9_000_000_000) && script.delay.nanoseconds == .max)
  }

  /// A pause that ends because nobody wants the body is no delay either: the idle time counts anew from there.
  @Test func aPauseEndsWithTheWishForTheBody() async throws {
    let clock = ManualClock()
    let transport = OpenTransport(clock)
    let session = try Session(over: transport)
    var request = try Request("http://a.example/")
    request.timeoutInterval = .seconds(60)
    let asked = request
    let answer = Task { try await session.data(for: asked).1.statusCode }
    #expect(await eventually { transport.player != nil })
    let player = try #require(transport.player)
    var pause = PauseState()
    let paused = pause.change(to: true)
    player.setPaused(try #require(paused))
    // Behind the deadline that was set when the exchange began.
    let passed = try Latch()
    _ = transport.thread.submit(at: transport.thread.now + Duration.seconds(65).nanoseconds) { passed.release() }
    clock.advance(by: .seconds(50))
    player.discardBody()
    clock.advance(by: .seconds(20))
    #expect(await eventually { passed.isReleased })
    player.append([.head(try ResponseHead(status: 200, fields: []), .untilClose), .end(nil)])
    let status = try await answer.value
    #expect(status == 200)
  }

  /// Whether a request is answered though the clock is moved, once, in the very moment in which a test sees something of it.
  private func isAnswered(
    _ request: Request, over transport: any Transport, _ clock: ManualClock,
    whenSeen isSeen: @escaping @Sendable () -> Bool
  ) async throws -> Bool {
    let session = try Session(over: transport)
    let mover = try ServerThread {
      let deadline = MonotonicClock.now + 30_000_000_000
      // Without a pause: the very next moment is the one that matters.
      while MonotonicClock.now < deadline {
        if isSeen() { break }
      }
      clock.advance(by: .seconds(10))
    }
    let arrived = Total()
    let answer = Task {
      _ = try await session.data(for: request)
      arrived.set(1)
    }
    let isOver = await eventually(seconds: 20) { arrived.value == 1 }
    answer.cancel()
    mover.join()
    return isOver
  }
}

/// Leaves what its exchange does to a test.
private final class OpenTransport: Transport {
  let thread: TransportThread
  private let begun = Locked<ExchangePlayer?>(nil)

  init(_ clock: ManualClock) { thread = TransportThread(clock: .manual(clock)) }

  var player: ExchangePlayer? { begun.withLock { $0 } }

  func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
    let player = ExchangePlayer(request, receiver, on: thread)
    begun.withLock { $0 = player }
    return player
  }
}
