/// Which keys were removed last, and after which others. Not locked.
///
/// A key may have 64 KiB, and is known by its hash: of two with the same, what was asked for under one is not stored after a removal of the other.
///
/// Invariants: `recent` has the removals after `turn`, `former` those after `horizon` and up to `turn`, each key with the last of its own; both have at
/// most `limit` keys. `horizon` never goes back.
struct RecentRemovals {
  /// At least so many keys are remembered, and at most twice as many: a table of 8,192 places, which takes 128 KiB, has no more.
  static let limit = 6_144

  /// Raised by each removal.
  private(set) var epoch: UInt64 = 0
  private var recent: [Int: UInt64] = [:]
  private var former: [Int: UInt64] = [:]
  private var turn: UInt64 = 0
  /// Removals up to this are forgotten.
  private var horizon: UInt64 = 0

  private static func hash(_ key: String) -> Int { RecordKey(key).hashValue }

  /// Whether a key was removed after an epoch, or may have been.
  func has(_ key: String, since epoch: UInt64) -> Bool {
    guard epoch != self.epoch else { return false }
    if epoch < horizon { return true }
    let hash = Self.hash(key)
    return (recent[hash] ?? former[hash] ?? 0) > epoch
  }

  mutating func note(_ key: String) {
    epoch += 1
    recent[Self.hash(key)] = epoch
    guard recent.count >= Self.limit else { return }
    horizon = turn
    turn = epoch
    swap(&recent, &former)
    recent.removeAll(keepingCapacity: true)
  }

  /// All keys are removed.
  mutating func noteAll() {
    epoch += 1
    horizon = epoch
    turn = epoch
    recent = [:]
    former = [:]
  }
}
