internal import LupineBase
package import LupineIO
internal import LupineTLS

/// One epoll thread and everything on it: connections, pools, timers.
///
/// What lives on the loop is reached through `LoopConfined` boxes, opened by work in the loop's mailbox: one append under a lock and at
/// most one `eventfd` write. An actor on the loop's executor would have the compiler check the same, but costs 70 to 130 ns for every
/// entry by `assumeIsolated`: see Docs/Decisions/0001. Debug builds check the thread where pools are entered.
package final class Engine: Sendable {
  package let loop: EventLoop
  let core: LoopConfined<EngineCore>

  /// One cache of answers for all engines of the process.
  private static let processResolver = Once { () throws(IOError) in try SystemResolver() }

  /// The file threads of the process.
  package static let processFiles = Once { () throws(IOError) in try FileThreads() }

  /// Threads for the small files that a connection or a response waits for, those of TLS policies and the list of public suffixes: they are not read behind
  /// bodies and downloads, which may be large, slow, or on a server that is gone. Four, as a policy may name files on such a server too.
  package static let processSmallFiles = Once { () throws(IOError) in try FileThreads(maximumThreads: 4) }

  /// Threads for key logs, and for policies that have one, as making their context opens it. Apart, because a key log is no reason for anybody else to wait: a
  /// disk that hangs keeps a thread for each file, and one for each policy that is new to it.
  static let processKeyLogs = Once { () throws(IOError) in try FileThreads(maximumThreads: 4) }

  /// Writes and closes key logs.
  static let keyLogWork: TLSFileWork = { work in
    guard let files = try? Engine.processKeyLogs.get() else { return work(false) }
    files.run { () throws(IOError) in
      work(true)
    } completion: { result in
      if case .failure = result { work(false) }
    }
  }

  private init(loop: EventLoop, core: EngineCore) {
    self.loop = loop
    self.core = LoopConfined(core)
  }

  /// Starts an engine on a thread of its own.
  ///
  /// - Throws: when the system has no descriptor or thread left. Nothing is left behind then; starting again may succeed.
  package static func start(name: String) throws(IOError) -> Engine {
    let loop = try EventLoop(name: name)
    let core = EngineCore(
      loop: loop, watch: try LoopWatch(for: loop), resolver: try processResolver.get(), files: try processFiles.get())
    let engine = Engine(loop: loop, core: core)
    try loop.start { [core = engine.core] in core.onLoop.run() }
    return engine
  }

  /// Starts so many engines. If the system lacks something for one of them, those before it are ended.
  package static func start(_ count: Int, name: String) throws(IOError) -> [Engine] {
    var engines: [Engine] = []
    for _ in 0..<count {
      do throws(IOError) {
        engines.append(try start(name: name))
      } catch {
        for engine in engines { engine.shutdown() }
        throw error
      }
    }
    return engines
  }

  /// Closes every pool, cancelling what is under way, and ends the thread. Waits for it; never call it on the loop.
  package func shutdown() {
    shutdownSoon()
    loop.join()
  }

  /// The same from any thread, the loop's own included, without waiting.
  package func shutdownSoon() {
    let core = core
    loop.submit { core.onLoop.closePools() }
    loop.stop()
  }
}

