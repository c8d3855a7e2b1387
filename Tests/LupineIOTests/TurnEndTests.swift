import Glibc
import LupineBase
import Testing

@testable import LupineIO

@Suite struct TurnEndTests {
  @Test(arguments: [2, 127, 128, 129, 300])
  func severalAreHandedOverTogetherAndEachRunsOnce(count: Int) async throws {
    let loop = try startedLoop()
    let (numbers, source) = AsyncStream.makeStream(of: (Int, Bool).self)
    loop.submit {
      for number in 0..<count {
        loop.atEndOfTurn(priority: .medium) { source.yield((number, loop.isCurrent)) }
      }
    }
    var (seen, inTurn): ([Int], [Int]) = ([], [])
    for await (number, isOnLoop) in numbers {
      seen.append(number)
      if isOnLoop { inTurn.append(number) }
      if seen.count == count { break }
    }
    #expect(seen.sorted() == Array(0..<count))
    // What is left alone behind full batches of 128 is not handed over.
    #expect(inTurn == (count % 128 == 1 ? [count - 1] : []))
    loop.stop()
    loop.join()
  }

  /// Another processor need not wait for the end of a long turn.
  @Test func aLongTurnHandsOverBeforeItsEnd() throws {
    let loop = try startedLoop()
    let runs = Locked(0)
    let early = Locked(0)
    loop.submit {
      for _ in 0..<300 { loop.atEndOfTurn(priority: .medium) { runs.withLock { $0 += 1 } } }
      let deadline = ContinuousClock.now.advanced(by: .seconds(20))
      while runs.withLock({ $0 }) < 256, ContinuousClock.now < deadline { sched_yield() }
      early.withLock { $0 = runs.withLock { $0 } }
    }
    loop.stop()
    loop.join()
    #expect(early.withLock { $0 } == 256)
  }

  /// Whoever waits with a high priority is not resumed by a job of a low one, because another came first.
  @Test func aBatchHasTheHighestPriority() async throws {
    let loop = try startedLoop()
    let (priorities, source) = AsyncStream.makeStream(of: TaskPriority.self)
    loop.submit {
      for priority in [TaskPriority.background, .high, .low] {
        loop.atEndOfTurn(priority: priority) { source.yield(Task.currentPriority) }
      }
    }
    var seen: [TaskPriority] = []
    for await priority in priorities {
      seen.append(priority)
      if seen.count == 3 { break }
    }
    #expect(seen.allSatisfy { $0 >= .high }, "\(seen)")
    loop.stop()
    loop.join()
  }

  @Test func oneAloneRunsOnTheLoopAfterTheTurn() throws {
    let loop = try startedLoop()
    let seen = Locked<[String]>([])
    loop.submit {
      loop.atEndOfTurn(priority: .medium) { seen.withLock { $0.append(loop.isCurrent ? "later, here" : "elsewhere") } }
      seen.withLock { $0.append("first") }
    }
    loop.submit { seen.withLock { $0.append("second") } }
    loop.stop()
    loop.join()
    // Both submissions may fall into one turn or into two.
    let order = seen.withLock { $0 }
    #expect(order.first == "first")
    #expect(order.filter { $0 == "later, here" }.count == 1)
    #expect(order.count == 3)
  }

  @Test func elsewhereAndAfterTheEndItRunsAtOnce() throws {
    let loop = try startedLoop()
    let runs = Locked(0)
    loop.atEndOfTurn(priority: .medium) { runs.withLock { $0 += 1 } }
    #expect(runs.withLock { $0 } == 1)
    loop.stop()
    loop.join()
    loop.atEndOfTurn(priority: .medium) { runs.withLock { $0 += 1 } }
    #expect(runs.withLock { $0 } == 2)
  }

  /// A loop whose `main` never turns runs its mailbox all the same; nobody would come to the end of a turn.
  @Test func aLoopThatNeverTurnsKeepsNothingBack() throws {
    let loop = try EventLoop(name: "turn-end")
    let runs = Locked(0)
    loop.submit {
      loop.atEndOfTurn(priority: .medium) { runs.withLock { $0 += 1 } }
      #expect(runs.withLock { $0 } == 1)
    }
    try loop.start {}
    loop.stop()
    loop.join()
    #expect(runs.withLock { $0 } == 1)
  }

  @Test func whatIsAddedInTheLastTurnRuns() async throws {
    let loop = try startedLoop()
    await confirmation(expectedCount: 3) { ran in
      let (done, source) = AsyncStream.makeStream(of: Void.self)
      loop.submit {
        loop.stop()
        for _ in 0..<3 { loop.atEndOfTurn(priority: .medium) { source.yield() } }
      }
      var left = 3
      for await _ in done {
        ran()
        left -= 1
        if left == 0 { break }
      }
    }
    loop.join()
  }
}
