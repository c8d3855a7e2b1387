internal import LupineBase
internal import LupineEngine

/// Drives a `PoolMachine` by bytes and checks its invariants after every step: shared by the tests and the fuzz target `PoolWalk`.
package enum PoolWalk {
  private typealias Machine = PoolMachine<UInt8, Int>

  /// The world around the machine, as a driver would know it.
  private struct World {
    var machine: Machine
    /// Connections that are being opened, each with the number of waiters that there had been when it began.
    var opening: [(connection: Machine.ConnectionIdentifier, arrivals: Int, begunAt: Instant)] = []
    /// The last failure that counts, by key, of an opening without a live connection.
    var failures: [UInt8: (arrivals: Int, at: Instant)] = [:]
    var leased: [Machine.ConnectionIdentifier: Int] = [:]
    /// With the time since when.
    var idle: [Machine.ConnectionIdentifier: Instant] = [:]
    var waiting: [(waiter: Int, key: UInt8, priority: TransferPriority, token: Machine.WaiterToken)] = []
    /// Connections in a row, by key, that went past the waiter that was there first.
    var bypasses: [UInt8: Int] = [:]
    /// Connections that were used and leased again, by key, while that key waited and had none.
    var passedOver: [UInt8: Int] = [:]
    var answered: Set<Int> = []
    var openedAt: [Machine.ConnectionIdentifier: Instant] = [:]
    var uses: [Machine.ConnectionIdentifier: Int] = [:]
    var keyOf: [Machine.ConnectionIdentifier: UInt8] = [:]
    var nextWaiter = 0
    var now = Instant(nanoseconds: 0)

    mutating func answer(_ waiter: Int) {
      precondition(answered.insert(waiter).inserted, "waiter \(waiter) was answered twice")
    }

    mutating func dequeue(_ waiter: Int) {
      guard let position = waiting.firstIndex(where: { $0.waiter == waiter }) else {
        preconditionFailure("waiter \(waiter) was answered but did not wait")
      }
      let (_, key, priority, _) = waiting[position]
      precondition(
        !waiting[..<position].contains { $0.key == key && $0.priority == priority }, "waiter \(waiter) jumped the queue"
      )
      waiting.remove(at: position)
      answer(waiter)
    }

    /// The highest priority goes first, but past the oldest only three times in a row.
    mutating func checkTurn(_ waiter: Int) {
      guard let mine = waiting.first(where: { $0.waiter == waiter }) else { return }
      let rivals = waiting.filter { $0.key == mine.key }
      if !noteOldest(waiter) {
        precondition(!rivals.contains { $0.priority.rawValue > mine.priority.rawValue }, "a lower priority went first")
        bypasses[mine.key, default: 0] += 1
        precondition(bypasses[mine.key, default: 0] < 4, "the oldest waiter starves")
      }
    }

    /// Whether this waiter is the oldest of its key, which then was not passed by.
    mutating func noteOldest(_ waiter: Int) -> Bool {
      guard let key = waiting.first(where: { $0.waiter == waiter })?.key,
        waiting.first(where: { $0.key == key })?.waiter == waiter
      else { return false }
      bypasses[key] = 0
      return true
    }

    /// Every sixteenth answer goes to one of the four keys, the one that has starved longest.
    mutating func notePassedOver() {
      let starving = Set(waiting.map(\.key)).subtracting(keyOf.values)
      passedOver = passedOver.filter { starving.contains($0.key) }
      for key in starving {
        passedOver[key, default: 0] += 1
        precondition(passedOver[key, default: 0] <= 64, "a key without a connection starves")
      }
    }

    mutating func checkUse(_ connection: Machine.ConnectionIdentifier) {
      if let since = openedAt[connection] {
        precondition(now.nanoseconds(since: since) < machine.limits.lifetimeNanoseconds, "leased past its lifetime")
      }
      uses[connection, default: 0] += 1
      precondition(uses[connection, default: 0] <= machine.limits.uses, "leased too often")
    }

    /// - Parameter served: a waiter that is answered by the same steps.
    mutating func gone(_ connection: Machine.ConnectionIdentifier, served: Int? = nil) {
      if let position = opening.firstIndex(where: { $0.connection == connection }) {
        let key = keyOf[connection]
        precondition(
          opening.count { keyOf[$0.connection] == key } > waiting.count { $0.key == key && $0.waiter != served },
          "an opening was ended although a request waits for it")
        opening.remove(at: position)
      } else {
        precondition(idle.removeValue(forKey: connection) != nil || leased.removeValue(forKey: connection) != nil)
      }
      keyOf[connection] = nil
    }

    mutating func perform(_ steps: Machine.Steps) {
      if let close = steps.close { gone(close.connection, served: steps.lease?.waiter) }
      opened(steps)
      if let lease = steps.lease {
        checkUse(lease.connection)
        leased[lease.connection] = lease.waiter
        idle[lease.connection] = nil
        let key = waiting.first { $0.waiter == lease.waiter }?.key
        precondition(key == keyOf[lease.connection], "a connection was leased under another key")
        checkTurn(lease.waiter)
        dequeue(lease.waiter)
        if lease.isReused { notePassedOver() }
      }
      for waiter in steps.fail {
        // A failure is an answer too: the turn of the oldest may have come with it.
        _ = noteOldest(waiter)
        dequeue(waiter)
      }
    }

    mutating func opened(_ steps: Machine.Steps) {
      guard let open = steps.open else { return }
      opening.append((open.connection, nextWaiter, now))
      keyOf[open.connection] = open.key
      passedOver[open.key] = nil
    }

    func check() {
      let limits = machine.limits
      let all = opening.count + leased.count + idle.count
      precondition(all == machine.live, "the machine counts \(machine.live) connections, the driver \(all)")
      precondition(all <= limits.total, "more connections than the total limit")
      precondition(waiting.count == machine.waiting && waiting.count <= limits.waiters)
      precondition(idle.count == machine.idleCount)
      for key in Set(keyOf.values) {
        precondition(keyOf.values.count { $0 == key } <= limits.perHost, "more connections than the limit per host")
        if waiting.contains(where: { $0.key == key }) {
          precondition(!idle.keys.contains { keyOf[$0] == key }, "a request waits although a connection is idle")
        }
      }
      // A key that is below its own limit waits for the total one only while no opening is nobody's.
      let surplus = opening.contains { one in
        let key = keyOf[one.connection]
        return opening.count { keyOf[$0.connection] == key } > waiting.count { $0.key == key }
      }
      for key in Set(waiting.map(\.key)) where surplus {
        precondition(
          opening.count { keyOf[$0.connection] == key } >= waiting.count { $0.key == key }
            || keyOf.values.count { $0 == key } >= limits.perHost,
          "a key starves although an opening is nobody's")
      }
      // Nobody waits for nothing: with waiters, something is opening or leased, somewhere.
      precondition(waiting.isEmpty || !opening.isEmpty || !leased.isEmpty, "requests wait and nothing is under way")
    }
  }

  /// Oracle: no byte sequence breaks an invariant of the pool or answers a waiter twice.
  package static func run(bytes: [UInt8]) {
    var world = start(bytes)
    for byte in bytes.dropFirst(2) { take(byte, &world) }
  }

  /// The same for every walk that differs from `bytes` by one of these bits in one byte, and goes on for `reach` steps after it: what came before is not
  /// walked again, and later the pool has forgotten the difference. Other limits hold for the whole walk.
  package static func runBent(bytes: [UInt8], bits: [UInt8], reach: Int) {
    for position in bytes.indices.prefix(2) {
      for bit in bits {
        var bent = bytes
        bent[position] ^= bit
        run(bytes: bent)
      }
    }
    var world = start(bytes)
    for position in bytes.indices.dropFirst(2) {
      for bit in bits {
        var other = world
        take(bytes[position] ^ bit, &other)
        for byte in bytes[(position + 1)...].prefix(reach) { take(byte, &other) }
      }
      take(bytes[position], &world)
    }
  }

  private static func start(_ bytes: [UInt8]) -> World {
    var limits = PoolLimits()
    limits.perHost = 1 + Int(bytes.first ?? 0) % 3
    limits.total = 1 + Int(bytes.dropFirst().first ?? 0) % 5
    limits.waiters = 8
    limits.idleNanoseconds = 20
    limits.lifetimeNanoseconds = 100
    limits.uses = 5
    return World(machine: Machine(limits: limits))
  }

  private static func take(_ byte: UInt8, _ world: inout World) {
    step(&world, verb: byte & 7, operand: Int(byte >> 3))
    world.check()
    for key in world.bypasses.keys where !world.waiting.contains(where: { $0.key == key }) {
      world.bypasses[key] = nil
    }
  }

  private static func step(_ world: inout World, verb: UInt8, operand: Int) {
    switch verb {
    case 0, 1: ask(&world, key: UInt8(operand % 4), priority: TransferPriority(rawValue: operand / 4 % 3) ?? .default)
    case 2:
      guard !world.opening.isEmpty else { return }
      let connection = world.opening.remove(at: operand % world.opening.count).connection
      if let key = world.keyOf[connection] { world.failures[key] = nil }
      (world.openedAt[connection], world.uses[connection]) = (world.now, 0)
      let steps = world.machine.opened(connection, now: world.now)
      if steps.lease == nil { world.idle[connection] = world.now }
      world.perform(steps)
    case 3:
      guard !world.opening.isEmpty else { return }
      openFailed(&world, world.opening.remove(at: operand % world.opening.count))
    case 4:
      guard let connection = pick(world.leased.keys, operand) else { return }
      world.leased[connection] = nil
      world.idle[connection] = world.now
      if let steps = world.machine.release(connection, now: world.now) { world.perform(steps) }
    case 5:
      guard let connection = pick(world.leased.keys, operand) ?? pick(world.idle.keys, operand) else { return }
      let key = world.keyOf[connection]
      let steps = world.machine.closed(connection, .failed, now: world.now)
      world.gone(connection)
      world.perform(steps)
      guard operand >= 16, let key else { return }
      closeSuspects(&world, key: key, since: world.now.advanced(byNanoseconds: -Int64(operand % 16)))
    case 6:
      guard !world.waiting.isEmpty else { return }
      let waiter = world.waiting.remove(at: operand % world.waiting.count)
      // A key that comes back has not waited yet.
      if !world.waiting.contains(where: { $0.key == waiter.key }) { world.passedOver[waiter.key] = nil }
      let given = world.machine.cancel(waiter.token, now: world.now)
      precondition(given?.waiter == waiter.waiter)
      precondition(world.machine.cancel(waiter.token, now: world.now) == nil)
      world.answer(waiter.waiter)
      if let given { world.perform(given.steps) }
    default:
      world.now = world.now.advanced(byNanoseconds: Int64(operand))
      while let steps = world.machine.expireOne(now: world.now) { world.perform(steps) }
    }
  }

  /// What has been idle since `instant` goes, and nothing else.
  private static func closeSuspects(_ world: inout World, key: UInt8, since instant: Instant) {
    while let suspect = world.machine.idle(key, since: instant) {
      precondition(world.keyOf[suspect] == key, "a connection of another key is suspected")
      precondition(
        world.idle[suspect].map { $0 <= instant } ?? false, "a connection that was used meanwhile is suspected")
      let steps = world.machine.closed(suspect, .suspected, now: world.now)
      world.gone(suspect)
      world.perform(steps)
    }
    precondition(
      !world.idle.contains { world.keyOf[$0.key] == key && $0.value <= instant },
      "a connection that was idle for longer is not suspected")
  }

  private static func openFailed(
    _ world: inout World, _ opening: (connection: Machine.ConnectionIdentifier, arrivals: Int, begunAt: Instant)
  ) {
    guard let key = world.keyOf.removeValue(forKey: opening.connection) else {
      preconditionFailure("a connection was opened for no key")
    }
    let others = world.opening.count { world.keyOf[$0.connection] == key }
    let isLive = world.keyOf.values.count { $0 == key } > others
    let waiters = world.waiting.count { $0.key == key }
    // What began before anybody came who waits may be stuck, and is relied on by nobody who has had another answer.
    let oldest = world.waiting.first { $0.key == key }?.waiter ?? .max
    let relied = isLive ? others : world.opening.count { world.keyOf[$0.connection] == key && $0.arrivals > oldest }
    let earlier = world.waiting.count { $0.key == key && $0.waiter < opening.arrivals }
    let steps = world.machine.openFailed(opening.connection, now: world.now)
    let failure = world.failures[key].flatMap { last in
      world.waiting.contains { $0.key == key && $0.waiter < last.arrivals } ? last : nil
    }
    let isSecond = failure.map { $0.at < opening.begunAt } ?? false
    if !isLive, failure == nil || isSecond { world.failures[key] = (opening.arrivals, world.now) }
    if waiters <= relied {
      precondition(
        steps.fail.count == (isSecond && !isLive ? 1 : 0),
        "a waiter failed although enough openings are under way, or waits for ever")
    } else if isLive {
      precondition(steps.fail.count == 1, "with a live connection one waiter fails")
    } else if others == 0 {
      precondition(
        steps.fail.count == earlier, "not all failed who came before the opening, and had nothing else to wait for")
    } else {
      precondition(steps.fail.count <= waiters - relied, "a waiter failed although an opening was under way for it")
      precondition(!steps.fail.isEmpty || earlier == 0, "an opening failed, and nobody learnt it")
    }
    precondition(isLive || !steps.fail.contains { $0 >= opening.arrivals }, "a waiter failed with an older opening")
    world.perform(steps)
  }

  private static func ask(_ world: inout World, key: UInt8, priority: TransferPriority) {
    let waiter = world.nextWaiter
    world.nextWaiter += 1
    var expired: [Machine.ConnectionIdentifier] = []
    let answer = world.machine.acquire(key, waiter, priority: priority, now: world.now) { connection, _ in
      expired.append(connection)
    }
    for connection in expired { world.gone(connection) }
    switch answer {
    case .lease(let connection):
      guard let since = world.idle.removeValue(forKey: connection) else {
        preconditionFailure("leased a connection that was not idle")
      }
      precondition(
        world.now.nanoseconds(since: since) < world.machine.limits.idleNanoseconds, "leased past its idle time")
      world.checkUse(connection)
      precondition(world.keyOf[connection] == key, "leased a connection of another key")
      world.leased[connection] = waiter
      world.answer(waiter)
    case .wait(let token, let steps):
      world.waiting.append((waiter, key, priority, token))
      world.perform(steps)
      if steps.open == nil { renew(&world, key: key, token) }
    case .tooManyWaiters:
      precondition(world.waiting.count == world.machine.limits.waiters)
    }
  }

  /// Every other opening is stuck.
  private static func renew(_ world: inout World, key: UInt8, _ token: Machine.WaiterToken) {
    let before = world.opening
    let steps = world.machine.renewOpening(token, now: world.now) { connection, _ in connection.index % 2 == 0 }
    let waiters = world.waiting.filter { $0.key == key }.map(\.waiter)
    let own = before.filter { world.keyOf[$0.connection] == key }
    let stuck = own.filter { $0.connection.index % 2 == 0 && $0.arrivals <= (waiters.min() ?? .max) }
    guard let open = steps.open else {
      precondition(
        stuck.isEmpty || own.count - stuck.count >= waiters.count, "a request relies on a stuck opening of others")
      return
    }
    precondition(!stuck.isEmpty, "an opening began in the place of none")
    precondition(
      open.key == key || world.waiting.contains { $0.key == open.key },
      "an opening began for a key that nobody waits for")
    if let ended = steps.close?.connection {
      precondition(
        stuck.contains { $0.connection == ended }, "an opening was ended that is not stuck, or is waited for")
      world.opening.removeAll { $0.connection == ended }
      world.keyOf[ended] = nil
      let full = world.machine.limits.perHost
      precondition(
        world.keyOf.values.count { $0 == key } == full - 1 || world.machine.live == world.machine.limits.total,
        "an opening was ended although another one has room beside it")
    }
    world.opened(steps)
  }

  private static func pick(_ all: some Collection<Machine.ConnectionIdentifier>, _ operand: Int) -> Machine
    .ConnectionIdentifier?
  {
    all.isEmpty ? nil : all.sorted { $0.index < $1.index }[operand % all.count]
  }

  /// Reproducible bytes for tests (SplitMix64).
  package static func randomBytes(seed: UInt64, count: Int) -> [UInt8] {
    var state = seed
    return (0..<count).map { _ in
      state &+= 0x9E37_79B9_7F4A_7C15
      var mixed = state
      mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
      mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
      return UInt8(truncatingIfNeeded: mixed >> 24)
    }
  }
}
