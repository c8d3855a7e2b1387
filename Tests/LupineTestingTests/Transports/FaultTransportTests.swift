import FoundationEssentials
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

@Suite(.timeLimit(.minutes(5))) struct FaultTransportTests {
  private func canned(_ bytes: Int = 1_000) -> CannedTransport {
    var reply = CannedReply()
    reply.chunks = stride(from: 0, to: bytes, by: 100).map { [UInt8](repeating: 7, count: min(100, bytes - $0)) }
    return CannedTransport([.init(nil, "*", reply)])
  }

  @Test(arguments: [
    (TransportFault.refused, SessionError.Code.cannotConnect, 0, 0, false),
    (.lostBeforeHead, .connectionLost, 0, 1, true), (.lostInHead, .truncatedResponse, 0, 1, true),
    (.lostInBody(after: 250), .connectionLost, 250, 1, true), (.lostInBody(after: 0), .connectionLost, 0, 1, true),
    (.truncatedBody(after: 999), .truncatedResponse, 999, 1, true),
    (.truncatedBody(after: 5_000), .truncatedResponse, 1_000, 1, true),
    (.error(.secureConnectionFailed, phase: .tls), .secureConnectionFailed, 0, 1, true),
  ]) func eachFaultIsItsError(
    _ fault: TransportFault, _ code: SessionError.Code, _ received: Int, _ seen: Int, _ sent: Bool
  ) async throws {
    let server = canned()
    let transport = FaultTransport(server) { _, _ in [fault] }
    let session = try Session(over: transport)
    let error = try await failure { try await session.data(from: "http://a.example/") }
    #expect(error.code == code)
    #expect(error.partialBody?.count ?? 0 == received)
    #expect(error.requestBytesSent == sent)
    #expect(server.requests.count == seen)
    #expect(
      transport.injections
        == [.init(number: 0, method: "GET", urlString: "http://a.example/", faults: [fault])])
  }

  @Test(
    arguments: [
      ([.lostInBody(after: 250), .refused], .connectionLost, 1),
      ([.refused, .lostInBody(after: 250)], .cannotConnect, 0),
      ([.lostInHead, .lostBeforeHead], .truncatedResponse, 1),
    ] as [([TransportFault], SessionError.Code, Int)]) func theFirstInTheListDecides(
      _ faults: [TransportFault], _ code: SessionError.Code, _ seen: Int
    ) async throws
  {
    let server = canned()
    let transport = FaultTransport(server, faults: faults.map { (fault: $0, probability: 1) })
    let session = try Session(over: transport)
    #expect(try await failure { try await session.data(from: "http://a.example/") }.code == code)
    #expect(server.requests.count == seen)
  }

  @Test func noFaultChangesNothing() async throws {
    let transport = FaultTransport(canned()) { _, _ in [] }
    let (body, response) = try await Session(over: transport).data(from: "http://a.example/")
    #expect(body.count == 1_000)
    #expect(response.metrics.transactions.first?.responseBodyBytes == 1_000)
    #expect(transport.injections.isEmpty)
  }

  /// The exchange behind it has ended long before the task has.
  @Test func aTaskLastsUntilItsEnd() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let transport = FaultTransport(try NetworkTransport()) { _, _ in
      [.slowBody(pieceBytes: 100, delay: .milliseconds(200))]
    }
    let began = ContinuousClock.now
    let (_, response) = try await Session(over: transport).data(from: server.url("/hello"))
    let duration = response.metrics.duration
    #expect(duration >= .milliseconds(200) && duration <= ContinuousClock.now - began, "\(duration)")
  }

  @Test func slowBodiesComeInPieces() async throws {
    let transport = FaultTransport(canned()) { _, _ in
      [.delay(.milliseconds(1)), .slowBody(pieceBytes: 30, delay: .microseconds(100))]
    }
    let session = try Session(over: transport)
    let request = try Request("http://a.example/")
    let sizes = Locked<[Int]>([])
    try await withCheckedThrowingContinuation { continuation in
      session.receive(request) { bytes in
        let count = bytes.count
        sizes.withLock { $0.append(count) }
      } completion: { result in
        continuation.resume(with: result.map { _ in })
      }
    }
    #expect(sizes.withLock { $0.reduce(0, +) } == 1_000)
    #expect(sizes.withLock { $0.allSatisfy { $0 <= 30 } })
  }

  @Test func stallEndsWithADeadlineOfTheManualClock() async throws {
    let clock = ManualClock()
    let transport = FaultTransport(canned(), clock: .manual(clock)) { _, _ in [.stalledBody(after: 500)] }
    let session = try Session(over: transport)
    let (bytes, _) = try await session.bytes(for: Request("http://a.example/"))
    let count = Locked(0)
    let reader = Task {
      do {
        for try await chunk in bytes.chunks { count.withLock { $0 += chunk.count } }
        return SessionError.Code?.none
      } catch {
        return (error as? SessionError)?.code
      }
    }
    let pump = Task {
      while !Task.isCancelled {
        // Not while the beginning is on its way: it would come too late.
        if count.withLock({ $0 >= 500 }) { clock.advance(by: .seconds(10)) }
        await Task.yield()
      }
    }
    let code = await reader.value
    pump.cancel()
    #expect(count.withLock { $0 } == 500)
    #expect(code == .timedOut)
  }

  /// What a fault takes longer than a request may is a deadline that passes.
  @Test(
    arguments: [
      ([.slowBody(pieceBytes: 10, delay: .seconds(5))], 1, .receive, 1), ([.delay(.seconds(120))], 60, .firstByte, 0),
      ([.delay(.seconds(120)), .refused], 60, .firstByte, 0),
      ([.delay(.seconds(50)), .slowBody(pieceBytes: 10, delay: .seconds(61))], 60, .receive, 1),
    ] as [([TransportFault], Int, SessionError.Phase, Int)]) func slowFaultsExceedTheIdleTime(
      _ faults: [TransportFault], _ seconds: Int, _ phase: SessionError.Phase, _ seen: Int
    ) async throws
  {
    let clock = ManualClock()
    let wrapped = canned()
    let transport = CountingTransport(FaultTransport(wrapped, clock: .manual(clock)) { _, _ in faults })
    let session = try Session(over: transport)
    var request = try Request("http://a.example/")
    request.timeoutInterval = .seconds(seconds)
    let answer = Task { [request] in try await session.data(for: request) }
    // Time stands still until the exchange has begun.
    #expect(await eventually { transport.count == 1 })
    let error = try await withPump(clock, .milliseconds(500)) { try await failure { try await answer.value } }
    #expect(error.code == .timedOut)
    #expect(error.phase == phase)
    #expect(wrapped.requests.count == seen)
  }

  /// As on the network, a request has left when somebody has it, whether an answer comes or not; whoever repeats requests goes by that.
  @Test(
    arguments: [(nil, true), ([], true), ([.delay(.seconds(120))], false), ([.delay(.seconds(120)), .refused], false)]
      as [([TransportFault]?, Bool)]) func endsWithoutAnswerSayWhatHadLeft(
      _ faults: [TransportFault]?, _ hasLeft: Bool
    ) async throws
  {
    for isCancelled in [true, false] {
      let clock = ManualClock()
      let silent = CannedTransport([.init(nil, "*", .silence)], clock: .manual(clock))
      var begun: any Transport = silent
      if let faults { begun = FaultTransport(silent, clock: .manual(clock)) { _, _ in faults } }
      let transport = CountingTransport(begun)
      let answer = Task { try await Session(over: transport).data(from: "http://a.example/") }
      #expect(await eventually { transport.count == 1 })
      if isCancelled { answer.cancel() } else { clock.advance(by: .seconds(61)) }
      let error = try await failure { try await answer.value }
      let code: SessionError.Code = isCancelled ? .cancelled : .timedOut
      #expect(error.code == code)
      #expect(error.requestBytesSent == hasLeft)
      #expect(silent.requests.count == (hasLeft ? 1 : 0))
    }
  }

  /// A delay that nobody waits for any longer keeps no thread, though its clock stands still.
  @Test func delaysThatAreGivenUpAreForgotten() async {
    await #expect(processExitsWith: .success) {
      try await Self.giveUpADelay()  // starts what the process keeps
      let before = DescriptorCensus.now(threadsNamed: "lupine")
      try await Self.giveUpADelay()
      guard before.isRestored(withinSeconds: 60) else { throw Leak(left: before.newcomers()) }
    }
  }

  private struct Leak: Error {
    let left: [String]
  }

  private static func giveUpADelay() async throws {
    let faults = FaultTransport(CannedTransport(), clock: .manual(ManualClock())) { _, _ in [.delay(.seconds(120))] }
    let transport = CountingTransport(faults)
    let session = try Session(over: transport)
    let task = Task { try await session.data(from: "http://a.example/") }
    guard await eventually({ transport.count == 1 }) else { throw Leak(left: ["a task that does not begin"]) }
    task.cancel()
    guard try await failure({ try await task.value }).code == .cancelled else { throw Leak(left: ["a task"]) }
    session.invalidateAndCancel()
  }

  /// Each delay is shorter than the idle time; all of them are longer.
  @Test func slowFaultsWithinTheIdleTimeAreOnlySlow() async throws {
    let clock = ManualClock()
    let transport = CountingTransport(
      FaultTransport(canned(), clock: .manual(clock)) { _, _ in
        [.delay(.seconds(50)), .slowBody(pieceBytes: 50, delay: .seconds(50))]
      })
    let session = try Session(over: transport)
    var request = try Request("http://a.example/")
    request.timeoutInterval = .seconds(60)
    let answer = Task { [request] in try await session.data(for: request).0.count }
    #expect(await eventually { transport.count == 1 })
    #expect(try await withPump(clock, .seconds(7)) { try await answer.value } == 1_000)
  }

  @Test func sameSeedGivesTheSameFaults() async throws {
    func run(_ seed: UInt64) async throws -> ([FaultTransport.Injection], [String]) {
      let transport = FaultTransport(
        canned(), seed: seed,
        faults: [
          (.refused, 0.2), (.lostInHead, 0.2), (.lostInBody(after: 300), 0.3),
          (.slowBody(pieceBytes: 64, delay: .zero), 0.5),
        ])
      let session = try Session(over: transport)
      var outcomes: [String] = []
      for number in 0..<60 {
        do {
          outcomes.append("\(try await session.data(from: "http://a.example/\(number)").0.count)")
        } catch let error as SessionError {
          outcomes.append(error.code.rawValue)
        }
      }
      return (transport.injections, outcomes)
    }
    let (first, second, other) = (try await run(1), try await run(1), try await run(2))
    #expect(first.0 == second.0)
    #expect(first.1 == second.1)
    #expect(first.0 != other.0)
    #expect(Set(first.1) == ["1000", "cannotConnect", "truncatedResponse", "connectionLost"])
  }

  @Test func aReaderThatIsBehindHoldsTheWrappedTransport() async throws {
    var reply = CannedReply()
    reply.chunks = (0..<400).map { _ in [UInt8](repeating: 1, count: 64 * 1024) }
    let size = 400 * 64 * 1024
    let wrapped = ObservingTransport(CannedTransport([.init(nil, "*", reply)]))
    let session = try Session(over: FaultTransport(wrapped) { _, _ in [] })
    let (bytes, _) = try await session.bytes(for: Request("http://a.example/"))
    var chunks = bytes.chunks.makeAsyncIterator()
    var count = 0
    while let chunk = try await chunks.next() {
      // While nobody reads on, the rest stays where it is.
      if count == 0 {
        let isAllGiven = await eventually(seconds: 2) { wrapped.givenBytes == size }
        #expect(!isAllGiven)
      }
      count += chunk.count
    }
    #expect(count == size && wrapped.givenBytes == size)
  }

  @Test func hundredsAtOnceEndExactlyOnceWhateverHappens() async throws {
    let transport = FaultTransport(
      canned(20_000), seed: 7,
      faults: [
        (.delay(.milliseconds(2)), 0.3), (.lostBeforeHead, 0.2), (.truncatedBody(after: 10_000), 0.2),
        (.slowBody(pieceBytes: 999, delay: .zero), 0.3),
      ])
    let session = try Session(over: transport)
    let outcomes = await withTaskGroup(of: Int.self) { group in
      for number in 0..<600 {
        group.addTask {
          let task = Task { try await session.data(from: "http://a.example/\(number)").0.count }
          if number.isMultiple(of: 5) { task.cancel() }
          do {
            return try await task.value
          } catch let error as SessionError {
            return error.code == .cancelled ? -1 : -2
          } catch {
            return -3
          }
        }
      }
      return await group.reduce(into: [Int: Int]()) { $0[$1, default: 0] += 1 }
    }
    #expect(outcomes.values.reduce(0, +) == 600)
    #expect(outcomes[-3] == nil)
    #expect((outcomes[20_000] ?? 0) > 100)
    #expect((outcomes[-2] ?? 0) > 50)
    #expect((outcomes[-1] ?? 0) > 0)
  }

  @Test func overTheNetworkALostConnectionIsNoCorruptBody() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let network = try NetworkTransport()
    let transport = FaultTransport(network, seed: 3) { _, generator in
      Bool.random(using: &generator) ? [.truncatedBody(after: 5)] : []
    }
    let session = try Session(over: transport)
    for _ in 0..<20 {
      do {
        #expect(try await session.text(server.url("/hello")).0 == "Hello, world!")
      } catch let error as SessionError {
        #expect(error.code == .truncatedResponse)
        #expect(error.partialBody == Array("Hello".utf8))
      }
    }
    #expect((1..<20).contains(transport.injections.count))
    network.invalidate(cancelling: true)
  }
}
