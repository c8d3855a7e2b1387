import LupineBase
import LupineFuzzBodies
import Testing

@testable import LupineEngine

private let start = TestPool.start

@Suite struct PoolMachineTests {
  @Test func idleConnectionIsReusedMostRecentFirst() throws {
    let machine = TestPool(limits: poolLimits())
    let first = try #require(machine.openOne("a", 1))
    let second = try #require(machine.openOne("a", 2))
    _ = machine.release(first, now: Instant(nanoseconds: 1))
    _ = machine.release(second, now: Instant(nanoseconds: 2))
    #expect(machine.ask("a", 3, now: Instant(nanoseconds: 3)).leased == second.index)
    #expect(machine.machine.counters.reused == 1)
    #expect(machine.machine.counters.opened == 2)
  }

  @Test func perHostLimitMakesRequestsWaitInOrder() throws {
    let machine = TestPool(limits: poolLimits(perHost: 1))
    let only = try #require(machine.openOne("a", 1))
    #expect(machine.ask("a", 2).1.open == nil)
    #expect(machine.ask("a", 3).1.open == nil)
    #expect(machine.release(only, now: start).lease?.waiter == 2)
    #expect(machine.release(only, now: start).lease?.waiter == 3)
    #expect(machine.release(only, now: start).lease == nil)
    #expect(machine.machine.idleCount == 1)
  }

  /// What many origins share has a limit of its own, and never less than one origin has.
  @Test(arguments: [(2, 2), (5, 5), (6, 32), (50, 50)]) func aSharedKeyHasMore(_ perHost: Int, _ expected: Int) {
    let machine = TestPool(limits: poolLimits(perHost: perHost, total: 90, waiters: 200))
    let shared = (1...90).count { machine.ask("a", $0, isShared: true).1.open != nil }
    #expect(shared == expected)
    // What is left of the total is for others, as many as one origin may have.
    #expect((1...90).count { machine.ask("b", $0).1.open != nil } == min(perHost, 90 - expected))
  }

  @Test func lateBindingFreedConnectionServesTheWaiterOfAnOpeningOne() throws {
    let machine = TestPool(limits: poolLimits())
    let first = try #require(machine.openOne("a", 1))
    let opening = try #require(machine.ask("a", 2).1.open?.connection)
    #expect(machine.release(first, now: start).lease?.waiter == 2)
    // The opening connection finds nobody waiting, and idles.
    #expect(machine.opened(opening, now: start).lease == nil)
    #expect(machine.machine.idleCount == 1)
  }

  @Test func refusedConnectionFailsItsWaiterAtOnce() throws {
    let machine = TestPool(limits: poolLimits())
    let opening = try #require(machine.ask("a", 1).1.open?.connection)
    #expect(machine.openFailed(opening, now: start).fail == [1])
    #expect(machine.machine.live == 0)
    #expect(machine.machine.waiting == 0)
  }

  @Test func failedOpeningFailsNobodyWhenTheWaiterWasServedOtherwise() throws {
    let machine = TestPool(limits: poolLimits())
    let first = try #require(machine.openOne("a", 1))
    let opening = try #require(machine.ask("a", 2).1.open?.connection)
    #expect(machine.release(first, now: start).lease?.waiter == 2)
    #expect(machine.openFailed(opening, now: start).fail.isEmpty)
  }

  /// Who came after the opening had begun gets one of its own; that one stands for all who wait when it begins.
  @Test func failedOpeningFailsAllWhoWaitedWhenItBegan() throws {
    let machine = TestPool(limits: poolLimits(perHost: 1))
    let opening = try #require(machine.ask("a", 1).1.open?.connection)
    for waiter in 2...60 { _ = machine.ask("a", waiter) }
    let steps = machine.openFailed(opening, now: start)
    #expect(steps.fail == [1])
    let second = try #require(steps.open?.connection)
    _ = machine.ask("a", 61)
    let last = machine.openFailed(second, now: start)
    #expect(last.fail == Array(2...60))
    #expect(last.open != nil)
    #expect(machine.machine.waiting == 1)
  }

