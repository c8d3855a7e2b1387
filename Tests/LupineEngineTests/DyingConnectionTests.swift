import LupineBase
import LupineEngine
import LupineIO
import LupineRules
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
    drive.settle()

    // The latest to become idle is taken first.
    drive.start(try request(host: "h", port: 80, target: "/3"))
    drive.settle()
    #expect(drive.received(1).hasPrefix("GET /3"))
    drive.servers[1].close()
    drive.settle()
    #expect(drive.received(0).hasPrefix("GET /3"))
    drive.send(0, Self.empty)
    drive.settle()
    #expect(drive.outcomes.count == 3)
    #expect(drive.outcomes.last?.failure == nil)
    #expect(drive.outcomes.last?.status == 200)
    drive.end()
  }

  /// However many connections a host may have, all of them may be dead.
  @Test func asManyAttemptsAsThereMayBeDeadConnections() throws {
    let count = 9
    var configuration = PoolConfiguration()
    configuration.limits.perHost = count
    let drive = try Drive(configuration)
    for number in 1...count { drive.start(try request(host: "h", port: 80, target: "/\(number)")) }
    drive.settle()
    #expect(drive.servers.count == count)
    for server in 0..<count {
      _ = drive.received(server)
      drive.send(server, Self.empty)
    }
    drive.settle()
    #expect(drive.outcomes.count == count)

    drive.start(try request(host: "h", port: 80, target: "/last"))
    drive.settle()
    for _ in 0..<count {
      let asked = try #require((0..<count).first { !drive.receive($0).isEmpty })
      drive.servers[asked].close()
      drive.settle()
    }
    #expect(drive.servers.count == count + 1)
    #expect(drive.received(count).hasPrefix("GET /last"))
    drive.send(count, Self.empty)
    drive.settle()
    #expect(drive.outcomes.last?.failure == nil)
    drive.end()
  }

  @Test func theRuleKnowsHowManyMayBeDead() {
    let facts = AttemptFacts(
      connectionWasReused: true, wroteAnything: true, receivedAnything: false, hasIdempotencyKey: false,
      isBodyReplayable: true, attempts: 16)
    #expect(RetryRule.decide(method: "GET", facts, connectionsPerHost: 15) == .fail(.tooManyAttempts(limit: 16)))
    #expect(RetryRule.decide(method: "GET", facts, connectionsPerHost: 16) == .retry(.idempotent))
    #expect(RetryRule.decide(method: "GET", facts, connectionsPerHost: .max) == .retry(.idempotent))
  }
}
