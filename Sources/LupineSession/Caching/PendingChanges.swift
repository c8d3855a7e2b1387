internal import LupineBase
internal import LupineRules

/// What is to become of the files of a cache and has not come to pass: it holds instead of them meanwhile. Not locked.
///
/// Whoever notes something has the writer run a job, and a job does what is first in line by then: the order in which jobs come does not matter. Of what was
/// noted for one key the last is done, which alone is held.
///
/// States of a key, and their legal successors:
///
///     none  -> due
///     due   -> due | taken | none   noted again in the place of the former; its turn has come; all files go
///     taken -> due | none           noted again while it is being done; it is done, or all files go
///
/// Invariants: `line` has the keys that are due, each once; `bytes` is what the records take that are due, and those that are being written,
/// noted again meanwhile or not.
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
  private(set) var bytes = 0
  private var entries: [RecordKey: Entry] = [:]
  private var line = RingBuffer<RecordKey>()
  private var removals = 0

  init(limit: Int) { self.limit = limit }

  /// Whether all files are on their way out: none counts.
  var isRemovingAll: Bool { removals > 0 }

  /// How many steps are due.
  var count: Int { line.count + (removals > 0 ? 1 : 0) }

  /// What holds instead of the file of a key; nil: the file itself does.
  subscript(key: String) -> Change? { entries[RecordKey(key)]?.change }

  /// Notes what is to become of a file. A record that there is no room for removes it, as that is no answer any more; of one that is only to be looked
  /// for nothing comes then.
  ///
  /// - Returns: whether the writer has to run a job for it: otherwise there is one on its way.
  mutating func note(_ change: Change, for key: String) -> Bool {
    let key = RecordKey(key)
    let former = entries[key].flatMap { $0.isTaken ? nil : $0.change }
    let others = bytes - (former?.cost ?? 0)
    let hasRoom = others + change.cost <= limit
    if !hasRoom, case .confirm = change { return false }
    let change = hasRoom ? change : .remove
    bytes = others + change.cost
    entries[key] = Entry(change: change)
    guard former == nil else { return false }
    line.append(key)
    return true
  }

  /// All files go, and what is due does not come to pass. The writer has to run a job for it.
  mutating func noteRemovalOfAll() {
    for entry in entries.values where !entry.isTaken { bytes -= entry.change.cost }
    entries = [:]
    line.removeAll()
    removals += 1
  }

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
      bytes -= turn.change.cost
      let key = RecordKey(turn.key)
      // What was noted again meanwhile is due.
      if entries[key]?.isTaken == true { entries[key] = nil }
    }
  }
}
