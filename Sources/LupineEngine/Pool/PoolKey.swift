internal import LupineBase
package import LupineIO
package import LupineRules
package import LupineTLS

/// The whole identity of a connection: two requests may share one only if these are equal. A new option is a new stored property here,
/// and cannot be forgotten, because equality is synthesised. Text of the caller's is compared by its bytes: curl CVE-2021-22924, where a path was another
/// one and counted as the same.
package struct ConnectionIdentity: Hashable, Sendable {
  /// The host to connect to: a name, or an address with its zone.
  package var host: String
  /// The host for SNI and the certificate: no zone, no final dot.
  package var serverName: String
  package var port: UInt16
  /// Nil for plaintext. The full policy, by value: roots, versions, pins, client certificate.
  package var tls: TLSPolicy?
  /// Unique to one session and one generation of its trust decisions, where code decides trust; 0 where the policy alone does.
  package var trustDomain: UInt64 = 0
  /// How the connection gets to the origin.
  package var route: Route = .direct
  /// The local address to bind to.
  package var localAddress: SocketAddress?
  /// The address to use instead of resolving `host`.
  package var addressOverride: SocketAddress?
  /// How packets are marked, and over what they may go.
  package var traffic = Traffic()

  /// What a request asks of the network.
  package struct Traffic: Hashable, Sendable {
    /// The DSCP (RFC 2474), 0 to 63.
    package var codePoint: UInt8 = 0
    package var allowsCellular = true

    package init(codePoint: UInt8 = 0, allowsCellular: Bool = true) {
      self.codePoint = codePoint
      self.allowsCellular = allowsCellular
    }

    package var isDefault: Bool { codePoint == 0 && allowsCellular }
  }

  /// How a connection gets to its origin.
  package enum Route: Hashable, Sendable {
    case direct
    /// A Unix-domain socket; a leading `@` names an abstract one.
    case unixSocket(path: String)
    /// Where it forwards requests, `host` and `port` are the proxy's, and `tls` is nil.
    case proxy(ProxyRoute)

    package static func == (left: Route, right: Route) -> Bool {
      switch (left, right) {
      case (.direct, .direct): true
      case (.unixSocket(let path), .unixSocket(let other)): path.hasBytes(of: other)
      case (.proxy(let route), .proxy(let other)): route == other
      case (.direct, _), (.unixSocket, _), (.proxy, _): false
      }
    }
  }

  package init(host: String, serverName: String, port: UInt16, tls: TLSPolicy?) {
    self.host = host
    self.serverName = serverName
    self.port = port
    self.tls = tls
  }

  /// The zone of `host`, which says whose a link-local address is; nil of every other host.
  package var zone: String? {
    host.utf8.firstIndex(of: UInt8(ascii: "%")).map { String(host[host.utf8.index(after: $0)...]) }
  }

  /// Whether many origins share its connections: those to a proxy that forwards.
  var isShared: Bool {
    if case .proxy(let route) = route { !route.tunnels } else { false }
  }
}

/// A `ConnectionIdentity` with its hash worked out once, shared by all requests of a session to one place: looking it up costs one
/// comparison of references.
package final class PoolKey: Hashable, Sendable {
  package let identity: ConnectionIdentity
  /// See `ConnectionIdentity.isShared`.
  let isShared: Bool
  /// Which of the engines of its session has its connections, from 0.
  package let engine: Int
  /// What that engine has of the connections to this place.
  let share: EngineShare
  /// Where several engines have some: their keys, which are used instead of this one.
  package let spread: KeySpread?
  private let hash: Int

  package init(
    _ identity: ConnectionIdentity, engine: Int = 0, share: EngineShare = .whole, spread: KeySpread? = nil
  ) {
    self.identity = identity
    isShared = identity.isShared
    self.engine = engine
    self.share = share
    self.spread = spread
    hash = identity.hashValue
  }

  package static func == (left: PoolKey, right: PoolKey) -> Bool {
    left === right || (left.hash == right.hash && left.identity == right.identity)
  }

  package func hash(into hasher: inout Hasher) {
    hasher.combine(hash)
  }
}
