import LupineBase

@testable import LupineRules

extension NetworkTable {
  /// A network with a default route.
  static var withDefaultRoute: NetworkTable {
    var table = NetworkTable()
    _ = table.apply(.link(NetworkLink(index: 1, name: "lo", hardware: 772, flags: 0x10049)))
    let prefix = RoutePrefix(table: .main, destination: InternetAddress(v4: 0), length: 0)
    let route = NetworkRoute(prefix: prefix, service: 0, metric: 0, type: 2, hops: [RouteHop(link: 1, flags: 0)])
    _ = table.apply(.route(route, replaces: false))
    return table
  }

  /// A network with a default route of both families.
  static var withDefaultRoutes: NetworkTable {
    var table = withDefaultRoute
    let prefix = RoutePrefix(table: .main, destination: InternetAddress(v6: 0, 0), length: 0)
    let route = NetworkRoute(prefix: prefix, service: 0, metric: 0, type: 2, hops: [RouteHop(link: 1, flags: 0)])
    _ = table.apply(.route(route, replaces: false))
    return table
  }
}
