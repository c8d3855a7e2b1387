package import LupineBase
package import LupineRules

/// The rules of a connection pool, pure: who gets which connection, when one is opened, when one must go.
///
/// States of a connection, and their legal successors:
///
///     opening -> leased (a waiter was there) | idle (late binding: nobody needed it) | gone (`openFailed`)
///     leased  -> leased (to the first waiter) | idle | gone
///     idle    -> leased | gone (time-out, eviction, hang-up)
///
/// Invariants, checked by the walk in the tests and by the fuzz target `PoolWalk`:
/// 1. per key, opening + leased + idle <= `limits.perHost`, of a shared one at most `PoolLimits.perProxy` if that is more, or the pool's share of that; in all
///    <= `limits.total`;
/// 2. a key with waiters has no idle connection;
/// 3. a waiter is answered exactly once: by a lease, by a failure, or by its own cancellation;
/// 4. waiters of a key are answered the highest priority first, those of one priority in the order of their arrival; of the answers
///    given while several priorities wait, every fourth goes to the oldest of all, so that nobody starves;
/// 5. a failed opening of a key that has no live connection fails of the waiters that were queued before the opening began as many as
///    have no other opening under way that began since they came, one alone while an earlier opening is, as one of several says little about the others; and one of
///    those for whom it is the second in a row: whoever waits for a dead host learns it, however many come and give up;
/// 6. at the total limit, the place of a connection that is gone goes to the key that has waited for one longest; and of the answers
///    that used connections give while keys wait for a place, every sixteenth makes room for one that has none, or two fewer;
/// 7. no key waits for a place while there is an opening that nobody waits for;
/// 8. nobody who comes relies on an opening that is stuck, and that began before anybody came who waits.
///
/// `Key` is the whole identity of a connection, `Waiter` whatever the driver wants back with a lease.
package struct PoolMachine<Key: Hashable, Waiter> {
  /// Names a connection of this pool; the index is reused after the connection is gone.
  package struct ConnectionIdentifier: Hashable, Sendable {
    package let index: Int
  }

  /// Names a waiting request, so that it can be cancelled in O(1).
  package struct WaiterToken: Hashable, Sendable {
    let host: Int
    let priority: TransferPriority
    let token: SlotList<Queued>.Token
  }

  /// The answer to `acquire`.
  package enum Acquired {
    /// Use this idle connection.
    case lease(ConnectionIdentifier)
    /// Wait; a lease or a failure follows. Carry out the steps.
    case wait(WaiterToken, Steps)
    /// The limit of waiting requests is reached.
    case tooManyWaiters
  }

  /// What the driver must do now, in this order: close, open, lease.
  package struct Steps {
    package var close: (connection: ConnectionIdentifier, reason: ConnectionCloseReason)?
    package var open: (connection: ConnectionIdentifier, key: Key)?
    package var lease: (connection: ConnectionIdentifier, waiter: Waiter, isReused: Bool)?
    /// The waiters that a failed opening fails; those of one priority in the order of their arrival.
    package var fail: [Waiter] = []

    init() {}
  }

  enum State { case free, opening, leased, idle }

  /// A waiter with its place in the order of all arrivals.
  struct Queued {
    let waiter: Waiter
    let arrival: UInt64
  }

  struct Connection {
    var state = State.free
    var host = 0
    /// The arrivals before its opening began.
    var arrivals: UInt64 = 0
    var openedAt = Instant(nanoseconds: 0)
    var idleSince = Instant(nanoseconds: 0)
    var uses = 0
    var idleInHost: SlotList<Int>.Token?
    var idleInAll: SlotList<Int>.Token?
  }

  package private(set) var limits: PoolLimits
  package private(set) var counters = PoolCounters()
  /// Connections in all, opening ones included.
  package private(set) var live = 0
  package private(set) var waiting = 0

  var connections: [Connection] = []
  private var freeConnections: [Int] = []
  var hosts: [Host] = []
  private var freeHosts: [Int] = []
  private var hostOfKey: [Key: Int] = [:]
  /// Where the last request went: mostly the next one goes there too. Its key stands here as well, as a look into `hosts` copies a whole host.
  private var last: (key: Key, host: Int)?
  /// Threads the idle connections of each key, and `starved`.
  private var hostIdle = SlotList<Int>()
  private var allIdle = SlotList<Int>()
  private var allIdleList = SlotList<Int>.List()
  var waiters = SlotList<Queued>()
  /// Requests that have had to wait, ever.
  private var arrivals: UInt64 = 0
  /// Keys with waiters that only the total limit holds back, in the order in which they ran into it.
  private var starved = SlotList<Int>.List()
  /// Answers of used connections since a starved key was last served.
  private var answersWhileStarved: Int32 = 0
  /// Requests that were promised an idle connection and have not come yet. Half a word, as a machine is copied now and then, and with another word it would be
  /// longer than what is copied at once.
  private var promised: Int32 = 0

  package init(limits: PoolLimits) {
    self.limits = limits
  }

  package var idleCount: Int { allIdleList.count }

  // MARK: Asking and giving up

  /// A request wants a connection for `key`. An idle connection that has run out of time or uses never serves it: such a one is
  /// given to `expired`, and the driver must close it.
  ///
  /// - Parameters:
  ///   - isReturning: it waited or was served before, and the limit of waiting requests does not hold for it.
  ///   - isShared: whether the key is that of many origins.
  ///   - share: what this pool has of the key's connections.
  package mutating func acquire(
    _ key: Key, _ waiter: @autoclosure () -> Waiter, priority: TransferPriority = .default, now: Instant,
    isReturning: Bool = false, isShared: Bool = false, share: EngineShare = .whole,
    expired: (ConnectionIdentifier, ConnectionCloseReason) -> Void
  ) -> Acquired {
    let host = hostIndex(of: key, isShared: isShared, share)
    while let index = hostIdle.last(of: hosts[host].idle) {
      removeFromIdle(index)
      if let reason = expiry(of: index, now: now) {
        gone(index, reason, releasingHost: false)
        expired(ConnectionIdentifier(index: index), reason)
      } else {
        lease(index)
        counters.reused += 1
        return .lease(ConnectionIdentifier(index: index))
      }
    }
    guard waiting < limits.waiters || isReturning else {
      releaseHostIfEmpty(host)
      return .tooManyWaiters
    }
    waiting += 1
    counters.waits += 1
    let queued = Queued(waiter: waiter(), arrival: arrivals)
    arrivals += 1
    let token = WaiterToken(
      host: host, priority: priority, token: waiters.append(queued, to: &hosts[host][priority]))
    var steps = Steps()
    openIfUseful(host, now: now, &steps)
    return .wait(token, steps)
  }

  /// A waiting request gives up. Returns its waiter and what to do, or nil if it was answered before.
  package mutating func cancel(_ token: WaiterToken, now: Instant) -> (waiter: Waiter, steps: Steps)? {
    guard let queued = waiters.remove(token.token, from: &hosts[token.host][token.priority]) else { return nil }
    waiting -= 1
    var steps = Steps()
    yieldSurplus(of: token.host, now: now, &steps)
    // Where no place becomes free for days, keys would be kept by this line alone.
    if hosts[token.host].waiting == 0 { leaveStarved(token.host) }
    releaseHostIfEmpty(token.host)
    return (queued.waiter, steps)
  }

  /// Takes every waiter out of the queues, for closing a pool at once.
  package mutating func drainWaiters() -> [Waiter] {
    var drained: [Waiter] = []
    for host in hosts.indices {
      for priority in TransferPriority.allCases {
        while let queued = waiters.popFirst(of: &hosts[host][priority]) { drained.append(queued.waiter) }
      }
      releaseHostIfEmpty(host)
    }
    waiting = 0
    return drained
  }

  // MARK: What became of connections

  /// A connection that was to be opened is ready for its first request.
  package mutating func opened(_ connection: ConnectionIdentifier, now: Instant) -> Steps {
    let host = connections[connection.index].host
    precondition(connections[connection.index].state == .opening, "opened a connection that was not opening")
    hosts[host].opening -= 1
    hosts[host].failure = nil
    connections[connection.index].openedAt = now
    counters.opened += 1
    return offer(connection.index, now: now, isReused: false) ?? Steps()
  }

  /// A connection could not be opened. If enough other openings are under way for all who wait, nobody fails. Else, if the key has a
  /// live connection, the waiter whose turn it is does. If it has none, those who waited when the opening began had their answer with this
  /// one: all for whom no other opening is under way, but one alone while an earlier opening may still show that the host is not dead. What
  /// began before anybody came who waits may be stuck, and is no reason then to keep the answer from them.
  package mutating func openFailed(_ connection: ConnectionIdentifier, now: Instant) -> Steps {
    let host = connections[connection.index].host
    precondition(connections[connection.index].state == .opening, "failed to open a connection that was not opening")
    hosts[host].opening -= 1
    let (failure, opening) = (seenFailure(of: host), connections[connection.index])
    gone(connection.index, .openFailed, releasingHost: false)
    var steps = Steps()
    if hosts[host].live > hosts[host].opening {
      if hosts[host].waiting > hosts[host].opening, let first = popNext(host) { steps.fail.append(first) }
    } else {
      let unserved = hosts[host].waiting - ownOpenings(of: host)
      if unserved > 0 {
        let hasEarlier = hasOpening(of: host, before: opening.arrivals)
        failWaiters(of: host, before: opening.arrivals, atMost: hasEarlier ? 1 : unserved, &steps)
      }
      noteFailure(of: host, (opening.arrivals, opening.openedAt), after: failure, now: now, &steps)
    }
    fillPlace(of: host, now: now, &steps)
    return steps
  }

  mutating func failWaiters(of host: Int, before arrivals: UInt64, atMost limit: Int, _ steps: inout Steps) {
    for priority in TransferPriority.allCases.reversed() {
      while steps.fail.count < limit, let first = waiters.first(of: hosts[host][priority]), first.arrival < arrivals {
        _ = waiters.popFirst(of: &hosts[host][priority])
        waiting -= 1
        steps.fail.append(first.waiter)
      }
    }
  }

  /// The exchange on a leased connection is over, and the connection may serve again. Nil: there is nothing to do.
  package mutating func release(_ connection: ConnectionIdentifier, now: Instant) -> Steps? {
    precondition(connections[connection.index].state == .leased, "released a connection that was not leased")
    if let reason = expiry(ofLeased: connection.index, now: now) {
      return closed(connection, reason, now: now, tellDriver: true)
    }
    return offer(connection.index, now: now, isReused: true)
  }

  /// A connection is gone, or about to be closed by the driver, for `reason`.
  package mutating func closed(_ connection: ConnectionIdentifier, _ reason: ConnectionCloseReason, now: Instant)
    -> Steps
  {
    closed(connection, reason, now: now, tellDriver: false)
  }

  /// The next idle connection that has run out of time, if any; call again until nil.
  package mutating func expireOne(now: Instant) -> Steps? {
    guard let index = allIdle.first(of: allIdleList), let reason = expiry(of: index, now: now) else { return nil }
    return closed(ConnectionIdentifier(index: index), reason, now: now, tellDriver: true)
  }

  /// When `expireOne` should be called next.
  package var nextExpiry: Instant? {
    allIdle.first(of: allIdleList).map {
      connections[$0].idleSince.advanced(byNanoseconds: limits.idleNanoseconds)
    }
  }

  /// Any idle connection; for closing a pool.
  package var anyIdle: ConnectionIdentifier? {
    allIdle.first(of: allIdleList).map { ConnectionIdentifier(index: $0) }
  }

  /// The connection of `key` that has been idle for longest, if that is since `instant` or before.
  package func idle(_ key: Key, since instant: Instant) -> ConnectionIdentifier? {
    guard let host = hostOfKey[key], let index = hostIdle.first(of: hosts[host].idle),
      connections[index].idleSince <= instant
    else { return nil }
    return ConnectionIdentifier(index: index)
  }

  // MARK: Promises

  /// Whether an idle connection can be promised to a request for `key` that will come: more of them are idle than are promised. An estimate, for the choice of a
  /// pool: promises count for all keys together, and whoever comes is taken for one that was promised something.
  package func canPromise(_ key: Key) -> Bool {
    hostOfKey[key].map { hosts[$0].idle.count > Int(promised) } ?? false
  }

  /// One is promised.
  package mutating func promise() { promised += 1 }

  /// A request has come, which may be one that was promised a connection: it has what there is now.
  package mutating func keepPromise() { promised = max(0, promised - 1) }

  // MARK: Inside

  private mutating func closed(
    _ connection: ConnectionIdentifier, _ reason: ConnectionCloseReason, now: Instant, tellDriver: Bool
  ) -> Steps {
    let host = connections[connection.index].host
    switch connections[connection.index].state {
    case .free: preconditionFailure("closed a connection that was gone")
    case .idle: removeFromIdle(connection.index)
    case .opening: hosts[host].opening -= 1
    case .leased: break
    }
    gone(connection.index, reason, releasingHost: false)
    var steps = Steps()
    if tellDriver { steps.close = (connection, reason) }
    fillPlace(of: host, now: now, &steps)
    return steps
  }

  /// A connection is free: the first waiter gets it; else it idles, unless its place is wanted elsewhere.
  private mutating func offer(_ index: Int, now: Instant, isReused: Bool) -> Steps? {
    let host = connections[index].host
    if isReused, mustMakeRoom(host) {
      return closed(ConnectionIdentifier(index: index), .evicted, now: now, tellDriver: true)
    }
    if let waiter = popNext(host) {
      lease(index)
      if isReused { counters.reused += 1 }
      var steps = Steps()
      steps.lease = (ConnectionIdentifier(index: index), waiter, isReused)
      yieldSurplus(of: host, now: now, &steps)
      return steps
    }
    connections[index].state = .idle
    connections[index].idleSince = now
    connections[index].idleInHost = hostIdle.append(index, to: &hosts[host].idle)
    connections[index].idleInAll = allIdle.append(index, to: &allIdleList)
    guard !starved.isEmpty else { return nil }
    var steps = Steps()
    openForStarved(now: now, &steps)
    return steps
  }

  /// Takes out the waiter whose turn it is.
  private mutating func popNext(_ host: Int) -> Waiter? {
    guard waiting > 0 else { return nil }
    let priority = hosts[host].high.isEmpty && hosts[host].low.isEmpty ? .default : contestedTurn(host)
    guard let first = waiters.popFirst(of: &hosts[host][priority]) else { return nil }
    waiting -= 1
    return first.waiter
  }

  private mutating func lease(_ index: Int) {
    connections[index].state = .leased
    connections[index].uses += 1
  }

  private mutating func removeFromIdle(_ index: Int) {
    let host = connections[index].host
    if let token = connections[index].idleInHost { _ = hostIdle.remove(token, from: &hosts[host].idle) }
    if let token = connections[index].idleInAll { _ = allIdle.remove(token, from: &allIdleList) }
    connections[index].idleInHost = nil
    connections[index].idleInAll = nil
  }

  mutating func gone(_ index: Int, _ reason: ConnectionCloseReason, releasingHost: Bool = true) {
    let host = connections[index].host
    connections[index] = Connection()
    freeConnections.append(index)
    hosts[host].live -= 1
    live -= 1
    counters.closes[reason, default: 0] += 1
    if releasingHost { releaseHostIfEmpty(host) }
  }

  private func expiry(of index: Int, now: Instant) -> ConnectionCloseReason? {
    if now.nanoseconds(since: connections[index].idleSince) >= limits.idleNanoseconds { return .idleTimeout }
    return expiry(ofLeased: index, now: now)
  }

  private func expiry(ofLeased index: Int, now: Instant) -> ConnectionCloseReason? {
    if now.nanoseconds(since: connections[index].openedAt) >= limits.lifetimeNanoseconds { return .lifetime }
    return connections[index].uses >= limits.uses ? .uses : nil
  }

  /// Opens one more connection if more requests wait than openings are under way, and both limits allow it; makes room by closing the
  /// connection that has been idle for longest, or else by ending an opening that nobody waits for.
  private mutating func openIfUseful(_ host: Int, now: Instant, _ steps: inout Steps) {
    guard wantsOpening(host), let key = hosts[host].key else { return }
    if live >= limits.total {
      guard steps.close == nil, let victim = allIdle.first(of: allIdleList) ?? surplusOpening else {
        return starve(host)
      }
      if connections[victim].state == .idle {
        removeFromIdle(victim)
      } else {
        hosts[connections[victim].host].opening -= 1
      }
      gone(victim, .evicted)
      steps.close = (ConnectionIdentifier(index: victim), .evicted)
    }
    open(host, key, now: now, &steps)
  }

  /// Both limits allow it.
  mutating func open(_ host: Int, _ key: Key, now: Instant, _ steps: inout Steps) {
    let index = freeConnections.popLast() ?? connections.count
    if index == connections.count { connections.append(Connection()) }
    connections[index].state = .opening
    connections[index].host = host
    connections[index].arrivals = arrivals
    connections[index].openedAt = now
    if hosts[host].opening == 0 { hosts[host].openingSince = now }
    hosts[host].live += 1
    hosts[host].opening += 1
    live += 1
    steps.open = (ConnectionIdentifier(index: index), key)
  }

  /// The total limit has room again, or an idle connection can make some: serve the key that has waited for that longest.
  mutating func openForStarved(now: Instant, _ steps: inout Steps) {
    while steps.open == nil, let host = hostIdle.first(of: starved) {
      guard live < limits.total || (steps.close == nil && (!allIdleList.isEmpty || surplusOpening != nil)) else {
        return
      }
      leaveStarved(host)
      openIfUseful(host, now: now, &steps)
      if wantsOpening(host) { starve(host) }
      releaseHostIfEmpty(host)
    }
    answersWhileStarved = 0
  }

  /// A connection of this key is gone.
  private mutating func fillPlace(of host: Int, now: Instant, _ steps: inout Steps) {
    openForStarved(now: now, &steps)
    if steps.open == nil {
      openIfUseful(host, now: now, &steps)
    } else if wantsOpening(host) {
      starve(host)
    }
    releaseHostIfEmpty(host)
  }

  /// A request of this key waits no more: what was being opened for it may be nobody's now, and goes if a key waits for a place.
  private mutating func yieldSurplus(of host: Int, now: Instant, _ steps: inout Steps) {
    if !starved.isEmpty, hosts[host].opening > hosts[host].waiting { openForStarved(now: now, &steps) }
  }

  private func wantsOpening(_ host: Int) -> Bool {
    hosts[host].waiting > hosts[host].opening && hosts[host].live < hosts[host].limit
  }

  mutating func starve(_ host: Int) {
    guard !hosts[host].isStarved else { return }
    hosts[host].starvedPlace = hostIdle.append(host, to: &starved)
  }

  private mutating func leaveStarved(_ host: Int) {
    guard let place = hosts[host].starvedPlace else { return }
    _ = hostIdle.remove(place, from: &starved)
    hosts[host].starvedPlace = nil
  }

  /// Whether a used connection of this key, for which others wait, must go so that a starved key has its turn; that one is the first then.
  private mutating func mustMakeRoom(_ host: Int) -> Bool {
    guard !starved.isEmpty, hosts[host].waiting > 0 else { return false }
    answersWhileStarved += 1
    guard answersWhileStarved >= Self.starvedTurn else { return false }
    for _ in 0..<starved.count {
      guard let first = hostIdle.first(of: starved) else { break }
      // At least two fewer, but for none at all: else the two would take the place from each other for ever.
      if wantsOpening(first), hosts[first].live == 0 || hosts[first].live + 1 < hosts[host].live { return true }
      leaveStarved(first)
      if wantsOpening(first) { starve(first) } else { releaseHostIfEmpty(first) }
    }
    answersWhileStarved = 0
    return false
  }

  /// A connection's reuse saves a handshake: so many answers it may give past a key that has no place.
  private static var starvedTurn: Int32 { 16 }

  private mutating func hostIndex(of key: Key, isShared: Bool, _ share: EngineShare) -> Int {
    if let last, last.key == key { return last.host }
    if let known = hostOfKey[key] {
      last = (key, known)
      return known
    }
    let index = freeHosts.popLast() ?? hosts.count
    if index == hosts.count { hosts.append(Host()) }
    hosts[index].key = key
    hosts[index].limit = share.part(of: limits.connections(isShared: isShared))
    hostOfKey[key] = index
    return index
  }

  /// Forgets a key that nothing refers to, so that memory does not grow with the number of hosts ever visited.
  private mutating func releaseHostIfEmpty(_ host: Int) {
    guard hosts[host].live == 0, hosts[host].waiting == 0, !hosts[host].isStarved, let key = hosts[host].key else {
      return
    }
    hostOfKey[key] = nil
    if last?.host == host { last = nil }
    hosts[host] = Host()
    freeHosts.append(host)
  }
}
