import LupineBase
import LupineEngine
import LupineIO
import LupineSimulation
import LupineWire
import Testing

/// An engine that the test drives, turn by turn, against servers inside the process.
private final class Drive {
  private(set) var servers: [FarEnd] = []
  private(set) var outcomes: [Recorder.Outcome] = []
  /// Whether the next attempts to connect are decided at once.
  var isDecided = true
  private var made: (engine: DrivenEngine, pool: EnginePool)?

  init(_ configuration: PoolConfiguration = PoolConfiguration()) throws {
    let world = DrivenWorld { [unowned self] _ throws(IOError) in
      var socket: StartedSocket?
      servers.append(
        try FarEnd.connect(self.engine.context, isDecided: self.isDecided) { socket = consume $0 })
      guard let socket = socket.take() else { throw .refused }
      return socket
    }
    let engine = try DrivenEngine(
      world: world, resolver: TableResolver(["h": [SocketAddress.v4(.loopback, port: 80)]]))
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

  func start(_ request: TransferRequest, then: @escaping () -> Void = {}) {
    let next = LoopConfined(Next(self, then))
    let recorder = Recorder { outcome in
      next.onLoop.drive.outcomes.append(outcome)
      next.onLoop.body()
    }
    engine.start(Transfer(request, handler: recorder, createdAt: engine.context.now), in: pool)
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

  /// What a server was sent.
  func receive(_ server: Int) -> [UInt8] {
    var bytes: [UInt8] = []
    guard servers.indices.contains(server) else { return bytes }
    servers[server].receive { bytes += [UInt8]($0) }
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

@Suite(.timeLimit(.minutes(1))) struct DrivenEngineTests {
  @Test func aDrivenEngineServesRequestsByItsOwnClock() throws {
    let drive = try Drive()
    drive.start(try request(host: "h", port: 80, target: "/1"))
    drive.settle()
    #expect(drive.received(0).hasPrefix("GET /1 HTTP/1.1\r\n"))
    drive.send(0, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
    drive.settle()
    #expect(drive.outcomes.first?.body == Array("hello".utf8))

    // The second waits for an answer, and a minute passes at once.
    drive.start(try request(host: "h", port: 80, target: "/2"))
    drive.settle()
    #expect(drive.received(0).hasPrefix("GET /2"))
    let deadline = try #require(drive.engine.context.nextDeadline)
    drive.engine.world.now = max(deadline, drive.engine.world.now.advanced(byNanoseconds: 60_000_000_000))
    drive.settle()
    let error = try #require(drive.outcomes.last?.failure?.error)
    guard case .deadline(.firstByte) = error else {
      Issue.record("\(error)")
      return
    }
    drive.end()
  }

  /// What a server says before it is asked would be taken for the answer to the first request.
  @Test func bytesBeforeTheFirstRequestFailTheConnection() throws {
    let drive = try Drive()
    drive.isDecided = false
    drive.start(try request(host: "h", port: 80))
    drive.settle()
    drive.send(0, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nEVIL!")
    drive.servers[0].accept()
    drive.settle()
    #expect(drive.received(0) == "")
    let error = try #require(drive.outcomes.first?.failure?.error)
    guard case .unsolicitedBytes = error else {
      Issue.record("\(error)")
      return
    }
    drive.end()
  }

  /// A request that starts from within the end of another, while word of what an idle connection received waits in the same batch of events,
  /// does not take that connection.
  @Test func aConnectionWhoseEventsAreStillToBeToldIsLookedAt() throws {
    let third = try request(host: "h", port: 80, target: "/3")
    let second = try request(host: "h", port: 80, target: "/2")
    let drive = try Drive()
    drive.start(try request(host: "h", port: 80, target: "/1")) { drive.start(third) }
    drive.start(second)
    drive.settle()
    #expect(drive.servers.count == 2)
    _ = (drive.received(0), drive.received(1))
    drive.send(1, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    drive.settle()
    // In this order, so that the end of the first is told before what the idle one received.
    drive.send(0, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    drive.send(1, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nEVIL!")
    drive.settle()
    #expect(drive.received(1) == "")
    #expect(drive.servers.count == 3)
    #expect(drive.received(2).hasPrefix("GET /3"))
    drive.send(2, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood")
    drive.settle()
    #expect(drive.outcomes.last?.body == Array("good".utf8))
    drive.end()
  }

  /// A file thread puts the last of a body into the socket, and the server has answered before the loop hears of it: the body was sent all the
  /// same, and the connection serves on.
  @Test func anAnswerThatOvertakesWordOfTheFileThatWasSentWaitsForIt() throws {
    let drive = try Drive()
    let count = 1000
    let file = RequestBody.file(FileBody(path: "/proc/self/exe", length: Int64(count)))
    let put = try request(host: "h", port: 80, method: "PUT", framing: .length(Int64(count)), body: file)
    for number in 1...20 {
      drive.start(put)
      var received = 0
      while received < put.head.count + count {
        _ = drive.engine.context.turn()
        // Long beside a turn, so that the body comes in here, where nobody asks what the file thread has reported.
        for _ in 0..<1000 where received < put.head.count + count {
          received += drive.receive(drive.servers.count - 1).count
        }
      }
      drive.send(drive.servers.count - 1, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
      while drive.outcomes.count < number { drive.settle() }
      #expect(drive.outcomes.last?.sent == count)
    }
    #expect(drive.servers.count == 1)
    drive.end()
  }

  /// The file ends too early, and the server has refused the body meanwhile: what it says counts.
  @Test func anAnswerCountsMoreThanTheFileThatFailed() throws {
    let drive = try Drive()
    let count = 100_000_000
    let file = RequestBody.file(FileBody(path: "/etc/passwd", length: Int64(count)))
    let put = try request(host: "h", port: 80, method: "PUT", framing: .length(Int64(count)), body: file)
    drive.start(put)
    var received = 0
    while received <= put.head.count {
      _ = drive.engine.context.turn()
      for _ in 0..<1000 where received <= put.head.count { received += drive.receive(drive.servers.count - 1).count }
    }
    drive.send(0, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
    while drive.outcomes.isEmpty { drive.settle() }
    #expect(drive.outcomes.first?.status == 413)
    #expect(drive.outcomes.first?.failure == nil)
    drive.end()
  }
}
