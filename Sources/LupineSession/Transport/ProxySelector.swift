internal import HTTPTypes
internal import LupineEngine
internal import LupineIO
internal import LupineRules
internal import LupineTLS

/// Finds the way of each exchange: proxies of a configuration in the shape that the engine knows.
final class ProxySelector: Sendable {
  /// The two ways through one proxy.
  private struct Ways: Sendable {
    var tunnel: ProxyRoute
    /// Nil where everything goes through a tunnel.
    var forward: ProxyRoute?
  }

  private enum Source: Sendable {
    case fixed(Ways, NoProxyList)
    case environment(ProxyEnvironment, http: Ways?, https: Ways?)
    case choose(@Sendable (String) -> Proxy?)
  }

  private let source: Source
  private let session: SessionConfiguration

  /// Nil: every exchange goes straight to its origin.
  static func make(
    _ configuration: ProxyConfiguration, for session: SessionConfiguration
  ) throws(SessionError) -> ProxySelector? {
    switch configuration {
    case .none: return nil
    case .proxy(let proxy, let exceptions):
      return ProxySelector(.fixed(try ways(proxy, session), NoProxyList(exceptions)), session)
    case .choose(let closure): return ProxySelector(.choose(closure), session)
    case .environment, .environmentExcept:
      var environment = ProxyEnvironment(Environment.variable)
      if case .environmentExcept(let list) = configuration { environment.exceptions = NoProxyList(list) }
      guard !environment.isEmpty else { return nil }
      func ways(_ setting: ProxyEnvironment.Setting) throws(SessionError) -> Ways? {
        guard case .proxy(let server) = setting else { return nil }
        return try Self.ways(Proxy(server), session)
      }
      return ProxySelector(
        .environment(environment, http: try ways(environment.http), https: try ways(environment.https)), session)
    }
  }

  private init(_ source: Source, _ session: SessionConfiguration) {
    self.source = source
    self.session = session
  }

  /// The way to a URL; nil is the straight one.
  ///
  /// - Parameter hasOwnField: the request says itself to a proxy who is asking.
  /// - Throws: `SessionError` with `.badProxy`.
  func route(
    to url: ParsedURL, hasOwnField: @autoclosure () -> Bool
  ) throws(SessionError) -> ProxyRoute? {
    let ways: Ways?
    switch source {
    case .fixed(let fixed, let exceptions): ways = exceptions.exempts(url.origin) ? nil : fixed
    case .choose(let closure):
      ways = try closure(url.requestString).map { proxy throws(SessionError) in
        try Self.ways(proxy, session)
      }
    case .environment(let environment, let http, let https):
      switch environment.setting(for: url.origin) {
      case .none: ways = nil
      case .proxy: ways = url.scheme == .http ? http : https
      case .malformed(let variable, let refusal):
        throw SessionError(
          .badProxy, phase: .prepare, message: "the environment's \(variable) names no proxy: \(refusal)",
          failingURL: url.requestString, underlying: refusal)
      }
    }
    guard let ways else { return nil }
    var route = url.scheme == .http ? ways.forward ?? ways.tunnel : ways.tunnel
    // A tunnel carries no field of the caller's to the proxy.
    if route.credentials == nil, route.tunnels || !hasOwnField() {
      route.credentials = Self.storedCredentials(for: route, session)
    }
    return route
  }

  /// What the storage has for a proxy that nobody gave a credential to. Looked up for each exchange, as it may change.
  private static func storedCredentials(
    for route: ProxyRoute, _ session: SessionConfiguration
  ) -> ProxyCredentials? {
    guard let storage = session.credentialStorage, !route.kind.isSOCKS, case .host(let host, let port) = route.endpoint
    else { return nil }
    let origin = Origin(scheme: route.kind == .https ? .https : .http, host: host, port: port)
    var stored: [StoredProxyCredentials] = []
    for entry in storage.proxyEntries(at: origin) {
      guard let credential = entry.credentials.first else { continue }
      var scheme: AnswerableChallenge.Scheme?
      if let method = entry.space.method {
        // One for a method that nobody knows is not one for every method.
        guard let known = AnswerableChallenge.Scheme(rawValue: method.rawValue) else { continue }
        scheme = known
      }
      var made = Self.credentials(credential, session)
      // A storage never sends what was not asked for.
      made.isPreemptive = false
      stored.append(StoredProxyCredentials(realm: entry.space.realm, scheme: scheme, credentials: made))
    }
    return StoredProxyCredentials.choose(among: stored)
  }

