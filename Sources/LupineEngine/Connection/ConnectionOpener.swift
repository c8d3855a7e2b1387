internal import LupineBase
internal import LupineIO
internal import LupineRules

/// The steps from a connection's identity to the origin. The opener resolves and connects, a `ProxyHandshake` does those of a proxy, and TLS
/// with the origin follows in the connection itself.
enum OpeningStep: Equatable {
  /// Look the host up.
  case resolve(host: String, port: UInt16)
  /// Connect to one of these.
  case connect([SocketAddress])
  /// Speak TLS with the proxy, which has this name.
  case proxyTLS(serverName: String, port: UInt16)
  /// Have a SOCKS proxy connect to the host, which is looked up here with `resolves`.
  case socks5(host: String, port: UInt16, resolves: Bool, address: SocketAddress? = nil)
  /// Have an HTTP proxy open a tunnel.
  case tunnel(authority: String)
  /// Speak TLS, as a client of this host.
  case tls(serverName: String)

  /// The chain of steps for an identity; `connect` with the addresses of the answer takes the place of `resolve`. Pure.
  static func chain(for identity: ConnectionIdentity) -> [OpeningStep] {
    var steps: [OpeningStep]
    switch identity.route {
    case .unixSocket(let path):
      let isAbstract = path.utf8.first == UInt8(ascii: "@")
      steps = [.connect([isAbstract ? .abstract(name: Array(path.utf8.dropFirst())) : .unix(path: path)])]
    case .direct:
      if let address = identity.addressOverride {
        steps = [.connect([address])]
      } else {
        steps = [.resolve(host: identity.host, port: identity.port)]
      }
    case .proxy(let route): steps = through(route, to: identity)
    }
    if identity.tls != nil { steps.append(.tls(serverName: identity.serverName)) }
    return steps
  }

  private static func through(_ route: ProxyRoute, to identity: ConnectionIdentity) -> [OpeningStep] {
    var steps: [OpeningStep]
    switch route.endpoint {
    case .unixSocket(let path): steps = [.connect([.unix(path: path)])]
    case .host(let host, let port):
      steps = [.resolve(host: host.connectionText, port: port)]
      if route.kind == .https { steps.append(.proxyTLS(serverName: host.serverName, port: port)) }
    }
    guard route.tunnels else { return steps }
    guard !route.kind.isSOCKS else {
      let resolves = route.kind == .socks5
      // An override is for whoever looks names up.
      let step = OpeningStep.socks5(
        host: identity.host, port: identity.port, resolves: resolves,
        address: resolves ? identity.addressOverride : nil)
      return steps + [step]
    }
    let host = identity.host.utf8.contains(UInt8(ascii: ":")) ? "[\(identity.serverName)]" : identity.host
    return steps + [.tunnel(authority: "\(host):\(identity.port)")]
  }
}

/// Carries out the steps up to the connected socket, each under its deadline. Lives on the loop; used once.
final class ConnectionOpener: TimerHandler {
  private let link: ConnectionLink
  private let core: EngineCore
  private var lookup: ResolveToken?
  private var timer: TimerIdentifier?
  private var connector: Connector?
  private var isCancelled = false
  /// What is between the socket and the connection; nil without a proxy, and for one in the clear that forwards.
  private var handshake: ProxyHandshake?
  private var addresses: [SocketAddress] = []
  /// What was looked up, and the answer in its own order; nil where no name was.
  private var name: (host: String, port: UInt16, answer: [SocketAddress])?

  private var context: LoopContext { core.context }
  private var connection: Connection? { link.connection }

  init(connection: Connection, core: EngineCore) {
    link = connection.linked()
    self.core = core
  }

  func start() {
    guard !isCancelled, let connection else { return }
    let steps = OpeningStep.chain(for: connection.key.identity)
    if case .proxy(let route) = connection.key.identity.route {
      let between = steps.dropFirst().filter { if case .tls = $0 { false } else { true } }
      if !between.isEmpty {
        handshake = ProxyHandshake(route, steps: between, link: link, opener: self, core: core)
      }
    }
    switch steps.first {
    case .resolve(let host, let port): resolve(host, port, connection)
    case .connect(let addresses): connect(addresses)
    case .proxyTLS, .socks5, .tunnel, .tls, nil: preconditionFailure("a chain of steps begins with an address")
    }
  }

