internal import LupineRules

/// Oracle: whatever datagrams come, nothing traps; the table is there only once a dump was complete, and then for good; `changed` is said
/// whenever it differs; requests are whole; a path goes over a link that works; a datagram cut short says the same as far as it goes.
///
/// The first byte chooses what is to be reached. Datagrams follow, each behind its length in two bytes, the lower first; the length 65535
/// stands for lost messages.
package enum NetlinkFuzz {
  package static func run(bytes: [UInt8]) {
    guard let option = bytes.first else { return }
    let targets = targets(option)
    var machine = ReachabilityMachine()
    checkRequests(machine.begin())
    precondition(machine.begin().isEmpty, "a machine begins once")
    var rest = bytes.dropFirst()
    while rest.count >= 2 {
      let length = Int(rest[rest.startIndex]) | Int(rest[rest.startIndex + 1]) << 8
      rest = rest.dropFirst(2)
      let before = machine.table
      let actions: [ReachabilityMachine.Action]
      if length == 0xFFFF {
        actions = machine.lost()
        precondition(!actions.contains(.changed), "a loss is no news")
      } else {
        let datagram = Array(rest.prefix(length))
        rest = rest.dropFirst(length)
        checkTruncation(datagram)
        actions = machine.receive(datagram)
      }
      checkRequests(actions)
      precondition(before == nil || machine.table != nil, "a table was forgotten")
      if machine.table != before { precondition(actions.contains(.changed), "a change was kept silent") }
      precondition(!actions.contains(.changed) || machine.table != nil, "news of no table")
      precondition(machine.phase != .idle)
      if let table = machine.table { check(table, targets) }
    }
  }

  private static func targets(_ option: UInt8) -> [ReachabilityTarget] {
    let addresses: [(InternetAddress.Family, [UInt8])] = [
      (.v4, [192, 0, 2, 1]), (.v4, [10, 66, option, 1]), (.v4, [127, 0, 0, 1]), (.v4, [169, 254, 1, option]),
      (.v6, [0x20, 0x01, 0x0D, 0xB8] + [UInt8](repeating: option, count: 12)),
      (.v6, [0xFE, 0x80] + [UInt8](repeating: 0, count: 13) + [1]),
    ]
    return [.anywhere]
      + addresses.compactMap { family, bytes in
        InternetAddress(bytes, family: family).map { .address($0, link: option & 1 == 0 ? nil : UInt32(option)) }
      }
  }

  private static func check(_ table: NetworkTable, _ targets: [ReachabilityTarget]) {
    precondition(table.links.count <= NetworkTable.maximumLinks)
    precondition(table.addresses.count <= NetworkTable.maximumAddresses)
    precondition(table.numberOfRoutes <= NetworkTable.maximumRoutes)
    precondition(table.numberOfRoutes == table.routes.values.reduce(0) { $0 + $1.count }, "routes are miscounted")
    precondition(table.routes.values.allSatisfy { !$0.isEmpty && $0.count <= NetworkTable.maximumRoutesPerPrefix })
    for (index, link) in table.links { precondition(link.index == index) }
    for target in targets {
      guard let link = table.link(to: target) else { continue }
      precondition(table.links[link.index] == link, "a path over a link that is not there")
      precondition(link.flags & 0x41 == 0x41, "a path over a link that does not work")
      _ = link.medium(LinkFacts())
    }
  }

  private static func checkRequests(_ actions: [ReachabilityMachine.Action]) {
    for case .send(let request) in actions {
      let (messages, isMalformed) = NetlinkDecoder.decode(request)
      precondition(messages.count == 1 && !isMalformed, "a request is not one message")
    }
    precondition(actions.count { $0 == .changed } <= 1)
  }

  private static func checkTruncation(_ datagram: [UInt8]) {
    let (messages, _) = NetlinkDecoder.decode(datagram)
    _ = RouteQuery.interface(in: datagram)
    _ = RouteQuery.link(in: datagram)
    precondition(messages.count * 16 <= datagram.count, "more messages than headers")
    let (some, isMalformed) = NetlinkDecoder.decode(Array(datagram.dropLast()))
    precondition(messages.starts(with: some), "what is cut off changes what stands before it")
    precondition(isMalformed || some.count == messages.count, "a message that is cut is not missed")
  }
}
