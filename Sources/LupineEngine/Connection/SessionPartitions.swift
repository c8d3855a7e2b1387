import LupineIO

/// Numbers the ways to origins, so that a TLS session is resumed on the way on which it was made, and on no other. The server knows its ticket again, and of
/// TLS 1.2 whoever saw it given does too: who takes a proxy, or other credentials at it, so as not to be known again would be (RFC 8446 appendix C.4).
/// Lives on the loop.
struct SessionPartitions {
  private struct Way: Hashable {
    var route = ConnectionIdentity.Route.direct
    var addressOverride: SocketAddress?
    var localAddress: SocketAddress?
  }

  /// Past this, all are forgotten, and their sessions with them.
  static let limit = 1024
  private var numbers: [Way: UInt64] = [:]
  private var last: UInt64 = 0

  /// 0 for the way that needs no setting.
  mutating func number(for identity: ConnectionIdentity) -> UInt64 {
    number(
      Way(
        route: identity.route, addressOverride: identity.addressOverride, localAddress: identity.localAddress))
  }

  /// Of the TLS with the proxy itself, which `identity` names.
  mutating func number(forProxyOf identity: ConnectionIdentity) -> UInt64 {
    number(Way(localAddress: identity.localAddress))
  }

  private mutating func number(_ way: Way) -> UInt64 {
    guard way != Way() else { return 0 }
    if let known = numbers[way] { return known }
    if numbers.count >= Self.limit { numbers.removeAll() }
    last += 1
    numbers[way] = last
    return last
  }
}
