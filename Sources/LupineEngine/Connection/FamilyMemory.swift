internal import LupineBase
internal import LupineIO

/// Which family of addresses led to a host that has both, where that was not the one that the resolver prefers: it is tried first for a
/// while, so that not every connection waits for what has just failed (RFC 8305, section 4; the while is that of RFC 6555, 4.2). The
/// order within a family stays the resolver's, which spreads load. Pure: time is a parameter.
struct FamilyMemory {
  private struct Place: Hashable {
    var host: String
    var port: UInt16
  }

  private struct Entry {
    var family: SocketAddress.Family
    var expires: Instant
  }

  static let nanoseconds: Int64 = 600_000_000_000
  static let limit = 256

  private var entries: [Place: Entry] = [:]

  var count: Int { entries.count }

  /// The addresses in the order in which they should be tried.
  mutating func sorted(_ addresses: [SocketAddress], host: String, port: UInt16, now: Instant) -> [SocketAddress] {
    guard !entries.isEmpty, let first = addresses.first else { return addresses }
    let place = Place(host: host, port: port)
    guard let entry = entries[place], entry.family != first.family else { return addresses }
    guard now < entry.expires else {
      entries[place] = nil
      return addresses
    }
    return addresses.filter { $0.family == entry.family } + addresses.filter { $0.family != entry.family }
  }

  /// One of `addresses`, which are in the resolver's order, has won.
  mutating func note(_ winner: SocketAddress, of addresses: [SocketAddress], host: String, port: UInt16, now: Instant) {
    guard let first = addresses.first else { return }
    guard winner.family != first.family else {
      if !entries.isEmpty { entries[Place(host: host, port: port)] = nil }
      return
    }
    let place = Place(host: host, port: port)
    // An entry ends when it was to end, so that the preferred family has its chance again.
    guard entries[place]?.family != winner.family else { return }
    if entries.count >= Self.limit { entries.removeAll() }
    entries[place] = Entry(family: winner.family, expires: now.advanced(byNanoseconds: Self.nanoseconds))
  }
}
