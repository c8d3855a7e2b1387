import LupineRules
import Testing

/// Which link leads to a target.
@Suite struct NetworkPathTests {
  private static let links = [
    Netlink.link(1, "lo", flags: 0x49, hardware: 772), Netlink.link(2, "eth0"), Netlink.link(3, "wlan0"),
    Netlink.link(4, "down0", flags: 0x2),
  ]
  private static let global = [Netlink.address(2, [192, 0, 2, 1]), Netlink.address(3, [198, 51, 100, 1])]
  private static let documentation: [UInt8] = [0x20, 0x01, 0x0D, 0xB8]

  struct Row: Sendable, CustomTestStringConvertible {
    let testDescription: String
    var addresses = global
    let routes: [[UInt8]]
    let target: ReachabilityTarget?
    let link: String?

    init(
      _ name: String, addresses: [[UInt8]] = global, _ routes: [[UInt8]], to target: ReachabilityTarget?,
      _ link: String?
    ) {
      testDescription = name
      self.addresses = addresses
      self.routes = routes
      self.target = target
      self.link = link
    }
  }

  private static let zero: [UInt8] = [0, 0, 0, 0]
  private static let ten: [UInt8] = [10, 0, 0, 0]
  private static let zero6 = [UInt8](repeating: 0, count: 16)
  private static let global6 = documentation + [UInt8](repeating: 0, count: 11) + [1]
  private static let local6: [UInt8] = [0xFE, 0x80] + [UInt8](repeating: 0, count: 13) + [1]

  static let rows: [Row] = [
    Row("no route", [], to: .anywhere, nil),
    Row("a default route", [Netlink.route(zero, 0, link: 2)], to: .anywhere, "eth0"),
    Row("a default route leads to an address", [Netlink.route(zero, 0, link: 2)], to: .v4(203, 0, 113, 1), "eth0"),
    Row("another family", [Netlink.route(zero, 0, link: 2)], to: .v6(documentation), nil),
    Row("not over a link that is down", [Netlink.route(zero, 0, link: 4)], to: .anywhere, nil),
    Row("not over a link that is not there", [Netlink.route(zero, 0, link: 9)], to: .anywhere, nil),
    Row("dead", [Netlink.route(zero, 0, link: 2, flags: 0x1)], to: .anywhere, nil),
    // The flag goes without a word when the link works again.
    Row("marked as without a carrier", [Netlink.route(zero, 0, link: 2, flags: 0x10)], to: .anywhere, "eth0"),
    Row(
      "the lower metric", [Netlink.route(zero, 0, link: 2, metric: 200), Netlink.route(zero, 0, link: 3, metric: 100)],
      to: .anywhere, "wlan0"),
    Row(
      "the one that works", [Netlink.route(zero, 0, link: 4, metric: 1), Netlink.route(zero, 0, link: 3, metric: 100)],
      to: .anywhere, "wlan0"),
    Row(
      "the longer prefix", [Netlink.route(zero, 0, link: 2), Netlink.route(ten, 8, link: 3, metric: 900)],
      to: .v4(10, 1, 2, 3), "wlan0"),
    Row(
      "outside of the longer prefix", [Netlink.route(zero, 0, link: 2), Netlink.route(ten, 8, link: 3)],
      to: .v4(11, 1, 2, 3), "eth0"),
    Row(
      "unreachable", [Netlink.route(zero, 0, link: 2), Netlink.route(ten, 8, link: nil, type: 7)],
      to: .v4(10, 1, 2, 3), nil),
    Row(
      "a throw route before a shorter prefix",
      [Netlink.route(zero, 0, link: 2), Netlink.route(ten, 8, link: nil, type: 9)], to: .v4(10, 1, 2, 3), nil),
    Row(
      "a throw route before another table",
      [
        Netlink.route(zero, 0, link: 2), Netlink.route(ten, 8, link: nil, type: 9),
        Netlink.route(zero, 0, link: 3, table: 253),
      ], to: .v4(10, 1, 2, 3), "wlan0"),
    Row(
      "a throw route behind a route",
      [Netlink.route(ten, 8, link: nil, metric: 9, type: 9), Netlink.route(ten, 8, link: 2)], to: .v4(10, 1, 2, 3),
      "eth0"),
    Row(
      "a throw route beside a black hole",
      [
        Netlink.route(ten, 8, link: nil, type: 9), Netlink.route(ten, 8, link: nil, type: 6),
        Netlink.route(zero, 0, link: 3, table: 253),
      ], to: .v4(10, 1, 2, 3), nil),
    Row("a black hole of last resort", [Netlink.route(zero, 0, link: nil, metric: 9, type: 6)], to: .anywhere, nil),
    Row(
      "a black hole behind a route",
      [Netlink.route(zero, 0, link: nil, metric: 9, type: 6), Netlink.route(zero, 0, link: 2)], to: .anywhere, "eth0"),
    Row(
      "two halves of the space", [Netlink.route(zero, 1, link: 3), Netlink.route([128, 0, 0, 0], 1, link: 3)],
      to: .anywhere, "wlan0"),
    Row(
      "several hops",
      [Netlink.route(zero, 0, link: nil, extra: Netlink.attribute(9, Netlink.hop(2, flags: 1) + Netlink.hop(3)))],
      to: .anywhere, "wlan0"),
    Row(
      "this machine", addresses: [Netlink.address(1, [127, 0, 0, 1], scope: 254)],
      [Netlink.route([127, 0, 0, 0], 8, link: 1, type: 2, table: 255)], to: .v4(127, 0, 0, 1), "lo"),
    Row(
      "local before main",
      [Netlink.route(ten, 8, link: 2), Netlink.route(ten, 7, link: 1, type: 2, table: 255)], to: .v4(10, 0, 0, 1), "lo"),
    Row("no address to send from", addresses: [], [Netlink.route(zero, 0, link: 2)], to: .anywhere, nil),
    Row(
      "an address not yet found to be unique", addresses: [Netlink.address(2, global6, flags: 0x40)],
      [Netlink.route(zero6, 0, link: 2)], to: .anywhere, nil),
    Row(
      "an address of the link only", addresses: [Netlink.address(2, [169, 254, 1, 1], scope: 253)],
      [Netlink.route(zero, 0, link: 2)], to: .anywhere, nil),
    Row(
      "IPv6", addresses: [Netlink.address(2, global6)], [Netlink.route(zero6, 0, link: 2, metric: 1024)],
      to: .anywhere, "eth0"),
    Row(
      "IPv6 with nothing but a link-local address", addresses: [Netlink.address(2, local6, scope: 253)],
      [Netlink.route(zero6, 0, link: 2, metric: 1024)], to: .anywhere, nil),
    Row(
      "a link-local address over its link", addresses: [Netlink.address(3, local6, scope: 253)],
      [Netlink.route([0xFE, 0x80] + zero6.dropFirst(2), 64, link: 3)], to: .v6([0xFE, 0x80], last: 9, link: 3), "wlan0"),
    Row(
      "a link-local address over another link", addresses: [Netlink.address(3, local6, scope: 253)],
      [Netlink.route([0xFE, 0x80] + zero6.dropFirst(2), 64, link: 3)], to: .v6([0xFE, 0x80], last: 9, link: 2), nil),
    Row(
      "the default of old kernels", addresses: [Netlink.address(2, global6)],
      [Netlink.route(zero6, 0, link: 1, metric: .max, type: 7)], to: .anywhere, nil),
  ]

