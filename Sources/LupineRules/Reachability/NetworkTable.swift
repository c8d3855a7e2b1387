/// An interface.
package struct NetworkLink: Hashable, Sendable {
  package var index: UInt32
  package var name: String
  /// ARPHRD_…: what kind of hardware.
  package var hardware: UInt16
  /// IFF_….
  package var flags: UInt32
  /// What made it, of a virtual interface: `veth`, `bridge`, `wwan`.
  package var kind = ""
  /// The kernel told something about its radio.
  package var isWireless = false

  package init(index: UInt32, name: String, hardware: UInt16, flags: UInt32) {
    self.index = index
    self.name = name
    self.hardware = hardware
    self.flags = flags
  }

  /// IFF_UP: somebody wants it to work.
  var isUp: Bool { flags & 0x1 != 0 }
  /// IFF_UP and IFF_RUNNING: it works, its cable or radio is connected.
  var isWorking: Bool { flags & 0x41 == 0x41 }
  /// IFF_LOOPBACK.
  package var isLoopback: Bool { flags & 0x8 != 0 }
}

/// An address of an interface.
package struct NetworkAddress: Hashable, Sendable {
  package var link: UInt32
  package var address: InternetAddress
  /// RT_SCOPE_…: 253 for one link, 254 for this machine; below for everybody.
  package var scope: UInt8
  /// It has been found to be unique.
  package var isUsable: Bool

  package init(link: UInt32, address: InternetAddress, scope: UInt8, isUsable: Bool) {
    self.link = link
    self.address = address
    self.scope = scope
    self.isUsable = isUsable
  }
}

/// Where a route leads to.
package struct RoutePrefix: Hashable, Sendable {
  /// The tables that are asked without rules of policy routing.
  package enum Table: UInt32, Hashable, Sendable {
    case `default` = 253
    case main = 254
    case local = 255
  }

  package var table: Table
  package var destination: InternetAddress
  package var length: UInt8
}

/// A way that a route may take.
package struct RouteHop: Hashable, Sendable {
  package var link: UInt32
  /// RTNH_F_….
  package var flags: UInt8
  /// The next router; of IPv4 routes too it may have an IPv6 address. Nil: what is reached is on the link.
  package var gateway: InternetAddress?

  package init(link: UInt32, flags: UInt8, gateway: InternetAddress? = nil) {
    self.link = link
    self.flags = flags
    self.gateway = gateway
  }

  /// What tells it apart from another one: flags come and go without a word.
  var way: RouteWay { RouteWay(link: link, gateway: gateway) }

  /// Not RTNH_F_DEAD. RTNH_F_LINKDOWN comes and goes without a word; the link says the same.
  var isAlive: Bool { flags & 0x1 == 0 }
}

/// A route.
package struct NetworkRoute: Hashable, Sendable {
  package var prefix: RoutePrefix
  package var service: UInt8
  /// RTA_PRIORITY: lower is better.
  package var metric: UInt32
  /// RTN_…: 1 unicast, 2 local, 3 broadcast, 4 anycast, 5 multicast, 6 blackhole, 7 unreachable, 8 prohibit, 9 throw.
  package var type: UInt8
  package var hops: [RouteHop]

  /// What tells it apart from others of one prefix, service and metric: their order is another in every message.
  var ways: Set<RouteWay> { Set(hops.map(\.way)) }
}

/// A way without its state.
struct RouteWay: Hashable {
  var link: UInt32
  var gateway: InternetAddress?
}

