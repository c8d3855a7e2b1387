import LupineRules
import Testing

@testable import LupineEngine

/// The connections of a place on several engines.
@Suite struct KeySpreadTests {
  private let identity = ConnectionIdentity(host: "h", serverName: "h", port: 80, tls: nil)

  private func limits(_ perHost: Int, _ total: Int) -> PoolLimits { poolLimits(perHost: perHost, total: total) }

  /// A pool has a share of what a key may have.
  @Test(arguments: [(0, 2), (1, 2), (2, 1), (3, 1)]) func aShareIsTheLimitOfAPool(_ index: Int, _ expected: Int) {
    let machine = TestPool(limits: limits(6, 90))
    let share = EngineShare(index, of: 4)
    #expect((1...20).count { machine.ask("a", $0, share: share).1.open != nil } == expected)
    // What others have of their keys is nothing to this one.
    #expect((21...40).count { machine.ask("b", $0).1.open != nil } == 6)
  }

  /// Whatever the numbers, the engines together have as many connections to a place as there may be: no engine is given more than it has in all, and none is
  /// given none.
  @Test func allConnectionsAreDealtOut() {
    for engines in 2...7 {
      for total in engines...20 {
        for perHost in 1...22 {
          for place in 0..<engines {
            let key = PoolKey.spread(identity, at: place, over: engines, limits(perHost, total))
            let keys = key.spread.map { spread in (0..<engines).compactMap { spread.key(on: $0) } } ?? [key]
            let counts = keys.map { key in
              min(key.share.part(of: perHost), EngineShare(key.engine, of: engines).part(of: total))
            }
            let text = "\(perHost) of \(total) on \(engines) from \(place): \(counts)"
            #expect(counts.reduce(0, +) == min(perHost, total) && !counts.contains(0), "\(text)")
            #expect(Set(keys.map(\.engine)).count == min(engines, perHost), "\(text)")
          }
        }
      }
    }
  }

  /// Requests come to each engine as often as it has connections.
  @Test func turnsFollowTheConnections() throws {
    let spread = try #require(PoolKey.spread(identity, at: 3, over: 4, limits(6, 256)).spread)
    let turns = (0..<12).map { _ in spread.next().engine }
    #expect(turns == [3, 0, 1, 2, 3, 0, 3, 0, 1, 2, 3, 0])
    #expect((0..<4).map { spread.key(on: $0)?.engine } == [0, 1, 2, 3])
  }

  /// One that may have a connection only has nothing to spread, and stays where it was placed.
  @Test func oneConnectionIsOnOneEngine() throws {
    let key = PoolKey.spread(identity, at: 2, over: 4, limits(1, 256))
    #expect(key.spread == nil && key.engine == 2)
    let two = try #require(PoolKey.spread(identity, at: 3, over: 4, limits(2, 256)).spread)
    #expect((0..<4).map { two.key(on: $0) != nil } == [true, false, false, true])
  }

  /// No more are promised an idle connection than there are, until those who were promised one come; who comes unpromised makes nothing of that worse.
  @Test func noConnectionIsPromisedTwice() throws {
    let pool = TestPool(limits: limits(3, 9))
    #expect(!pool.promise("a"))
    var connections: [TestPool.Identifier] = []
    for waiter in 1...2 { connections.append(try #require(pool.openOne("a", waiter))) }
    #expect(!pool.promise("a"))
    for connection in connections { _ = pool.release(connection, now: TestPool.start) }
    let first = (0..<3).map { _ in pool.promise("a") }
    #expect(first == [true, true, false])
    // The first one comes, and takes its connection with it.
    pool.keepPromise()
    #expect(pool.ask("a", 3).leased != nil)
    #expect(!pool.promise("a"))
    // The second one has given up.
    pool.keepPromise()
    for _ in 0..<3 { pool.keepPromise() }
    let second = (0..<2).map { _ in pool.promise("a") }
    #expect(second == [true, false])
  }

  /// What several pools have done is added up, reason by reason.
  @Test func countersAddUp() {
    var sum = PoolCounters()
    for number in 1...3 {
      var counters = PoolCounters()
      (counters.opened, counters.reused, counters.waits) = (number, 10 * number, 100 * number)
      counters.closes = number == 1 ? [.evicted: 1] : [.evicted: 1, .failed: number]
      sum.add(counters)
    }
    #expect(sum.opened == 6 && sum.reused == 60 && sum.waits == 600)
    #expect(sum.closes == [.evicted: 3, .failed: 5])
  }
}
