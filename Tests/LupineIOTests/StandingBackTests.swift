import Foundation
import Glibc
import LupineBase
import Testing

@testable import LupineIO

@Suite struct StandingBackTests {
  // MARK: The rule

  @Test func whoWasNeverWokenTooEarlyGoesOn() {
    var standingBack = StandingBack()
    for batch in 0..<100 {
      standingBack.handOver()
      #expect(standingBack.wait(done: batch) == nil)
      standingBack.woken(done: batch + 1)
    }
  }

  @Test func onceWokenTooEarlyTheNextBatchesAreWaitedFor() {
    var standingBack = StandingBack()
    standingBack.handOver()
    standingBack.woken(done: 0)
    for batch in 0..<StandingBack.batches {
      #expect(standingBack.wait(done: batch) == batch + 1)
      standingBack.handOver()
    }
    #expect(standingBack.wait(done: StandingBack.batches) == nil, "it looks again whether it is woken too early")
    standingBack.woken(done: StandingBack.batches)
    #expect(standingBack.wait(done: StandingBack.batches) == StandingBack.batches + 1)
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

  @Test func aGateThatIsOpenHoldsNobody() throws {
    let gate = try ProcessorGate()
    for count in 1...1_000 {
      gate.end()
      gate.wait(for: count)
      #expect(gate.done == count)
    }
  }

  /// Which of the two comes first is chance: whoever waits is told, or has seen it.
  @Test func anotherThreadOpensIt() throws {
    let gate = try ProcessorGate()
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
      while gate.done < round { gate.wait(for: round) }
    }
    thread.join()
    #expect(gate.done == rounds)
  }

  // MARK: A loop

  private func startedLoop(sharesProcessor: Bool) throws -> EventLoop {
    let loop = try EventLoop(name: "shares")
    try loop.start {
      do {
        try LoopContext(of: loop).run(sharesProcessor: sharesProcessor)
      } catch {
        Issue.record(error)
      }
    }
    return loop
  }

  private static func wait(_ condition: () -> Bool) {
    let deadline = ContinuousClock.now.advanced(by: .seconds(60))
    while !condition(), ContinuousClock.now < deadline { sched_yield() }
    #expect(condition())
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
            Self.wait { mail.withLock { $0 } > 2 * round }
            source.yield(round)
          }
        }
      }
      for _ in 0..<2 { #expect(await resumptions.next() == round) }
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

  @Test func aLoopWithAProcessorOfItsOwnNeverStandsBack() async throws {
    let loop = try startedLoop(sharesProcessor: false)
    #expect(await handOverThoseWhoWait(loop, rounds: 50) == 0)
    loop.stop()
    loop.join()
  }

  /// The loop is stopped while it may stand back.
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
    #expect(SystemCalls.processors == digits.reduce(0) { $0 + $1.nonzeroBitCount })
    #expect(SystemCalls.processors >= 1)
  }
}