  private static func ways(_ proxy: Proxy, _ session: SessionConfiguration) throws(SessionError) -> Ways {
    let server = proxy.server
    var route = ProxyRoute(kind: server.kind, endpoint: server.endpoint, tunnels: true)
    if server.kind == .https {
      let tls = proxy.tls ?? session.tls.forProxies
      route.tls = try tls.policy()
      route.resumesTLS = tls.allowsResumption
      route.allowsTLSTruncation = tls.allowsTruncation
    }
    route.credentials = try credentials(proxy, session)
    var forward: ProxyRoute?
    if !server.kind.isSOCKS {
      if !proxy.tunnelsPlaintext {
        forward = route
        forward?.tunnels = false
      }
      route.connectFields = proxy.connectFields.map { ProxyRoute.Field(name: $0.name.rawName, value: $0.value) }
    }
    return Ways(tunnel: route, forward: forward)
  }

  private static func credentials(
    _ proxy: Proxy, _ session: SessionConfiguration
  ) throws(SessionError) -> ProxyCredentials? {
    guard let credential = proxy.credential else { return nil }
    if case .token = credential.secret, proxy.server.kind.isSOCKS {
      throw SessionError(.badProxy, phase: .prepare, message: "a SOCKS proxy takes a user and a password, and no token")
    }
    return credentials(credential, session)
  }

  private static func credentials(_ credential: Credential, _ session: SessionConfiguration) -> ProxyCredentials {
    var credentials = ProxyCredentials(credential.secret)
    credentials.allowsBasic = credential.schemes.contains(.basic)
    credentials.allowsDigest = credential.schemes.contains(.digest)
    credentials.policy = session.authentication.policy
    credentials.isPreemptive = credential.isPreemptive
    return credentials
  }
}

extension TLSConfiguration {
  /// What is meant for origins is not shown to a proxy, and what is forgiven them is not forgiven to it.
  var forProxies: TLSConfiguration {
    var tls = self
    tls.clientIdentity = nil
    tls.publicKeyPins = []
    tls.verifiesServer = true
    tls.allowsTruncation = false
    return tls
  }
}

/// In which shape a request goes on its way.
enum HeadForm {
  /// To the origin, where nobody has named a proxy.
  case origin
  /// To the origin, through a proxy that sees nothing of it or past those that others go through: what is for a proxy is not for the origin (RFC 9110 section 11.7.2).
  case beyondProxies
  /// To a proxy that forwards it (RFC 9112 section 3.2.2); `hasCredentials`: it says itself who is asking.
  case absolute(hasCredentials: Bool)

  /// - Parameter route: nil: past all proxies.
  init(_ route: ProxyRoute?) {
    guard let route else {
      self = .beyondProxies
      return
    }
    self = route.tunnels ? .beyondProxies : .absolute(hasCredentials: route.credentials != nil)
  }

  var isAbsolute: Bool { if case .absolute = self { true } else { false } }

  /// Whether every field of the caller's goes out.
  ///
  /// - Parameter namesProxy: whether some of them are for a proxy.
  func leavesAllIn(namingProxy namesProxy: Bool) -> Bool {
    switch self {
    case .origin, .absolute(hasCredentials: false): true
    case .beyondProxies, .absolute(hasCredentials: true): !namesProxy
    }
  }

  /// Whether a field of the caller's must not go out: what is for a proxy does not reach the origin, and what the engine says itself is not said twice.
  func leavesOut(_ name: String) -> Bool {
    switch self {
    case .origin: false
    case .beyondProxies: OriginRule.isForProxy(lowercased: name.lowercased())
    case .absolute(let hasCredentials): hasCredentials && name.lowercased() == "proxy-authorization"
    }
  }
}
