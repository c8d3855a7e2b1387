internal import LupineBase
package import LupineIO
internal import LupineTLS

/// One epoll thread and everything on it: connections, pools, timers.
///
/// The engine is an actor on its loop's executor, which proves at compile time that nothing inside is touched from elsewhere; but nobody
/// awaits into it. Commands are closures in the loop's mailbox that enter by `assumeIsolated`: one append under a lock and at most one
/// `eventfd` write, where an awaited call would cost two hops.
package actor Engine {
  package nonisolated let loop: EventLoop
  private var core: EngineCore?

  package nonisolated var unownedExecutor: UnownedSerialExecutor {
    unsafe loop.asUnownedSerialExecutor()
  }

  private let resolver: any HostResolver
  private let files: FileThreads

  /// One cache of answers for all engines of the process.
  private static let processResolver = Result { () throws(IOError) in try SystemResolver() }

  /// The file threads of the process.
  package static let processFiles = Result { () throws(IOError) in try FileThreads() }

  private init(loop: EventLoop, resolver: any HostResolver, files: FileThreads) {
    self.loop = loop
    self.resolver = resolver
    self.files = files
  }

  /// Starts an engine on a thread of its own.
  package static func start(name: String) throws(IOError) -> Engine {
    let engine = Engine(
      loop: try EventLoop(name: name), resolver: try processResolver.get(), files: try processFiles.get())
    try engine.loop.start { engine.assumeIsolated { $0.run() } }
    return engine
  }

  private func run() {
    do throws(IOError) {
      let context = try LoopContext(of: loop)
      let core = EngineCore(context: context, resolver: resolver, files: files)
      self.core = core
      context.run()
    } catch {
      failure = error
    }
    core = nil
  }

  private var failure: IOError?

  /// Runs `body` on the loop with the engine's inside. Dropped, with false, once the engine has been shut down.
  @discardableResult
  nonisolated func perform(_ body: @escaping @Sendable (EngineCore) -> Void) -> Bool {
    loop.submit {
      self.assumeIsolated { engine in
        if let core = engine.core { body(core) }
      }
    }
  }

  /// Closes every pool, cancelling what is under way, and ends the thread. Waits for it; never call it on the loop.
  package nonisolated func shutdown() {
    perform { core in
      core.closePools()
    }
    loop.stop()
    loop.join()
  }
}

extension Engine {
  /// Shuts down from any thread, the loop's own included, without waiting: a thread of its own does that.
  package nonisolated func shutdownSoon() {
    perform { core in core.closePools() }
    loop.stop()
  }
}

/// A pool of one session, as other threads may hold it.
package final class PoolHandle: Sendable {
  private let engine: Engine
  private let configuration: PoolConfiguration
  private let identifier: UInt64

  private static let nextIdentifier = Locked<UInt64>(1)

  package init(engine: Engine, configuration: PoolConfiguration) {
    self.engine = engine
    self.configuration = configuration
    identifier = Self.nextIdentifier.withLock { next in
      defer { next += 1 }
      return next
    }
  }

  deinit {
    // The last session object is gone: idle connections are closed, what is under way may end.
    let identifier = identifier
    engine.perform { core in core.forgetPool(identifier) }
  }

  /// Begins a transfer, from any thread. If the engine has been shut down, the handler is told so on this thread.
  package func start(_ transfer: TransferHandle) {
    let (identifier, configuration) = (identifier, configuration)
    let accepted = engine.perform { core in
      core.pool(identifier, configuration).start(transfer.confined.onLoop)
    }
    if !accepted {
      transfer.confined.onLoop.end(
        TransferFailure(error: .poolClosed, phase: .poolWait, requestBytesSent: false), now: EventLoop.monotonicNow())
    }
  }

  /// Cancels a transfer, from any thread; nothing happens if it has ended.
  package func cancel(_ transfer: TransferHandle) {
    engine.perform { _ in transfer.confined.onLoop.cancel() }
  }

  /// Runs `body` with a transfer on the loop: to resume, pause or discard from another thread.
  package func perform(on transfer: TransferHandle, _ body: @escaping @Sendable (Transfer) -> Void) {
    engine.perform { _ in body(transfer.confined.onLoop) }
  }

  /// Closes connections as soon as they are idle. With `cancelling`, ends what is under way, and refuses what is started later.
  package func close(cancelling: Bool) {
    let (identifier, configuration) = (identifier, configuration)
    engine.perform { core in core.pool(identifier, configuration).close(cancelling: cancelling) }
  }

  /// What the pool has done so far, told on the loop.
  package func counters(_ completion: @escaping @Sendable (PoolCounters) -> Void) {
    let (identifier, configuration) = (identifier, configuration)
    engine.perform { core in completion(core.pool(identifier, configuration).counters) }
  }
}

/// A transfer, as other threads may hold it and pass it back to its loop.
package struct TransferHandle: Sendable {
  let confined: LoopConfined<Transfer>

  /// Runs `body` at once; the caller is on the loop's thread.
  package func performOnLoop(_ body: (Transfer) -> Void) {
    body(confined.onLoop)
  }

  package init(_ transfer: Transfer) {
    confined = LoopConfined(transfer)
  }
}
