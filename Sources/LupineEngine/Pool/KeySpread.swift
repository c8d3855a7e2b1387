internal import LupineRules
internal import Synchronization

/// The keys of one place whose connections are spread over several engines, one for each of them, and whose turn it is.
package final class KeySpread: Sendable {
  /// In the order in which the connections were dealt out.
  private let keys: [PoolKey]
  private let connections: Int
  private let turns = Atomic<UInt>(0)

  fileprivate init(_ keys: [PoolKey], connections: Int) {
    self.keys = keys
    self.connections = connections
  }

  /// The key whose turn it is: each has as many as its engine has connections.
  package func next() -> PoolKey {
    let turn = turns.wrappingAdd(1, ordering: .relaxed).oldValue
    return keys[EngineShare.index(ofTurn: turn, connections: connections, engines: keys.count)]
  }

  /// The key of an engine; nil if it has no connection to the place.
  package func key(on engine: Int) -> PoolKey? { keys.first { $0.engine == engine } }
}

extension PoolKey {
  /// A key whose connections are spread over several engines: over as many as there may be connections, if those are fewer.
  ///
  /// - Parameters:
  ///   - place: the engine that has the first of them.
  ///   - engines: how many the session has.
  ///   - limits: those of the session, for all of its engines.
  package static func spread(
    _ identity: ConnectionIdentity, at place: Int, over engines: Int, _ limits: PoolLimits
  ) -> PoolKey {
    let connections = min(limits.connections(isShared: identity.isShared), limits.total)
    let first = EngineShare.first(place, connections: connections, total: limits.total, engines: engines)
    let width = min(engines, connections)
    guard width > 1 else { return PoolKey(identity, engine: first) }
    let keys = (0..<width).map { index in
      PoolKey(identity, engine: (first + index) % engines, share: EngineShare(index, of: width))
    }
    return PoolKey(identity, engine: first, spread: KeySpread(keys, connections: connections))
  }
}
