import LupineBase
import LupineEngine
import LupineIO
import LupineSimulation
import LupineWire
import Testing

/// Connections that die while they are idle.
@Suite(.timeLimit(.minutes(1))) struct DyingConnectionTests {
  private static let empty = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

  /// Opened for somebody who got another one, it was idle all the same: a GET that it loses goes to another.
  @Test func aConnectionThatNobodyHasUsedMayHaveDiedToo() throws {
    let drive = try Drive()
    drive.start(try request(host: "h", port: 80, target: "/1"))
    drive.settle()
    drive.isDecided = false
    drive.start(try request(host: "h", port: 80, target: "/2"))
    drive.settle()
    #expect(drive.servers.count == 2)
    for _ in 0..<2 {
      _ = drive.received(0)
      drive.send(0, Self.empty)
      drive.settle()
    }
    #expect(drive.outcomes.count == 2)
    drive.servers[1].accept()
    drive.isDecided = true
    drive.settle()

    // The latest to become idle is taken first.
    drive.start(try request(host: "h", port: 80, target: "/3"))
    drive.settle()
    #expect(drive.received(1).hasPrefix("GET /3"))
    drive.servers[1].close()
    drive.settle()
    #expect(drive.received(2).hasPrefix("GET /3"))
    drive.send(2, Self.empty)
    drive.settle()
    #expect(drive.outcomes.count == 3)
    #expect(drive.outcomes.last?.failure == nil)
    #expect(drive.outcomes.last?.status == 200)
    drive.end()
  }

  /// More sockets have something to say than a turn is told of: one that was idle is looked at before it has a request, and what came unasked is no answer.
  @Test func whatATurnIsNotToldOfIsLookedAt() throws {
    let drive = try Drive(eventCapacity: 1)
    drive.start(try request(host: "h", port: 80, target: "/1"))
    drive.settle()
    _ = drive.received(0)
    drive.send(0, Self.empty)
    drive.start(try request(host: "h", port: 81))
    drive.settle()
    #expect(drive.servers.count == 2 && drive.outcomes.count == 1)
    drive.send(1, "HTTP/1.1 200 OK\r\n")
    drive.send(0, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL")
    drive.start(try request(host: "h", port: 80, target: "/2"))
    drive.settle()
    #expect(drive.outcomes.count == 1 && drive.servers.count == 3 && drive.servers[0].isHungUp)
    #expect(drive.received(2).hasPrefix("GET /2"))
    drive.send(1, "Content-Length: 0\r\n\r\n")
    drive.send(2, Self.empty)
    drive.settle()
    #expect(drive.outcomes.count == 3)
    drive.end()
  }

  /// Nine connections that are idle, as their servers see them.
  private func idle() throws -> Drive {
    var configuration = PoolConfiguration()
    configuration.limits.perHost = 9
    let drive = try Drive(configuration)
    for number in 0..<9 { drive.start(try request(host: "h", port: 80, target: "/\(number)")) }
    drive.settle()
    #expect(drive.servers.count == 9)
    for server in 0..<9 {
      _ = drive.received(server)
      drive.send(server, Self.empty)
    }
    drive.settle()
    #expect(drive.outcomes.count == 9)
    return drive
  }

  /// The server that was asked for this.
  private func asked(_ drive: Drive, for target: String) throws -> Int {
    try #require(drive.servers.indices.first { drive.received($0).contains(" \(target) ") })
  }

  /// Where one has died those that were idle for longer may be dead as well: the request goes to a new one, and none of them is tried.
  @Test func oneSpeaksForThoseThatWereIdleForLonger() throws {
    let drive = try idle()
    drive.start(try request(host: "h", port: 80, target: "/last"))
    drive.settle()
    drive.servers[try asked(drive, for: "/last")].close()
    drive.settle()
    let areClosed = drive.servers.prefix(9).allSatisfy { $0.isHungUp }
    #expect(areClosed)
    #expect(drive.pool.counters.closes[.suspected] == 8)
    try #require(drive.servers.count == 10)
    #expect(drive.received(9).hasPrefix("GET /last"))
    drive.send(9, Self.empty)
    drive.settle()
    #expect(drive.outcomes.last?.failure == nil && drive.outcomes.last?.status == 200)
    drive.end()
  }

  /// A router that drops what it is given says nothing: the request is over with its time, and the next one meets none of the others. A server that does
  /// not keep to a short time proves nothing.
  @Test(arguments: [10_000, 200] as [Int64]) func silenceSpeaksForThoseThatWereIdleForLonger(_ wait: Int64) throws {
    let drive = try idle()
    drive.start(try request(host: "h", port: 80, firstByte: wait * 1_000_000, target: "/silent"))
    drive.settle()
    drive.pass(milliseconds: wait)
    guard case .deadline(.firstByte)? = drive.outcomes.last?.failure?.error else {
      Issue.record("\(drive.outcomes)")
      return
    }
    #expect(drive.pool.counters.closes[.suspected] == (wait == 10_000 ? 8 : nil))
    guard wait == 10_000 else { return drive.end() }
    drive.start(try request(host: "h", port: 80, target: "/next"))
    drive.settle()
    try #require(drive.servers.count == 10)
    #expect(drive.received(9).hasPrefix("GET /next"))
    drive.send(9, Self.empty)
    drive.settle()
    #expect(drive.outcomes.last?.status == 200)
    drive.end()
  }

  /// A request that ends whatever serves it ends two, however many are idle.
  @Test func whatMakesAServerHangUpIsSentTwice() throws {
    let drive = try idle()
    drive.start(try request(host: "h", port: 80, target: "/poison"))
    drive.settle()
    for _ in 0..<2 {
      drive.servers[try asked(drive, for: "/poison")].close()
      drive.settle()
    }
    #expect(drive.servers.count == 10)
    guard case .closedBeforeResponse? = drive.outcomes.last?.failure?.error else {
      Issue.record("\(drive.outcomes)")
      return
    }
    drive.end()
  }

  /// A POST is not sent again, but the next one does not meet the same fate.
  @Test func whatIsNotSentAgainSpeaksForTheOthersToo() throws {
    let drive = try idle()
    drive.start(try request(host: "h", port: 80, method: "POST", target: "/first"))
    drive.settle()
    drive.servers[try asked(drive, for: "/first")].close()
    drive.settle()
    #expect(drive.outcomes.count == 10 && drive.outcomes.last?.failure != nil)
    drive.start(try request(host: "h", port: 80, method: "POST", target: "/second"))
    drive.settle()
    #expect(drive.received(9).hasPrefix("POST /second"))
    drive.send(9, Self.empty)
    drive.settle()
    #expect(drive.outcomes.last?.failure == nil)
    drive.end()
  }

  /// One that was used since has shown that it lives.
  @Test func whatWasUsedMeanwhileIsKept() throws {
    let drive = try idle()
    drive.start(try request(host: "h", port: 80, target: "/slow"))
    drive.settle()
    let slow = try asked(drive, for: "/slow")
    drive.engine.world.now = drive.engine.world.now.advanced(byNanoseconds: 1_000_000)
    drive.start(try request(host: "h", port: 80, target: "/quick"))
    drive.settle()
    let quick = try asked(drive, for: "/quick")
    drive.send(quick, Self.empty)
    drive.settle()
    drive.servers[slow].close()
    drive.settle()
    #expect(drive.servers.count == 9)
    #expect(drive.received(quick).hasPrefix("GET /slow"))
    drive.send(quick, Self.empty)
    drive.settle()
    #expect(drive.outcomes.last?.failure == nil)
    #expect(drive.pool.counters.closes[.suspected] == 7)
    drive.end()
  }

  /// A server says after how many seconds without a request it closes the connection: a POST that met that end would be lost.
  @Test(arguments: [
    (5, 3_900, true), (5, 4_000, false), (2, 900, true), (2, 1_000, false), (1, 900, true), (1, 1_000, false),
  ])
  func aConnectionIsLeftBeforeItsServerLeaves(_ seconds: Int, _ milliseconds: Int64, _ isKept: Bool) throws {
    let drive = try Drive()
    for round in 1...2 {
      drive.start(try request(host: "h", port: 80, target: "/\(round)"))
      drive.settle()
      #expect(drive.received(0).hasPrefix("GET /\(round)"))
      drive.send(
        0, "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nKeep-Alive: timeout=\(seconds)\r\nContent-Length: 0\r\n\r\n")
      drive.settle()
      // What it said the first time is of no account once it has been asked again.
      drive.pass(milliseconds: round == 1 ? 800 : milliseconds)
    }
    #expect(drive.servers[0].isHungUp == !isKept)
    #expect(drive.pool.counters.closes == (isKept ? [:] : [.idleTimeout: 1]))
    drive.end()
  }

  /// The turn that comes too late, as that of a machine that stood still, may bring a request before it looks at its timers.
  @Test(arguments: [(3_900, false), (4_000, true), (60_000, true)])
  func aRequestDoesNotGoToAServerThatHasLeft(_ milliseconds: Int64, _ isAnother: Bool) throws {
    let drive = try Drive()
    drive.start(try request(host: "h", port: 80, target: "/1"))
    drive.settle()
    _ = drive.received(0)
    drive.send(0, "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\nContent-Length: 0\r\n\r\n")
    drive.settle()
    drive.engine.world.now = drive.engine.world.now.advanced(byNanoseconds: milliseconds * 1_000_000)
    drive.engine.context.refreshNow()
    drive.start(try request(host: "h", port: 80, target: "/2"))
    drive.settle()
    #expect(drive.received(0).isEmpty == isAnother)
    #expect(drive.servers.count == (isAnother ? 2 : 1))
    drive.send(isAnother ? 1 : 0, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    drive.settle()
    drive.end()
  }

  /// The last response alone counts, and one that says nothing leaves the limit to the pool.
  @Test func aServerMayTakeItsTimeBack() throws {
    let drive = try Drive()
    for fields in ["Connection: keep-alive\r\nKeep-Alive: timeout=3\r\n", ""] {
      drive.start(try request(host: "h", port: 80, target: "/"))
      drive.settle()
      _ = drive.received(0)
      drive.send(0, "HTTP/1.1 200 OK\r\n\(fields)Content-Length: 0\r\n\r\n")
      drive.settle()
      // The connection has given its buffers back, and with them what was said.
      drive.pass(milliseconds: 1_500)
    }
    drive.pass(milliseconds: 50_000)
    #expect(!drive.servers[0].isHungUp)
    drive.pass(milliseconds: 10_000)
    #expect(drive.servers[0].isHungUp)
    drive.end()
  }
}
