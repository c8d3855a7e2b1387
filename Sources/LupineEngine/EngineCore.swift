internal import LupineBase
internal import LupineIO
internal import LupineTLS

/// The inside of an engine: everything here lives on the loop and is shared by its pools.
final class EngineCore {
  let loop: EventLoop
  let resolver: any HostResolver
  let files: FileThreads
  private var watch: LoopWatch?
  private var loopContext: LoopContext?
  let stages = TurnStages()
  /// The engine is shutting down: pools that come now are closed at once.
  private var isClosed = false
  private var pools: [ObjectIdentifier: EnginePool] = [:]
  /// Pools of sessions that are gone, with connections that are not.
  private var forgotten: [EnginePool] = []
  private let sessions = TLSSessionCache()
  /// Those of proxies, apart: a ticket of one is never shown to the other (curl CVE-2021-22890).
  private let proxySessions = TLSSessionCache()
  private var partitions = SessionPartitions()
  var families = FamilyMemory()
  private var suspensions = SuspensionDetector()
  /// One plaintext buffer for all TLS connections of the loop.
  private let scratch = TLSScratch()

  init(loop: EventLoop, watch: consuming LoopWatch, resolver: any HostResolver, files: FileThreads) {
    self.loop = loop
    self.watch = consume watch
    self.resolver = resolver
    self.files = files
  }

  var context: LoopContext {
    guard let loopContext else { preconditionFailure("the loop has no context: it is not running") }
    return loopContext
  }

  /// The life of the loop's thread.
  func run() {
    makeContext().run()
  }

  /// Makes the context, on the loop's thread. With a world, somebody drives it instead of `run`.
  @discardableResult
  func makeContext(world: DrivenWorld? = nil) -> LoopContext {
    guard let watch = watch.take() else { preconditionFailure("an engine has one context") }
    let context = LoopContext(of: loop, watch, world: world)
    loopContext = context
    context.leaveStages(to: stages)
    return context
  }

  // MARK: Pools

  func adopt(_ pool: EnginePool) {
    guard !isClosed else {
      // Whoever made it did not know of the end: what is started in it fails, instead of being lost with the loop.
      pool.close(cancelling: true)
      return
    }
    pools[ObjectIdentifier(pool)] = pool
  }

  /// Nobody can start anything in the pool any more. It stays until its last connection is gone, those being opened included, so that
  /// a shutdown finds them.
  func forget(_ pool: EnginePool) {
    forgotten.removeAll { $0.isEmpty }
    pools[ObjectIdentifier(pool)] = nil
    pool.close(cancelling: false)
    if !pool.isEmpty { forgotten.append(pool) }
  }

  func closePools() {
    isClosed = true
    for pool in forgotten + pools.values { pool.close(cancelling: true) }
    pools.removeAll()
    forgotten.removeAll()
  }

  /// Lets go of what a suspension of the machine has outdated, before somebody is given some of it: idle connections, which nobody knows any more, and what
  /// was learned about hosts, as the machine may be in another network.
  @inline(__always)
  func lookForSuspension(_ now: Instant) {
    if suspensions.isDue(now) { look(now) }
  }

  private func look(_ now: Instant) {
    guard suspensions.look(now, suspended: context.suspendedNanoseconds) else { return }
    families = FamilyMemory()
    resolver.flush()
    for pool in forgotten + pools.values { pool.closeOutdated() }
  }

  /// Closes idle connections, those that have been idle for longest in each pool, until so many are closed or none is left; says whether any was.
  func closeIdle(atMost limit: Int) -> Bool {
    var (closed, before) = (0, -1)
    while closed < limit, closed > before {
      before = closed
      for pool in forgotten + pools.values where closed < limit && pool.closeEldestIdle(.evicted) { closed += 1 }
    }
    return closed > 0
  }

  /// Runs `body` in the next turn of the loop.
  func later(_ body: @escaping () -> Void) {
    let confined = LoopConfined(Deferred(body))
    context.loop.submit { confined.onLoop.body() }
  }

  /// A closure for other threads that has a connection send what has become available.
  func wake(for connection: Connection) -> @Sendable () -> Void {
    let confined = LoopConfined(connection)
    let loop = context.loop
    return { loop.submit { confined.onLoop.pumpWrites() } }
  }

