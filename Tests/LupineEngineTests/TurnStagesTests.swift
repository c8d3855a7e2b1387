import LupineBase
import LupineIO
import LupineSimulation
import LupineTesting
import LupineWire
import Testing

@testable import LupineEngine

/// What many connections do in one turn is done stage by stage.
@Suite(.timeLimit(.minutes(1))) struct TurnStagesTests {
  private static func answer(_ body: String) -> String {
    "HTTP/1.1 200 OK\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
  }

  private func drive(connections: Int) throws -> Drive {
    var configuration = PoolConfiguration()
    configuration.limits.perHost = connections
    return try Drive(configuration)
  }

  /// So many requests wait for their answers, each on a connection of its own.
  private func ask(_ drive: Drive, _ count: Int, then: @escaping (Int) throws -> Void = { _ in }) throws {
    for index in 0..<count {
      drive.start(try request(host: "h", port: 80, target: "/\(index)")) {
        do { try then(index) } catch { Issue.record(error) }
      }
    }
    drive.settle()
    #expect(drive.servers.count == count)
  }

  /// All are answered in one turn, each goes on from its end to the next request, and all of those are sent in that turn as well.
  @Test(arguments: [1, 2, 7, 8, 9, 20, 64]) func whatIsAskedForInATurnIsSentInIt(count: Int) throws {
    let drive = try drive(connections: count)
    try ask(drive, count) { index in
      drive.start(try request(host: "h", port: 80, target: "/next-\(index)"))
    }
    var servers: [String: Int] = [:]
    for server in 0..<count {
      let target = drive.received(server).split(separator: " ")[1]
      servers[String(target)] = server
      drive.send(server, Self.answer(String(target)))
    }
    #expect(servers.count == count)
    _ = drive.engine.context.turn()
    #expect(Set(drive.outcomes.map { String(decoding: $0.body, as: UTF8.self) }) == Set(servers.keys))
    var next: Set<String> = []
    for server in 0..<count { next.insert(String(drive.received(server).split(separator: " ")[1])) }
    #expect(next == Set((0..<count).map { "/next-\($0)" }))
    #expect(drive.servers.count == count)
    for server in 0..<count { drive.send(server, Self.answer("")) }
    drive.settle()
    #expect(drive.outcomes.count == 2 * count)
    drive.end()
  }

  /// Who gives up in the turn in which he asked has sent nothing.
  @Test func whatIsGivenUpInTheTurnItBeganInIsNotSent() throws {
    let drive = try drive(connections: 2)
    try ask(drive, 1)
    _ = drive.received(0)
    drive.send(0, Self.answer(""))
    drive.settle()
    let transfer = drive.start(try request(host: "h", port: 80, target: "/given-up"))
    drive.engine.cancel(transfer)
    drive.settle()
    #expect(drive.received(0) == "")
    let failure = try #require(drive.outcomes.last?.failure)
    guard case .cancelled = failure.error else {
      Issue.record("\(failure.error)")
      return
    }
    #expect(!failure.requestBytesSent)
    // Nor has it begun to send.
    #expect(transfer.report.record.sendStart == nil)
    drive.end()
  }

  /// A request whose response is complete, and whose end is still to be told, has nothing more to do with its connection, which has gone on to the next one.
  @Test func aCommandForWhatHasEndedIsNoneForTheNext() throws {
    let drive = try drive(connections: 2)
    var second: Transfer?
    drive.start(try request(host: "h", port: 80, target: "/1")) { second?.cancel() }
    second = drive.start(try request(host: "h", port: 80, target: "/2"))
    // These wait until one of the connections is free, and have it at once.
    for target in ["/3", "/4"] { drive.start(try request(host: "h", port: 80, target: target)) }
    drive.settle()
    #expect(drive.servers.count == 2)
    for _ in 0..<2 {
      for server in 0..<2 {
        let target = drive.received(server).split(separator: " ").dropFirst().first ?? ""
        drive.send(server, Self.answer(String(target)))
      }
      drive.settle()
    }
    #expect(drive.outcomes.map { String(decoding: $0.body, as: UTF8.self) } == ["/1", "/2", "/3", "/4"])
    let failures = drive.outcomes.compactMap(\.failure)
    #expect(failures.isEmpty)
    drive.end()
  }

  /// The server goes after the connection was chosen and before the head is sent, which nobody has seen then: it is sent on another one.
  @Test func aHeadThatTheSocketRefusesGoesElsewhere() throws {
    let count = 9
    let drive = try drive(connections: count)
    try ask(drive, count) { index in
      if index == 0 { drive.servers[0].close() }
      drive.start(try request(host: "h", port: 80, method: "POST", target: "/next-\(index)"))
    }
    for server in 0..<count {
      _ = drive.received(server)
      drive.send(server, Self.answer(""))
    }
    drive.settle()
    #expect(drive.servers.count == count + 1)
    for server in 1...count {
      #expect(drive.received(server).hasPrefix("POST /next-"))
      drive.send(server, Self.answer(""))
    }
    drive.settle()
    #expect(drive.outcomes.count == 2 * count)
    let failures = drive.outcomes.compactMap(\.failure)
    #expect(failures.isEmpty)
    drive.end()
  }

  /// A connection is read ahead while it waits for the head of a response that may be small.
  @Test func whatMayBeLargeIsNotReadAhead() throws {
    let drive = try drive(connections: 1)
    func isReadAhead() -> Bool { drive.pool.connections.value.first??.mayBeReadAhead ?? false }
    let limit = LoopContext.readAheadSize
    // The length has four digits where it matters.
    let head = Self.answer("").utf8.count + 3
    var wasSmall = true
    #expect(!isReadAhead())
    for (size, isSmall) in [(1, true), (limit - head, true), (limit, false), (100_000, false), (1, true)] {
      let transfer = drive.start(try request(host: "h", port: 80))
      drive.settle()
      #expect(isReadAhead() == wasSmall)
      wasSmall = isSmall
      transfer.pause()
      #expect(!isReadAhead())
      transfer.resume()
      _ = drive.received(0)
      let answer = Self.answer(String(repeating: "x", count: size))
      // Within its body it is read for its own reader.
      drive.send(0, String(answer.dropLast()))
      drive.settle()
      #expect(!isReadAhead())
      drive.send(0, "x")
      drive.settle()
      #expect(!isReadAhead())
    }
    #expect(drive.outcomes.count == 5)
    drive.end()
  }

  /// The completion of a request that fails is called before others of its group are told, and pauses one of them whose response has been read ahead: no byte of that is shown, and
  /// none is lost.
  @Test func aPauseHoldsForWhatWasReadAhead() throws {
    let drive = try drive(connections: 2)
    var second: Transfer?
    drive.start(try request(host: "h", port: 80, target: "/1")) { second?.pause() }
    second = drive.start(try request(host: "h", port: 80, target: "/2"))
    drive.settle()
    for server in 0..<2 {
      let isFirst = drive.received(server).hasPrefix("GET /1 ")
      drive.send(server, isFirst ? "no HTTP\r\n\r\n" : Self.answer("all of it"))
    }
    drive.settle()
    #expect(drive.outcomes.count == 1 && drive.outcomes.first?.failure != nil)
    #expect(second?.report.record.firstByteAt == nil)
    second?.resume()
    drive.settle()
    #expect(drive.outcomes.count == 2)
    #expect(drive.outcomes.last?.body == Array("all of it".utf8))
    drive.end()
  }

  /// One call, one segment and one wake-up of the server: the end of the handshake, and the request that waited for it.
  @Test func theFirstRequestGoesWithTheEndOfTheHandshake() throws {
    let secure = try SecureDrive(isTrusted: true)
    let drive = secure.drive
    drive.keepsMessages = true
    try secure.exchange { !secure.request.isEmpty }
    #expect(String(decoding: secure.request, as: UTF8.self).hasPrefix("GET / HTTP/1.1\r\n"))
    // The first was the greeting.
    #expect(drive.reads == 2)
    secure.transfer.map { drive.engine.cancel($0) }
    drive.settle()
    drive.end()
  }

  /// What is given up before it has begun keeps neither what it was promised nor its pool, and does not begin when it has ended.
  @Test func whatIsGivenUpBeforeItBeginsLeavesNothing() throws {
    let drive = try drive(connections: 1)
    let again = try request(host: "h", port: 80, target: "/again")
    var promises: [Bool] = []
    var second: Transfer?
    try ask(drive, 1) { _ in
      promises.append(drive.pool.promisesIdle(again.key))
      let transfer = drive.start(again)
      transfer.cancel()
      drive.engine.start(transfer, in: drive.pool)
      second = transfer
    }
    _ = drive.received(0)
    drive.send(0, Self.answer(""))
    drive.settle()
    promises.append(drive.pool.promisesIdle(again.key))
    #expect(promises == [true, true])
    let hasPool = second?.pool != nil
    #expect(second?.hasEnded == true && !hasPool)
    #expect(drive.outcomes.count == 2 && drive.received(0) == "")
    drive.end()
  }

  /// Whoever waited for a connection does not wait for what another one's completion does as well.
  @Test func whoeverWaitedIsSentBeforeAnyEndIsTold() throws {
    let drive = try drive(connections: 1)
    var received = ""
    drive.start(try request(host: "h", port: 80, target: "/1")) { received = drive.received(0) }
    drive.start(try request(host: "h", port: 80, target: "/2"))
    drive.settle()
    _ = drive.received(0)
    drive.send(0, Self.answer(""))
    drive.settle()
    #expect(received.hasPrefix("GET /2 "))
    drive.send(0, Self.answer(""))
    drive.settle()
    #expect(drive.outcomes.count == 2)
    drive.end()
  }

  /// A completion takes its time, and the server of an idle connection may close it meanwhile: it is looked at before it is used.
  @Test func aConnectionThatIdledIsLookedAtBehindACompletion() throws {
    let drive = try drive(connections: 3)
    let next = try request(host: "h", port: 80, method: "POST", target: "/next")
    var transfer: Transfer?
    try ask(drive, 2) { index in
      guard index == 0 else { return }
      drive.servers[1].close()
      transfer = drive.start(next)
    }
    try #require(drive.received(0).hasPrefix("GET /0 "))
    _ = drive.received(1)
    drive.send(1, Self.answer(""))
    drive.settle()
    drive.send(0, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    drive.settle()
    #expect(drive.servers.count == 3)
    #expect(drive.received(2).hasPrefix("POST /next "))
    #expect(transfer?.attempts == 1)
    drive.send(2, Self.answer(""))
    drive.settle()
    #expect(drive.outcomes.count == 3)
    drive.end()
  }
}
