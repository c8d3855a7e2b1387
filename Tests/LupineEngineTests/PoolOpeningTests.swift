import LupineBase
import Testing

@testable import LupineEngine

private let start = TestPool.start

/// What becomes of openings whose requests gave up, and of those who rely on them.
@Suite struct PoolOpeningTests {
  @Test func openingThatNobodyWaitsForMakesRoomForWhoComes() throws {
    let machine = TestPool(limits: poolLimits(total: 2))
    let (_, steps, token) = machine.ask("a", 1)
    let surplus = try #require(steps.open?.connection)
    _ = machine.openOne("b", 2)
    _ = machine.giveUp(try #require(token))
    let later = machine.ask("c", 3).1
    #expect(later.close?.connection == surplus)
    #expect(later.open?.key == "c")
    // What is being opened for somebody stays.
    #expect(machine.ask("d", 4).1.close == nil)
    #expect(machine.machine.live == 2)
  }

  @Test func openingThatNobodyWaitsForAnyMoreMakesRoomForWhoIsThere() throws {
    let machine = TestPool(limits: poolLimits(total: 2))
    let (_, steps, token) = machine.ask("a", 1)
    let used = try #require(machine.openOne("b", 2))
    #expect(machine.ask("c", 3).1.open == nil)
    let given = machine.giveUp(try #require(token))
    #expect(given.close?.connection == steps.open?.connection)
    #expect(given.open?.key == "c")
    // Nor does anybody where a connection that is free again serves who waited for the opening.
    let other = try #require(given.open?.connection)
    _ = machine.opened(other, now: start)
    _ = machine.closed(other, .failed, now: start)
    let opening = try #require(machine.ask("b", 4).1.open?.connection)
    #expect(machine.ask("c", 5).1.open == nil)
    let freed = machine.release(used, now: start)
    #expect(freed.lease?.waiter == 4)
    #expect(freed.close?.connection == opening)
    #expect(freed.open?.key == "c")
  }

  /// Where others of the same key wait still, what began first stays for them.
  @Test func theYoungestOpeningOfAKeyThatIsWaitedForYields() throws {
    let machine = TestPool(limits: poolLimits(total: 2))
    let (_, first, _) = machine.ask("a", 1)
    let (_, second, token) = machine.ask("a", 2, now: Instant(nanoseconds: 1))
    #expect(machine.ask("b", 3).1.open == nil)
    let given = machine.giveUp(try #require(token))
    #expect(given.close?.connection == second.open?.connection && given.open?.key == "b")
    #expect(machine.opened(try #require(first.open?.connection), now: start).lease?.waiter == 1)
  }

  /// Its server may be slow: who gives up before it answers, and comes again, is served by what was begun for him the first time.
  @Test func aStuckOpeningGoesOnWhereAnotherHasRoomBesideIt() throws {
    let machine = TestPool(limits: poolLimits())
    let (_, first, one) = machine.ask("a", 1)
    _ = machine.giveUp(try #require(one))
    let later = Instant(nanoseconds: 1)
    let token = try #require(machine.ask("a", 2, now: later).2)
    #expect(machine.machine.openingSince(token) == start)
    let steps = machine.renew(token, now: later)
    #expect(steps.close == nil && steps.open?.key == "a" && machine.machine.live == 2)
    #expect(machine.opened(try #require(first.open?.connection), now: later).lease?.waiter == 2)
    // The total limit counts as the other does.
    let full = TestPool(limits: poolLimits(perHost: 2, total: 1))
    let (_, stuck, gone) = full.ask("a", 1)
    _ = full.giveUp(try #require(gone))
    let renewed = full.renew(try #require(full.ask("a", 2, now: later).2), now: later)
    #expect(renewed.close?.connection == stuck.open?.connection && renewed.open?.key == "a" && full.machine.live == 1)
  }

  /// At the limit as many requests as find a stuck opening of others get one of their own in its place, the eldest first.
  @Test func nobodyReliesOnStuckOpeningsOfRequestsThatGaveUp() throws {
    let machine = TestPool(limits: poolLimits())
    let (_, first, one) = machine.ask("a", 1)
    let (_, second, two) = machine.ask("a", 2)
    _ = machine.giveUp(try #require(one))
    _ = machine.giveUp(try #require(two))
    let later = Instant(nanoseconds: 1)
    for (waiter, opening) in [(3, first), (4, second)] {
      let token = try #require(machine.ask("a", waiter, now: later).2)
      let steps = machine.renew(token, now: later)
      #expect(steps.close?.connection == opening.open?.connection)
      #expect(steps.open?.key == "a")
    }
    #expect(machine.renew(try #require(machine.ask("a", 5, now: later).2), now: later).open == nil)
    #expect(machine.machine.live == 2)
  }

  /// What is stuck and began while somebody waited who waits still will tell him that the host is dead; and one that is not stuck is enough.
  @Test func openingsThatAreWaitedForOrNotStuckAreReliedOn() throws {
    let machine = TestPool(limits: poolLimits())
    _ = machine.ask("a", 1)
    let (_, _, token) = machine.ask("a", 2)
    _ = machine.giveUp(try #require(token))
    #expect(machine.renew(try #require(machine.ask("a", 3).2)).open == nil)
    let (_, _, old) = machine.ask("b", 4)
    _ = machine.giveUp(try #require(old))
    let young = Instant(nanoseconds: -1)
    #expect(machine.renew(try #require(machine.ask("b", 5).2), stuckSince: young).open == nil)
  }

  /// Else callers of a dead host who come and give up would keep the place from everybody, as no opening of theirs lives to fail.
  @Test func placeOfAStuckOpeningGoesToWhoHasWaitedForOneLongest() throws {
    let machine = TestPool(limits: poolLimits(total: 1))
    let (_, stuck, first) = machine.ask("a", 1)
    #expect(machine.ask("b", 2).1.open == nil)
    _ = machine.ask("a", 3)
    #expect(machine.giveUp(try #require(first)).open == nil)
    let later = Instant(nanoseconds: 1)
    let steps = machine.renew(try #require(machine.ask("a", 4, now: later).2), now: later)
    #expect(steps.close?.connection == stuck.open?.connection && steps.open?.key == "b")
    // And back, in turn.
    let opened = try #require(steps.open?.connection)
    let other = try #require(machine.opened(opened, now: later).lease)
    #expect(other.waiter == 2)
    #expect(machine.release(other.connection, now: later).open?.key == "a")
  }

  /// What was begun beside a stuck opening is what its request relies on: the stuck one goes where another key wants the place.
  @Test func ofTwoOpeningsForOneTheStuckOneGoes() throws {
    let machine = TestPool(limits: poolLimits(total: 2))
    let (_, stuck, first) = machine.ask("a", 1)
    _ = machine.giveUp(try #require(first))
    let later = Instant(nanoseconds: 1)
    #expect(machine.renew(try #require(machine.ask("a", 2, now: later).2), now: later).open?.key == "a")
    let steps = machine.ask("b", 3, now: later).1
    #expect(steps.close?.connection == stuck.open?.connection && steps.open?.key == "b")
  }

  /// It says nothing about the server, and would keep a refusal from who waits until it ends itself.
  @Test func aRefusalIsLearntBesideAStuckOpening() throws {
    let machine = TestPool(limits: poolLimits())
    let (_, _, first) = machine.ask("a", 1)
    _ = machine.giveUp(try #require(first))
    let later = Instant(nanoseconds: 1)
    let steps = machine.renew(try #require(machine.ask("a", 2, now: later).2), now: later)
    #expect(machine.openFailed(try #require(steps.open?.connection), now: later).fail == [2])
  }
}
