import Foundation
import LupineRules

/// Writes messages of NETLINK_ROUTE as the kernel does, in the byte order of the machine.
enum Netlink {
  static func bytes<Number: FixedWidthInteger>(_ number: Number) -> [UInt8] {
    unsafe withUnsafeBytes(of: number) { unsafe Array($0) }
  }

  static func attribute(_ type: UInt16, _ value: [UInt8]) -> [UInt8] {
    let padding = [UInt8](repeating: 0, count: (4 - value.count % 4) % 4)
    return bytes(UInt16(4 + value.count)) + bytes(type) + value + padding
  }

  static func message(_ type: UInt16, _ body: [UInt8], sequence: UInt32 = 0, flags: UInt16 = 0) -> [UInt8] {
    let padding = [UInt8](repeating: 0, count: (4 - body.count % 4) % 4)
    return bytes(UInt32(16 + body.count)) + bytes(type) + bytes(flags) + bytes(sequence) + bytes(UInt32(0)) + body
      + padding
  }

  /// `flags` 0x43: up, running, broadcast.
  static func link(
    _ index: UInt32, _ name: String, flags: UInt32 = 0x43, hardware: UInt16 = 1, extra: [UInt8] = []
  ) -> [UInt8] {
    [0, 0] + bytes(hardware) + bytes(index) + bytes(flags) + bytes(UInt32(0)) + attribute(3, Array(name.utf8) + [0])
      + extra
  }

  static func address(_ link: UInt32, _ address: [UInt8], scope: UInt8 = 0, flags: UInt8 = 0) -> [UInt8] {
    [address.count == 4 ? 2 : 10, 24, flags, scope] + bytes(link) + attribute(1, address)
  }

  static func route(
    _ destination: [UInt8], _ length: UInt8, link: UInt32?, metric: UInt32 = 0, type: UInt8 = 1, table: UInt8 = 254,
    flags: UInt32 = 0, extra: [UInt8] = []
  ) -> [UInt8] {
    [destination.count == 4 ? 2 : 10, length, 0, 0, table, 2, 0, type] + bytes(flags)
      + (length == 0 ? [] : attribute(1, destination)) + (metric == 0 ? [] : attribute(6, bytes(metric)))
      + (link.map { attribute(4, bytes($0)) } ?? []) + extra
  }

  static func hop(_ link: UInt32, flags: UInt8 = 0) -> [UInt8] {
    bytes(UInt16(16)) + [flags, 0] + bytes(link) + attribute(5, [192, 0, 2, 254])
  }

  /// A machine that has been told all this, and has taken it over.
  static func machine(links: [[UInt8]], addresses: [[UInt8]], routes: [[UInt8]]) -> ReachabilityMachine {
    var machine = ReachabilityMachine()
    _ = machine.begin()
    answer(&machine, links: links, addresses: addresses, routes: routes, from: 1)
    return machine
  }

  @discardableResult
  static func answer(
    _ machine: inout ReachabilityMachine, links: [[UInt8]] = [], addresses: [[UInt8]] = [], routes: [[UInt8]] = [],
    from sequence: UInt32
  ) -> [ReachabilityMachine.Action] {
    var actions: [ReachabilityMachine.Action] = []
    for (index, (type, bodies)) in [(UInt16(16), links), (20, addresses), (24, routes)].enumerated() {
      let number = sequence + UInt32(index)
      for body in bodies { actions += machine.receive(message(type, body, sequence: number, flags: 2)) }
      actions += machine.receive(message(3, bytes(Int32(0)), sequence: number, flags: 2))
    }
    return actions
  }

  /// The datagrams of a capture.
  static func capture(_ name: String) throws -> [[UInt8]] {
    let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../../Fuzz/Corpora/Netlink")
    var rest = Array(try Data(contentsOf: folder.appending(path: name))).dropFirst()
    var datagrams: [[UInt8]] = []
    while rest.count >= 2 {
      let length = Int(rest[rest.startIndex]) | Int(rest[rest.startIndex + 1]) << 8
      datagrams.append(Array(rest.dropFirst(2).prefix(length)))
      rest = rest.dropFirst(2 + length)
    }
    return datagrams
  }
}

extension ReachabilityTarget {
  /// Dotted IPv4, or groups of IPv6 without an abbreviation but `::` at the end of a prefix.
  static func v4(_ bytes: UInt8...) -> ReachabilityTarget? {
    InternetAddress(bytes, family: .v4).map { .address($0) }
  }

  static func v6(_ first: [UInt8], last: UInt8 = 1, link: UInt32? = nil) -> ReachabilityTarget? {
    InternetAddress(first + [UInt8](repeating: 0, count: 15 - first.count) + [last], family: .v6)
      .map { .address($0, link: link) }
  }
}
