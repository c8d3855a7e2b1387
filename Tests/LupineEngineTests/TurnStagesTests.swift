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
    func isReadAhead() -> Bool { (drive.pool.connections.value.first??.descriptorToReadAhead ?? -1) >= 0 }
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
}
