import LupineRules
import Testing

/// Questions about one route or link, and answers made by hand.
@Suite struct RouteQueryTests {
  private func address(_ bytes: [UInt8]) throws -> InternetAddress {
    try #require(InternetAddress(bytes, family: bytes.count == 4 ? .v4 : .v6))
  }

  @Test func questionsAreWhole() throws {
    let old = RouteQuery.route(to: try address([192, 0, 2, 1]))
    #expect(
      old
        == Netlink.bytes(UInt32(36)) + Netlink.bytes(UInt16(26)) + Netlink.bytes(UInt16(1)) + Netlink.bytes(UInt32(1))
        + Netlink.bytes(UInt32(0)) + [2, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        + Netlink.attribute(1, [192, 0, 2, 1]))
    let bytes: [UInt8] = [0xFE, 0x80] + [UInt8](repeating: 0, count: 13) + [7]
    let linkLocal = RouteQuery.route(to: try address(bytes), over: 3)
    #expect(linkLocal.count == 56 && linkLocal[16] == 10 && linkLocal[17] == 128)
    #expect(
      Array(linkLocal[28...]) == Netlink.attribute(1, bytes) + Netlink.attribute(4, Netlink.bytes(UInt32(3))))
    // The interface is of no matter to other addresses.
    #expect(RouteQuery.route(to: try address([192, 0, 2, 1]), over: 3) == old)
    // Nor is a source of the other family.
    #expect(RouteQuery.route(to: try address([192, 0, 2, 1]), from: try address(bytes)) == old)
    let bound = RouteQuery.route(to: try address([192, 0, 2, 1]), from: try address([192, 0, 2, 9]))
    #expect(bound.count == 44 && Array(bound[16..<28]) == [2, 32, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    #expect(
      Array(bound[28...]) == Netlink.attribute(1, [192, 0, 2, 1]) + Netlink.attribute(2, [192, 0, 2, 9]))
    let link = RouteQuery.link(5)
    #expect(link.count == 32 && Array(link[20..<24]) == Netlink.bytes(UInt32(5)))
  }

  /// The kernel marks its answer as an entry of a cache, which a table of routes would leave out.
  @Test func answersNameAnInterface() {
    let answer = Netlink.message(24, Netlink.route([192, 0, 2, 1], 32, link: 7, flags: 0x200))
    #expect(RouteQuery.interface(in: answer) == 7)
    for length in 0..<answer.count { #expect(RouteQuery.interface(in: Array(answer[..<length])) == nil) }
    #expect(RouteQuery.interface(in: Netlink.message(2, Netlink.bytes(Int32(-101)))) == nil)
    #expect(RouteQuery.interface(in: Netlink.message(24, [2, 0, 0])) == nil)
  }

  @Test func answersDescribeAnInterface() {
    let answer = Netlink.message(16, Netlink.link(7, "wwan0"))
    #expect(RouteQuery.link(in: answer)?.name == "wwan0")
    #expect(RouteQuery.link(in: answer)?.medium(LinkFacts()) == .cellular)
    #expect(RouteQuery.link(in: Netlink.message(2, Netlink.bytes(Int32(-19)))) == nil && RouteQuery.link(in: []) == nil)
  }

  /// Numbers make the addresses that bytes make; IPv4 in IPv6 is IPv4.
  @Test func addressesOfNumbers() throws {
    #expect(InternetAddress(v4: 0xC000_0201) == (try address([192, 0, 2, 1])))
    #expect(InternetAddress(v6: 0, 0xFFFF_C000_0201) == (try address([192, 0, 2, 1])))
    #expect(InternetAddress(v6: 0, 1) == (try address([UInt8](repeating: 0, count: 15) + [1])))
  }
}
