internal import LupineBase

/// In which order the records that were stored last were asked for and stored, wherever they are now. Not locked.
///
/// Invariants: `notes` has the keys that are in `latest`, each with what was noted for it last; there are at most `limit` of both.
struct InsertionOrders {
  static let limit = 512

  private var notes: [RecordKey: (order: UInt64, number: UInt64)] = [:]
  private var latest = RingBuffer<(key: RecordKey, number: UInt64)>()
  /// How many were stored.
  private(set) var count: UInt64 = 0

  /// 0: it is not remembered.
  func order(of key: String) -> UInt64 { notes[RecordKey(key)]?.order ?? 0 }

  /// Whether one is remembered that was stored when so many had been.
  func has(_ key: String, storedSince count: UInt64) -> Bool {
    notes[RecordKey(key)].map { $0.number > count } ?? false
  }

  /// - Parameter order: never less than what is remembered of the key.
  mutating func note(_ key: String, _ order: UInt64) {
    let key = RecordKey(key)
    count += 1
    notes[key] = (order, count)
    latest.append((key, count))
    guard latest.count > Self.limit, let oldest = latest.popFirst() else { return }
    // One that was stored again since has a later place.
    if notes[oldest.key]?.number == oldest.number { notes[oldest.key] = nil }
  }
}
