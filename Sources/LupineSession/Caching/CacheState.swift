internal import LupineRules

/// What a cache knows without its files. Not locked.
struct CacheState {
  /// What is known of a key.
  enum Step {
    case record(CacheRecord)
    case missing
    /// A file may know.
    case onDisk
  }

  /// A disk operation that has not come to pass: what holds instead of the file.
  private struct Pending {
    /// Nil: the file is being removed.
    var record: CacheRecord?
    var ticket: UInt64
  }

  /// Removals that are remembered by their keys.
  private static let rememberedRemovals = 256

  var memory: MemoryStore
  private var pending: [String: Pending] = [:]
  private(set) var pendingBytes = 0
  private var nextTicket: UInt64 = 1
  /// `removeAll` on its way to the disk.
  var clears = 0
  /// Raised by each removal: what was asked for before is not stored after it.
  private(set) var epoch: UInt64 = 0
  private var removals: [(key: String, epoch: UInt64)] = []
  /// How many responses were asked for.
  private var asked: UInt64 = 0
  /// Removals before this are forgotten.
  private var horizon: UInt64 = 0

  init(memoryCapacity: Int) { memory = MemoryStore(capacity: memoryCapacity) }

  /// What a response that is asked for now has to name when it is stored.
  mutating func stamp() -> ResponseCache.Stamp {
    asked += 1
    return ResponseCache.Stamp(epoch: epoch, order: asked)
  }

  // MARK: Finding

  /// What is known of a key without the disk; nil if nothing is.
  mutating func step(_ key: String) -> Step? {
    if let record = memory.record(for: key) { return .record(record) }
    return pending[key].map { $0.record.map { .record($0) } ?? .missing }
  }

  /// The generation of what varies by these names, if it is known.
  mutating func generation(_ first: String, _ names: [String]) -> UInt64? {
    guard case .variants(_, names, let generation)? = memory.record(for: first) ?? pending[first]?.record else {
      return nil
    }
    return generation
  }

  // MARK: Removing

  func isRemoved(_ first: String, since epoch: UInt64) -> Bool {
    guard epoch != self.epoch else { return false }
    return epoch < horizon || removals.contains { $0.epoch > epoch && $0.key == first }
  }

  mutating func remove(_ first: String) {
    epoch += 1
    removals.append((first, epoch))
    if removals.count > Self.rememberedRemovals { horizon = removals.removeFirst().epoch }
    memory.remove(first)
  }

  mutating func removeAll() {
    memory.removeAll()
    pending = [:]
    pendingBytes = 0
    epoch += 1
    horizon = epoch
  }

  // MARK: On the way to the disk

  /// Notes an operation of the disk; the ticket names it.
  mutating func note(_ key: String, _ record: CacheRecord?) -> UInt64 {
    let ticket = nextTicket
    nextTicket += 1
    let former = pending.updateValue(Pending(record: record, ticket: ticket), forKey: key)
    pendingBytes += (record?.cost ?? 0) - (former?.record?.cost ?? 0)
    return ticket
  }

  mutating func settle(_ key: String, _ ticket: UInt64) {
    guard let operation = pending[key], operation.ticket == ticket else { return }
    pending[key] = nil
    pendingBytes -= operation.record?.cost ?? 0
  }
}
