internal import LupineBase
internal import LupineEngine
package import LupineIO

/// The whole engine among callers, servers and a network that all follow from one seed: a virtual clock, no threads, every fault there is.
///
/// Checked after every step: each request completes once, and as its server saw it; no byte of a body is in the wrong place or of another
/// response; a connection that was spoilt serves nobody; what is not idempotent is sent once; a request whose connection had died of age is
/// sent again; the limits of the pool and of its buffers hold. Checked at the end: nobody waits for ever, and no connection, timer or
/// descriptor is left.
package final class Simulation {
  let settings: SimulationSettings
  let keys: [PoolKey]
  var numbers: SeededNumbers
  var totals = SimulationTotals()
  private let seed: UInt64
  private var trace = SimulationTrace()
  private var agenda = Agenda()
  private var violation: String?
  private var exchanges: [SimulatedExchange] = []
  private var unfinished = 0
  private var servers: [SimulatedServer] = []
  private var live: [SimulatedServer] = []
  private var made: (engine: DrivenEngine, pool: EnginePool)?

  /// Steps after which a seed counts as endless; none needs a tenth of it.
  private static let stepLimit = 200_000
  private static let turnLimit = 20_000

  /// Plays one seed from its beginning to its end.
  ///
  /// - Throws: when the system has no descriptor left.
  package static func run(seed: UInt64) throws(IOError) -> SimulationReport {
    try Simulation(seed: seed).play()
  }

  private init(seed: UInt64) {
    self.seed = seed
    numbers = SeededNumbers(seed: seed)
    settings = SimulationSettings(&numbers)
    keys = settings.hosts.indices.map { host in
      PoolKey(ConnectionIdentity(host: "h\(host)", serverName: "h\(host)", port: UInt16(1000 + host), tls: nil))
    }
  }

  var engine: DrivenEngine {
    guard let made else { preconditionFailure("a simulation that has not begun") }
    return made.engine
  }

  var pool: EnginePool {
    guard let made else { preconditionFailure("a simulation that has not begun") }
    return made.pool
  }

  var now: Instant { engine.world.now }

  /// Notes the first invariant that was broken; the simulation ends after this step.
  func fail(_ what: String) {
    if violation == nil { violation = "\(what) (at \(now.nanoseconds / 1_000_000) ms)" }
  }

  func note(_ event: SimulationTrace.Event, _ first: Int, _ second: Int) {
    trace.note(now, event, first, second)
  }

  func after(_ nanoseconds: Int64, _ action: @escaping () -> Void) {
    agenda.plan(at: now.advanced(byNanoseconds: nanoseconds), action)
  }

  func exchange(_ number: Int) -> SimulatedExchange? {
    guard exchanges.indices.contains(number) else {
      fail("a request of nobody: \(number)")
      return nil
    }
    return exchanges[number]
  }

  // MARK: The course

  private func play() throws(IOError) -> SimulationReport {
    let world = DrivenWorld(now: Instant(nanoseconds: 1_000_000_000)) { [unowned self] address throws(IOError) in
      try connect(to: address)
    }
    let engine = try DrivenEngine(world: world, resolver: SimulatedResolver(self))
    var configuration = PoolConfiguration()
    configuration.limits = settings.limits
    made = (engine, engine.makePool(configuration))
    makeUsers()
    var steps = 0
    settle()
    while violation == nil, unfinished > 0 {
      advance()
      settle()
      check()
      steps += 1
      if steps > Self.stepLimit { fail("there is no end to it") }
    }
    if violation == nil { finish() }
    totals.seeds = 1
    totals.requests = exchanges.count
    totals.simulatedSeconds = Int(now.nanoseconds / 1_000_000_000)
    engine.shutdown()
    for exchange in exchanges { exchange.leave() }
    return SimulationReport(
      seed: seed, hash: trace.hash, totals: totals, violation: violation, trace: violation == nil ? [] : trace.lines)
  }

  /// Each user has requests that follow one another.
  private func makeUsers() {
    var last: [SimulatedExchange?] = Array(repeating: nil, count: settings.users)
    for number in 0..<settings.requests {
      let exchange = SimulatedExchange(self, number: number, caller: SimulatedCaller(&numbers, settings))
      exchanges.append(exchange)
      let user = numbers.below(settings.users)
      if let before = last[user] {
        before.next = exchange
      } else {
        after(Int64(numbers.mostlySmall(2000)) * 1_000_000) { exchange.start() }
      }
      last[user] = exchange
    }
    unfinished = exchanges.count
  }

  /// Moves the clock to what comes next, and does it.
  private func advance() {
    guard let next = [agenda.next, engine.context.nextDeadline].compactMap(\.self).min() else {
      return fail("\(unfinished) requests wait for nothing")
    }
    engine.world.now = max(now, next)
    while let action = agenda.popDue(now) { action() }
  }

  /// Lets client and servers go on until nothing happens any more at this instant.
  private func settle() {
    var moved = true
    while moved, violation == nil {
      guard engine.runUntilQuiet(limit: Self.turnLimit) != nil else { return fail("the engine spins") }
      moved = false
      for server in live where server.serve() { moved = true }
      live.removeAll(where: \.isOver)
    }
  }

  private func check() {
    let limits = settings.limits
    if pool.liveConnections > limits.total { fail("\(pool.liveConnections) connections of \(limits.total)") }
    if pool.keptBytes > 300_000 * max(1, pool.liveConnections) { fail("connections keep \(pool.keptBytes) bytes") }
    var open = 0
    for host in keys.indices {
      let count = live.count { $0.host == host && $0.isEstablished && !$0.end.isHungUp }
      if count > limits.perHost { fail("\(count) connections to host \(host), of \(limits.perHost)") }
      open += count
    }
    if open > limits.total { fail("\(open) connections are open, of \(limits.total)") }
  }

  private func finish() {
    engine.forget(pool)
    settle()
    // Connections that are still being opened run into their deadlines; who resumes a reader, or writes a body, of a request that has
    // ended long since finds that out.
    while violation == nil, agenda.next != nil || engine.context.nextDeadline != nil {
      advance()
      settle()
    }
    if !pool.isEmpty { fail("the pool keeps connections") }
    if engine.context.registrationCount > 0 { fail("a descriptor is still watched") }
    if engine.context.timerCount > 0 { fail("\(engine.context.timerCount) timers are left") }
    if live.contains(where: { !$0.end.isHungUp }) { fail("a connection was left open") }
  }

  func ended(_ exchange: SimulatedExchange, _ failure: TransferFailure?, _ metrics: TransferMetrics) {
    note(.end, exchange.number, failure.map { Self.code($0.error) } ?? 0)
    unfinished -= 1
    totals.repeated += metrics.retries
    totals.reused += metrics.reusedConnection ? 1 : 0
    totals.bodyBytes += Int(metrics.responseBodyBytes)
    switch failure?.error {
    case nil: totals.completed += 1
    case .cancelled: totals.cancelled += 1
    case .deadline, .bodyDeadline: totals.deadlines += 1
    default: totals.failed += 1
    }
  }

  private static func code(_ error: EngineError) -> Int {
    switch error {
    case .wire: 1
    case .content, .contentCoding: 2
    case .closedBeforeResponse: 3
    case .unsolicitedBytes: 4
    case .tls: 5
    case .resolve: 6
    case .connect, .cellular, .localAddress: 7
    case .io: 8
    case .file, .fileShrank, .fileChanged: 9
    case .bodyProducer, .bodyLength: 10
    case .cancelled: 11
    case .tooManyWaiters: 12
    case .poolClosed: 13
    case .proxy: 14
    case .bodyDeadline: 15
    case .deadline(let phase): 20 + (TransferPhase.allCases.firstIndex(of: phase) ?? 0)
    }
  }

  // MARK: The network

  private func connect(to address: SocketAddress) throws(IOError) -> StartedSocket {
    let host = Int(address.port ?? 0) - 1000
    let faults = settings.faults
    note(.connect, servers.count, host)
    if numbers.chance(faults / 4) { throw .refused }
    let isDecided = numbers.chance(50)
    var socket: StartedSocket?
    let buffer = numbers.chance(30) ? 4096 : nil
    let end = try FarEnd.connect(engine.context, clientBuffer: buffer, isDecided: isDecided) { socket = consume $0 }
    let server = SimulatedServer(self, identifier: servers.count, host: host, end: end)
    servers.append(server)
    live.append(server)
    totals.connections += 1
    if isDecided {
      server.accept()
    } else if !numbers.chance(faults / 8) {
      let isRefused = numbers.chance(faults / 4)
      after(Int64(numbers.mostlySmall(settings.latency)) * 1_000_000) {
        if isRefused { server.refuse() } else { server.accept() }
      }
    }
    guard let socket = socket.take() else { throw .refused }
    return socket
  }

  /// Looks a host up: at once, later, or never.
  func resolve(
    _ host: String, _ port: UInt16, _ completion: @escaping (Result<[SocketAddress], ResolveError>) -> Void
  ) {
    let index = Int(port) - 1000
    note(.resolve, index, 0)
    let faults = settings.faults
    guard !numbers.chance(faults / 12) else { return }
    let isFound = !numbers.chance(faults / 6)
    let addresses = (0..<settings.hosts[index]).map { last in
      SocketAddress.v4(IPv4Address(127, 0, 0, UInt8(last + 1)), port: port)
    }
    after(Int64(numbers.mostlySmall(settings.latency)) * 1_000_000) {
      completion(isFound ? .success(addresses) : .failure(.temporary))
    }
  }
}

/// Passes questions for addresses on to the simulation.
private struct SimulatedResolver: HostResolver {
  private let simulation: LoopConfined<Desk>

  init(_ simulation: Simulation) { self.simulation = LoopConfined(Desk(simulation)) }

  func immediateAnswer(host: String, port: UInt16) -> Result<[SocketAddress], ResolveError>? { nil }

  func resolve(
    host: String, port: UInt16, completion: @escaping @Sendable (Result<[SocketAddress], ResolveError>) -> Void
  ) -> ResolveToken {
    let question = LoopConfined(Question())
    simulation.onLoop.simulation.resolve(host, port) { answer in
      if !question.onLoop.isCancelled { completion(answer) }
    }
    return ResolveToken { question.onLoop.isCancelled = true }
  }

  private final class Desk {
    unowned let simulation: Simulation

    init(_ simulation: Simulation) { self.simulation = simulation }
  }

  private final class Question {
    var isCancelled = false
  }
}
