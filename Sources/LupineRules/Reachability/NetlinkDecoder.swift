/// What the kernel says in one message of NETLINK_ROUTE (rtnetlink(7)).
package enum NetlinkMessage: Equatable, Sendable {
  /// RTM_NEWLINK: an interface, new or changed.
  case link(NetworkLink)
  /// RTM_DELLINK.
  case linkRemoved(index: UInt32)
  /// RTM_NEWADDR: an address, new or changed.
  case address(NetworkAddress)
  /// RTM_DELADDR.
  case addressRemoved(NetworkAddress)
  /// RTM_NEWROUTE. `replaces`: it stands in for the routes of the same prefix and metric (NLM_F_REPLACE).
  case route(NetworkRoute, replaces: Bool)
  /// RTM_DELROUTE.
  case routeRemoved(NetworkRoute)
  /// The end of a dump; `error` is a negative errno of a dump that failed half-way, or 0.
  case done(error: Int32)
  /// The answer to a request that failed, a negative errno; 0 is an acknowledgement.
  case error(Int32)
  /// Messages were lost.
  case overrun
  /// Something that says nothing about reachability.
  case other
}

/// A message with what its header says.
package struct NetlinkEnvelope: Equatable, Sendable {
  /// The number of the request that it answers; of an event, that of the request of somebody else who caused it.
  package var sequence: UInt32
  /// It is one of many that answer a request (NLM_F_MULTI); an event is not.
  package var isPart: Bool
  /// The dump that it belongs to is inconsistent: something changed meanwhile (NLM_F_DUMP_INTR).
  package var isInterrupted: Bool
  package var message: NetlinkMessage
}

