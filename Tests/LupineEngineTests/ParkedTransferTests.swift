import LupineBase
import LupineEngine
import LupineSimulation
import LupineIO
import LupineWire
import Testing

/// Transfers that wait, and that whoever hears of another's end pauses or resumes at that moment.
@Suite(.timeLimit(.minutes(1))) struct ParkedTransferTests {
  /// Two wait for the same opening, which fails: the first to hear of it pauses the other one.
  @Test func whoIsPausedInTheMiddleOfAFailureLeavesNothingBehind() throws {
    var configuration = PoolConfiguration()
    configuration.limits.perHost = 1
    let drive = try Drive(configuration)
    drive.descriptorLimit = 0
    var last: Transfer?
    // Behind the failure for this one, something is opened for both of the others.
    drive.start(try request(host: "h", port: 80))
    drive.start(try request(host: "h", port: 80)) { last?.pause() }
    last = drive.start(try request(host: "h", port: 80))
    drive.settle()
    let ends = drive.outcomes.map(\.ends)
    let haveFailed = drive.outcomes.allSatisfy { $0.failure != nil }
    #expect(ends == [1, 1, 1] && haveFailed)
    drive.end()
  }

  /// The engine is shut down, and whoever hears that one was cancelled resumes the next.
  @Test func whoIsResumedInTheMiddleOfTheEndEnds() throws {
    let drive = try Drive()
    drive.isDecided = false
    var next: Transfer?
    drive.start(try request(host: "h", port: 80)) { next?.resume() }
    next = drive.start(try request(host: "h", port: 80))
    next?.pause()
    drive.settle()
    #expect(drive.servers.count == 1 && drive.outcomes.isEmpty)
    drive.engine.shutdown()
    drive.settle()
    let ends = drive.outcomes.map(\.ends)
    #expect(ends == [1, 1])
    #expect(drive.servers.count == 1 && drive.servers[0].isHungUp)
    #expect(drive.pool.isEmpty && drive.engine.context.timerCount == 0)
  }
}
