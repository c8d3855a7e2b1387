internal import LupineBase

/// In which order the records that were stored last were asked for, wherever they are now. Not locked.
///
/// Invariants: `orders` has the keys that are in `latest`, each with the order that was noted for it last; there are at most `limit` of both.
struct InsertionOrders {
  static let limit = 512

  private var orders: [RecordKey: UInt64] = [:]
  private var latest = RingBuffer<(key: RecordKey, order: UInt64)>()

  /// 0: it is not remembered.
  func order(of key: String) -> UInt64 { orders[RecordKey(key)] ?? 0 }

  /// - Parameter order: never less than what is remembered of the key.
  mutating func note(_ key: String, _ order: UInt64) {
    let key = RecordKey(key)
    orders[key] = order
    latest.append((key, order))
    guard latest.count > Self.limit, let oldest = latest.popFirst() else { return }
    // One that was stored again since has a later place.
    if orders[oldest.key] == oldest.order { orders[oldest.key] = nil }
  }
}
