internal import LupineBase
internal import LupineIO
internal import LupineTLS

/// The inside of an engine: everything here lives on the loop and is shared by its pools.
final class EngineCore {
  let context: LoopContext
  let resolver: any HostResolver
  let files: FileThreads
  private var pools: [UInt64: EnginePool] = [:]
  private let sessions = TLSSessionCache()
  /// One plaintext buffer for all TLS connections of the loop.
  private let scratch = TLSScratch()

  init(context: LoopContext, resolver: any HostResolver, files: FileThreads) {
    self.context = context
    self.resolver = resolver
    self.files = files
  }

  /// The pool of a session; made when first asked for.
  func pool(_ identifier: UInt64, _ configuration: PoolConfiguration) -> EnginePool {
    if let known = pools[identifier] { return known }
    let pool = EnginePool(configuration: configuration, core: self)
    pools[identifier] = pool
    return pool
  }

  /// Nobody can start anything in the pool any more. Connections under way keep it alive until they end.
  func forgetPool(_ identifier: UInt64) {
    pools.removeValue(forKey: identifier)?.close(cancelling: false)
  }

  func closePools() {
    for pool in pools.values { pool.close(cancelling: true) }
    pools.removeAll()
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

  /// A client for `identity`, sharing the context of its policy and the sessions that this engine has seen.
  func tlsConnection(_ policy: TLSPolicy, _ identity: ConnectionIdentity) throws(TLSError) -> TLSConnection {
    var options = TLSClientOptions(serverName: try ServerName(identity.serverName), port: identity.port)
    options.sessions = sessions
    options.trustDomain = TLSTrustDomain(identifier: identity.trustDomain)
    return try TLSConnection(client: TLSContext.client(for: policy), options: options, scratch: scratch)
  }
}

private final class Deferred {
  let body: () -> Void

  init(_ body: @escaping () -> Void) {
    self.body = body
  }
}