  /// Stops whatever is under way; the connection hears nothing more.
  func cancel() {
    isCancelled = true
    lookup?.cancel()
    lookup = nil
    disarm()
    connector?.cancel()
    connector = nil
    handshake?.cancel()
    handshake = nil
  }

  /// The proxy closes its connections, and is to be asked once more.
  func connectAgain() {
    guard !isCancelled else { return }
    connector = nil
    // Not from within its own reading.
    core.later { [self] in if !isCancelled { connect(addresses) } }
  }

  // MARK: Resolving

  private func resolve(_ host: String, _ port: UInt16, _ connection: Connection) {
    let resolver = connection.pool.resolver
    connection.opening.resolveStart = context.now
    name = (host, port, [])
    if let answer = resolver.immediateAnswer(host: host, port: port) {
      resolved(answer)
      return
    }
    if let limit = connection.pool.configuration.resolveNanoseconds {
      timer = context.schedule(at: context.now.advanced(byNanoseconds: limit), self)
    }
    let confined = LoopConfined(self)
    let loop = context.loop
    lookup = resolver.resolve(host: host, port: port) { answer in
      loop.submit { confined.onLoop.resolved(answer) }
    }
  }

  private func resolved(_ answer: Result<[SocketAddress], ResolveError>) {
    guard !isCancelled, let connection else { return }
    disarm()
    lookup = nil
    connection.opening.resolveEnd = context.now
    switch answer {
    case .success(let addresses): connect(inOrder(addresses))
    case .failure(let error):
      connection.openFailed(connection.isProxied ? .proxy(.resolve(error)) : .resolve(error), .resolve)
    }
  }

  private func inOrder(_ addresses: [SocketAddress]) -> [SocketAddress] {
    guard let name, addresses.count > 1 else { return addresses }
    self.name?.answer = addresses
    return core.families.sorted(addresses, host: name.host, port: name.port, now: context.now)
  }

  func timerFired(_ identifier: TimerIdentifier) {
    timer = nil
    lookup?.cancel()
    lookup = nil
    connection?.openFailed(.deadline(.resolve), .resolve)
  }

  private func disarm() {
    if let timer { context.cancel(timer) }
    timer = nil
  }

  // MARK: Connecting

  private func connect(_ addresses: [SocketAddress]) {
    guard let connection else { return }
    let identity = connection.key.identity
    var addresses = addresses
    if let local = identity.localAddress {
      let within = addresses.filter(local.reaches)
      if within.isEmpty, !addresses.isEmpty {
        return connection.openFailed(.localAddress(local.addressText, nil), .connect)
      }
      addresses = within
    }
    if !identity.traffic.allowsCellular {
      let find =
        connection.pool.configuration.routes ?? { RouteLookup.interface(to: $0, from: identity.localAddress) }
      let (allowed, refused) = RouteLookup.sort(addresses, by: find)
      if let refused, allowed.isEmpty {
        return connection.openFailed(.cellular(interface: refused.name), .connect)
      }
      addresses = allowed
    }
    let options = SocketOptions(
      keepAlive: connection.pool.configuration.keepAlive, localAddress: identity.localAddress,
      codePoint: identity.traffic.codePoint)
    self.addresses = addresses
    let now = context.now
    if connection.opening.connectStart == nil { connection.opening.connectStart = now }
    let limit = connection.pool.configuration.connectNanoseconds
    // What wins among some of the addresses, by a rule of this request, says nothing of the others.
    let isChoice = identity.localAddress == nil && name.map { $0.answer.count == addresses.count } ?? false
    let connector = Connector(
      context, to: addresses, options: options,
      deadline: limit.map { now.advanced(byNanoseconds: $0) } ?? .distantFuture
    ) { [link, handshake, core, name] outcome in
      guard let connection = link.connection else { return }
      switch consume outcome {
      case .connected(let socket):
        if let name, isChoice, name.answer.count > 1 {
          let now = core.context.now
          core.families.note(socket.remote, of: name.answer, host: name.host, port: name.port, now: now)
        }
        if let handshake { handshake.connected(socket) } else { connection.connected(socket) }
      case .failed(let error):
        if error.reason == .deadlinePassed {
          connection.openFailed(.deadline(.connect), .connect)
        } else if let local = identity.localAddress, error.lacksLocalAddress {
          connection.openFailed(.localAddress(local.addressText, error), .connect)
        } else {
          connection.openFailed(connection.isProxied ? .proxy(.connect(error)) : .connect(error), .connect)
        }
      }
    }
    self.connector = connector
    connector.start()
  }
}