/// Reads datagrams of NETLINK_ROUTE. Numbers are in the byte order of the machine. Every length is checked; what is too short for what it
/// says it is makes the datagram malformed, attributes of unknown or wrong size are left out. One pass: linear in the bytes.
package enum NetlinkDecoder {
  /// - Returns: the messages, and whether something could not be read; the messages before it are returned too.
  package static func decode(_ bytes: [UInt8]) -> (messages: [NetlinkEnvelope], isMalformed: Bool) {
    var messages: [NetlinkEnvelope] = []
    var isMalformed = false
    var rest = NetlinkBytes(bytes[...])
    while !rest.isEmpty {
      // nlmsghdr: length, type, flags, sequence, port.
      guard let length = rest.uint32(at: 0), length >= 16, let all = rest.prefix(Int(length)),
        let type = all.uint16(at: 4), let flags = all.uint16(at: 6), let sequence = all.uint32(at: 8)
      else { return (messages, true) }
      if let message = message(type, flags, all.dropping(16)) {
        messages.append(
          NetlinkEnvelope(
            sequence: sequence, isPart: flags & 0x2 != 0, isInterrupted: flags & 0x10 != 0, message: message))
      } else {
        isMalformed = true
      }
      rest = rest.dropping(NetlinkBytes.aligned(Int(length)))
    }
    return (messages, isMalformed)
  }

  private static func message(_ type: UInt16, _ flags: UInt16, _ body: NetlinkBytes) -> NetlinkMessage? {
    switch type {
    case 2: body.int32(at: 0).map { .error($0) }
    // The code is missing in dumps of old kernels.
    case 3: .done(error: body.int32(at: 0) ?? 0)
    case 4: .overrun
    case 16, 17: link(body, isRemoved: type == 17)
    case 20, 21: address(body).map { $0.map { type == 21 ? .addressRemoved($0) : .address($0) } ?? .other }
    case 24, 25:
      route(body).map { $0.map { type == 25 ? .routeRemoved($0) : .route($0, replaces: flags & 0x100 != 0) } ?? .other }
    default: .other
    }
  }

  /// ifinfomsg: family, pad, hardware type, index, flags, change.
  private static func link(_ body: NetlinkBytes, isRemoved: Bool) -> NetlinkMessage? {
    guard let family = body.uint8(at: 0), let hardware = body.uint16(at: 2), let index = body.uint32(at: 4),
      let flags = body.uint32(at: 8), body.count >= 16
    else { return nil }
    // Messages of another family speak of a part of the interface: the removal of a bridge's port is none of the interface.
    guard family == 0 else { return .other }
    if isRemoved { return .linkRemoved(index: index) }
    var link = NetworkLink(index: index, name: "", hardware: hardware, flags: flags)
    for attribute in NetlinkAttributes(body.dropping(16)) {
      switch attribute.type {
      case 3: link.name = attribute.value.text
      case 11: link.isWireless = true
      case 18:
        for part in NetlinkAttributes(attribute.value) where part.type == 1 { link.kind = part.value.text }
      default: break
      }
    }
    return .link(link)
  }

  /// ifaddrmsg: family, prefix length, flags, scope, index. The inner nil: a family that is none of ours.
  private static func address(_ body: NetlinkBytes) -> NetworkAddress?? {
    guard let family = body.uint8(at: 0), let shortFlags = body.uint8(at: 2), let scope = body.uint8(at: 3),
      let index = body.uint32(at: 4)
    else { return nil }
    guard let family = InternetAddress.Family(rawValue: family) else { return .some(nil) }
    var flags = UInt32(shortFlags)
    var (address, local): (InternetAddress?, InternetAddress?)
    for attribute in NetlinkAttributes(body.dropping(8)) {
      switch attribute.type {
      case 1: address = InternetAddress(attribute.value.bytes, family: family)
      case 2: local = InternetAddress(attribute.value.bytes, family: family)
      case 8: flags = attribute.value.uint32(at: 0) ?? flags
      default: break
      }
    }
    // On a point-to-point link the first is the peer's.
    guard let own = local ?? address else { return .some(nil) }
    // IFA_F_DADFAILED, IFA_F_TENTATIVE: nobody can use it now.
    return NetworkAddress(link: index, address: own, scope: scope, isUsable: flags & 0x48 == 0)
  }

  /// rtmsg: family, lengths of destination and source, type of service, table, protocol, scope, type, flags. The inner nil: nothing that a
  /// look-up in the tables `main`, `default` and `local` would find.
  private static func route(_ body: NetlinkBytes) -> NetworkRoute?? {
    guard let family = body.uint8(at: 0), let length = body.uint8(at: 1), let service = body.uint8(at: 3),
      let shortTable = body.uint8(at: 4), let type = body.uint8(at: 7), let flags = body.uint32(at: 8)
    else { return nil }
    // RTM_F_CLONED: an entry of a cache.
    guard let family = InternetAddress.Family(rawValue: family), Int(length) <= family.width, flags & 0x200 == 0 else {
      return .some(nil)
    }
    var table = UInt32(shortTable)
    var destination: InternetAddress? = .zero(family)
    var route = NetworkRoute(
      prefix: RoutePrefix(table: .main, destination: .zero(family), length: length), service: service, metric: 0,
      type: type, hops: [])
    var outgoing: UInt32?
    var gateway: InternetAddress?
    for attribute in NetlinkAttributes(body.dropping(12)) {
      switch attribute.type {
      case 1: destination = InternetAddress(attribute.value.bytes, family: family)
      case 4: outgoing = attribute.value.uint32(at: 0) ?? outgoing
      case 6: route.metric = attribute.value.uint32(at: 0) ?? 0
      case 9: route.hops += hops(attribute.value, family)
      case 15: table = attribute.value.uint32(at: 0) ?? table
      default: gateway = self.gateway(attribute, family) ?? gateway
      }
    }
    guard let destination, let table = RoutePrefix.Table(rawValue: table) else { return .some(nil) }
    route.prefix = RoutePrefix(table: table, destination: destination, length: length)
    if let outgoing {
      route.hops.append(RouteHop(link: outgoing, flags: UInt8(truncatingIfNeeded: flags), gateway: gateway))
    }
    return route
  }

  /// rtnexthop: length, flags, weight, interface; attributes follow.
  private static func hops(_ value: NetlinkBytes, _ family: InternetAddress.Family) -> [RouteHop] {
    var hops: [RouteHop] = []
    var rest = value
    while let length = rest.uint16(at: 0), length >= 8, let hop = rest.prefix(Int(length)),
      let flags = hop.uint8(at: 2), let link = hop.uint32(at: 4)
    {
      var gateway: InternetAddress?
      for attribute in NetlinkAttributes(hop.dropping(8)) { gateway = self.gateway(attribute, family) ?? gateway }
      hops.append(RouteHop(link: link, flags: flags, gateway: gateway))
      rest = rest.dropping(NetlinkBytes.aligned(Int(length)))
    }
    return hops
  }

  /// RTA_GATEWAY, an address of the route's family, or RTA_VIA, which is rtvia: family, address. Nil: it says of none.
  private static func gateway(
    _ attribute: NetlinkAttributes.Attribute, _ family: InternetAddress.Family
  ) -> InternetAddress? {
    switch attribute.type {
    case 5: return InternetAddress(attribute.value.bytes, family: family)
    case 18:
      guard let number = attribute.value.uint16(at: 0).flatMap(UInt8.init(exactly:)),
        let family = InternetAddress.Family(rawValue: number)
      else { return nil }
      return InternetAddress(attribute.value.dropping(2).bytes, family: family)
    default: return nil
    }
  }
}

/// A request for everything that the kernel knows of one kind.
package enum NetlinkDump: UInt16, Hashable, Sendable, CaseIterable {
  /// RTM_GETLINK.
  case links = 18
  /// RTM_GETADDR.
  case addresses = 22
  /// RTM_GETROUTE.
  case routes = 26

  /// The datagram that asks for it: a header with NLM_F_REQUEST and NLM_F_DUMP, and a body of zeros, which stand for everything.
  package func request(sequence: UInt32) -> [UInt8] {
    let body =
      switch self {
      case .links: 16
      case .addresses: 8
      case .routes: 12
      }
    var bytes: [UInt8] = []
    for value in [UInt32(16 + body), UInt32(rawValue) | 0x301 << 16, sequence, 0] {
      // On a machine that writes the high byte first, the type has to come first too.
      #if _endian(little)
      bytes += (0..<4).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
      #else
      let ordered = bytes.count == 4 ? value << 16 | value >> 16 : value
      bytes += (0..<4).map { UInt8(truncatingIfNeeded: ordered >> (24 - 8 * $0)) }
      #endif
    }
    return bytes + [UInt8](repeating: 0, count: body)
  }
}
