internal import LupineBase
internal import LupineEngine
internal import LupineIO
internal import LupineSimulation
internal import LupineWire

/// One run of `ClientConnectionFuzz`: the requests, the servers, and what passes between them.
final class ConnectionRun {
  let engine: DrivenEngine
  let pool: EnginePool
  let limits: WireLimits
  let leniency: WireLeniency
  private let smallBuffer: Bool
  private let key = PoolKey(ConnectionIdentity(host: "h", serverName: "h", port: 80, tls: nil))
  private(set) var servers: [ConnectionServer] = []
  private(set) var exchanges: [ConnectionExchange] = []
  private var current = 0
  private var refusesNext = false
  /// The requests that have not been started: each begins when the one before it has ended.
  private var inTurn: [ConnectionExchange] = []
  /// How many requests have come, on all connections.
  private var heads = 0

  /// Turns at one instant after which the engine spins: each read of a byte is a turn, but nothing here has so many.
  private static let turnLimit = 4000
  /// What connections may keep in all: a read of each, and what is written ahead of a slow socket.
  private static let keptLimit = 1 << 20

  init(_ engine: DrivenEngine, options: UInt8, requests: ArraySlice<UInt8>) {
    self.engine = engine
    smallBuffer = options & 0x80 != 0
    leniency = options & 0x08 != 0 ? WireLeniency(rawValue: 0x3FF) : []
    var limits = WireLimits()
    if options & 0x40 != 0 {
      limits.fieldLine = 64
      limits.head = 300
      limits.fields = 6
      limits.informationalHeads = 2
    }
    self.limits = limits
    var configuration = PoolConfiguration()
    configuration.wireLimits = limits
    configuration.leniency = leniency
    configuration.limits.perHost = options & 0x04 != 0 ? 2 : 1
    configuration.limits.idleNanoseconds = 30_000_000_000
    pool = engine.makePool(configuration)
    var deadlines = Deadlines()
    deadlines.total = 300_000_000_000
    if options & 0x10 != 0 {
      deadlines.firstByte = 2_000_000_000
      deadlines.send = 3_000_000_000
      deadlines.idle = 5_000_000_000
      deadlines.poolWait = 10_000_000_000
    }
    for (number, shape) in requests.enumerated() {
      exchanges.append(
        ConnectionExchange(
          self, number: number, shape: shape, key: key, deadlines: deadlines, decodes: options & 0x20 != 0))
    }
  }

  /// The client opens a connection.
  func connect() throws(IOError) -> StartedSocket {
    guard !refusesNext, servers.count < 64 else {
      refusesNext = false
      throw .refused
    }
    var socket: StartedSocket?
    let end = try FarEnd.connect(engine.context, clientBuffer: smallBuffer ? 1 : nil, isDecided: true) {
      socket = consume $0
    }
    servers.append(ConnectionServer(end))
    guard let socket = socket.take() else { throw .refused }
    return socket
  }

  // MARK: The script

  func play(_ script: ArraySlice<UInt8>) {
    for exchange in exchanges {
      if exchange.waitsItsTurn, exchange.number > 0 { inTurn.append(exchange) } else { start(exchange) }
    }
    settle()
    var written: [UInt8] = []
    var rest = script[...]
    while let byte = rest.popFirst() {
      guard let verb = ClientConnectionFuzz.Verb(rawValue: byte) else {
        written.append(byte)
        continue
      }
      switch verb {
      case .literal: if let next = rest.popFirst() { written.append(next) }
      case .filler: written += [UInt8](repeating: UInt8(ascii: "x"), count: 64 * Int(rest.popFirst() ?? 1))
      default:
        if servers.indices.contains(current) { servers[current].write(written) }
        written = []
        perform(verb)
        settle()
      }
    }
    if servers.indices.contains(current) { servers[current].write(written) }
    settle()
    finish()
  }

  private func perform(_ verb: ClientConnectionFuzz.Verb) {
    let server = servers.indices.contains(current) ? servers[current] : nil
    switch verb {
    case .flush, .literal, .filler: break
    case .shortWait: pass(20_000_000)
    case .wait: pass(1_000_000_000)
    case .longWait: pass(61_000_000_000)
    case .halfClose: server?.halfClose()
    case .close: server?.close()
    case .stopReading: server?.isReading = false
    case .goOnReading: server?.isReading = true
    case .newest: current = max(0, servers.count - 1)
    case .next: current = servers.isEmpty ? 0 : (current + 1) % servers.count
    case .cancel:
      if let exchange = exchanges.first(where: { !$0.hasEnded && $0.hasStarted }) { engine.cancel(exchange.transfer) }
    case .resume: for exchange in exchanges where exchange.transfer.isPaused { later(exchange) { $0.resume() } }
    case .pause: for exchange in exchanges where !exchange.hasEnded { later(exchange) { $0.pause() } }
    case .refuse: refusesNext = true
    }
  }

  private func later(_ exchange: ConnectionExchange, _ body: @escaping (Transfer) -> Void) {
    engine.later { if !exchange.hasEnded { body(exchange.transfer) } }
  }

