import LupineRules
import Testing

/// What the kernel says, read from captures of a network namespace (Linux 6) and from messages made by hand.
@Suite struct NetlinkDecoderTests {
  static let captures = [
    "dump-empty-namespace", "dump-wired-v4", "dump-many-routes", "dump-multipath", "link-down", "link-up-again",
    "route-vanishes", "address-vanishes", "route-replaced", "link-local-only", "one-of-two-gateways-v4",
    "one-of-two-gateways-v6", "one-of-two-gateways-via-v6", "both-gateways-vanish-v6",
  ]

  @Test(arguments: captures) func capturesAreReadWhole(_ name: String) throws {
    let datagrams = try Netlink.capture(name)
    #expect(datagrams.count >= 4)
    for datagram in datagrams {
      let (messages, isMalformed) = NetlinkDecoder.decode(datagram)
      #expect(!isMalformed && !messages.isEmpty)
    }
  }

  /// Cut anywhere, a datagram says the same as far as it goes, and that it was cut.
  @Test(arguments: captures) func everyTruncation(_ name: String) throws {
    for datagram in try Netlink.capture(name) {
      let whole = NetlinkDecoder.decode(datagram).messages
      var missed = 0
      // A long one takes too long where nothing is optimised. Five, so that each place within words of four is met.
      let step = datagram.count > 400 ? 5 : 1
      for length in stride(from: 0, to: datagram.count, by: step) {
        let (messages, isMalformed) = NetlinkDecoder.decode(Array(datagram[..<length]))
        guard messages.count <= whole.count, whole.starts(with: messages) else {
          Issue.record("cut behind \(length) bytes it says something else")
          return
        }
        // Not cut inside a message: between two of them, or in the padding of the last.
        if !isMalformed { missed += 1 }
      }
      #expect(missed <= whole.count * (step == 1 ? 4 : 1))
    }
  }

