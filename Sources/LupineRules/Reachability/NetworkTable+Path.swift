/// Where somebody wants to get to.
package enum ReachabilityTarget: Hashable, Sendable {
  /// Out: a default route, of either family.
  case anywhere
  /// One address; of a link-local one also the link, if it is given.
  case address(InternetAddress, link: UInt32? = nil)
}

/// What the first leg of a path goes over.
package enum LinkMedium: Hashable, Sendable {
  /// This machine itself.
  case loopback
  /// IEEE 802.11.
  case wireless
  /// A mobile network.
  case cellular
  /// Anything else.
  case wired
}

/// What the file system of the kernel says of an interface.
package struct LinkFacts: Hashable, Sendable {
  /// It has a radio: `/sys/class/net/NAME/wireless` or `phy80211` exists.
  package var isWireless: Bool
  /// `DEVTYPE` of `/sys/class/net/NAME/uevent`: `wlan`, `wwan`, `bridge`; empty if it has none.
  package var deviceType: String

  package init(isWireless: Bool = false, deviceType: String = "") {
    self.isWireless = isWireless
    self.deviceType = deviceType
  }
}

extension NetworkLink {
  /// The medium, by what was told of the interface, then by its hardware type, then by its name: `wl…` and `ww…` are those that systemd
  /// gives, `rmnet` and `ccmni` those of modems.
  package func medium(_ facts: LinkFacts) -> LinkMedium {
    if isLoopback { return .loopback }
    // ARPHRD_IEEE80211 and its two variants.
    if isWireless || facts.isWireless || facts.deviceType == "wlan" || (801...803).contains(hardware) {
      return .wireless
    }
    // ARPHRD_RAWIP: what modems speak that are no Ethernet.
    if facts.deviceType == "wwan" || kind == "wwan" || kind == "rmnet" || hardware == 519 { return .cellular }
    // A virtual interface is named by whoever made it.
    guard kind.isEmpty, facts.deviceType.isEmpty else { return .wired }
    if name.hasPrefix("wl") { return .wireless }
    return ["ww", "rmnet", "ccmni"].contains(where: name.hasPrefix) ? .cellular : .wired
  }
}

extension NetworkTable {
  /// The interface over which a target is reached; nil: there is no way.
  ///
  /// The longest prefix decides, then the lowest metric, as in the kernel, in the table `local`, then `main`, then `default`; a throw route leads on to
  /// the next table. Left out: routes over interfaces that do not work, and those that no address of this machine could be used with. Rules of policy
  /// routing, other tables and routes by source are not looked at. One pass over the routes.
  package func link(to target: ReachabilityTarget) -> NetworkLink? {
    switch target {
    case .anywhere:
      // Two halves of the space are how tunnels take the default over.
      for family in [InternetAddress.Family.v4, .v6] {
        if let link = best(
          in: [.main, .default], where: { $0.destination.family == family && $0.length <= 1 }, to: nil)
        {
          return link
        }
      }
      return nil
    case .address(let address, let scope):
      let matches: (RoutePrefix) -> Bool = { address.hasPrefix($0.destination, length: Int($0.length)) }
      if let scope, address.isLinkLocal {
        return links[scope].flatMap { $0.isWorking && hasSource(for: address, over: $0.index) ? $0 : nil }
      }
      return best(in: [.local, .main, .default], where: matches, to: address)
    }
  }

  private func best(
    in tables: [RoutePrefix.Table], where matches: (RoutePrefix) -> Bool, to address: InternetAddress?
  ) -> NetworkLink? {
    var best: [RoutePrefix.Table: (length: UInt8, metric: UInt32, link: NetworkLink?, isThrow: Bool)] = [:]
    for (prefix, routes) in routes where tables.contains(prefix.table) && matches(prefix) {
      for route in routes {
        if let known = best[prefix.table], (known.length, ~known.metric) > (prefix.length, ~route.metric) { continue }
        switch route.type {
        case 1, 2:
          guard let link = workingLink(of: route, to: address) else { continue }
          // Equal routes: the interface with the lower number, so that the answer does not depend on chance.
          if let known = best[prefix.table], known.length == prefix.length, known.metric == route.metric,
            known.link.map({ $0.index <= link.index }) ?? true
          {
            continue
          }
          best[prefix.table] = (prefix.length, route.metric, link, false)
        // Blackhole, unreachable, prohibit: whoever comes here goes no further.
        case 6, 7, 8: best[prefix.table] = (prefix.length, route.metric, nil, false)
        // Throw: shorter prefixes of this table do not count, and the look-up goes on in the next one.
        case 9:
          if let known = best[prefix.table], known.length == prefix.length, known.metric == route.metric,
            known.link == nil
          {
            continue
          }
          best[prefix.table] = (prefix.length, route.metric, nil, true)
        default: continue
        }
      }
    }
    for table in tables { if let found = best[table], !found.isThrow { return found.link } }
    return nil
  }

  private func workingLink(of route: NetworkRoute, to address: InternetAddress?) -> NetworkLink? {
    for hop in route.hops where hop.isAlive {
      guard let link = links[hop.link], link.isWorking else { continue }
      if route.type == 2 || hasSource(for: address ?? .zero(route.prefix.destination.family), over: link.index) {
        return link
      }
    }
    return nil
  }

  /// Whether there is an address to send from: on the link itself for a link-local destination, else anywhere, of more than one link's scope.
  private func hasSource(for destination: InternetAddress, over link: UInt32) -> Bool {
    addresses.values.contains { own in
      guard own.isUsable, own.address.family == destination.family, links[own.link]?.isWorking == true else {
        return false
      }
      return own.scope < 253 || (own.scope == 253 && own.link == link && destination.isLinkLocal)
    }
  }
}
