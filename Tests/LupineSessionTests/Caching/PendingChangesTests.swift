import LupineRules
import LupineWire
import Testing

@testable import LupineSession

/// What is to become of files, whatever the order in which it is noted and done.
@Suite struct PendingChangesTests {
  private func write(_ key: String, size: Int) throws -> PendingChanges.Change {
    .write(try CacheFolder.record(key, size: size))
  }

  /// A write as its key and the size of its body.
  private func described(_ step: PendingChanges.Step?) -> String {
    switch step {
    case nil: return "nothing"
    case .removeAll(let count)?: return "remove all for \(count)"
    case .change(let turn)?:
      guard case .write(.response(let response)) = turn.change else { return "remove \(turn.key)" }
      return "write \(turn.key) \(response.body.count)"
    }
  }

  /// What is done until nothing is left.
  private func finish(_ changes: inout PendingChanges) -> [String] {
    var done: [String] = []
    while let step = changes.next() {
      done.append(described(step))
      changes.settle(step)
    }
    return done
  }

  @Test func theLastIsDone() throws {
    var changes = PendingChanges(limit: 1 << 20)
    let jobs = [
      changes.note(try write("a", size: 1), for: "a"), changes.note(try write("b", size: 2), for: "b"),
      changes.note(try write("a", size: 3), for: "a"), changes.note(.remove, for: "b"),
    ]
    #expect(jobs == [true, true, false, false] && changes.count == 2)
    let done = finish(&changes)
    #expect(done == ["write a 3", "remove b"])
    #expect(changes.bytes == 0 && changes["a"] == nil && changes["b"] == nil)
  }

  /// What is noted while the former is being written holds from then on, and is done after it.
  @Test func notedWhileItIsWritten() throws {
    var changes = PendingChanges(limit: 1 << 20)
    _ = changes.note(try write("a", size: 1), for: "a")
    changes.beginJob()
    let next = changes.next()
    let former = try #require(next)
    let needsJob = changes.note(try write("a", size: 2), for: "a")
    let cost = try CacheFolder.record("a", size: 1).cost + CacheFolder.record("a", size: 2).cost
    #expect(needsJob && changes.bytes == cost)
    changes.settle(former)
    #expect(changes["a"] != nil)
    let done = finish(&changes)
    #expect(done == ["write a 2"])
    #expect(changes.bytes == 0 && changes["a"] == nil)
  }

  /// All files go first, what is being written too; what is noted later is done.
  @Test func allFilesGoBeforeWhatIsNotedLater() throws {
    var changes = PendingChanges(limit: 1 << 20)
    for key in ["a", "b"] { _ = changes.note(try write(key, size: 1), for: key) }
    let next = changes.next()
    let former = try #require(next)
    _ = changes.noteRemovalOfAll()
    #expect(changes.isRemovingAll && changes["a"] == nil && changes["b"] == nil)
    _ = changes.note(try write("a", size: 2), for: "a")
    changes.settle(former)
    #expect(changes.count == 2 && changes["a"] != nil)
    let done = finish(&changes)
    #expect(done == ["remove all for 1", "write a 2"])
    #expect(changes.bytes == 0 && !changes.isRemovingAll)
  }

  /// Asked for again while the files go, they go again.
  @Test func allFilesGoTwice() {
    var changes = PendingChanges(limit: 0)
    _ = changes.noteRemovalOfAll()
    _ = changes.noteRemovalOfAll()
    let first = changes.next()
    _ = changes.noteRemovalOfAll()
    if let first { changes.settle(first) }
    #expect(described(first) == "remove all for 2" && changes.isRemovingAll)
    let done = finish(&changes)
    #expect(done == ["remove all for 1"])
  }

  /// What there is no room for removes the file, whose answer is none any more; what takes the place of another has its room.
  @Test func thereIsALimit() throws {
    let cost = try CacheFolder.record("a", size: 1000).cost
    var changes = PendingChanges(limit: 2 * cost)
    for key in ["a", "b", "c"] { _ = changes.note(try write(key, size: 1000), for: key) }
    _ = changes.note(try write("a", size: 1000), for: "a")
    #expect(changes.bytes == 2 * cost)
    let done = finish(&changes)
    #expect(done == ["write a 1000", "write b 1000", "remove c"])
  }

  /// Whatever comes while a disk stands still, neither removals nor jobs take more than their room, and nothing that was to go stays.
  @Test func removalsHaveALimit() throws {
    let limit = 100_000
    var changes = PendingChanges(limit: 1 << 20, removalLimit: limit)
    var jobs = changes.note(try write("a", size: 1), for: "a") ? 1 : 0
    var largest = 0
    // Some of the keys are long.
    for number in 0..<20_000 {
      let key = number % 100 == 99 ? String(repeating: "k", count: 40_000 + number) : "k\(number)"
      if changes.note(.remove, for: key) { jobs += 1 }
      largest = max(largest, changes.removalBytes)
    }
    #expect(changes.isRemovingAll && changes["a"] == nil && changes.isRemoving("a"))
    #expect(largest <= limit && changes.bytes == 0)
    #expect(jobs <= limit / 256 + 2)
    // The jobs that were asked for are enough.
    for _ in 0..<jobs {
      changes.beginJob()
      if let step = changes.next() { changes.settle(step) }
    }
    #expect(changes.count == 0 && changes.removalBytes == 0 && !changes.isRemovingAll)
  }

  /// The same key again takes no more room; what is being removed has its own until it is gone.
  @Test func aRemovalTakesItsRoomOnce() throws {
    var changes = PendingChanges(limit: 1 << 20)
    _ = changes.note(.remove, for: "a")
    let once = changes.removalBytes
    for _ in 0..<10 { _ = changes.note(.remove, for: "a") }
    #expect(once > 0 && changes.removalBytes == once)
    let next = changes.next()
    let former = try #require(next)
    _ = changes.note(.remove, for: "a")
    #expect(changes.removalBytes == 2 * once)
    changes.settle(former)
    _ = changes.note(try write("a", size: 1), for: "a")
    #expect(changes.removalBytes == 0 && changes.bytes > 0)
  }

  /// However often notes are taken and jobs come between one another, whatever is due has a job.
  @Test func jobsAreEnough() {
    for step in 1...7 {
      var changes = PendingChanges(limit: 0, removalLimit: 2_000)
      var jobs = 0
      for number in 0..<1_000 {
        if changes.note(.remove, for: "\(number % 13)") { jobs += 1 }
        if number % 97 == 0, changes.noteRemovalOfAll() { jobs += 1 }
        guard number % step == 0, jobs > 0 else { continue }
        jobs -= 1
        changes.beginJob()
        let next = changes.next()
        // Noted while it is being done.
        if changes.note(.remove, for: "\(number % 5)") { jobs += 1 }
        if let next { changes.settle(next) }
      }
      #expect(jobs >= changes.count && jobs <= 20, "\(step)")
    }
  }
}
