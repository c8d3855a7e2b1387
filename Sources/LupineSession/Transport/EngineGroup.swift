internal import LupineEngine
internal import LupineIO
internal import LupineRules
internal import Synchronization

/// The engines of a session that has several, each with a pool that has its share of the session's limits.
///
/// Apart, behind one reference: a session with one engine, as nearly all have, asks for no more than whether there is a group.
final class EngineGroup: Sendable {
  private let engines: [Engine]
  private let pools: [PoolHandle]
  /// Those of the session, for all engines.
  private let limits: PoolLimits
  private let spreads: Bool
  private let lanes = Atomic<UInt>(0)

  init(
    _ count: Int, _ choice: SessionConfiguration.EngineChoice, _ configuration: PoolConfiguration
  ) throws(IOError) {
    let engines = try Engine.start(count, name: "lupine")
    self.engines = engines
    limits = configuration.limits
    if case .several(_, let spreading) = choice { spreads = spreading } else { spreads = false }
    pools = engines.indices.map { index in
      let share = EngineShare(index, of: count)
      var own = configuration
      own.limits.total = share.part(of: configuration.limits.total)
      own.limits.waiters = share.part(of: configuration.limits.waiters)
      return EngineTransport.makePool(on: engines[index], own)
    }
  }

  var first: (engine: Engine, pool: PoolHandle) { (engines[0], pools[0]) }

  var loops: [EventLoop] { engines.map(\.loop) }

  /// That on whose thread the caller is; nil: on none of them.
  var currentLoop: EventLoop? { engines.first { $0.loop.isCurrent }?.loop }

  func pool(of key: PoolKey) -> PoolHandle { pools[key.engine] }

  /// The engine on whose thread somebody before the pools does his own work for a request: that of the caller, else each in turn. It takes no turn of a place.
  func nextLane() -> UInt8 {
    if let current = engines.firstIndex(where: { $0.loop.isCurrent }) { return UInt8(current) }
    return UInt8(lanes.wrappingAdd(1, ordering: .relaxed).oldValue % UInt(engines.count))
  }

  func submit(to index: Int, _ work: @escaping @Sendable () -> Void) -> Bool {
    engines[index].loop.submit(work)
  }

  /// The key of a place, or those of its engines.
  func key(_ identity: ConnectionIdentity, at place: Int) -> PoolKey {
    spreads ? PoolKey.spread(identity, at: place, over: engines.count, limits) : PoolKey(identity, engine: place)
  }

  /// Whoever is about to begin a request on an engine's thread, as in a completion, stays there if a connection idles that is promised to nobody else, which spares
  /// waking another thread. All others take their turns, also those who begin there: many that are begun at once in a completion, or in a task on the engine's executor,
  /// do not keep one engine busy with all of them.
  func turn(of spread: KeySpread) -> PoolKey {
    if let current = engines.firstIndex(where: { $0.loop.isCurrent }), let key = spread.key(on: current),
      pools[current].promisesIdleOnLoop(key)
    {
      return key
    }
    return spread.next()
  }

  func close(cancelling: Bool) {
    for pool in pools { pool.close(cancelling: cancelling) }
  }

  func reset(forgetting trustDomain: UInt64) {
    for pool in pools { pool.reset(forgetting: trustDomain) }
  }

  func counters(_ completion: @escaping @Sendable (PoolCounters) -> Void) {
    count(PoolCounters(), from: 0, completion)
  }

  private func count(
    _ sum: PoolCounters, from index: Int, _ completion: @escaping @Sendable (PoolCounters) -> Void
  ) {
    guard index < pools.count else { return completion(sum) }
    pools[index].counters { [self] counters in
      var next = sum
      next.add(counters)
      count(next, from: index + 1, completion)
    }
  }

  func shutdownSoon() {
    for engine in engines { engine.shutdownSoon() }
  }
}
