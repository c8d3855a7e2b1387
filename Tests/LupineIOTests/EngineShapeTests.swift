import LupineBase
import Testing

@testable import LupineIO

/// The shape that an engine has on a loop: an actor which nobody awaits into, with a core that is not `Sendable`.
private actor Engine {
  nonisolated let loop: EventLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
  private var core: Core?

  init() throws {
    loop = try EventLoop(name: "engine")
  }

  nonisolated func start() throws {
    try loop.start { self.assumeIsolated { $0.run() } }
  }

  private func run() {
    do {
      let context = try LoopContext(of: loop)
      core = Core(context)
      context.run()
    } catch {
      Issue.record(error)
    }
    core = nil
  }

  nonisolated func fetch(
    _ address: SocketAddress, _ request: [UInt8], _ completion: @escaping @Sendable (Result<[UInt8], IOError>) -> Void
  ) {
    loop.submit { self.assumeIsolated { $0.core?.fetch(address, request, completion) } }
  }

  /// Awaited into from outside: the hop goes through the same mailbox.
  func connectionCount() -> Int { core?.connections.count ?? -1 }
}

private final class Core {
  let context: LoopContext
  var connections: [ObjectIdentifier: Connection] = [:]

  init(_ context: LoopContext) { self.context = context }

  func fetch(
    _ address: SocketAddress, _ request: [UInt8], _ completion: @escaping @Sendable (Result<[UInt8], IOError>) -> Void
  ) {
    do {
      let connection = try Connection(self, address, request, completion)
      connections[ObjectIdentifier(connection)] = connection
    } catch let error as IOError {
      completion(.failure(error))
    } catch {}
  }
}

/// Connects, writes, reads to the end.
private final class Connection: ReadinessHandler {
  unowned let core: Core
  let socket: Descriptor
  var registration: Registration?
  var unsent: ByteQueue
  var received: [UInt8] = []
  var isConnected = false
  let completion: @Sendable (Result<[UInt8], IOError>) -> Void

  init(
    _ core: Core, _ address: SocketAddress, _ request: [UInt8],
    _ completion: @escaping @Sendable (Result<[UInt8], IOError>) -> Void
  ) throws {
    self.core = core
    self.completion = completion
    unsent = ByteQueue()
    unsent.append(request)
    socket = try SocketOptions().makeSocket(for: address)
    _ = try SystemCalls.connect(socket, to: address)
    registration = try core.context.register(socket, self)
  }

  func ready(_ readiness: Readiness) {
    do throws(IOError) {
      if !isConnected, readiness.contains(.writable) {
        if let error = SystemCalls.pendingError(socket) { throw error }
        isConnected = true
      }
      if isConnected, readiness.contains(.writable) {
        while !unsent.isEmpty, case .bytes(let count) = try SystemCalls.send(socket, unsent.span) {
          unsent.consume(count)
        }
      }
      if readiness.contains(.readable) {
        reading: while true {
          switch try core.context.read(socket) {
          case .bytes(let count):
            let context = core.context
            received += copy(context.bytes)
            if count < LoopContext.readBufferSize, readiness.isDisjoint(with: .ending) { break reading }
          case .wouldBlock: break reading
          case .end: return finish(.success(received))
          }
        }
      }
    } catch {
      finish(.failure(error))
    }
  }

  private func finish(_ result: Result<[UInt8], IOError>) {
    if let registration { core.context.deregister(registration) }
    registration = nil
    core.connections[ObjectIdentifier(self)] = nil
    completion(result)
  }
}

@Suite struct EngineShapeTests {
  @Test func anActorOnTheLoopServesCommandsAndAwaits() async throws {
    let listener = try Listener()
    let address = listener.address
    let engine = try Engine()
    try engine.start()
    let results = Locked<[Result<[UInt8], IOError>]>([])
    let done = Signal()
    for round in 0..<20 {
      engine.fetch(address, [1, 2, UInt8(round)]) { result in
        results.withLock { $0.append(result) }
        done.raise()
      }
      let client = try listener.accept()
      var request: [UInt8] = []
      while request.count < 3 {
        var byte: UInt8 = 0
        try #require(unsafe recvByte(client.number, &byte) == 1)
        request.append(byte)
      }
      _ = try SystemCalls.send(client, request.reversed().span)
      try client.close()
      try #require(done.wait())
    }
    #expect(results.withLock { $0 } == (0..<20).map { .success([UInt8($0), 2, 1]) })
    let left = await engine.connectionCount()
    #expect(left == 0)
    engine.loop.stop()
    engine.loop.join()
    // The loop has ended; a task that awaits the actor still finishes.
    let after = await engine.connectionCount()
    #expect(after == -1)
  }

  @Test func aRefusedConnectionIsReportedAtOnce() throws {
    let address = try refusingAddress()
    let engine = try Engine()
    try engine.start()
    let done = Signal()
    let results = Locked<[Result<[UInt8], IOError>]>([])
    engine.fetch(address, [1]) { result in
      results.withLock { $0.append(result) }
      done.raise()
    }
    try #require(done.wait())
    engine.loop.stop()
    engine.loop.join()
    #expect(results.withLock { $0 } == [.failure(.refused)])
  }
}
