import LupineRules
import Testing

/// How numbers and keys are divided among several engines.
@Suite struct EngineShareTests {
  struct Division: Sendable {
    var whole: Int
    var parts: [Int]
  }

  private static let divisions = [
    Division(whole: 6, parts: [2, 2, 1, 1]), Division(whole: 256, parts: [64, 64, 64, 64]),
    Division(whole: 256, parts: [86, 85, 85]), Division(whole: 10_000, parts: [3_334, 3_333, 3_333]),
    Division(whole: 7, parts: [7]), Division(whole: 2, parts: [1, 1]), Division(whole: 2, parts: [1, 1, 0]),
    Division(whole: 0, parts: [0, 0]), Division(whole: .max, parts: [Int.max / 2 + 1, Int.max / 2]),
  ]

  @Test(arguments: divisions) func partsAddUp(_ one: Division) {
    let count = one.parts.count
    let parts = (0..<count).map { EngineShare($0, of: count).part(of: one.whole) }
    #expect(parts == one.parts)
    #expect(parts.reduce(0, +) == one.whole)
  }

  @Test func theWholeIsAll() {
    for number in [0, 1, 6, Int.max] { #expect(EngineShare.whole.part(of: number) == number) }
  }

  struct Use: Sendable {
    var wanted: Int
    var connections: Int
    var waiting: Int
    var engines: Int
  }

  private static let uses = [
    Use(wanted: 4, connections: 256, waiting: 10_000, engines: 4),
    Use(wanted: 1, connections: 256, waiting: 1, engines: 1),
    Use(wanted: 4, connections: 3, waiting: 10_000, engines: 3), Use(wanted: 4, connections: 4, waiting: 4, engines: 4),
    // One that nobody may wait for would open nothing.
    Use(wanted: 4, connections: 256, waiting: 2, engines: 2), Use(wanted: 4, connections: 256, waiting: 0, engines: 1),
    Use(wanted: 4, connections: 0, waiting: 5, engines: 1), Use(wanted: 4, connections: -1, waiting: -1, engines: 1),
  ]

  /// No engine is without a part of what it cannot do without.
  @Test(arguments: uses) func enginesThatAreOfUse(_ one: Use) {
    let engines = EngineShare.engines(one.wanted, connections: one.connections, waiting: one.waiting)
    #expect(engines == one.engines)
    let last = EngineShare(engines - 1, of: engines)
    #expect(last.part(of: max(1, one.connections)) > 0)
    if one.waiting > 0 { #expect(last.part(of: one.waiting) > 0) }
  }

  @Test func turnsComeRound() {
    func turns(_ connections: Int, _ engines: Int) -> [Int] {
      (0..<8).map { EngineShare.index(ofTurn: $0, connections: connections, engines: engines) }
    }
    #expect(turns(6, 4) == [0, 1, 2, 3, 0, 1, 0, 1])
    #expect(turns(2, 2) == [0, 1, 0, 1, 0, 1, 0, 1])
    #expect(turns(.max, 3) == [0, 1, 2, 0, 1, 2, 0, 1])
    #expect(turns(1, 1) == [0, 0, 0, 0, 0, 0, 0, 0])
    #expect(EngineShare.index(ofTurn: .max, connections: 6, engines: 4) < 4)
  }

  /// From its own place on, unless the total would leave the larger parts unused there.
  @Test func connectionsAreDealtFromTheirPlace() {
    func first(_ connections: Int, _ total: Int) -> Int {
      EngineShare.first(3, connections: connections, total: total, engines: 4)
    }
    #expect(first(6, 256) == 3 && first(1, 4) == 3 && first(4, 4) == 3)
    #expect(first(6, 7) == 0 && first(6, 6) == 0 && first(5, 7) == 0)
    #expect(first(.max, .max) == 0)
  }

  /// Places are given out one to each engine in turn; who falls where another one did goes with it, for good.
  @Test func keysHavePlaces() {
    var places = EnginePlaces(engines: 3)
    for _ in 0..<2 {
      let engines = (0..<7).map { places.engine(ofHash: $0 * 5) }
      #expect(engines == [0, 1, 2, 0, 1, 2, 0])
    }
    // Any number is a hash.
    let extremes = [Int.min, -1, Int.max].map { places.engine(ofHash: $0) }
    #expect(extremes.allSatisfy { (0..<3).contains($0) })
    let all = (0..<100_000).map { places.engine(ofHash: $0 &* 0x9E37_79B9) }
    let counts = (0..<3).map { engine in all.count { $0 == engine } }
    #expect(counts.allSatisfy { $0 > 20_000 })
    let again = (0..<100_000).map { places.engine(ofHash: $0 &* 0x9E37_79B9) }
    #expect(all == again)
  }

  @Test func oneEngineHasThemAll() {
    var places = EnginePlaces(engines: 1)
    let one = (0..<100).map { places.engine(ofHash: $0) }
    #expect(one.allSatisfy { $0 == 0 })
    var most = EnginePlaces(engines: EngineShare.maximum)
    let each = (0..<64).map { most.engine(ofHash: $0) }
    #expect(each == Array(0..<64))
  }
}