  /// Forgets the TLS sessions of a trust domain.
  func forgetSessions(of trustDomain: UInt64) {
    // Those of the policies alone are no decisions, and others resume them.
    guard trustDomain != 0 else { return }
    sessions.removeAll(of: TLSTrustDomain(identifier: trustDomain))
    proxySessions.removeAll(of: TLSTrustDomain(identifier: trustDomain))
    partitions.forget(trustDomain)
  }

  /// Policies whose files are being looked at. One for the process, as the threads that look are: files that hang keep one of them for each policy, however
  /// many connections of whatever engine ask.
  private static let policyReads = SingleFlight<TLSPolicy, Result<TLSContext, TLSError>>()

  /// Gives the context of a policy to `body`: at once if it is known, else in a later turn, because a file thread has to look at files. Who asks while one
  /// does is given what that one has found.
  func tlsContext(for policy: TLSPolicy, _ body: @escaping (Result<TLSContext, TLSError>) -> Void) {
    if let known = TLSContext.known(for: policy) {
      body(.success(known))
      return
    }
    let confined = LoopConfined(Awaiting(body))
    let loop = loop
    let threads = policy.keyLogPath == nil ? Engine.processSmallFiles : Engine.processKeyLogs
    EngineCore.policyReads.work(for: policy, on: (try? threads.get()) ?? files) { result in
      loop.submit { confined.onLoop.body(result) }
    } making: { () throws(TLSError) in
      try TLSContext.client(for: policy, fileWork: Engine.keyLogWork)
    }
  }

  /// A client for `identity`, sharing a context and, with `resumes`, the sessions that this engine has seen. Its handshake stops for
  /// what `stops` names.
  func tlsConnection(
    _ context: TLSContext, _ identity: ConnectionIdentity, resumes: Bool, stops: (trust: Bool, identity: Bool)?
  ) throws(TLSError) -> TLSConnection {
    var options = TLSClientOptions(serverName: try ServerName(identity.serverName), port: identity.port)
    options.zone = identity.zone
    if resumes {
      options.sessions = sessions
      options.partition = partitions.number(for: identity)
    }
    options.trustDomain = TLSTrustDomain(identifier: identity.trustDomain)
    if let stops {
      options.trustEvaluation = stops.trust ? .deferred : .automatic
      options.asksForIdentity = stops.identity
    }
    return try TLSConnection(client: context, options: options, scratch: scratch)
  }

  /// A client for the proxy of `identity`, which the policy alone trusts.
  func proxyTLSConnection(
    _ context: TLSContext, serverName: String, port: UInt16, _ route: ProxyRoute, of identity: ConnectionIdentity
  ) throws(TLSError) -> TLSConnection {
    var options = TLSClientOptions(serverName: try ServerName(serverName), port: port)
    options.zone = route.zone
    if route.resumesTLS {
      options.sessions = proxySessions
      options.partition = partitions.number(forProxyOf: identity)
    }
    options.trustDomain = TLSTrustDomain(identifier: identity.trustDomain)
    return try TLSConnection(client: context, options: options, scratch: scratch)
  }
}

private final class Deferred {
  let body: () -> Void

  init(_ body: @escaping () -> Void) {
    self.body = body
  }
}

private final class Awaiting {
  let body: (Result<TLSContext, TLSError>) -> Void

  init(_ body: @escaping (Result<TLSContext, TLSError>) -> Void) {
    self.body = body
  }
}

extension SingleFlight {
  /// Has `make` called on a file thread, unless that is under way for `key`, and `waiter` on that thread with what comes of it.
  func work<Made: Sendable>(
    for key: Key, on threads: FileThreads, _ waiter: @escaping Waiter,
    making make: @escaping @Sendable () throws(TLSError) -> Made
  ) where Value == Result<Made, TLSError> {
    guard join(key, waiter) else { return }
    threads.run { () throws(IOError) in
      Result { () throws(TLSError) in try make() }
    } completion: { made in
      switch made {
      case .success(let result): self.finish(key, result)
      case .failure(let error): self.finish(key, .failure(.internalFailure("the file threads: \(error)")))
      }
    }
  }
}
