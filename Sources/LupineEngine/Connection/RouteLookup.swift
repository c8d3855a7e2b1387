package import LupineIO
package import LupineRules

/// A network interface, as far as requests care.
package struct NetworkInterface: Hashable, Sendable {
  package var name: String
  package var medium: LinkMedium

  package init(name: String, medium: LinkMedium) {
    self.name = name
    self.medium = medium
  }
}

/// Asks the kernel over which interface an address is reached: its own decision, rules of policy routing included. Two questions and two answers on a
/// socket of its own, which the kernel gives at once, and two looks at its file system; only for connections that may not go everywhere.
package enum RouteLookup {
  /// The interface; nil: there is no route, or the system does not say.
  ///
  /// - Parameter local: the address that the socket is bound to, if it is to one.
  package static func interface(to address: SocketAddress, from local: SocketAddress? = nil) -> NetworkInterface? {
    guard let (target, scope) = internetAddress(of: address) else { return nil }
    let source = local.flatMap { internetAddress(of: $0)?.address }
    let question = RouteQuery.route(to: target, from: source, over: scope)
    do throws(IOError) {
      let socket = try NetlinkSocket(listens: false)
      guard let index = try ask(socket, question, { RouteQuery.interface(in: $0) }),
        let link = try ask(socket, RouteQuery.link(index), { RouteQuery.link(in: $0) })
      else { return nil }
      let facts = NetworkInterfaces.facts(link.name)
      let medium = link.medium(LinkFacts(isWireless: facts.isWireless, deviceType: facts.deviceType))
      return NetworkInterface(name: link.name, medium: medium)
    } catch {
      return nil
    }
  }

  private static func internetAddress(of address: SocketAddress) -> (address: InternetAddress, scope: UInt32)? {
    switch address {
    case .v4(let address, _): (InternetAddress(v4: address.bits), 0)
    case .v6(let address, _, let link): (InternetAddress(v6: address.high, address.low), link)
    case .unix, .abstract: nil
    }
  }

  private static func ask<Answer>(
    _ socket: borrowing NetlinkSocket, _ request: [UInt8], _ read: ([UInt8]) -> Answer?
  ) throws(IOError) -> Answer? {
    guard case .bytes = try socket.send(request) else { return nil }
    // Somebody else may have written to us too.
    for _ in 0..<16 {
      switch try socket.receive() {
      case .datagram(let bytes): return read(bytes)
      case .foreign: continue
      case .lost, .wouldBlock: return nil
      }
    }
    return nil
  }

  /// The addresses that are not reached over a mobile network, and the interface of the first that is.
  static func sort(
    _ addresses: [SocketAddress], by find: (SocketAddress) -> NetworkInterface?
  ) -> (allowed: [SocketAddress], refused: NetworkInterface?) {
    var allowed: [SocketAddress] = []
    var refused: NetworkInterface?
    for address in addresses {
      if address.family != .unix, let interface = find(address), interface.medium == .cellular {
        refused = refused ?? interface
      } else {
        allowed.append(address)
      }
    }
    return (allowed, refused)
  }
}