  @Test func readsACapturedDump() throws {
    let messages = try Netlink.capture("dump-wired-v4").flatMap { NetlinkDecoder.decode($0).messages }
    let links = messages.compactMap { if case .link(let link) = $0.message { link } else { nil } }
    #expect(Set(links.map(\.name)) == ["lo", "v0", "v1"])
    #expect(links.first { $0.name == "lo" }?.isLoopback == true)
    let wired = try #require(links.first { $0.name == "v0" })
    #expect(wired.kind == "veth" && wired.hardware == 1 && wired.flags & 0x41 == 0x41 && !wired.isWireless)
    let addresses = messages.compactMap { if case .address(let address) = $0.message { address } else { nil } }
    #expect(
      addresses.contains { $0.address == InternetAddress([192, 0, 2, 1], family: .v4) && $0.link == wired.index })
    #expect(addresses.contains { $0.address.family == .v6 })
    let routes = messages.compactMap { if case .route(let route, _) = $0.message { route } else { nil } }
    let standard = try #require(routes.first { $0.prefix.length == 0 && $0.prefix.destination.family == .v4 })
    #expect(standard.hops.map(\.link) == [wired.index] && standard.type == 1 && standard.prefix.table == .main)
    #expect(messages.allSatisfy { $0.isPart && !$0.isInterrupted })
    #expect(messages.count { $0.message == .done(error: 0) } == 3)
  }

  struct Row: Sendable, CustomTestStringConvertible {
    let name: String
    let bytes: [UInt8]
    let message: NetlinkMessage?
    var isMalformed = false
    var testDescription: String { name }
  }

  static let header: [UInt8] = Netlink.message(16, [])
  static let rows: [Row] = [
    Row(name: "nothing", bytes: [], message: nil),
    Row(name: "less than a header", bytes: [16, 0, 0, 0, 3], message: nil, isMalformed: true),
    Row(
      name: "a length below a header", bytes: Netlink.bytes(UInt32(15)) + header.dropFirst(4), message: nil,
      isMalformed: true),
    Row(
      name: "a length of nothing", bytes: Netlink.bytes(UInt32(0)) + header.dropFirst(4), message: nil,
      isMalformed: true),
    Row(
      name: "a length past the end", bytes: Netlink.bytes(UInt32.max) + header.dropFirst(4), message: nil,
      isMalformed: true),
    Row(name: "a link without a body", bytes: header, message: nil, isMalformed: true),
    Row(
      name: "an address without a body", bytes: Netlink.message(20, [2, 0, 0]), message: nil, isMalformed: true),
    Row(name: "a route without a body", bytes: Netlink.message(24, [2, 0, 0]), message: nil, isMalformed: true),
    Row(name: "an error without a code", bytes: Netlink.message(2, [1]), message: nil, isMalformed: true),
    Row(name: "an error", bytes: Netlink.message(2, Netlink.bytes(Int32(-16))), message: .error(-16)),
    Row(name: "an end without a code", bytes: Netlink.message(3, []), message: .done(error: 0)),
    Row(name: "an end that failed", bytes: Netlink.message(3, Netlink.bytes(Int32(-4))), message: .done(error: -4)),
    Row(name: "an overrun", bytes: Netlink.message(4, []), message: .overrun),
    Row(name: "a rule", bytes: Netlink.message(32, [1, 2, 3]), message: .other),
    Row(
      name: "a link that goes", bytes: Netlink.message(17, Netlink.link(7, "eth0")), message: .linkRemoved(index: 7)),
    Row(
      name: "a port that leaves its bridge",
      bytes: Netlink.message(17, [7] + Netlink.link(7, "eth0").dropFirst()), message: .other),
    Row(
      name: "an attribute that ends the list",
      bytes: Netlink.message(
        16, Netlink.link(2, "eth0", extra: [3, 0, 11, 0] + Netlink.attribute(11, [1]))),
      message: .link(NetworkLink(index: 2, name: "eth0", hardware: 1, flags: 0x43))),
    Row(
      name: "an address of five bytes",
      bytes: Netlink.message(20, [2, 24, 0, 0, 2, 0, 0, 0] + Netlink.attribute(1, [1, 2, 3, 4, 5])),
      message: .other),
    Row(
      name: "an address of another family", bytes: Netlink.message(20, [28, 24, 0, 0, 2, 0, 0, 0]), message: .other),
    Row(
      name: "a prefix longer than its family",
      bytes: Netlink.message(24, Netlink.route([10, 0, 0, 0], 33, link: 2)), message: .other),
    Row(
      name: "a route of another table",
      bytes: Netlink.message(24, Netlink.route([10, 0, 0, 0], 8, link: 2, table: 100)), message: .other),
    Row(
      name: "an entry of the cache",
      bytes: Netlink.message(24, Netlink.route([10, 0, 0, 0], 8, link: 2, flags: 0x200)), message: .other),
  ]

  @Test(arguments: rows) func readsOrRefuses(_ row: Row) {
    let (messages, isMalformed) = NetlinkDecoder.decode(row.bytes)
    #expect(messages.map(\.message) == (row.message.map { [$0] } ?? []))
    #expect(isMalformed == row.isMalformed)
  }

  /// What follows a message that makes no sense is still read.
  @Test func oneBadMessageDoesNotHideTheNext() {
    let (messages, isMalformed) = NetlinkDecoder.decode(
      Netlink.message(24, [2]) + Netlink.message(16, Netlink.link(3, "wlan0")))
    #expect(isMalformed && messages.count == 1)
  }

  @Test func addressesAndFlags() throws {
    func address(_ body: [UInt8]) -> NetworkAddress? {
      guard case .address(let address) = NetlinkDecoder.decode(Netlink.message(20, body)).messages.first?.message else {
        return nil
      }
      return address
    }
    // The first of a point-to-point link is the peer's.
    let local = Netlink.address(4, [10, 0, 0, 1]) + Netlink.attribute(2, [10, 0, 0, 2])
    #expect(address(local)?.address == InternetAddress([10, 0, 0, 2], family: .v4))
    #expect(address(Netlink.address(4, [10, 0, 0, 1], scope: 253, flags: 0x40))?.isUsable == false)
    #expect(address(Netlink.address(4, [10, 0, 0, 1], flags: 0x80))?.isUsable == true)
    // The long flags win over the short ones.
    let long = Netlink.address(4, [10, 0, 0, 1]) + Netlink.attribute(8, Netlink.bytes(UInt32(0x08)))
    #expect(address(long)?.isUsable == false)
    #expect(InternetAddress([1, 2, 3], family: .v4) == nil && InternetAddress([1, 2, 3, 4], family: .v6) == nil)
  }

  @Test func requestsAreWhole() {
    for dump in NetlinkDump.allCases {
      let request = dump.request(sequence: 0x01020304)
      #expect(Array(request.prefix(4)) == Netlink.bytes(UInt32(request.count)))
      #expect(Array(request[4..<6]) == Netlink.bytes(dump.rawValue))
      #expect(Array(request[6..<8]) == Netlink.bytes(UInt16(0x301)))
      #expect(Array(request[8..<12]) == Netlink.bytes(UInt32(0x01020304)))
    }
  }
}
