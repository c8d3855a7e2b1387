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

  /// Removals that are remembered by their keys.
  private static let rememberedRemovals = 256
  /// Bytes that wait for the disk; more are not written.
  static let pendingLimit = 64 << 20

  var memory: MemoryStore
  var pending = PendingChanges(limit: Self.pendingLimit)
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
    epoch += 1
    horizon = epoch
  }
}
