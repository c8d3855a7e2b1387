internal import Dispatch
internal import Synchronization
internal import LupineBase
internal import LupineEngine
internal import LupineIO
internal import LupineRules
internal import LupineTLS
internal import LupineWire

/// The network: exchanges on an engine's pool, or on those of several.
final class EngineTransport: Transport {
  /// The first, and nearly always the only one.
  private let engine: Engine
  private let pool: PoolHandle
  /// All of them, where there are several.
  let group: EngineGroup?
  let configuration: SessionConfiguration
  private let ownsEngine: Bool
  private let policy: TLSPolicy
  private let overrides: [String: SocketAddress]
  private let localAddress: SocketAddress?
  private let deadlines: Deadlines
  /// Nil: every request goes straight to its origin, unless it says otherwise.
  private let proxies: ProxySelector?
  /// The key of each origin asked for so far: making one costs more than finding one.
  private let keys: LockedStorage<Keys>

  private struct Keys {
    /// See `ConnectionIdentity.trustDomain`.
    var trustDomain: UInt64
    /// Which engine has the connections of which key; nil where there is one. It lasts as long as the session.
    var places: EnginePlaces?
    var last: KnownOrigin?
    /// That of the URL which asked for `last`: whatever was resolved against the same base is known without a comparison.
    var lastSite: ParsedURL.Site?
    /// The key of `lastSite`.
    var lastKey: PoolKey?
    var table: [Origin: KnownOrigin] = [:]
    /// The keys of requests that ask something of the network, or go through a proxy, which few do.
    var marked: [MarkedOrigin: PoolKey] = [:]
  }

  private struct MarkedOrigin: Hashable {
    /// Nil for a proxy that forwards, which is one place, whatever the origin.
    let origin: Origin?
    let traffic: ConnectionIdentity.Traffic
    var route: ProxyRoute?
  }

  /// By reference: copying an origin costs more than comparing it.
  private final class KnownOrigin: Sendable {
    let origin: Origin
    let key: PoolKey

    init(origin: Origin, key: PoolKey) {
      self.origin = origin
      self.key = key
    }
  }

  private static let maximumKeys = 4_096

  /// Trust domains given out in this process; 0 is that of the policies alone.
  private static let trustDomains = Locked<UInt64>(0)

  private static func newTrustDomain() -> UInt64 {
    trustDomains.withLock { last in
      last += 1
      return last
    }
  }

  /// Makes the transport of one session.
  ///
  /// - Parameters:
  ///   - trust: asked about every server's certificates and for certificates to show, on the engine's thread; see `TrustDecider`. Nil: the
  ///     policy of the configuration decides alone.
  ///   - trustDomain: connections and TLS sessions are shared within a domain only. Nil makes one where there is a decider, or where the configuration
  ///     shares no TLS sessions. Give one only
  ///     to share what a decider has decided.
  init(
    _ configuration: SessionConfiguration, trust: (any TrustDecider)? = nil, trustDomain: UInt64? = nil
  ) throws(SessionError) {
    self.configuration = configuration
    let engines = try Self.engines(configuration)
    let isShared = trust == nil && configuration.sharesTLSSessions
    keys = LockedStorage(
      Keys(
        trustDomain: trustDomain ?? (isShared ? 0 : Self.newTrustDomain()),
        places: engines > 1 ? EnginePlaces(engines: engines) : nil))
    ownsEngine = configuration.engine != .shared
    policy = try configuration.tls.policy()
    deadlines = Self.deadlines(configuration)
    proxies =
      configuration.unixSocketPath == nil ? try ProxySelector.make(configuration.proxy, for: configuration) : nil
    overrides = try Self.read(configuration.nameOverrides)
    localAddress = try Self.read(localAddress: configuration.localAddress)
    let watermarks = try configuration.bodyWatermarks.checked()
    var poolConfiguration = Self.poolConfiguration(configuration)
    poolConfiguration.lowWatermark = watermarks.low
    poolConfiguration.highWatermark = watermarks.high
    poolConfiguration.trustDecider = trust
    // Last of what may fail: nobody would end its thread.
    do throws(IOError) {
      (engine, pool, group) = try Self.begin(poolConfiguration, configuration.engine, engines)
    } catch {
      throw SessionError(
        .system, phase: .prepare, message: "the engine could not be started: \(error)", underlying: error)
    }
  }

