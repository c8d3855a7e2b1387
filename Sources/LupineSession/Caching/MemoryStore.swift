internal import LupineBase
internal import LupineRules

/// What was used last, up to so many bytes. Not locked.
///
/// Invariant: `usage` is the sum of the costs, and at most `capacity`.
struct MemoryStore {
  private struct Kept {
    var record: CacheRecord
    var cost: Int
    var order: UInt64
    var isFiled: Bool
  }

  let capacity: Int
  private(set) var usage = 0
  private var places: [RecordKey: Int] = [:]
  /// By their last use.
  private var kept = AgeOrder<Kept>()

  init(capacity: Int) { self.capacity = max(0, capacity) }

  var count: Int { places.count }

  /// The record, which counts as used now.
  mutating func record(for key: String) -> CacheRecord? {
    guard let place = places[RecordKey(key)] else { return nil }
    kept.renew(place)
    return kept[place]?.record
  }

  /// The order that the record was inserted with; 0: none, or there is none.
  func order(of key: String) -> UInt64 { places[RecordKey(key)].flatMap { kept[$0]?.order } ?? 0 }

  /// Whether a file was given the record, so that others may have it from there.
  func isFiled(_ key: String) -> Bool { places[RecordKey(key)].flatMap { kept[$0]?.isFiled } ?? false }

  mutating func setFiled(_ key: String, _ isFiled: Bool) {
    if let place = places[RecordKey(key)] { kept.change(place) { $0.isFiled = isFiled } }
  }

  /// Takes the place of what has the same key; a record larger than everything together is not kept.
  mutating func insert(_ record: CacheRecord, order: UInt64 = 0, isFiled: Bool = false) {
    remove(record.key)
    let cost = record.cost
    guard cost <= capacity else { return }
    while usage > capacity - cost, let oldest = kept.oldest, let last = kept[oldest] { remove(last.record.key) }
    places[RecordKey(record.key)] = kept.append(Kept(record: record, cost: cost, order: order, isFiled: isFiled))
    usage += cost
  }

  mutating func remove(_ key: String) {
    guard let place = places.removeValue(forKey: RecordKey(key)) else { return }
    usage -= kept.remove(place)?.cost ?? 0
  }

  mutating func removeAll() { self = MemoryStore(capacity: capacity) }
}
