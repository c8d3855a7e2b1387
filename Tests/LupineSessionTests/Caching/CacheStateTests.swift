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

  /// A file that was about to be read before something newer was stored is no answer, though that is in files alone by now.
  @Test func anOlderReadingDoesNotHideWhatIsFiled() throws {
    var state = CacheState(memoryCapacity: 10_000)
    let count = state.storedCount
    let newer = try CacheFolder.record("k", size: 50_000)
    _ = state.insert(newer, first: "k", .written, since: state.stamp())
    finish(&state)
    let older = try CacheFolder.record("k", size: 10)
    let isTaken = state.take(older, storedSince: count)
    #expect(!isTaken && state.memory.count == 0)
    let isTakenLater = state.take(older, storedSince: state.storedCount)
    #expect(isTakenLater && state.memory.count == 1)
  }

  /// What only a file has of names is gone on with, if it has the same, and nothing else has become known of the URL since it was read.
  @Test func namesOfAFileAreKept() {
    let filed = CacheState.FiledNames(record: .variants(key: "k", names: ["accept"], generation: 7), epoch: 0, count: 0)
    for capacity in [0, 1 << 20] {
      var state = CacheState(memoryCapacity: capacity)
      let number = state.generation(["accept"], first: "k", filed: filed, .written, since: state.stamp())?.number
      #expect(number == 7)
      // They are looked for in the file, as another process may have removed them.
      guard case .confirm(.variants(_, _, 7))? = state.pending["k"] else {
        Issue.record("the names are not looked for: \(String(describing: state.pending["k"]))")
        return
      }
      finish(&state)
      let others = state.generation(["cookie"], first: "k", filed: filed, .written, since: state.stamp())?.number
      #expect(others != 7)
      state.remove("k")
      let removed = state.generation(["accept"], first: "k", filed: filed, .written, since: state.stamp())?.number
      #expect(removed != 7 && removed != others)
    }
  }

  /// That no file has a URL is remembered until something is stored under it, and not where that came behind the look.
  @Test func absencesAreRemembered() throws {
    var state = CacheState(memoryCapacity: 0)
    let count = state.storedCount
    state.noteAbsence(of: "k", storedSince: count)
    #expect(state.isAbsent("k") && !state.isAbsent("l"))
    _ = state.insert(try CacheFolder.record("k", size: 10), first: "k", .written, since: state.stamp())
    #expect(!state.isAbsent("k"))
    state.noteAbsence(of: "k", storedSince: count)
    #expect(!state.isAbsent("k"))
    state.noteAbsence(of: "m", storedSince: state.storedCount)
    #expect(state.isAbsent("m"))
    // What another process has stored was read.
    #expect(state.take(try CacheFolder.record("m", size: 10), storedSince: state.storedCount) == true)
    #expect(!state.isAbsent("m"))
    for number in 0..<2_000 { state.noteAbsence(of: "\(number)", storedSince: state.storedCount) }
    let remembered = (0..<2_000).count { state.isAbsent("\($0)") }
    #expect((1...512).contains(remembered))
  }

  /// What takes long to come is stored, though thousands of others are forgotten meanwhile, as by answers that say `no-store`; what was forgotten itself is not.
  @Test func slowAnswersAreStoredAmongRemovals() throws {
    var state = CacheState(memoryCapacity: 1 << 20)
    let stamp = state.stamp()
    for number in 0..<5_000 { state.remove("\(number)") }
    for key in ["slow", "0", "4999"] {
      _ = state.insert(try CacheFolder.record(key, size: 10), first: key, .none, since: stamp)
    }
    #expect(state.memory.order(of: "slow") == stamp.order)
    #expect(state.memory.count == 1)
  }

  /// What had no file, and was not stored since, needs no job to be forgotten; all else does, whatever has become of it meanwhile.
  @Test func whatHasNoFileNeedsNoJob() throws {
    var state = CacheState(memoryCapacity: 0)
    let count = state.settledCount(of: "k")
    #expect(count == 0)
    let unneeded = state.removeFiled("k", missingSince: count)
    #expect(!unneeded && state.pending.count == 0 && state.epoch == 1)
    // It waits, is being written, is there.
    _ = state.insert(try CacheFolder.record("k", size: 10), first: "k", .written, since: state.stamp())
    #expect(state.settledCount(of: "k") == nil && state.settledCount(of: "l") != nil)
    state.pending.beginJob()
    let next = state.pending.next()
    let writing = try #require(next)
    #expect(state.settledCount(of: "k") == nil)
    state.settle(writing, isThere: true)
    #expect(state.settledCount(of: "k") == 1)
    let needed = state.removeFiled("k", missingSince: count)
    #expect(needed && state.pending.isRemoving("k"))
    state.pending.beginJob()
    finish(&state)
    // Nobody has looked.
    let unseen = state.removeFiled("k", missingSince: nil)
    #expect(unseen)
    state.pending.beginJob()
    finish(&state)
    _ = state.pending.noteRemovalOfAll()
    #expect(state.settledCount(of: "k") == nil)
  }

  /// Where there is no room for a removal all files go, and what is in memory is not taken to have one.
  @Test func whatIsRemovedWithAllHasNoFile() throws {
    var state = CacheState(memoryCapacity: 1 << 20)
    state.pending = PendingChanges(limit: 0, removalLimit: 0)
    _ = state.insert(try CacheFolder.record("k", size: 10), first: "k", .written, since: state.stamp())
    #expect(state.pending.isRemovingAll && state.pending["k"] == nil)
    #expect(state.memory.count == 1 && !state.memory.isFiled("k"))
  }
}
