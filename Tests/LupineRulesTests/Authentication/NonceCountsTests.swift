import LupineRules
import Testing

@Suite struct NonceCountsTests {
  /// Of more than there is room for, those stay that were used last: at least seven eighths.
  @Test(arguments: [1, 2, 7, 8, 64]) func theLastUsedStay(_ limit: Int) {
    var counts = NonceCounts<Int>(limit: limit)
    for nonce in 0..<5 * limit {
      let first = counts.next(of: "n\(nonce)", party: 1)
      // One that is used again and again stays.
      let again = counts.next(of: "kept", party: 1)
      #expect(first == 1 && (again == UInt32(nonce + 1) || limit == 1))
    }
    for nonce in (5 * limit - (limit - limit / 8 - 1))..<5 * limit {
      let next = counts.next(of: "n\(nonce)", party: 1)
      #expect(next == 2, "n\(nonce)")
    }
    let forgotten = counts.next(of: "n0", party: 1)
    #expect(forgotten == 1)
  }

  /// That another nonce comes each time costs no look at all that are known.
  @Test func manyNoncesTakeTheirTime() {
    func time(_ limit: Int) -> Duration {
      var counts = NonceCounts<Int>(limit: limit)
      let clock = ContinuousClock()
      return clock.measure {
        for nonce in 0..<4_000 + limit { counts.note(1, of: "n\(nonce)", party: 1) }
      }
    }
    let (few, many) = (time(64), time(4_000))
    #expect(many < few * 20 + .milliseconds(50), "\(few), \(many)")
  }
}