  private func pass(_ nanoseconds: Int64) {
    settle()
    engine.world.now = engine.world.now.advanced(byNanoseconds: nanoseconds)
  }

  private func start(_ exchange: ConnectionExchange) {
    exchange.hasStarted = true
    engine.start(exchange.transfer, in: pool)
  }

  /// An exchange has ended: the next one that waits for its turn begins, from within its end.
  func ended() {
    if !inTurn.isEmpty { start(inTurn.removeFirst()) }
  }

  /// Lets client and servers go on until nothing happens any more at this instant.
  private func settle() {
    var moved = true
    while moved {
      guard engine.runUntilQuiet(limit: Self.turnLimit) != nil else { preconditionFailure("the engine spins") }
      precondition(pool.keptBytes <= Self.keptLimit, "connections keep \(pool.keptBytes) bytes")
      moved = false
      // By number: reading may not add servers, but the next turn may.
      for server in servers where server.exchangeBytes(&heads) { moved = true }
    }
  }

  // MARK: The end

  private func finish() {
    for _ in 0..<200 where exchanges.contains(where: { !$0.hasEnded }) {
      for exchange in exchanges where exchange.transfer.isPaused && exchange.hasStarted { exchange.transfer.resume() }
      settle()
      guard exchanges.contains(where: { !$0.hasEnded }) else { break }
      guard let deadline = engine.context.nextDeadline else { preconditionFailure("a request waits for nothing") }
      engine.world.now = max(engine.world.now, deadline)
      settle()
    }
    for exchange in exchanges { precondition(exchange.hasEnded, "request \(exchange.number) is stuck") }
    ConnectionJudge(self).judge()
    engine.forget(pool)
    settle()
    precondition(pool.isEmpty, "the pool keeps connections")
    precondition(engine.context.registrationCount == 0, "a descriptor is still watched")
    precondition(engine.context.timerCount == 0, "a timer is left")
    for server in servers {
      precondition(server.end.isClosed || server.end.isHungUp, "the client left a connection open")
      server.end.close()
    }
    for exchange in exchanges { exchange.leave() }
  }
}

/// The server's side of one connection: what it was sent, as requests, and what it has sent.
final class ConnectionServer {
  struct Request {
    var head: RequestReader.Head
    /// What had been sent when it came: none of that can be its response.
    var sentBefore: Int
    /// Its place among the requests of all connections.
    var place: Int
    var bodyBytes = 0
    var isComplete = false
  }

  let end: FarEnd
  /// A server that does not read does not know when a request comes, so that its connection cannot be judged by what was sent before.
  var isReading = true { didSet { if !isReading { wasAlwaysReading = false } } }
  private(set) var wasAlwaysReading = true
  private(set) var sent: [UInt8] = []
  private(set) var requests: [Request] = []
  private var unsent: [UInt8] = []
  private var wantsHalfClose = false
  private(set) var hasEnded = false
  private var reader = RequestReader()

  init(_ end: FarEnd) { self.end = end }

  func write(_ bytes: [UInt8]) {
    guard !hasEnded, !wantsHalfClose else { return }
    unsent += bytes
  }

  func halfClose() { wantsHalfClose = true }

  func close() {
    flush()
    hasEnded = true
    end.close()
  }

  private func flush() {
    guard !unsent.isEmpty else { return }
    let count = end.send(unsent.span)
    sent += unsent[..<count]
    unsent.removeFirst(count)
  }

  /// Sends what waits and reads what came; whether the client may have something to do now.
  ///
  /// - Parameter heads: the requests that have come on all connections.
  func exchangeBytes(_ heads: inout Int) -> Bool {
    guard !end.isClosed else { return false }
    var moved = false
    let before = sent.count
    flush()
    if sent.count > before { moved = true }
    if wantsHalfClose, unsent.isEmpty, !hasEnded {
      hasEnded = true
      end.halfClose()
      moved = true
    }
    guard isReading else { return moved }
    var events: [RequestReader.Event] = []
    end.receive { bytes in
      moved = true
      reader.read(bytes) { events.append($0) }
    }
    for event in events { note(event, before, &heads) }
    return moved
  }

  private func note(_ event: RequestReader.Event, _ sentBefore: Int, _ heads: inout Int) {
    switch event {
    case .head(let head):
      precondition(requests.last?.isComplete ?? true, "a request came before the one before it was complete")
      requests.append(Request(head: head, sentBefore: sentBefore, place: heads))
      heads += 1
    case .body(let bytes):
      let request = requests[requests.count - 1]
      for (index, byte) in bytes.enumerated() {
        precondition(
          byte == Material.byte(request.head.number, request.bodyBytes + index, .request), "a byte of another body")
      }
      requests[requests.count - 1].bodyBytes += bytes.count
    case .end: requests[requests.count - 1].isComplete = true
    case .malformed(let text): preconditionFailure("the client sent what is no request: \(text)")
    }
  }
}