  /// How many there are to be.
  ///
  /// - Throws: `.badRequest` for a number that is none.
  static func engines(_ configuration: SessionConfiguration) throws(SessionError) -> Int {
    guard case .several(let wanted, _) = configuration.engine else { return 1 }
    guard (1...EngineShare.maximum).contains(wanted) else {
      throw SessionError(
        .badRequest, phase: .prepare,
        message: "a session has 1 to \(EngineShare.maximum) engines of its own, not \(wanted)")
    }
    return EngineShare.engines(
      wanted, connections: configuration.maximumConnections, waiting: configuration.maximumWaitingRequests)
  }

  private static func begin(
    _ configuration: PoolConfiguration, _ choice: SessionConfiguration.EngineChoice, _ count: Int
  ) throws(IOError) -> (Engine, PoolHandle, EngineGroup?) {
    if count > 1 {
      let group = try EngineGroup(count, choice, configuration)
      return (group.first.engine, group.first.pool, group)
    }
    while true {
      let engine = try choice == .shared ? SharedEngine.get() : Engine.start(name: "lupine")
      let pool = makePool(on: engine, configuration)
      // Shut down in between it would carry out nothing.
      if choice != .shared || SharedEngine.isCurrent(engine) { return (engine, pool, nil) }
    }
  }

  static func makePool(on engine: Engine, _ configuration: PoolConfiguration) -> PoolHandle {
    // Not on the thread that begins a request: who asks again when it is told would go deeper and deeper there.
    PoolHandle(engine: engine, configuration: configuration) { refusal in
      DispatchQueue.global().async(execute: refusal)
    }
  }

  private static func deadlines(_ configuration: SessionConfiguration) -> Deadlines {
    var deadlines = Deadlines()
    deadlines.poolWait = configuration.poolWaitTimeout?.saturatedNanoseconds
    deadlines.send = configuration.sendTimeout?.saturatedNanoseconds
    deadlines.firstByte = configuration.firstByteTimeout?.saturatedNanoseconds
    deadlines.awaitContinue = configuration.continueTimeout.saturatedNanoseconds
    return deadlines
  }

  static func poolConfiguration(_ configuration: SessionConfiguration) -> PoolConfiguration {
    var pool = PoolConfiguration()
    pool.limits.perHost = max(1, configuration.maximumConnectionsPerHost)
    pool.limits.total = max(1, configuration.maximumConnections)
    pool.limits.waiters = max(0, configuration.maximumWaitingRequests)
    pool.limits.idleNanoseconds = configuration.connectionIdleTimeout.saturatedNanoseconds
    pool.limits.lifetimeNanoseconds = configuration.connectionLifetime?.saturatedNanoseconds ?? .max
    pool.limits.uses = max(1, configuration.maximumUsesPerConnection ?? .max)
    pool.wireLimits = configuration.wireLimits
    pool.leniency = configuration.leniency
    pool.decodeLimits.maximumRatio = configuration.maximumDecompressionRatio.map(Self.ratio)
    pool.decodeLimits.maximumCodings = min(max(1, configuration.maximumContentCodings), 16)
    pool.drainedBytes = max(0, configuration.maximumDrainedBodySize)
    pool.drainNanoseconds = max(0, configuration.drainTimeout.saturatedNanoseconds)
    let nameAge = configuration.dnsCacheTimeout.saturatedNanoseconds
    // The process keeps nothing for longer.
    if nameAge < SystemResolver.Configuration().lifetimeNanoseconds { pool.maximumNameAge = max(0, nameAge) }
    pool.resolveNanoseconds = configuration.resolveTimeout.saturatedNanoseconds
    pool.connectNanoseconds = configuration.connectTimeout.saturatedNanoseconds
    pool.proxyNanoseconds = configuration.proxyTimeout.saturatedNanoseconds
    pool.tlsNanoseconds = configuration.tlsTimeout.saturatedNanoseconds
    pool.trustNanoseconds = configuration.trustDecisionTimeout.saturatedNanoseconds
    pool.allowsTLSTruncation = configuration.tls.allowsTruncation
    pool.resumesTLS = configuration.tls.allowsResumption
    pool.routes = configuration.routes
    pool.keepAlive = configuration.tcpKeepAlive?.options
    return pool
  }

