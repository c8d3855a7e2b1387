import LupineBase
import LupineIO
import Testing

@testable import Lupine
@testable import LupineRules

/// A domain is looked up in the one spelling that a URL's host has.
@Suite(.timeLimit(.minutes(1))) struct UnicodeDomainTests {
  static let rows: [(String, asked: String)] = [
    ("bücher.example", "xn--bcher-kva.example"), ("b%C3%BCcher.example", "xn--bcher-kva.example"),
    ("xn--bcher-kva.example", "xn--bcher-kva.example"), ("例え.example", "xn--r8jz45g.example"),
    ("host.example", "host.example"),
  ]

  @Test(arguments: rows) func domainsAreLookedUpAsHosts(_ domain: String, _ name: String) async throws {
    let asked = Locked<[String]>([])
    let resolver = try SystemResolver(lookUp: { host in
      asked.withLock { $0.append(host) }
      return host == name ? .success([.v4(IPv4Address(192, 0, 2, 1), port: 0)]) : .failure(.notFound)
    })
    let manager = NetworkReachabilityManager(
      .domain(domain), resolver: { () throws(IOError) in resolver }, facts: { _ in LinkFacts() })
    var told = manager.statuses.makeAsyncIterator()
    manager.networkChanged(.withDefaultRoute, since: 0)
    #expect(await told.next() == .reachableViaEthernet)
    #expect(asked.withLock { $0 } == [name])
  }

  /// What no request could be sent to has no address either, whether a name server is asked or not.
  @Test(arguments: ["ｂücher.example", "-ü.example", "a..b", "127.1", "fe80::1%nonexistent0"])
  func whatIsNoHostIsNotReachable(_ domain: String) async throws {
    let resolver = try SystemResolver(lookUp: { _ in .failure(.notFound) })
    let manager = NetworkReachabilityManager(
      .domain(domain), resolver: { () throws(IOError) in resolver }, facts: { _ in LinkFacts() })
    var told = manager.statuses.makeAsyncIterator()
    manager.networkChanged(.withDefaultRoute, since: 0)
    #expect(await told.next() == .notReachable)
  }

  /// An address is one, as it is written, or in brackets.
  @Test(arguments: ["192.0.2.1", "2001:db8::1", "[2001:DB8:0::1]"])
  func addressesAreNotLookedUp(_ domain: String) async throws {
    let resolver = try SystemResolver(lookUp: { _ in .failure(.notFound) })
    let manager = NetworkReachabilityManager(
      .domain(domain), resolver: { () throws(IOError) in resolver }, facts: { _ in LinkFacts() })
    var told = manager.statuses.makeAsyncIterator()
    manager.networkChanged(.withDefaultRoutes, since: 0)
    #expect(await told.next() == .reachableViaEthernet)
  }
}
