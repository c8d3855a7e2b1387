internal import LupineBase

/// How often nonces of Digest were used: a server or a proxy may name one again, and takes no count twice (RFC 7616 section 3.4).
///
/// Bounded; those that were not used for longest go first, an eighth of all at a time: some servers name another nonce each time, and to look for one
/// among all of them took longer than the rest.
package struct NonceCounts<Party: Hashable & Sendable>: Sendable {
  private struct Key: Hashable, Sendable {
    var party: Party
    @ByteExact var nonce: String
  }

  private struct Use: Sendable {
    var count: UInt32
    var lastUse: UInt64
  }

  private let limit: Int
  private var uses: [Key: Use] = [:]
  private var clock: UInt64 = 0

  /// - Parameter limit: nonces whose counts are known.
  package init(limit: Int) {
    self.limit = limit
  }

  /// The count for the next use of a nonce: it is given to nobody else.
  ///
  /// - Parameters:
  ///   - party: who named it: nonces of different parties have nothing to do with each other.
  ///   - known: a count that was used, as far as the caller knows.
  /// - Returns: 0 if the nonce has no more.
  package mutating func next(of nonce: String, party: Party, after known: UInt32 = 0) -> UInt32 {
    let key = Key(party: party, nonce: nonce)
    let last = max(uses[key]?.count ?? 0, known)
    guard last < UInt32.max else { return 0 }
    put(last + 1, key)
    return last + 1
  }

  /// A nonce was used up to this count.
  package mutating func note(_ count: UInt32, of nonce: String, party: Party) {
    let key = Key(party: party, nonce: nonce)
    put(max(uses[key]?.count ?? 0, count), key)
  }

  private mutating func put(_ count: UInt32, _ key: Key) {
    clock += 1
    uses[key] = Use(count: count, lastUse: clock)
    guard uses.count > limit else { return }
    let order = uses.values.map(\.lastUse).sorted()
    let first = order[min(order.count - 1, order.count - limit + limit / 8)]
    uses = uses.filter { $0.value.lastUse >= first }
  }
}