  private static func ratio(_ limit: Int) -> UInt64 { limit == .max ? .max : UInt64(max(1, limit)) }

  /// By the one spelling that a host has, without the zone of an address, as `identity(of:_:)` looks for it.
  private static func read(_ overrides: [String: String]) throws(SessionError) -> [String: SocketAddress] {
    var read: [String: SocketAddress] = [:]
    for (name, text) in overrides {
      guard let endpoint = try? URLReader.readEndpoint(name), endpoint.host.zone == nil else {
        throw SessionError(
          .badRequest, phase: .prepare,
          message: "an override is for no \"host:port\" (IPv6 in brackets, without zone): \(name)")
      }
      guard let address = SocketAddress(endpoint: text) else {
        throw SessionError(
          .badRequest, phase: .prepare,
          message: "the override for \(name) is no \"address:port\" (IPv6 in brackets): \(text)")
      }
      let old = read.updateValue(address, forKey: "\(endpoint.host.bracketed):\(endpoint.port)")
      guard old == nil || old == address else {
        throw SessionError(
          .badRequest, phase: .prepare,
          message: "two overrides that differ are for one host: \(name) is spelt in another way as well")
      }
    }
    return read
  }

  /// With port 0, which has the system choose one for each connection.
  private static func read(localAddress text: String?) throws(SessionError) -> SocketAddress? {
    guard let text else { return nil }
    guard let address = SocketAddress(literal: text, port: 0) else {
      throw SessionError(
        .badRequest, phase: .prepare,
        message: "SessionConfiguration.localAddress is no IP address, or has a zone that this machine lacks: \(text)")
    }
    return address
  }

