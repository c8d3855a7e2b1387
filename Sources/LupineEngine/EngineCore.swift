internal import LupineBase
internal import LupineIO
internal import LupineTLS

/// The inside of an engine: everything here lives on the loop and is shared by its pools.
final class EngineCore {
  let loop: EventLoop
  let resolver: any HostResolver
  let files: FileThreads
  private var loopContext: LoopContext?
  /// Why there is no context: then nothing can be watched, and every transfer fails with this.
  private(set) var failure: IOError?
  private var pools: [ObjectIdentifier: EnginePool] = [:]
  /// Pools of sessions that are gone, with connections that are not.
  private var forgotten: [EnginePool] = []
  private let sessions = TLSSessionCache()
  /// One plaintext buffer for all TLS connections of the loop.
  private let scratch = TLSScratch()

  init(loop: EventLoop, resolver: any HostResolver, files: FileThreads) {
    self.loop = loop
    self.resolver = resolver
    self.files = files
  }

  var context: LoopContext {
    guard let loopContext else { preconditionFailure("the loop has no context: not running, or failed") }
    return loopContext
  }

  /// The life of the loop's thread.
  func run() {
    do throws(IOError) {
      let context = try LoopContext(of: loop)
      loopContext = context
      context.run()
    } catch {
      failure = error
    }
  }

  // MARK: Pools

  func adopt(_ pool: EnginePool) {
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
    for pool in forgotten + pools.values { pool.close(cancelling: true) }
    pools.removeAll()
    forgotten.removeAll()
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

  /// A client for `identity`, sharing the context of its policy and, with `resumes`, the sessions that this engine has seen.
  func tlsConnection(
    _ policy: TLSPolicy, _ identity: ConnectionIdentity, resumes: Bool
  ) throws(TLSError) -> TLSConnection {
    var options = TLSClientOptions(serverName: try ServerName(identity.serverName), port: identity.port)
    options.sessions = resumes ? sessions : nil
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
