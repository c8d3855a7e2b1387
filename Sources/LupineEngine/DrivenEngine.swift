internal import LupineBase
package import LupineIO

/// An engine without a thread: whoever made it drives it, turn by turn, on the thread that he is on, with a clock and a network of his own.
///
/// Everything in it is what `Engine` has, the loop included. With the same world the same things happen in the same order, so that a test
/// can have a thousand requests meet every fault, and have them meet again. Connections with TLS are none of that: OpenSSL draws numbers
/// of its own, and policies are read on file threads.
///
/// Not `Sendable`; another thread may go on with it after `adoptCurrentThread()`.
package final class DrivenEngine {
  package let world: DrivenWorld
  package let context: LoopContext
  private let core: EngineCore

  /// Makes an engine of the calling thread.
  package init(world: DrivenWorld, resolver: any HostResolver) throws(IOError) {
    let loop = try EventLoop(name: "lupine-driven")
    loop.adoptCurrentThread()
    self.world = world
    core = EngineCore(
      loop: loop, watch: try LoopWatch(for: loop), resolver: resolver, files: try Engine.processFiles.get())
    context = core.makeContext(world: world)
  }

  /// The calling thread drives from now on.
  package func adoptCurrentThread() {
    core.loop.adoptCurrentThread()
  }

  package func makePool(_ configuration: PoolConfiguration) -> EnginePool {
    let pool = EnginePool(configuration: configuration, core: core)
    core.adopt(pool)
    return pool
  }

  /// Nothing more is started in `pool`: what is idle is closed, what is under way may end.
  package func forget(_ pool: EnginePool) {
    core.forget(pool)
  }

  /// Closes what is still there. Pools and the engine hold one another until then.
  package func shutdown() {
    core.closePools()
  }

  /// Begins a transfer as `PoolHandle.start` does on the loop's thread: in this turn from within the end of another, else by the mailbox.
  package func start(_ transfer: Transfer, in pool: EnginePool) {
    if core.stages.start(transfer, in: pool) { return }
    core.later { pool.startInTurn(transfer) }
  }

  /// Cancels a transfer in the next turn; nothing happens if it has ended.
  package func cancel(_ transfer: Transfer) {
    core.later { transfer.cancel() }
  }

  /// Runs `body` in the next turn.
  package func later(_ body: @escaping () -> Void) {
    core.later(body)
  }

  /// Runs turns until nothing happens any more at this time.
  ///
  /// - Returns: how many it were; nil if something still happened in the last of `limit` turns.
  package func runUntilQuiet(limit: Int) -> Int? {
    for turn in 0..<limit where !context.turn() { return turn }
    return nil
  }
}
