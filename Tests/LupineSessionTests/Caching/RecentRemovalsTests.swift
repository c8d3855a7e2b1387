import Testing

@testable import LupineSession

@Suite struct RecentRemovalsTests {
  /// As many different keys as there are places; one that is removed again and again has one of them.
  @Test func theLatestAreRemembered() {
    var removals = RecentRemovals()
    let limit = UInt64(RecentRemovals.limit)
    removals.note("a")
    let epoch = removals.epoch
    #expect(epoch == 1 && removals.has("a", since: 0) && !removals.has("a", since: epoch))
    for number in 0..<(limit - 2) { removals.note("\(number)") }
    for _ in 0..<(10 * limit) { removals.note("a") }
    #expect(removals.has("a", since: epoch) && removals.has("0", since: epoch) && !removals.has("b", since: 0))
    #expect(removals.epoch == 11 * limit - 1)
    // So many others, and it is not known any more what there was before.
    for number in 0..<(2 * limit) { removals.note("b\(number)") }
    #expect(removals.has("c", since: epoch))
    #expect(!removals.has("c", since: removals.epoch - limit) && !removals.has("a", since: removals.epoch - limit))
    #expect(removals.has("b\(2 * limit - 1)", since: removals.epoch - limit))
  }

  /// What was asked for before everything was removed is never stored, whatever is removed later.
  @Test func aRemovalOfAllIsNotForgotten() {
    var removals = RecentRemovals()
    for number in 0..<1_000 { removals.note("\(number)") }
    let before = removals.epoch
    removals.noteAll()
    let after = removals.epoch
    #expect(removals.has("a", since: before) && !removals.has("0", since: after))
    for number in 0..<(3 * RecentRemovals.limit) {
      removals.note("\(number)")
      guard removals.has("a", since: before) else {
        Issue.record("forgotten behind \(number) others")
        return
      }
    }
  }

  /// By its bytes, not as a text.
  @Test func keysAreBytes() {
    var removals = RecentRemovals()
    removals.note("\u{E9}")
    #expect(removals.has("\u{E9}", since: 0) && !removals.has("e\u{301}", since: 0))
  }
}
