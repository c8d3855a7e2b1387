import LupineBase
import LupineIO
import LupineSimulation
import LupineWire
import Testing

@testable import LupineEngine

/// The machine sleeps, and wakes in a world that has gone on.
@Suite(.timeLimit(.minutes(1))) struct SuspensionTests {
  private static let second: Int64 = 1_000_000_000

  /// Makes a request, answers it on the newest connection, and leaves that idle.
  private func exchange(_ drive: Drive, in pool: EnginePool? = nil) throws {
    let count = drive.outcomes.count
    drive.start(try request(host: "h", port: 80), in: pool)
    drive.settle()
    drive.send(drive.servers.count - 1, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    drive.settle()
    #expect(drive.outcomes.count == count + 1 && drive.outcomes.last?.body == Array("ok".utf8))
  }

  private func pass(_ drive: Drive, awake: Int64, suspended: Int64) {
    drive.engine.world.now = drive.engine.world.now.advanced(byNanoseconds: awake)
    drive.engine.world.suspendedNanoseconds += suspended
  }

  /// What was idle before is closed when somebody wants a connection, in all pools, and nothing is sent over it.
  @Test func idleConnectionsEndWithASuspension() throws {
    let drive = try Drive()
    let other = drive.engine.makePool(PoolConfiguration())
    try exchange(drive)
    try exchange(drive, in: other)
    #expect(drive.servers.count == 2 && other.liveConnections == 1)
    for index in 0..<2 { _ = drive.receive(index) }
    pass(drive, awake: SuspensionDetector.interval, suspended: 10 * Self.second)
    try exchange(drive)
    #expect(drive.servers.count == 3 && drive.pool.counters.closes == [.suspected: 1])
    #expect(other.counters.closes == [.suspected: 1] && other.liveConnections == 0)
    let isHungUp = drive.servers[0].isHungUp
    #expect(drive.receive(0).isEmpty && isHungUp)
    #expect(drive.resolver.flushes.withLock { $0 } == 1)
    // Once for each suspension.
    pass(drive, awake: 2 * Self.second, suspended: 0)
    try exchange(drive)
    #expect(drive.servers.count == 3 && drive.resolver.flushes.withLock { $0 } == 1)
    drive.engine.forget(other)
    drive.end()
  }

  /// A moment is no suspension, and what is under way goes on.
  @Test func othersStay() throws {
    let drive = try Drive()
    try exchange(drive)
    pass(drive, awake: 2 * Self.second, suspended: Self.second - 1)
    try exchange(drive)
    #expect(drive.servers.count == 1)
    drive.start(try request(host: "h", port: 80))
    drive.settle()
    pass(drive, awake: 2 * Self.second, suspended: 100 * Self.second)
    drive.start(try request(host: "h", port: 80))
    drive.settle()
    #expect(drive.servers.count == 2)
    for index in 0..<2 { drive.send(index, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") }
    drive.settle()
    #expect(drive.outcomes.count == 4 && drive.outcomes.allSatisfy { $0.failure == nil })
    #expect(drive.pool.counters.closes.isEmpty)
    drive.end()
  }

  @Test func looksNowAndThen() {
    var detector = SuspensionDetector()
    let start = Instant(nanoseconds: 5)
    #expect(detector.isDue(start))
    let first = detector.look(start, suspended: 7 * Self.second)
    let (early, late) = (
      start.advanced(byNanoseconds: SuspensionDetector.interval - 1),
      start.advanced(byNanoseconds: SuspensionDetector.interval)
    )
    #expect(!first && !detector.isDue(early) && detector.isDue(late))
    let looks = [8 * Self.second - 1, 9 * Self.second - 1, 9 * Self.second - 1].map {
      detector.look(late, suspended: $0)
    }
    #expect(looks == [false, true, false])
  }

  /// The system's clocks: what was left out is no time at all, or what the machine has slept.
  @Test func theSystemSaysHowLong() {
    let (first, second) = (EventLoop.suspendedNanoseconds(), EventLoop.suspendedNanoseconds())
    #expect(first >= 0 && abs(second - first) < 60 * Self.second)
  }
}