  /// One dead server behind an address of several: the other openings are as many as those who are left to wait.
  @Test func failedOpeningFailsOneWhileOthersAreUnderWay() throws {
    for failing in 0..<6 {
      let machine = TestPool(limits: poolLimits(perHost: 6, total: 6))
      var openings = try (1...6).map { try #require(machine.ask("a", $0).1.open?.connection) }
      let failed = machine.openFailed(openings.remove(at: failing), now: start)
      #expect(failed.fail == [1])
      #expect(failed.open == nil)
      let served = openings.map { machine.opened($0, now: start).lease?.waiter }
      #expect(served == [2, 3, 4, 5, 6])
    }
  }

  /// Of those who have no opening of their own, one alone fails while an earlier opening is under way; without one, all do.
  @Test func failedOpeningFailsManyOnlyWhenItWasTheEarliest() throws {
    let machine = TestPool(limits: poolLimits(perHost: 2))
    let first = try #require(machine.ask("a", 1).1.open?.connection)
    let second = try #require(machine.ask("a", 2).1.open?.connection)
    for waiter in 3...40 { _ = machine.ask("a", waiter) }
    let third = machine.openFailed(second, now: start)
    #expect(third.fail == [1])
    let later = try #require(third.open?.connection)
    let fourth = machine.openFailed(later, now: start)
    #expect(fourth.fail == [2])
    let last = try #require(fourth.open?.connection)
    #expect(machine.openFailed(first, now: start).fail.isEmpty)
    let answers = machine.openFailed(last, now: start)
    #expect(answers.fail == Array(3...39))
    #expect(machine.machine.waiting == 1)
  }

  /// Others come and give up, so that as many openings as who waits are under way whenever one fails.
  @Test func whoeverWaitsForADeadHostLearnsItWhileOthersComeAndGo() throws {
    let machine = TestPool(limits: poolLimits())
    var openings = [try #require(machine.ask("a", 0).1.open?.connection)]
    var answered: Int?
    for round in 1...5 where answered == nil {
      let comes = machine.ask("a", round, now: Instant(nanoseconds: Int64(10 * round)))
      if let open = comes.1.open { openings.append(open.connection) }
      _ = machine.giveUp(try #require(comes.2), now: Instant(nanoseconds: Int64(10 * round + 1)))
      if machine.openFailed(openings.removeFirst(), now: Instant(nanoseconds: Int64(10 * round + 2))).fail == [0] {
        answered = round
      }
    }
    #expect(answered == 3)
  }

  /// A live connection shows that the host is not dead: whoever waits may get it.
  @Test func failedOpeningFailsOneWhileAConnectionLives() throws {
    let machine = TestPool(limits: poolLimits(perHost: 2))
    let live = try #require(machine.openOne("a", 1))
    let opening = try #require(machine.ask("a", 2).1.open?.connection)
    for waiter in 3...5 { _ = machine.ask("a", waiter) }
    let steps = machine.openFailed(opening, now: start)
    #expect(steps.fail == [2])
    let second = try #require(steps.open?.connection)
    #expect(machine.openFailed(second, now: start).fail == [3])
    #expect(machine.release(live, now: start).lease?.waiter == 4)
  }

  @Test func higherPrioritiesGoFirst() throws {
    let machine = TestPool(limits: poolLimits(perHost: 1))
    let only = try #require(machine.openOne("a", 0))
    _ = machine.ask("a", 1, .low)
    _ = machine.ask("a", 2)
    _ = machine.ask("a", 3, .high)
    let cancelled = try #require(machine.ask("a", 4, .high).2)
    #expect(machine.cancel(cancelled) == 4)
    #expect((0..<4).map { _ in machine.release(only, now: start).lease?.waiter } == [3, 2, 1, nil])
  }

  /// Every fourth answer goes to whoever has waited longest.
  @Test func lowPriorityDoesNotStarve() throws {
    let machine = TestPool(limits: poolLimits(perHost: 1))
    let only = try #require(machine.openOne("a", 0))
    for waiter in [1, 2] { _ = machine.ask("a", waiter, .low) }
    for waiter in 10..<30 { _ = machine.ask("a", waiter, .high) }
    let order = (0..<9).compactMap { _ in machine.release(only, now: start).lease?.waiter }
    #expect(order == [10, 11, 12, 1, 13, 14, 15, 2, 16])
  }

  @Test func cancelledWaiterIsSkipped() throws {
    let machine = TestPool(limits: poolLimits(perHost: 1))
    let only = try #require(machine.openOne("a", 1))
    let token = try #require(machine.ask("a", 2).2)
    _ = machine.ask("a", 3)
    #expect(machine.cancel(token) == 2)
    #expect(machine.cancel(token) == nil)
    #expect(machine.release(only, now: start).lease?.waiter == 3)
  }

  @Test func totalLimitEvictsTheLongestIdleOfAnotherKey() throws {
    let machine = TestPool(limits: poolLimits(perHost: 2, total: 2))
    let a = try #require(machine.openOne("a", 1))
    let b = try #require(machine.openOne("b", 2))
    _ = machine.release(b, now: Instant(nanoseconds: 1))
    _ = machine.release(a, now: Instant(nanoseconds: 2))
    let steps = machine.ask("c", 3, now: Instant(nanoseconds: 3)).1
    #expect(steps.close?.connection == b)
    #expect(steps.close?.reason == .evicted)
    #expect(steps.open?.key == "c")
  }

  @Test func totalLimitServesStarvedKeyWhenAConnectionEnds() throws {
    let machine = TestPool(limits: poolLimits(perHost: 2, total: 1))
    let a = try #require(machine.openOne("a", 1))
    #expect(machine.ask("b", 2).1.open == nil)
    #expect(machine.closed(a, .notReusable, now: start).open?.key == "b")
  }

  @Test func totalLimitTakesAnIdleConnectionForAStarvedKey() throws {
    let machine = TestPool(limits: poolLimits(perHost: 2, total: 1))
    let a = try #require(machine.openOne("a", 1))
    #expect(machine.ask("b", 2).1.open == nil)
    let steps = machine.release(a, now: start)
    #expect(steps.close?.connection == a)
    #expect(steps.open?.key == "b")
  }

  @Test func keyWithoutAConnectionIsServedThoughAnotherNeverRests() throws {
    let machine = TestPool(limits: poolLimits(perHost: 2, total: 1))
    let a = try #require(machine.openOne("a", 1))
    #expect(machine.ask("b", 2).1.open == nil)
    for waiter in 3..<18 {
      _ = machine.ask("a", waiter)
      #expect(machine.release(a, now: start).lease?.waiter == waiter)
    }
    _ = machine.ask("a", 18)
    let turn = machine.release(a, now: start)
    #expect(turn.close?.connection == a)
    #expect(turn.close?.reason == .evicted)
    #expect(turn.open?.key == "b")
    #expect(turn.lease == nil)
    // The two take turns from then on: the first has a place again as soon as nobody waits for the other.
    let opening = try #require(turn.open)
    let b = try #require(machine.opened(opening.connection, now: start).lease)
    #expect(b.waiter == 2)
    #expect(machine.release(b.connection, now: start).open?.key == "a")
  }

  @Test func keyThatGaveUpCostsNobodyAConnection() throws {
    let machine = TestPool(limits: poolLimits(perHost: 2, total: 1))
    let a = try #require(machine.openOne("a", 1))
    let token = try #require(machine.ask("b", 2).2)
    #expect(machine.cancel(token) == 2)
    for waiter in 3..<40 {
      _ = machine.ask("a", waiter)
      #expect(machine.release(a, now: start).lease?.waiter == waiter)
    }
  }

  @Test(arguments: [(ofOther: 1, ofOwn: 2, mustYield: false), (1, 3, true), (2, 3, false)])
  func placesAreLevelledNotSwapped(_ ofOther: Int, _ ofOwn: Int, _ mustYield: Bool) throws {
    let machine = TestPool(limits: poolLimits(perHost: 4, total: ofOther + ofOwn))
    let own = try (0..<ofOwn).map { try #require(machine.openOne("a", $0)) }
    for waiter in 0..<ofOther { _ = try #require(machine.openOne("b", 100 + waiter)) }
    #expect(machine.ask("b", 200).1.open == nil)
    let closed = (0..<64).contains { waiter in
      _ = machine.ask("a", 300 + waiter)
      return machine.release(own[0], now: start).close != nil
    }
    #expect(closed == mustYield)
  }

  @Test func placeOfAConnectionThatEndsGoesToWhoHasWaitedForOneLongest() throws {
    let machine = TestPool(limits: poolLimits(perHost: 2, total: 1))
    let a = try #require(machine.openOne("a", 1))
    #expect(machine.ask("b", 2).1.open == nil)
    _ = machine.ask("a", 3)
    let open = try #require(machine.closed(a, .notReusable, now: start).open)
    #expect(open.key == "b")
    let b = try #require(machine.opened(open.connection, now: start).lease?.connection)
    #expect(machine.closed(b, .notReusable, now: start).open?.key == "a")
  }

  @Test func waitersAreLimited() {
    let machine = TestPool(limits: poolLimits(perHost: 1, waiters: 2))
    _ = machine.ask("a", 1)
    _ = machine.ask("a", 2)
    #expect(machine.ask("a", 3).leased == -1)
  }

  @Test func whoWaitedBeforeReturnsToAFullQueue() throws {
    var machine = TestPool.Machine(limits: poolLimits(perHost: 1, waiters: 1))
    guard case .wait(let token, _) = machine.acquire("a", 1, now: start, expired: { _, _ in }) else {
      Issue.record("it does not wait")
      return
    }
    #expect(machine.cancel(token, now: start)?.waiter == 1)
    guard case .wait = machine.acquire("a", 2, now: start, expired: { _, _ in }),
      case .tooManyWaiters = machine.acquire("a", 3, now: start, expired: { _, _ in }),
      case .wait = machine.acquire("a", 1, now: start, isReturning: true, expired: { _, _ in })
    else {
      Issue.record("the limit holds for others than it should")
      return
    }
    #expect(machine.waiting == 2)
  }

  @Test func idleConnectionsExpireOldestFirst() throws {
    let machine = TestPool(limits: poolLimits())
    let a = try #require(machine.openOne("a", 1))
    let b = try #require(machine.openOne("b", 2))
    _ = machine.release(a, now: Instant(nanoseconds: 10))
    _ = machine.release(b, now: Instant(nanoseconds: 20))
    #expect(machine.machine.nextExpiry == Instant(nanoseconds: 70))
    #expect(machine.expireOne(now: Instant(nanoseconds: 69))?.close == nil)
    #expect(machine.expireOne(now: Instant(nanoseconds: 70))?.close?.connection == a)
    #expect(machine.expireOne(now: Instant(nanoseconds: 70))?.close == nil)
    #expect(machine.machine.counters.closes[.idleTimeout] == 1)
  }

  @Test func lifetimeAndUsesEndAConnection() throws {
    var few = poolLimits()
    few.uses = 2
    few.lifetimeNanoseconds = 50
    let machine = TestPool(limits: few)
    let a = try #require(machine.openOne("a", 1))
    #expect(machine.release(a, now: start).close == nil)
    #expect(machine.ask("a", 2).leased == a.index)
    #expect(machine.release(a, now: start).close?.reason == .uses)
    let b = try #require(machine.openOne("a", 3))
    #expect(machine.release(b, now: Instant(nanoseconds: 50)).close?.reason == .lifetime)
  }

  @Test func expiredIdleConnectionsAreHandedOverWhenAsked() throws {
    var machine = TestPool.Machine(limits: poolLimits())
    guard case .wait(_, let first) = machine.acquire("a", 1, now: start, expired: { _, _ in }) else {
      Issue.record("leased a connection that nobody has opened")
      return
    }
    let a = try #require(first.open?.connection)
    _ = machine.opened(a, now: start)
    _ = machine.release(a, now: start)
    var expired: [Int] = []
    guard
      case .wait(_, let steps) = machine.acquire(
        "a", 2, now: Instant(nanoseconds: 60), expired: { id, _ in expired.append(id.index) })
    else {
      Issue.record("leased an expired connection")
      return
    }
    #expect(expired == [a.index])
    #expect(steps.open != nil)
  }

  @Test func keysThatNothingRefersToAreForgotten() throws {
    let machine = TestPool(limits: poolLimits())
    for index in 0..<1_000 {
      let connection = try #require(machine.openOne("host\(index)", index))
      _ = machine.closed(connection, .notReusable, now: start)
    }
    #expect(machine.machine.hosts.count == 1)
    #expect(machine.machine.connections.count == 1)
  }

  /// Also those that have waited for a place in vain, as long as none becomes free: behind one who waits on, and in the order of those who stay.
  @Test func keysThatGaveUpAreForgottenWhileNoPlaceIsFree() throws {
    let machine = TestPool(limits: poolLimits(perHost: 1, total: 1))
    let only = try #require(machine.openOne("a", 1))
    _ = machine.ask("b", 2)
    for number in 0..<100 {
      let token = try #require(machine.ask("gone \(number)", 3).2)
      #expect(machine.cancel(token) == 3)
    }
    _ = machine.ask("c", 4)
    #expect(machine.machine.hosts.count <= 4)
    let first = try #require(machine.closed(only, .failed, now: start).open)
    #expect(first.key == "b")
    #expect(machine.closed(first.connection, .failed, now: start).open?.key == "c")
  }

  /// Bytes choose verbs; after each, the invariants of the machine's header must hold.
  @Test(arguments: 0..<200) func randomWalkKeepsTheInvariants(seed: UInt64) {
    PoolWalk.run(bytes: PoolWalk.randomBytes(seed: seed, count: 600))
  }

  @Test func lifetimeEndsAnIdleConnectionToo() throws {
    var limits = poolLimits()
    limits.idleNanoseconds = 1_000
    limits.lifetimeNanoseconds = 50
    let machine = TestPool(limits: limits)
    let a = try #require(machine.openOne("a", 1))
    #expect(machine.release(a, now: Instant(nanoseconds: 10)).close == nil)
    #expect(machine.ask("a", 2, now: Instant(nanoseconds: 49)).leased == a.index)
    #expect(machine.release(a, now: Instant(nanoseconds: 49)).close == nil)
    let late = machine.ask("a", 3, now: Instant(nanoseconds: 50))
    #expect(late.leased == nil && late.1.open != nil)
    #expect(machine.machine.counters.closes == [.lifetime: 1])
  }
}
