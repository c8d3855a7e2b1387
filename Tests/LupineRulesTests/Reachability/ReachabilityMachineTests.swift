import LupineRules
import Testing

/// From messages to a table: dumps, events, losses.
@Suite struct ReachabilityMachineTests {
  private static let lo = Netlink.link(1, "lo", flags: 0x49, hardware: 772)
  private static let eth = Netlink.link(2, "eth0")
  private static let own = Netlink.address(2, [192, 0, 2, 1])
  private static let standard = Netlink.route([0, 0, 0, 0], 0, link: 2)

  private func reach(_ machine: ReachabilityMachine) -> String? { machine.table?.link(to: .anywhere)?.name }

  private func connected() -> ReachabilityMachine {
    Netlink.machine(links: [Self.lo, Self.eth], addresses: [Self.own], routes: [Self.standard])
  }

  @Test func asksOneAfterAnother() {
    var machine = ReachabilityMachine()
    #expect(machine.begin() == [.send(NetlinkDump.links.request(sequence: 1))])
    #expect(machine.begin() == [])
    let end = { (number: UInt32) in Netlink.message(3, Netlink.bytes(Int32(0)), sequence: number, flags: 2) }
    #expect(machine.receive(end(7)) == [])
    #expect(machine.receive(end(1)) == [.send(NetlinkDump.addresses.request(sequence: 2))])
    #expect(machine.table == nil)
    #expect(machine.receive(end(2)) == [.send(NetlinkDump.routes.request(sequence: 3))])
    #expect(machine.receive(end(3)) == [.changed])
    #expect(machine.phase == .current && machine.table != nil && reach(machine) == nil)
  }

  /// What could not be sent is not waited for: the next event asks again, or whoever was told of it.
  @Test(arguments: [true, false]) func whatCouldNotBeSentIsAskedAgain(_ isByEvent: Bool) {
    var machine = ReachabilityMachine()
    let early = machine.askAgain()
    _ = machine.begin()
    let refused = machine.refused()
    #expect(machine.phase == .stalled && refused == [.askLater])
    let asked = [ReachabilityMachine.Action.send(NetlinkDump.links.request(sequence: 2))]
    let next = isByEvent ? machine.receive(Netlink.message(16, Self.eth)) : machine.askAgain()
    let later = machine.askAgain()
    #expect(early == [] && next == asked && later == [])
    Netlink.answer(&machine, links: [Self.eth], addresses: [Self.own], routes: [Self.standard], from: 2)
    #expect(machine.phase == .current && reach(machine) == "eth0")
  }

  static let reaches: [(String, String?)] = [
    ("dump-empty-namespace", nil), ("dump-wired-v4", "v0"), ("dump-many-routes", "v0"), ("dump-multipath", "v0"),
    ("link-down", nil), ("link-up-again", "v0"), ("route-vanishes", nil), ("address-vanishes", nil),
    ("route-replaced", "w0"), ("link-local-only", nil), ("one-of-two-gateways-v4", "v0"),
    ("one-of-two-gateways-v6", "v0"), ("one-of-two-gateways-via-v6", "v0"), ("both-gateways-vanish-v6", nil),
  ]

  @Test(arguments: reaches) func captures(_ name: String, _ link: String?) throws {
    var machine = ReachabilityMachine()
    _ = machine.begin()
    for datagram in try Netlink.capture(name) { _ = machine.receive(datagram) }
    #expect(reach(machine) == link)
    #expect(
      try machine.table?.link(to: #require(.v4(127, 0, 0, 1)))?.name == (name == "dump-empty-namespace" ? nil : "lo"))
  }

  @Test func eventsDuringTheFirstDumpCount() {
    var machine = ReachabilityMachine()
    _ = machine.begin()
    #expect(machine.receive(Netlink.message(24, Self.standard, sequence: 99, flags: 0x600)) == [])
    Netlink.answer(&machine, links: [Self.eth], addresses: [Self.own], from: 1)
    #expect(reach(machine) == "eth0")
  }

  @Test func whatChangesIsSaidOnce() {
    var machine = connected()
    #expect(reach(machine) == "eth0")
    #expect(machine.receive(Netlink.message(24, Self.standard)) == [])
    #expect(machine.receive(Netlink.message(25, Self.standard)) == [.changed])
    #expect(machine.receive(Netlink.message(25, Self.standard)) == [])
    #expect(reach(machine) == nil)
    #expect(machine.receive(Netlink.message(24, Self.standard)) == [.changed])
    // A cable that is pulled: still up, no longer running; the route stays.
    #expect(machine.receive(Netlink.message(16, Netlink.link(2, "eth0", flags: 0x3))) == [.changed])
    #expect(reach(machine) == nil && machine.phase == .current)
    // What is over it may have come to life, and is asked for.
    #expect(
      machine.receive(Netlink.message(16, Self.eth))
        == [.send(NetlinkDump.links.request(sequence: 4)), .changed])
    #expect(reach(machine) == "eth0")
  }

