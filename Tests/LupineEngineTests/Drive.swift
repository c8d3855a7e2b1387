import LupineBase
import LupineEngine
import LupineIO
import LupineSimulation
import LupineWire
import Testing

/// An engine that the test drives, turn by turn, against servers inside the process.
final class Drive {
  private(set) var servers: [FarEnd] = []
  private(set) var outcomes: [Recorder.Outcome] = []
  /// Whether the next attempts to connect are decided at once.
  var isDecided = true
  /// Whether each read of a server gives what one call has sent.
  var keepsMessages = false
  /// Reads of servers that gave anything.
  private(set) var reads = 0
  /// How many sockets there may be at a time.
  var descriptorLimit = Int.max
  /// What a client may send before its server reads: as much as a system with no settings of its own gives, which doubles it.
  private static let clientBuffer = 106_496
  /// What the next servers may send before the client reads; nil for what the system has.
  var serverBuffer: Int?
  private var made: (engine: DrivenEngine, pool: EnginePool)?
  let resolver = TableResolver(["h": [SocketAddress.v4(.loopback, port: 80)]])

  /// - Parameter eventCapacity: of how many events a turn is told at most.
  init(
    _ configuration: PoolConfiguration = PoolConfiguration(), eventCapacity: Int = LoopContext.eventCapacity
  ) throws {
    let world = DrivenWorld(eventCapacity: eventCapacity) { [unowned self] _ throws(IOError) in
      guard servers.count(where: { !$0.isHungUp }) < descriptorLimit else { throw .descriptorLimit(code: 24) }
      var socket: StartedSocket?
      servers.append(
        try FarEnd.connect(
          self.engine.context, clientBuffer: self.isDecided ? Self.clientBuffer : nil, serverBuffer: self.serverBuffer,
          isDecided: self.isDecided,
          keepsMessages: self.keepsMessages
        ) {
          socket = consume $0
        })
      guard let socket = socket.take() else { throw .refused }
      return socket
    }
    let engine = try DrivenEngine(world: world, resolver: resolver)
    made = (engine, engine.makePool(configuration))
  }

  var engine: DrivenEngine {
    guard let made else { preconditionFailure("not made yet") }
    return made.engine
  }

  var pool: EnginePool {
    guard let made else { preconditionFailure("not made yet") }
    return made.pool
  }

  /// - Parameter pool: nil for the one that every drive has.
  @discardableResult
  func start(
    _ request: TransferRequest, in pool: EnginePool? = nil, then: @escaping () -> Void = {}
  ) -> Transfer {
    let next = LoopConfined(Next(self, then))
    let recorder = Recorder { outcome in
      next.onLoop.drive.outcomes.append(outcome)
      next.onLoop.body()
    }
    let transfer = Transfer(request, handler: recorder, createdAt: engine.context.now)
    engine.start(transfer, in: pool ?? self.pool)
    return transfer
  }

  private final class Next {
    let drive: Drive
    let body: () -> Void

    init(_ drive: Drive, _ body: @escaping () -> Void) {
      self.drive = drive
      self.body = body
    }
  }

  func settle() {
    #expect(engine.runUntilQuiet(limit: 1000) != nil)
  }

  /// So much time passes, and what happens then does.
  func pass(milliseconds: Int64) {
    engine.world.now = engine.world.now.advanced(byNanoseconds: milliseconds * 1_000_000)
    settle()
  }

  /// What a server was sent.
  func receive(_ server: Int) -> [UInt8] {
    var bytes: [UInt8] = []
    guard servers.indices.contains(server) else { return bytes }
    servers[server].receive {
      bytes += [UInt8]($0)
      reads += 1
    }
    return bytes
  }

  func received(_ server: Int) -> String { String(decoding: receive(server), as: UTF8.self) }

  func send(_ server: Int, _ text: String) {
    let bytes = Array(text.utf8)
    #expect(servers[server].send(bytes.span) == bytes.count)
  }

  /// Everything is closed, and nothing left.
  func end() {
    engine.forget(pool)
    settle()
    #expect(pool.isEmpty)
    #expect(engine.context.registrationCount == 0)
    #expect(engine.context.timerCount == 0)
    let areClosed = servers.allSatisfy { $0.isHungUp }
    #expect(areClosed)
    engine.shutdown()
  }
}