/// What the kernel knows of links, addresses and routes, as far as it was told.
package struct NetworkTable: Sendable, Equatable {
  package private(set) var links: [UInt32: NetworkLink] = [:]
  package private(set) var addresses: [AddressKey: NetworkAddress] = [:]
  package private(set) var routes: [RoutePrefix: [NetworkRoute]] = [:]
  private var routeCount = 0

  package struct AddressKey: Hashable, Sendable {
    package var link: UInt32
    package var address: InternetAddress
  }

  /// A router's table may have a million routes; what is past this says nothing about whether there is a way out.
  package static let maximumRoutes = 100_000
  /// Routes to one prefix differ in metric, interface or gateway.
  package static let maximumRoutesPerPrefix = 64
  package static let maximumLinks = 16_384
  package static let maximumAddresses = 65_536

  package init() {}

  /// What a message has changed.
  package enum Change: Equatable, Sendable {
    case nothing
    case something
    /// The kernel changes more than it tells: IPv4 routes over a link that went down or from an address that went are removed, those over a
    /// link that works again come to life. Ask for everything again.
    case more
    /// Nothing, but the kernel speaks of a route that is not known. Ask for everything again.
    case unknown

    /// Whether the table is not what the kernel has.
    var asksAgain: Bool { self == .more || self == .unknown }
  }

  /// Takes a message in. Constant time, save for a link or address that goes: then one pass over the routes.
  package mutating func apply(_ message: NetlinkMessage) -> Change {
    switch message {
    case .link(let link): return apply(link)
    case .linkRemoved(let index):
      guard links.removeValue(forKey: index) != nil else { return .nothing }
      dropRoutes(over: index)
      return .more
    case .address(let address):
      let key = AddressKey(link: address.link, address: address.address)
      guard addresses[key] != address, addresses[key] != nil || addresses.count < Self.maximumAddresses else {
        return .nothing
      }
      addresses[key] = address
      return .something
    case .addressRemoved(let address):
      let key = AddressKey(link: address.link, address: address.address)
      guard addresses.removeValue(forKey: key) != nil else { return .nothing }
      let family = address.address.family
      if !addresses.keys.contains(where: { $0.link == address.link && $0.address.family == family }) {
        dropRoutes(over: address.link, of: family)
      }
      return .more
    case .route(let route, let replaces): return insert(route, replaces: replaces)
    case .routeRemoved(let route): return remove(route)
    case .done, .error, .overrun, .other: return .nothing
    }
  }

  private mutating func apply(_ new: NetworkLink) -> Change {
    var link = new
    let former = links[link.index]
    // Not every message says everything.
    if let former, link.name.isEmpty || link.name == former.name {
      link.name = former.name
      if link.kind.isEmpty { link.kind = former.kind }
      link.isWireless = link.isWireless || former.isWireless
    }
    guard former != link, former != nil || links.count < Self.maximumLinks else { return .nothing }
    links[link.index] = link
    guard let former else { return .something }
    if former.isUp, !link.isUp { dropRoutes(over: link.index) }
    return (former.isUp && !link.isUp) || (!former.isWorking && link.isWorking) ? .more : .something
  }

  /// What the kernel drops in silence when a link goes down, or loses its last address of a family: if the link came back before everything
  /// was asked for, its routes of before would seem to be there.
  private mutating func dropRoutes(over link: UInt32, of family: InternetAddress.Family? = nil) {
    for (prefix, known) in routes where family == nil || prefix.destination.family == family {
      let kept = known.filter { $0.type != 1 || $0.hops.isEmpty || !$0.hops.allSatisfy { $0.link == link } }
      guard kept.count != known.count else { continue }
      routeCount -= known.count - kept.count
      routes[prefix] = kept.isEmpty ? nil : kept
    }
  }

  private mutating func insert(_ route: NetworkRoute, replaces: Bool) -> Change {
    var known = routes[route.prefix] ?? []
    if known.contains(route) {
      let rivals = known.count { $0.service == route.service && $0.metric == route.metric }
      // One of them is gone then; which, the kernel does not say.
      return replaces && rivals > 1 ? .more : .nothing
    }
    let before = known.count
    known.removeAll {
      $0.service == route.service && $0.metric == route.metric && (replaces || Self.isNews(route, of: $0))
    }
    let growth = known.count + 1 - before
    guard known.count < Self.maximumRoutesPerPrefix, growth <= 0 || routeCount < Self.maximumRoutes else {
      return .nothing
    }
    known.append(route)
    routes[route.prefix] = known
    routeCount += growth
    // Of several routes of IPv4 the kernel replaces one.
    return replaces && growth < 0 ? .more : .something
  }

  /// Whether a route is what has become of a known one of the same prefix, service and metric. Those of IPv6 are one route as soon as they are
  /// several ways: the kernel tells all of them when one is added, and the one alone that goes.
  private static func isNews(_ route: NetworkRoute, of known: NetworkRoute) -> Bool {
    guard route.type == known.type else { return false }
    guard route.prefix.destination.family == .v6, route.hops.count > 1 else { return route.ways == known.ways }
    return route.ways.isSuperset(of: known.ways)
  }

  private mutating func remove(_ route: NetworkRoute) -> Change {
    guard var known = routes[route.prefix] else { return .nothing }
    let rivals = known.indices.filter { known[$0].service == route.service && known[$0].metric == route.metric }
    let ways = route.ways
    if let index = rivals.first(where: { known[$0].type == route.type && known[$0].ways == ways }) {
      known.remove(at: index)
      routeCount -= 1
      routes[route.prefix] = known.isEmpty ? nil : known
      return .something
    }
    guard route.prefix.destination.family == .v6, !ways.isEmpty,
      let index = rivals.first(where: { known[$0].type == route.type && known[$0].ways.isSuperset(of: ways) })
    else {
      // Where not all are kept, asking again would not bring it either.
      return rivals.isEmpty || known.count >= Self.maximumRoutesPerPrefix ? .nothing : .unknown
    }
    known[index].hops.removeAll { ways.contains($0.way) }
    routes[route.prefix] = known
    return .something
  }

  /// The number of routes, for whoever checks the limit.
  package var numberOfRoutes: Int { routeCount }
}
