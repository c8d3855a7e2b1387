internal import LupineRules

/// What was used last, up to so many bytes. Not locked.
///
/// Invariants: `newest` and `oldest` are the ends of one list through all slots in use; `usage` is the sum of their costs, and at most
/// `capacity`.
struct MemoryStore {
  private struct Slot {
    var record: CacheRecord
    var cost: Int
    var order: UInt64
    var isFiled: Bool
    var newer: Int?
    var older: Int?
  }

  let capacity: Int
  private(set) var usage = 0
  private var places: [RecordKey: Int] = [:]
  private var slots: [Slot?] = []
  private var free: [Int] = []
  private var newest: Int?
  private var oldest: Int?

  init(capacity: Int) { self.capacity = max(0, capacity) }

  var count: Int { places.count }

  /// The record, which counts as used now.
  mutating func record(for key: String) -> CacheRecord? {
    guard let place = places[RecordKey(key)] else { return nil }
    if newest != place {
      unlink(place)
      link(place)
    }
    return slots[place]?.record
  }

  /// The order that the record was inserted with; 0: none, or there is none.
  func order(of key: String) -> UInt64 { places[RecordKey(key)].flatMap { slots[$0]?.order } ?? 0 }

  /// Whether a file was given the record, so that others may have it from there.
  func isFiled(_ key: String) -> Bool { places[RecordKey(key)].flatMap { slots[$0]?.isFiled } ?? false }

  mutating func setFiled(_ key: String, _ isFiled: Bool) {
    if let place = places[RecordKey(key)] { slots[place]?.isFiled = isFiled }
  }

  /// Takes the place of what has the same key; a record larger than everything together is not kept.
  mutating func insert(_ record: CacheRecord, order: UInt64 = 0, isFiled: Bool = false) {
    remove(record.key)
    let cost = record.cost
    guard cost <= capacity else { return }
    while usage > capacity - cost, let oldest, let last = slots[oldest] { remove(last.record.key) }
    let slot = Slot(record: record, cost: cost, order: order, isFiled: isFiled)
    let place: Int
    if let reused = free.popLast() {
      place = reused
      slots[place] = slot
    } else {
      place = slots.count
      slots.append(slot)
    }
    places[RecordKey(record.key)] = place
    usage += cost
    link(place)
  }

  mutating func remove(_ key: String) {
    guard let place = places.removeValue(forKey: RecordKey(key)) else { return }
    unlink(place)
    usage -= slots[place]?.cost ?? 0
    slots[place] = nil
    free.append(place)
  }

  mutating func removeAll() { self = MemoryStore(capacity: capacity) }

  private mutating func link(_ place: Int) {
    slots[place]?.newer = nil
    slots[place]?.older = newest
    if let newest { slots[newest]?.newer = place }
    newest = place
    if oldest == nil { oldest = place }
  }

  private mutating func unlink(_ place: Int) {
    let (newer, older) = (slots[place]?.newer, slots[place]?.older)
    if let newer { slots[newer]?.older = older } else { newest = older }
    if let older { slots[older]?.newer = newer } else { oldest = newer }
  }
}