/// A pool of one session, as other threads may hold it.
package final class PoolHandle: Sendable {
  private let engine: Engine
  /// Where the pool lives.
  package let loop: EventLoop
  private let core: LoopConfined<EngineCore>
  private let pool: LoopConfined<EnginePool>
  private let elsewhere: @Sendable (@escaping @Sendable () -> Void) -> Void

  /// - Parameter elsewhere: where transfers are told that the engine has been shut down; by default on the thread that begins them.
  package init(
    engine: Engine, configuration: PoolConfiguration,
    elsewhere: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void = { $0() }
  ) {
    self.elsewhere = elsewhere
    self.engine = engine
    loop = engine.loop
    core = engine.core
    let pool = LoopConfined(EnginePool(configuration: configuration, core: core.onLoop))
    self.pool = pool
    loop.submit { pool.onLoop.core.adopt(pool.onLoop) }
  }

  deinit {
    // The last session object is gone: idle connections are closed, what is under way may end.
    let pool = pool
    loop.submit { pool.onLoop.core.forget(pool.onLoop) }
  }

  /// Begins a transfer, from any thread. If the engine has been shut down, the handler is told so elsewhere.
  package func start(_ transfer: TransferHandle) {
    if startedAtOnce(transfer) { return }
    let pool = pool
    if !loop.submit({ pool.onLoop.start(transfer.confined.onLoop) }) { refuse(transfer) }
  }

  /// The same for a transfer whose `runOnLoop` calls `startOnLoop`.
  package func start(_ transfer: any Transfer & LoopWork) {
    let handle = TransferHandle(transfer)
    if startedAtOnce(handle) { return }
    if !loop.submit(transfer) { refuse(handle) }
  }

  /// Begins a transfer that comes out of the mailbox; on the loop.
  package func startOnLoop(_ transfer: TransferHandle) {
    pool.onLoop.startInTurn(transfer.confined.onLoop)
  }

  private func startedAtOnce(_ transfer: TransferHandle) -> Bool {
    loop.isCurrent && core.onLoop.stages.start(transfer.confined.onLoop, in: pool.onLoop)
  }

  private func refuse(_ transfer: TransferHandle) {
    elsewhere {
      transfer.confined.onLoop.end(
        TransferFailure(error: .poolClosed, phase: .poolWait, requestBytesSent: false), now: EventLoop.monotonicNow())
    }
  }

  /// Whether a connection idles for a transfer with this key that is begun next, by `start(_: any Transfer & LoopWork)`; on the loop.
  package func promisesIdleOnLoop(_ key: PoolKey) -> Bool { pool.onLoop.promisesIdle(key) }

  /// Cancels a transfer, from any thread; nothing happens if it has ended.
  package func cancel(_ transfer: TransferHandle) {
    loop.submit { transfer.confined.onLoop.cancel() }
  }

  /// Runs `body` with a transfer on the loop: to resume, pause or discard from another thread.
  package func perform(on transfer: TransferHandle, _ body: @escaping @Sendable (Transfer) -> Void) {
    loop.submit { body(transfer.confined.onLoop) }
  }

  /// Closes connections as soon as they are idle. With `cancelling`, ends what is under way, and refuses what is started later.
  package func close(cancelling: Bool) {
    let pool = pool
    loop.submit { pool.onLoop.close(cancelling: cancelling) }
  }

  /// Closes the connections that are there, idle ones now and busy ones after their exchange, and forgets the TLS sessions of
  /// `trustDomain`: nothing that comes later depends on what was decided before. The caller names another domain in its keys first.
  package func reset(forgetting trustDomain: UInt64) {
    let pool = pool
    loop.submit { pool.onLoop.reset(forgetting: trustDomain) }
  }

  /// What the pool has done so far, told on the loop.
  package func counters(_ completion: @escaping @Sendable (PoolCounters) -> Void) {
    let pool = pool
    if !loop.submit({ completion(pool.onLoop.counters) }) { completion(PoolCounters()) }
  }
}

/// A transfer, as other threads may hold it and pass it back to its loop.
package struct TransferHandle: Sendable {
  let confined: LoopConfined<Transfer>

  package init(_ transfer: Transfer) {
    confined = LoopConfined(transfer)
  }
}

/// Something made when it is first needed; a failure to make it is not kept, because a shortage passes.
package final class Once<Value: Sendable>: Sendable {
  private let make: @Sendable () throws(IOError) -> Value
  private let value = Locked<Value?>(nil)

  init(_ make: @escaping @Sendable () throws(IOError) -> Value) {
    self.make = make
  }

  package func get() throws(IOError) -> Value {
    try value.withLock { (value) throws(IOError) in
      if let value { return value }
      let made = try make()
      value = made
      return made
    }
  }
}