  /// The kernel drops the routes of a link that goes down, and says nothing of those of IPv4.
  @Test func silentRemovalsAreAskedFor() {
    for (type, body) in [
      (UInt16(16), Netlink.link(2, "eth0", flags: 0x2)), (17, Self.eth), (21, Self.own),
    ] {
      var machine = connected()
      let actions = machine.receive(Netlink.message(type, body))
      #expect(actions.contains(.changed) && actions.contains(.send(NetlinkDump.links.request(sequence: 4))))
      #expect(reach(machine) == nil)
      // Up again before the answer: without it, the route would still be there.
      _ = machine.receive(Netlink.message(16, Self.eth))
      _ = machine.receive(Netlink.message(20, Self.own))
      #expect(reach(machine) == nil)
      Netlink.answer(&machine, links: [Self.lo, Self.eth], addresses: [Self.own], from: 4)
      #expect(reach(machine) == nil)
      // What came meanwhile may have been more than was told: it is asked for once more.
      if machine.phase != .current {
        Netlink.answer(&machine, links: [Self.lo, Self.eth], addresses: [Self.own], from: 7)
      }
      #expect(reach(machine) == nil && machine.phase == .current)
    }
  }

  @Test func lossesAreMadeGood() {
    var machine = connected()
    #expect(machine.lost() == [.send(NetlinkDump.links.request(sequence: 4))])
    // The table stays in force until the new one is complete.
    #expect(reach(machine) == "eth0")
    // Another loss meanwhile: another dump follows.
    #expect(machine.lost() == [])
    let actions = Netlink.answer(&machine, links: [Self.eth], from: 4)
    #expect(actions.contains(.changed) && actions.contains(.send(NetlinkDump.links.request(sequence: 7))))
    #expect(reach(machine) == nil)
    #expect(machine.receive(Netlink.message(4, [])) == [])
    Netlink.answer(&machine, links: [Self.eth], addresses: [Self.own], routes: [Self.standard], from: 7)
    #expect(reach(machine) == "eth0" && machine.phase == .dumping(.links, sequence: 10))
  }

  @Test func inconsistentDumpsAreRepeatedAndGivenUp() {
    var machine = ReachabilityMachine()
    _ = machine.begin()
    for attempt in 1..<UInt32(ReachabilityMachine.maximumAttempts) {
      // NLM_F_DUMP_INTR.
      let end = Netlink.message(3, Netlink.bytes(Int32(0)), sequence: attempt, flags: 0x12)
      #expect(machine.receive(end) == [.send(NetlinkDump.links.request(sequence: attempt + 1))])
    }
    let refusal = Netlink.message(2, Netlink.bytes(Int32(-1)), sequence: UInt32(ReachabilityMachine.maximumAttempts))
    // What interrupted the dumps was told while they lasted: nothing need follow.
    #expect(machine.receive(refusal) == [.askLater])
    #expect(machine.phase == .stalled && machine.table == nil)
    // The next event is a reason to try again.
    #expect(machine.receive(Netlink.message(16, Self.eth)) == [.send(NetlinkDump.links.request(sequence: 6))])
  }

  @Test func answersOfADumpThatWasGivenUpAreLeftAlone() {
    var machine = connected()
    let stray = Netlink.message(24, Netlink.route([10, 0, 0, 0], 8, link: 2), sequence: 3, flags: 2)
    #expect(machine.receive(stray) == [])
    #expect(machine.table?.numberOfRoutes == 1)
  }

  @Test func tablesAreLimited() {
    var machine = connected()
    for metric in 1...UInt32(NetworkTable.maximumRoutesPerPrefix + 10) {
      _ = machine.receive(Netlink.message(24, Netlink.route([10, 0, 0, 0], 8, link: 2, metric: metric)))
    }
    #expect(machine.table?.numberOfRoutes == NetworkTable.maximumRoutesPerPrefix + 1)
  }
}
