import Foundation
import Glibc
import LupineBase
import Testing

@testable import LupineIO

@Suite(.timeLimit(.minutes(5))) struct StandingBackTests {
  // MARK: The rule

  @Test func whoWasNeverWokenTooEarlyGoesOn() {
    var standingBack = StandingBack()
    for batch in 0..<100 {
      standingBack.handOver()
      #expect(standingBack.wait(done: batch) == nil)
      standingBack.woken(done: batch + 1)
    }
  }

  @Test func onceWokenTooEarlyTheBatchesOfTheNextTurnsAreWaitedFor() {
    var standingBack = StandingBack()
    standingBack.handOver()
    standingBack.woken(done: 0)
    for batch in 0..<StandingBack.turns {
      #expect(standingBack.wait(done: batch) == batch + 1)
      standingBack.handOver()
    }
    #expect(standingBack.wait(done: StandingBack.turns) == nil, "it looks again whether it is woken too early")
    standingBack.woken(done: StandingBack.turns)
    #expect(standingBack.wait(done: StandingBack.turns) == StandingBack.turns + 1)
  }

  @Test func aBatchIsWaitedForOnce() {
    var standingBack = StandingBack()
    standingBack.handOver()
    standingBack.woken(done: 0)
    #expect(standingBack.wait(done: 0) == 1)
    #expect(standingBack.wait(done: 0) == nil)
  }

  @Test func nobodyIsWaitedForBehindABatchThatWasGivenUp() {
    var standingBack = StandingBack()
    standingBack.handOver()
    standingBack.woken(done: 0)
    #expect(standingBack.wait(done: 0) == 1)
    standingBack.handOver()
    standingBack.woken(done: 0)
    #expect(standingBack.wait(done: 0) == nil)
    #expect(standingBack.wait(done: 1) == 2, "it came to its end after all")
  }

  @Test func whatIsDoneAlreadyIsNotWaitedFor() {
    var standingBack = StandingBack()
    standingBack.handOver()
    standingBack.handOver()
    standingBack.woken(done: 1)
    #expect(standingBack.wait(done: 2) == nil)
    standingBack.handOver()
    standingBack.handOver()
    #expect(standingBack.wait(done: 2) == 4, "all of a turn's batches")
  }

  // MARK: The gate

  /// Longer than a test may take.
  private func patientGate() throws -> ProcessorGate { try ProcessorGate(milliseconds: 240_000) }

  @Test func aGateThatIsOpenHoldsNobody() throws {
    let gate = try patientGate()
    for count in 1...1_000 {
      gate.end()
      gate.wait(for: count)
    }
    #expect(gate.done == 1_000)
  }

  /// Which of the two comes first is chance: whoever waits is told, or has seen it.
  @Test func anotherThreadOpensIt() throws {
    let gate = try patientGate()
    let rounds = 2_000
    let asked = Locked(0)
    let thread = try Thread.start(name: "gate") {
      for round in 1...rounds {
        while asked.withLock({ $0 }) < round { sched_yield() }
        gate.end()
      }
    }
    for round in 1...rounds {
      asked.withLock { $0 = round }
      // It may come back early once, where it was told too late of the wait before.
      while gate.done < round { gate.wait(for: round) }
    }
    thread.join()
    #expect(gate.done == rounds)
  }

  @Test func itOpensWithTheLastOfSeveral() throws {
    let gate = try patientGate()
    let asked = Locked(0)
    let thread = try Thread.start(name: "gate") {
      for round in 1...200 {
        while asked.withLock({ $0 }) < round { sched_yield() }
        gate.end()
        gate.end()
        // Whoever waits has time to see that it is not open yet.
        for _ in 0..<1_000 { sched_yield() }
        gate.end()
      }
    }
    var early = 0
    for round in 1...200 {
      asked.withLock { $0 = round }
      gate.wait(for: 3 * round)
      guard gate.done < 3 * round else { continue }
      early += 1
      gate.wait(for: 3 * round)
      #expect(gate.done >= 3 * round, "who is told too late is told once")
    }
    thread.join()
    // But where it was told too late of the wait before.
    #expect(early < 20)
  }

  /// As by somebody who opened the gate at the end of a wait, and got the processor to tell of it only behind that.
  @Test func whoTellsTooLateOpensOneWaitOnly() throws {
    let gate = try ProcessorGate(milliseconds: 50)
    SystemCalls.signal(gate.event)
    gate.wait(for: 1)
    let start = EventLoop.monotonicNow()
    gate.wait(for: 1)
    #expect(EventLoop.monotonicNow().nanoseconds(since: start) >= 50_000_000)
  }

  @Test func whoIsNotToldGoesOnInTime() throws {
    let gate = try ProcessorGate()
    for _ in 0..<10 { gate.wait(for: 1) }
    #expect(gate.done == 0)
  }

  // MARK: A loop

  private static func wait(_ condition: () -> Bool) -> Bool {
    let deadline = ContinuousClock.now.advanced(by: .seconds(20))
    while !condition() {
      guard ContinuousClock.now < deadline else { return false }
      sched_yield()
    }
    return true
  }

  /// For so many rounds two are handed over, which leave mail and keep their thread until it has been read: a loop that waited for them without end would never
  /// read it.
  ///
  /// - Returns: how many times the loop has stood back.
  private func handOverThoseWhoWait(_ loop: EventLoop, rounds: Int) async -> Int {
    let mail = Locked(0)
    let (resumed, source) = AsyncStream.makeStream(of: Int.self)
    var resumptions = resumed.makeAsyncIterator()
    for round in 0..<rounds {
      loop.submit {
        for _ in 0..<2 {
          loop.atEndOfTurn(priority: .medium) {
            loop.submit { mail.withLock { $0 += 1 } }
            source.yield(Self.wait { mail.withLock { $0 } > 2 * round } ? round : -1)
          }
        }
      }
      for _ in 0..<2 {
        guard await resumptions.next() == round else {
          Issue.record("the loop did not go on")
          return -1
        }
      }
    }
    loop.submit { source.yield(loop.turnEnd.onLoop.timesStoodBack) }
    let times = await resumptions.next()
    #expect(mail.withLock { $0 } == 2 * rounds)
    return times ?? -1
  }

  /// Whoever keeps the processor and waits for the loop gets its answer all the same: in the first batch, which wakes the loop too early, and in those that it
  /// waits for.
  @Test func aLoopThatStandsBackGoesOnInTheEnd() async throws {
    let loop = try startedLoop(sharesProcessor: true)
    #expect(await handOverThoseWhoWait(loop, rounds: 50) > 0)
    loop.stop()
    loop.join()
  }

  /// What came to a descriptor before mail was left is told before that mail runs: else a request would lease a connection that has been closed.
  @Test func eventsAreToldBeforeTheMailOfThoseWhoWereWaitedFor() async throws {
    let (near, far) = try socketPair()
    let (seen, source) = AsyncStream.makeStream(of: String.self)
    let loop = try startedLoop(sharesProcessor: true) { context in
      let handler = Handler { if $0.contains(.readable) { source.yield("event") } }
      try withDescriptor(near) { descriptor throws(IOError) in _ = try context.register(descriptor, handler) }
    }
    #expect(await handOverThoseWhoWait(loop, rounds: 10) > 0)
    var events = seen.makeAsyncIterator()
    var late = 0
    for _ in 0..<200 {
      loop.submit {
        loop.atEndOfTurn(priority: .medium) {
          var byte: UInt8 = 1
          let written = unsafe write(far, &byte, 1)
          #expect(written == 1)
          loop.submit { source.yield("mail") }
        }
        loop.atEndOfTurn(priority: .medium) {}
      }
      let pair = [await events.next(), await events.next()]
      #expect(Set(pair) == ["event", "mail"])
      if pair.first == "mail" { late += 1 }
    }
    // But where both came while the loop was coming back from epoll.
    #expect(late < 20)
    let times = Locked(0)
    loop.submit { times.withLock { $0 = loop.turnEnd.onLoop.timesStoodBack } }
    loop.stop()
    loop.join()
    #expect(times.withLock { $0 } > 10)
    close(near)
    close(far)
  }

  @Test func aLoopWithAProcessorOfItsOwnNeverStandsBack() async throws {
    let loop = try startedLoop(sharesProcessor: false)
    #expect(await handOverThoseWhoWait(loop, rounds: 50) == 0)
    loop.stop()
    loop.join()
  }

  /// The loop is stopped, and waited for, by those whom it may be waiting for.
  @Test func aLoopThatStandsBackEnds() async throws {
    let loop = try startedLoop(sharesProcessor: true)
    _ = await handOverThoseWhoWait(loop, rounds: 4)
    let isOver = Locked(false)
    let (begun, source) = AsyncStream.makeStream(of: Void.self)
    var beginnings = begun.makeAsyncIterator()
    loop.submit {
      for _ in 0..<2 {
        loop.atEndOfTurn(priority: .medium) {
          loop.stop()
          loop.join()
          isOver.withLock { $0 = true }
          source.yield()
        }
      }
    }
    for _ in 0..<2 { await beginnings.next() }
    #expect(isOver.withLock { $0 })
  }

  /// As the kernel writes them down for whoever reads.
  @Test func processorsAreCounted() throws {
    let status = try String(contentsOfFile: "/proc/thread-self/status", encoding: .utf8)
    let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("Cpus_allowed:") })
    let digits = line.dropFirst("Cpus_allowed:".count).compactMap(\.hexDigitValue)
    // At most: those that are switched off stand there too.
    #expect((1...digits.reduce(0) { $0 + $1.nonzeroBitCount }).contains(SystemCalls.processors))
  }
}
