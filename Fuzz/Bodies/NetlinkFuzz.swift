internal import LupineRules

/// Oracle: whatever datagrams come, nothing traps; the table is there only once a dump was complete, and then for good; `changed` is said
/// whenever it differs; who gets no whole answer is told to ask later; requests are whole; a path goes over a link that works, and in the end over
/// the one that a plain look-up finds; a datagram cut short says the same as far as it goes.
///
/// The first byte chooses what is to be reached. Datagrams follow, each behind its length in two bytes, the lower first. The length 65535
/// stands for lost messages, 65534 for the time to ask again, 65533 for a request that could not be sent.
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
      let (before, phase) = (machine.table, machine.phase)
      let actions: [ReachabilityMachine.Action]
      switch length {
      case 0xFFFF: actions = machine.lost()
      case 0xFFFE:
        actions = machine.askAgain()
        precondition(actions.isEmpty == (phase != .stalled), "asked at the wrong time")
      case 0xFFFD: actions = machine.refused()
      default:
        let datagram = Array(rest.prefix(length))
        rest = rest.dropFirst(length)
        checkTruncation(datagram)
        actions = machine.receive(datagram)
      }
      precondition(length < 0xFFFD || !actions.contains(.changed), "news of nobody")
      checkRequests(actions)
      // What is given up is asked for later, unless it has been asked for again.
      let last = actions.last { $0 != .changed }
      let isStalled = last == .askLater || last == nil && phase == .stalled
      precondition(isStalled == (machine.phase == .stalled), "nobody asks again")
      precondition(before == nil || machine.table != nil, "a table was forgotten")
      if machine.table != before { precondition(actions.contains(.changed), "a change was kept silent") }
      precondition(!actions.contains(.changed) || machine.table != nil, "news of no table")
      precondition(machine.phase != .idle)
      if let table = machine.table { check(table, targets) }
    }
    // Once: it takes longer than all before.
    if let table = machine.table { lookUp(targets, in: table) }
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

  // MARK: A plain look-up

  private static func lookUp(_ targets: [ReachabilityTarget], in table: NetworkTable) {
    for case .address(let address, let link) in targets {
      // On a link that is named there is nothing to be looked up.
      if link != nil, isLinkLocal(address.bytes) { continue }
      precondition(
        table.link(to: .address(address, link: link))?.index == plainLink(to: address, in: table),
        "a path over another link than the kernel's")
    }
  }

  /// As the kernel goes about it: one table after the other, and in each of them the best of the routes that match.
  private static func plainLink(to target: InternetAddress, in table: NetworkTable) -> UInt32? {
    let bytes = target.bytes
    for place in [RoutePrefix.Table.local, .main, .default] {
      var matching: [(route: NetworkRoute, link: UInt32?)] = []
      for (prefix, routes) in table.routes where prefix.table == place && prefix.destination.family == target.family {
        guard begins(bytes, with: prefix.destination.bytes, bits: Int(prefix.length)) else { continue }
        for route in routes {
          let link = (1...2).contains(route.type) ? workingLink(of: route, to: target, in: table) : nil
          if link != nil || (6...9).contains(route.type) { matching.append((route: route, link: link)) }
        }
      }
      guard let longest = matching.map({ $0.route.prefix.length }).max() else { continue }
      matching.removeAll { $0.route.prefix.length < longest }
      let lowest = matching.map { $0.route.metric }.min()
      matching.removeAll { $0.route.metric != lowest }
      if matching.contains(where: { (6...8).contains($0.route.type) }) { return nil }
      if matching.contains(where: { $0.route.type == 9 }) { continue }
      return matching.compactMap { $0.link }.min()
    }
    return nil
  }

  private static func begins(_ address: [UInt8], with prefix: [UInt8], bits: Int) -> Bool {
    let (whole, rest) = (bits / 8, bits % 8)
    guard address.prefix(whole) == prefix.prefix(whole) else { return false }
    return rest == 0 || (address[whole] ^ prefix[whole]) >> UInt8(8 - rest) == 0
  }

  private static func isLinkLocal(_ bytes: [UInt8]) -> Bool {
    bytes.count == 4 ? bytes.starts(with: [169, 254]) : bytes[0] == 0xFE && bytes[1] & 0xC0 == 0x80
  }

  private static func workingLink(
    of route: NetworkRoute, to target: InternetAddress, in table: NetworkTable
  ) -> UInt32? {
    func works(_ link: UInt32) -> Bool { table.links[link].map { $0.flags & 0x41 == 0x41 } ?? false }
    return route.hops.first { hop in
      guard hop.flags & 1 == 0, works(hop.link) else { return false }
      if route.type == 2 { return true }
      return table.addresses.values.contains { own in
        own.isUsable && own.address.family == target.family && works(own.link)
          && (own.scope < 253 || own.scope == 253 && own.link == hop.link && isLinkLocal(target.bytes))
      }
    }?.link
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