  @Test(arguments: rows) func leadsOver(_ row: Row) throws {
    let machine = Netlink.machine(links: Self.links, addresses: row.addresses, routes: row.routes)
    let table = try #require(machine.table)
    #expect(table.link(to: try #require(row.target))?.name == row.link)
    // The order in which routes became known decides nothing.
    let reversed = Netlink.machine(links: Self.links, addresses: row.addresses, routes: row.routes.reversed())
    #expect(reversed.table?.link(to: try #require(row.target))?.name == row.link)
  }

  static let media: [(name: String, hardware: UInt16, kind: String, facts: LinkFacts, medium: LinkMedium)] = [
    ("eth0", 1, "", LinkFacts(), .wired), ("enp3s0", 1, "", LinkFacts(), .wired),
    ("wlan0", 1, "", LinkFacts(), .wireless), ("wlp2s0", 1, "", LinkFacts(), .wireless),
    ("radio", 1, "", LinkFacts(isWireless: true), .wireless),
    ("radio", 1, "", LinkFacts(deviceType: "wlan"), .wireless),
    ("mon0", 803, "", LinkFacts(), .wireless), ("wwan0", 1, "", LinkFacts(), .cellular),
    ("wwp0s20", 1, "", LinkFacts(), .cellular), ("modem", 1, "", LinkFacts(deviceType: "wwan"), .cellular),
    ("rmnet0", 519, "", LinkFacts(), .cellular), ("usb0", 1, "rmnet", LinkFacts(), .cellular),
    ("tun0", 65534, "tun", LinkFacts(), .wired), ("wlan0", 1, "veth", LinkFacts(), .wired),
    ("wg0", 65534, "wireguard", LinkFacts(), .wired), ("br0", 1, "", LinkFacts(deviceType: "bridge"), .wired),
    ("", 1, "", LinkFacts(), .wired),
    ("rmnet_data0", 1, "", LinkFacts(), .cellular), ("ccmni0", 1, "", LinkFacts(), .cellular),
    ("usb1", 1, "wwan", LinkFacts(), .cellular), ("raw0", 519, "", LinkFacts(), .cellular),
    ("mon1", 801, "", LinkFacts(), .wireless), ("mon2", 802, "", LinkFacts(), .wireless),
  ]

  @Test func media() {
    for row in Self.media {
      var link = NetworkLink(index: 2, name: row.name, hardware: row.hardware, flags: 0x43)
      link.kind = row.kind
      #expect(link.medium(row.facts) == row.medium, "\(row)")
      link.isWireless = true
      #expect(link.medium(LinkFacts()) == .wireless)
      link.flags |= 0x8
      #expect(link.medium(row.facts) == .loopback)
    }
  }
}
