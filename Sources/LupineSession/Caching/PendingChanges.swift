internal import LupineBase
internal import LupineRules

/// What is to become of the files of a cache and has not come to pass: it holds instead of them meanwhile. Not locked.
///
/// Whoever notes something has the writer run a job if he is told so, and a job does what is first in line by then: the order in which jobs come does not
/// matter. Of what was noted for one key the last is done, which alone is held.
///
/// States of a key, and their legal successors:
///
///     none  -> due
///     due   -> due | taken | none   noted again in the place of the former; its turn has come; all files go
///     taken -> due | none           noted again while it is being done; it is done, or all files go
///
/// Invariants: `line` has the keys that are due, each once; `bytes` is what the records take that are due, and those that are being written,
/// noted again meanwhile or not, and `removalBytes` the same of removals; for each step that is due a job is on its way, or at work, but no more are on
/// their way than steps were due at once.
struct PendingChanges {
  enum Change: Sendable {
    case write(CacheRecord)
    /// It is looked whether the file is still there.
    case confirm(CacheRecord)
    case remove

    var record: CacheRecord? {
      switch self {
      case .write(let record), .confirm(let record): record
      case .remove: nil
      }
    }
    fileprivate var cost: Int { record?.cost ?? 0 }
  }

  /// A change whose turn has come.
  struct Turn: Sendable {
    let key: String
    let change: Change
  }

  enum Step: Sendable {
    /// All files go, for so many who asked for it. First of all: what is due was noted later.
    case removeAll(Int)
    case change(Turn)
  }

  private struct Entry {
    var change: Change
    var isTaken = false
  }

  /// Bytes of records that wait at most.
  let limit: Int
  /// Bytes of removals that wait at most: before there are more, all files go, which takes their place.
  let removalLimit: Int
  private(set) var bytes = 0
  private(set) var removalBytes = 0
  private var entries: [RecordKey: Entry] = [:]
  private var line = RingBuffer<RecordKey>()
  private var removals = 0
  /// Jobs on their way.
  private var jobs = 0

  init(limit: Int, removalLimit: Int = 16 << 20) {
    self.limit = limit
    self.removalLimit = removalLimit
  }

  /// Whether all files are on their way out: none counts.
  var isRemovingAll: Bool { removals > 0 }

  /// How many steps are due.
  var count: Int { line.count + (removals > 0 ? 1 : 0) }

  /// What holds instead of the file of a key; nil: the file itself does.
  subscript(key: String) -> Change? { entries[RecordKey(key)]?.change }

  /// Whether the file of a key is on its way out, and none comes in its place.
  func isRemoving(_ key: String) -> Bool {
    guard let change = self[key] else { return isRemovingAll }
    return change.record == nil
  }

  private mutating func add(_ change: Change, of key: RecordKey, times count: Int) {
    if case .remove = change {
      // With its places in `entries` and `line`, and its job.
      removalBytes += count * (key.text.utf8.count + 256)
    } else {
      bytes += count * change.cost
    }
  }

  /// Notes what is to become of a file. A record that there is no room for removes it, as that is no answer any more; of one that is only to be looked
  /// for nothing comes then. A removal that there is no room for removes all files: none may be lost.
  ///
  /// - Returns: whether the writer has to run a job for it: otherwise there is one on its way.
  mutating func note(_ change: Change, for key: String) -> Bool {
    let key = RecordKey(key)
    let former = entries[key].flatMap { $0.isTaken ? nil : $0.change }
    let hasRoom = bytes - (former?.cost ?? 0) + change.cost <= limit
    if !hasRoom, case .confirm = change { return false }
    let change = hasRoom ? change : .remove
    if let former { add(former, of: key, times: -1) }
    add(change, of: key, times: 1)
    entries[key] = Entry(change: change)
    if former == nil { line.append(key) }
    if case .remove = change, removalBytes > removalLimit { return noteRemovalOfAll() }
    return former == nil && claimJob()
  }

  /// All files go, and what is due does not come to pass.
  ///
  /// - Returns: whether the writer has to run a job for it.
  mutating func noteRemovalOfAll() -> Bool {
    for (key, entry) in entries where !entry.isTaken { add(entry.change, of: key, times: -1) }
    entries = [:]
    line.removeAll()
    removals += 1
    return claimJob()
  }

  /// Jobs that find nothing left to do would add up while a disk stands still.
  private mutating func claimJob() -> Bool {
    guard jobs < count else { return false }
    jobs += 1
    return true
  }

  /// A job has come, or will not.
  mutating func beginJob() { jobs -= 1 }

  /// What is to be done next, by the only one who does; nil: nothing. `settle` follows once it is done.
  mutating func next() -> Step? {
    if removals > 0 { return .removeAll(removals) }
    guard let key = line.popFirst(), let entry = entries[key] else { return nil }
    entries[key]?.isTaken = true
    return .change(Turn(key: key.text, change: entry.change))
  }

  mutating func settle(_ step: Step) {
    switch step {
    case .removeAll(let count): removals -= count
    case .change(let turn):
      let key = RecordKey(turn.key)
      add(turn.change, of: key, times: -1)
      // What was noted again meanwhile is due.
      if entries[key]?.isTaken == true { entries[key] = nil }
    }
  }
}
