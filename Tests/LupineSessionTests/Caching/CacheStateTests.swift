import LupineRules
import LupineWire
import Testing

@testable import LupineSession

/// What a cache knows without its files.
@Suite struct CacheStateTests {
  /// One beside which nothing may wait.
  private var large: CacheRecord {
    get throws {
      try CacheFolder.record("large", size: CacheState.pendingLimit - CacheFolder.record("large", size: 0).cost)
    }
  }

  /// Does what is due.
  private func finish(_ state: inout CacheState) {
    while let step = state.pending.next() { state.settle(step, isThere: true) }
  }

  /// Names that there was no room for are written when there is, over the file of others that was to be removed, not looked for in it.
  @Test func namesThatFoundNoRoomAreWrittenLater() throws {
    var state = CacheState(memoryCapacity: 1 << 20)
    let old = state.generation(["accept"], first: "k", .written, since: state.stamp())?.number
    finish(&state)
    _ = state.pending.note(.write(try large), for: "large")
    let next = state.pending.next()
    let large = try #require(next)
    state.remove("k")
    _ = state.pending.note(.remove, for: "k")
    let fresh = state.generation(["accept"], first: "k", .written, since: state.stamp())?.number
    guard case .remove? = state.pending["k"] else {
      Issue.record("there was room")
      return
    }
    state.settle(large, isThere: true)
    let again = state.generation(["accept"], first: "k", .written, since: state.stamp())?.number
    #expect(old != fresh && fresh == again)
    guard case .write(.variants(_, _, again))? = state.pending["k"] else {
      Issue.record("the names are not written: \(String(describing: state.pending["k"]))")
      return
    }
  }

  /// What is only looked for takes nothing's place.
  @Test func aLookThatFindsNoRoomIsNoRemoval() throws {
    var state = CacheState(memoryCapacity: 1 << 20)
    let first = state.generation(["accept"], first: "k", .written, since: state.stamp())?.number
    finish(&state)
    _ = state.pending.note(.write(try large), for: "large")
    let second = state.generation(["accept"], first: "k", .written, since: state.stamp())
    #expect(second?.number == first && second?.needsJob == false && state.pending["k"] == nil)
  }
}
