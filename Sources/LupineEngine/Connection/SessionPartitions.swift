import LupineIO

/// Numbers the ways to origins, so that a TLS session is resumed on the way on which it was made, and on no other. The server knows its ticket again, and of
/// TLS 1.2 whoever saw it given does too: who takes a proxy, or other credentials at it, so as not to be known again would be (RFC 8446 appendix C.4).
/// Lives on the loop.
struct SessionPartitions {
  private struct Way: Hashable {
    var route = ConnectionIdentity.Route.direct
    var addressOverride: SocketAddress?
    var localAddress: SocketAddress?
    /// That of a session which shares with nobody: its ways go with it.
    var trustDomain: UInt64 = 0
  }

  /// Past this, all are forgotten, and nobody finds their sessions any more.
  static let limit = 1024
  private var numbers: [Way: UInt64] = [:]
  private var last: UInt64 = 0

  var count: Int { numbers.count }

  /// 0 for the way that needs no setting.
  mutating func number(for identity: ConnectionIdentity) -> UInt64 {
    let way = Way(
      route: identity.route, addressOverride: identity.addressOverride, localAddress: identity.localAddress)
    return number(way, identity.trustDomain)
  }

  /// Of the TLS with the proxy itself: it knows whose credentials it is shown.
  mutating func number(forProxyOf identity: ConnectionIdentity) -> UInt64 {
    var way = Way(localAddress: identity.localAddress)
    if case .proxy(let route) = identity.route, route.credentials != nil { way.route = .proxy(route.party) }
    return number(way, identity.trustDomain)
  }

  /// Forgets the ways of a trust domain, with the credentials of their proxies.
  mutating func forget(_ trustDomain: UInt64) {
    numbers = numbers.filter { $0.key.trustDomain != trustDomain }
  }

  private mutating func number(_ way: Way, _ trustDomain: UInt64) -> UInt64 {
    guard way != Way() else { return 0 }
    var way = way
    way.trustDomain = trustDomain
    if let known = numbers[way] { return known }
    if numbers.count >= Self.limit { numbers.removeAll() }
    last += 1
    numbers[way] = last
    return last
  }
}
