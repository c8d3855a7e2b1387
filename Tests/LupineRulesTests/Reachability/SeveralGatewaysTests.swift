import LupineRules
import Testing

/// Routes to one prefix with one metric: told apart by their gateways, as the kernel does.
@Suite struct SeveralGatewaysTests {
  private static let links = [Netlink.link(2, "eth0"), Netlink.link(3, "eth1")]
  private static let addresses = [Netlink.address(2, [192, 0, 2, 1]), Netlink.address(2, v6(1))]

  private static func v6(_ last: UInt8) -> [UInt8] {
    [0x20, 0x01, 0x0D, 0xB8] + [UInt8](repeating: 0, count: 11) + [last]
  }

  /// A default route of IPv4.
  private static func route(_ last: UInt8) -> [UInt8] {
    Netlink.route([0, 0, 0, 0], 0, link: 2, extra: Netlink.attribute(5, [192, 0, 2, last]))
  }

  /// A default route of IPv6: over one link, or several ways that are one route (RTA_MULTIPATH).
  private static func wide(_ hops: (link: UInt32, last: UInt8)..., flags: UInt8 = 0) -> [UInt8] {
    if hops.count == 1 {
      return Netlink.route(
        v6(0), 0, link: hops[0].link, metric: 1024, flags: UInt32(flags), extra: Netlink.attribute(5, v6(hops[0].last)))
    }
    let ways = hops.flatMap { hop in
      Netlink.bytes(UInt16(28)) + [flags, 0] + Netlink.bytes(hop.link) + Netlink.attribute(5, v6(hop.last))
    }
    return Netlink.route(v6(0), 0, link: nil, metric: 1024, extra: Netlink.attribute(9, ways))
  }

  private static func machine(_ routes: [UInt8]...) -> ReachabilityMachine {
    Netlink.machine(links: links, addresses: addresses, routes: routes)
  }

  private func reach(_ machine: ReachabilityMachine) -> String? { machine.table?.link(to: .anywhere)?.name }

  @Test func ofTwoRoutesOneGoes() {
    var machine = Self.machine(Self.route(2))
    #expect(machine.receive(Netlink.message(24, Self.route(3))) == [.changed])
    #expect(machine.receive(Netlink.message(25, Self.route(2))) == [.changed])
    #expect(reach(machine) == "eth0" && machine.phase == .current)
    #expect(machine.receive(Netlink.message(25, Self.route(3))) == [.changed])
    #expect(reach(machine) == nil && machine.phase == .current)
  }

  /// The kernel tells all ways when one is added, in another order than in a dump, and only the one that goes.
  @Test func waysOfOneRouteComeAndGo() {
    var machine = Self.machine(Self.wide((2, 2)))
    #expect(machine.receive(Netlink.message(24, Self.wide((3, 3), (2, 2)))) == [.changed])
    _ = machine.receive(Netlink.message(24, Self.wide((2, 2), (3, 3))))
    _ = machine.receive(Netlink.message(24, Self.wide((2, 2), (3, 3), flags: 0x10)))
    #expect(machine.table?.numberOfRoutes == 1)
    #expect(machine.receive(Netlink.message(25, Self.wide((2, 2)))) == [.changed])
    #expect(machine.table?.numberOfRoutes == 1 && reach(machine) == "eth1")
    #expect(machine.receive(Netlink.message(25, Self.wide((3, 3)))) == [.changed])
    #expect(machine.table?.numberOfRoutes == 0 && machine.phase == .current)
  }

  /// Two gateways over one link that go at once.
  @Test func aWholeRouteGoes() {
    var machine = Self.machine(Self.wide((2, 2), (2, 3)))
    #expect(machine.receive(Netlink.message(25, Self.wide((2, 3), (2, 2)))) == [.changed])
    #expect(machine.table?.numberOfRoutes == 0 && machine.phase == .current)
  }

  /// A router that advertises itself has a route of its own beside those that share one.
  @Test func aRouteBesideOneOfSeveralWays() {
    var machine = Self.machine(Self.wide((2, 2), (2, 3)))
    #expect(machine.receive(Netlink.message(24, Self.wide((3, 4)))) == [.changed])
    #expect(machine.receive(Netlink.message(25, Self.wide((3, 4)))) == [.changed])
    #expect(machine.table?.numberOfRoutes == 1 && reach(machine) == "eth0")
  }

  /// What goes is none of those that are known: everything is asked for.
  @Test func anUnknownRouteThatGoesIsAskedFor() {
    for unknown in [Self.route(9), Netlink.route([0, 0, 0, 0], 0, link: 2)] {
      var machine = Self.machine(Self.route(2))
      #expect(machine.receive(Netlink.message(25, unknown)) == [.send(NetlinkDump.links.request(sequence: 4))])
    }
    var machine = Self.machine(Self.wide((2, 2), (2, 3)))
    for unknown in [
      Self.wide((2, 9)), Self.wide((2, 2), (2, 9)), Netlink.route(Self.v6(0), 0, link: nil, metric: 1024),
    ] {
      #expect(machine.receive(Netlink.message(25, unknown)) == [.send(NetlinkDump.links.request(sequence: 4))])
      #expect(machine.table?.numberOfRoutes == 1 && reach(machine) == "eth0")
      machine = Self.machine(Self.wide((2, 2), (2, 3)))
    }
    // There is none like it: the table is as it should be.
    #expect(machine.receive(Netlink.message(25, Netlink.route([10, 0, 0, 0], 8, link: 2))) == [])
    #expect(machine.receive(Netlink.message(25, Self.route(2))) == [])
    #expect(machine.phase == .current)
  }

  /// The kernel replaces the first of several routes of IPv4, and does not say which.
  @Test func replacingOneOfTwoIsAskedFor() {
    var machine = Self.machine(Self.route(2), Self.route(3))
    let actions = machine.receive(Netlink.message(24, Self.route(4), flags: 0x100))
    #expect(actions == [.send(NetlinkDump.links.request(sequence: 4)), .changed])
    Netlink.answer(
      &machine, links: Self.links, addresses: Self.addresses, routes: [Self.route(4), Self.route(3)], from: 4)
    _ = machine.receive(Netlink.message(25, Self.route(4)))
    #expect(reach(machine) == "eth0" && machine.phase == .current)
    // One that is replaced alone is no secret.
    #expect(machine.receive(Netlink.message(24, Self.route(5), flags: 0x100)) == [.changed])
    #expect(machine.table?.numberOfRoutes == 1)
    #expect(machine.receive(Netlink.message(24, Self.route(5), flags: 0x100)) == [])
  }

  /// One that takes the place of another may be known already: then there is one less.
  @Test func replacingOneByAnother() {
    var machine = Self.machine(Self.route(2), Self.route(3))
    let actions = machine.receive(Netlink.message(24, Self.route(3), flags: 0x100))
    #expect(actions.first == .send(NetlinkDump.links.request(sequence: 4)))
    Netlink.answer(&machine, links: Self.links, addresses: Self.addresses, routes: [Self.route(3)], from: 4)
    #expect(reach(machine) == "eth0" && machine.table?.numberOfRoutes == 1)
  }
}
