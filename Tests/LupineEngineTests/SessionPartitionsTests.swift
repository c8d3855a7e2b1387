import LupineIO
import LupineRules
import Testing

@testable import LupineEngine

@Suite struct SessionPartitionsTests {
  private func identity(
    _ user: String? = nil, tunnels: Bool = true, trustDomain: UInt64 = 0
  ) -> ConnectionIdentity {
    var identity = ConnectionIdentity(host: "a.example", serverName: "a.example", port: 443, tls: nil)
    identity.trustDomain = trustDomain
    guard let user else { return identity }
    var route = ProxyRoute(kind: .http, endpoint: .unixSocket(path: "/proxy"), tunnels: tunnels)
    if !user.isEmpty { route.credentials = ProxyCredentials(.password(user: user, password: "p")) }
    identity.route = .proxy(route)
    return identity
  }

  @Test func eachWayHasItsNumber() {
    var partitions = SessionPartitions()
    var local = identity()
    local.localAddress = SocketAddress(literal: "127.0.0.1", port: 0)
    var override = identity()
    override.addressOverride = SocketAddress(literal: "127.0.0.1", port: 443)
    let ways = [identity(), identity(""), identity("a"), identity("b"), local, override]
    var numbers: [UInt64] = []
    for way in ways + ways { numbers.append(partitions.number(for: way)) }
    #expect(numbers.prefix(6) == numbers.suffix(6) && Set(numbers).count == 6 && numbers.first == 0)
    // The usual way has none to remember.
    #expect(partitions.count == 5)
  }

  /// A proxy is shown one user's tickets by that user, however the proxy is used.
  @Test func proxiesKnowTheirUsersApart() {
    var partitions = SessionPartitions()
    var numbers: [UInt64] = []
    for user in ["a", "b", ""] {
      for tunnels in [true, false] { numbers.append(partitions.number(forProxyOf: identity(user, tunnels: tunnels))) }
    }
    #expect(numbers[0] == numbers[1] && numbers[2] == numbers[3] && numbers[0] != numbers[2])
    #expect(numbers[4] == 0 && numbers[5] == 0 && numbers[0] != 0)
  }

  /// With a session go the credentials of its proxies.
  @Test func aTrustDomainIsForgotten() {
    var partitions = SessionPartitions()
    let shared = partitions.number(for: identity("a"))
    let own = partitions.number(for: identity("a", trustDomain: 7))
    let usual = partitions.number(for: identity(trustDomain: 7))
    #expect(shared != own && usual == 0 && partitions.count == 2)
    partitions.forget(7)
    #expect(partitions.count == 1)
    let (again, anew) = (partitions.number(for: identity("a")), partitions.number(for: identity("a", trustDomain: 7)))
    #expect(again == shared && anew != own && anew != shared)
  }

  @Test func thereIsALimit() {
    var partitions = SessionPartitions()
    var numbers: Set<UInt64> = []
    for number in 0..<3 * SessionPartitions.limit { numbers.insert(partitions.number(for: identity("\(number)"))) }
    #expect(numbers.count == 3 * SessionPartitions.limit && partitions.count <= SessionPartitions.limit)
  }

  /// Nor is it shown by one address what another was given.
  @Test func proxiesKnowAddressesApart() {
    var partitions = SessionPartitions()
    var bound = identity("")
    bound.localAddress = SocketAddress(literal: "127.0.0.1", port: 0)
    let (usual, first) = (partitions.number(forProxyOf: identity("")), partitions.number(forProxyOf: bound))
    let again = partitions.number(forProxyOf: bound)
    #expect(usual == 0 && first != 0 && again == first)
  }
}