  func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
    start(request, receiver, createdAt: EventLoop.monotonicNow())
  }

  /// - Parameter createdAt: when it was asked for.
  func start(
    _ request: borrowing TransportRequest, _ receiver: any TransportReceiver, createdAt: Instant
  ) -> any TransportExchange {
    do throws(SessionError) {
      // Not by way of a variable: the request of a transfer is a large value to copy.
      let exchange =
        if let group {
          try placed(in: group, request, receiver, createdAt)
        } else {
          EngineExchange(
            try transferRequest(request), pool: pool, receiver: receiver, url: request.url, createdAt: createdAt)
        }
      exchange.begin()
      return exchange
    } catch {
      let exchange = RefusedExchange()
      exchange.tell(receiver, error, request, createdAt: createdAt)
      return exchange
    }
  }

  /// An exchange on the engine that has its place.
  @inline(never)
  private func placed(
    in group: EngineGroup, _ request: borrowing TransportRequest, _ receiver: any TransportReceiver,
    _ createdAt: Instant
  ) throws(SessionError) -> EngineExchange {
    let transfer = try transferRequest(request)
    return EngineExchange(
      transfer, pool: group.pool(of: transfer.key), receiver: receiver, url: request.url, createdAt: createdAt)
  }

  /// Of the first engine.
  var loop: EventLoop { engine.loop }

  /// Of the engine on whose thread the caller is; nil: on none of them.
  var currentLoop: EventLoop? {
    engine.loop.isCurrent ? engine.loop : group?.currentLoop
  }

  /// Runs `work` on an engine's thread; false if that has ended: `work` was let go.
  ///
  /// - Parameter lane: which of several engines (`EngineGroup.nextLane`); nil is the first.
  func submit(to lane: UInt8? = nil, _ work: @escaping @Sendable () -> Void) -> Bool {
    guard let group, let lane else { return engine.loop.submit(work) }
    return group.submit(to: Int(lane), work)
  }

  /// Closes idle connections and, if asked, ends everything under way.
  func invalidate(cancelling: Bool) {
    if let group { return group.close(cancelling: cancelling) }
    pool.close(cancelling: cancelling)
  }

  /// Forgets what was decided about trust and identity: later requests go over new connections, resume no TLS session of before, and ask
  /// anew. Requests under way go on.
  func reset() {
    let former = keys.withLock { keys in
      let former = keys.trustDomain
      keys = Keys(trustDomain: Self.newTrustDomain(), places: keys.places)
      return former
    }
    if let group { return group.reset(forgetting: former) }
    pool.reset(forgetting: former)
  }

  /// What the pools have done, added up.
  func counters(_ completion: @escaping @Sendable (PoolCounters) -> Void) {
    if let group { return group.counters(completion) }
    pool.counters(completion)
  }

  deinit {
    // What was learnt in a domain that no other transport names is of no use to others.
    let domain = keys.withLock { $0.trustDomain }
    if domain != 0 { pool.reset(forgetting: domain) }
    // Without waiting: the last reference may go on an engine's own thread, which cannot wait for itself.
    if let group {
      group.shutdownSoon()
    } else if ownsEngine {
      engine.shutdownSoon()
    }
  }

  // MARK: Translation

  private func transferRequest(_ request: TransportRequest) throws(SessionError) -> TransferRequest {
    let body = try Self.engineBody(request)
    let framing = Self.framing(request.method, body)
    if request.method != "GET" { try Self.check(request, framing) }
    // RFC 9110 10.1.1: no expectation without content.
    let isExpecting = request.expectsContinue && framing != .none && framing != .length(0)
    let mayHaveProxy = (proxies != nil || request.composition.hasProxy) && configuration.unixSocketPath == nil
    let way = mayHaveProxy ? try way(of: request) : nil
    let form = mayHaveProxy ? HeadForm(way?.route) : .origin
    let head: [UInt8]
    var plainHead: [UInt8]?
    do throws(WireError) {
      let composition = request.composition
      head = try composition.head(method: request.method, framing: framing, isExpecting: isExpecting, form: form)
      if isExpecting { plainHead = try composition.head(method: request.method, framing: framing, form: form) }
    } catch {
      throw SessionError(
        .badRequest, phase: .prepare, message: "the request would break HTTP framing: \(error)",
        failingURL: request.url.requestString, underlying: error)
    }
    var deadlines = deadlines
    deadlines.idle = request.idleNanoseconds
    deadlines.total = request.totalNanoseconds
    let marks = request.composition.marks
    return TransferRequest(
      key: key(for: request, through: way), method: request.method, head: head, headWithoutExpectation: plainHead,
      context: Self.context(of: request.method), body: body,
      hasIdempotencyKey: marks?.hasIdempotencyKey ?? false, closesConnection: marks?.closesConnection ?? false,
      deadlines: deadlines, decodesContent: request.decodesContent,
      maximumRatio: request.composition.maximumDecompressionRatio.map(Self.ratio),
      priority: request.priority < 0.5 ? .low : request.priority > 0.5 ? .high : .default,
      forwardTarget: form.isAbsolute ? request.url.requestString : nil)
  }

  /// What a method forbids (RFC 9110 sections 9.3.6 and 9.3.8).
  private static func check(_ request: TransportRequest, _ framing: RequestFraming) throws(SessionError) {
    let message: String
    switch request.method {
    case "CONNECT": message = "CONNECT is said to proxies alone, by SessionConfiguration.proxy"
    case "TRACE" where framing != .none: message = "a TRACE has no body: what it brings is sent back, secrets included"
    default: return
    }
    throw SessionError(.badRequest, phase: .prepare, message: message, failingURL: request.url.requestString)
  }

  /// What most requests are is asked first: strings that differ are compared at length.
  private static func context(of method: String) -> RequestContext {
    guard method != "GET" else { return RequestContext() }
    return RequestContext(isHead: method == "HEAD", isConnect: method == "CONNECT")
  }

  /// A proxy behind a reference: the value is large, and most requests have none to carry about.
  private final class Way: Sendable {
    let route: ProxyRoute

    init(_ route: ProxyRoute) { self.route = route }
  }

  /// The proxy on the way; nil is none. Apart, as even no route is a large value to pass on.
  @inline(never)
  private func way(of request: TransportRequest) throws(SessionError) -> Way? {
    try route(of: request).map(Way.init)
  }

  private func route(of request: TransportRequest) throws(SessionError) -> ProxyRoute? {
    guard configuration.unixSocketPath == nil else { return nil }
    let selector: ProxySelector?
    if let own = request.composition.proxy { selector = try .make(own, for: configuration) } else { selector = proxies }
    return try selector?.route(
      to: request.url,
      hasOwnField: request.fields.contains { $0.name.lowercased() == "proxy-authorization" })
  }

  private func key(for request: TransportRequest, through way: Way?) -> PoolKey {
    let url = request.url
    let traffic = ConnectionIdentity.Traffic(
      codePoint: request.networkServiceType.codePoint, allowsCellular: request.allowsCellularAccess)
    let known: PoolKey = keys.withLock { keys in
      guard traffic.isDefault, way == nil else {
        let route = way?.route
        let place = MarkedOrigin(origin: route?.tunnels == false ? nil : url.origin, traffic: traffic, route: route)
        return markedKey(place, &keys)
      }
      if url.isOf(keys.lastSite), let key = keys.lastKey { return key }
      let key = key(of: url.origin, &keys)
      keys.lastSite = url.site
      keys.lastKey = key
      return key
    }
    return known.spread == nil ? known : turn(of: known)
  }

  /// The key of the engine whose turn it is.
  @inline(never)
  private func turn(of key: PoolKey) -> PoolKey {
    guard let spread = key.spread else { return key }
    return group?.turn(of: spread) ?? key
  }

  private func makeKey(_ identity: ConnectionIdentity, _ keys: inout Keys) -> PoolKey {
    keys.places == nil ? PoolKey(identity) : makePlacedKey(identity, &keys)
  }

  /// A place has its engine whatever is decided about trust: what was chosen before a reset is not changed by it.
  @inline(never)
  private func makePlacedKey(_ identity: ConnectionIdentity, _ keys: inout Keys) -> PoolKey {
    var place = identity
    place.trustDomain = 0
    guard let group, let engine = keys.places?.engine(ofHash: place.hashValue) else { return PoolKey(identity) }
    return group.key(identity, at: engine)
  }

  private func key(of origin: Origin, _ keys: inout Keys) -> PoolKey {
    if let last = keys.last, last.origin == origin { return last.key }
    if let known = keys.table[origin] {
      keys.last = known
      return known.key
    }
    let key = makeKey(identity(of: origin, keys.trustDomain), &keys)
    if keys.table.count >= Self.maximumKeys { keys.table.removeAll() }
    let known = KnownOrigin(origin: origin, key: key)
    keys.table[origin] = known
    keys.last = known
    return key
  }

  private func markedKey(_ place: MarkedOrigin, _ keys: inout Keys) -> PoolKey {
    if let known = keys.marked[place] { return known }
    var identity = place.origin.map { self.identity(of: $0, keys.trustDomain) } ?? Self.identity(of: place.route)
    identity.traffic = place.traffic
    identity.trustDomain = keys.trustDomain
    identity.localAddress = localAddress
    if let route = place.route { identity.route = .proxy(route) }
    let key = makeKey(identity, &keys)
    if keys.marked.count >= Self.maximumKeys { keys.marked.removeAll() }
    keys.marked[place] = key
    return key
  }

  /// A proxy that forwards.
  private static func identity(of route: ProxyRoute?) -> ConnectionIdentity {
    switch route?.endpoint {
    case .host(let host, let port)?:
      ConnectionIdentity(host: host.connectionText, serverName: "", port: port, tls: nil)
    case .unixSocket(let path)?: ConnectionIdentity(host: path, serverName: "", port: 0, tls: nil)
    case nil: preconditionFailure("a place is an origin or a proxy")
    }
  }

  private func identity(of origin: Origin, _ trustDomain: UInt64) -> ConnectionIdentity {
    var identity = ConnectionIdentity(
      host: origin.host.connectionText, serverName: origin.host.serverName, port: origin.port,
      tls: origin.scheme == .https ? policy : nil)
    if let path = configuration.unixSocketPath { identity.route = .unixSocket(path: path) }
    identity.trustDomain = trustDomain
    identity.localAddress = localAddress
    identity.addressOverride = overrides["\(origin.host.bracketed):\(origin.port)"]
    return identity
  }
}
