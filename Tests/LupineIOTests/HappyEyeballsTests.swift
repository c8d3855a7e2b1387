import LupineBase
import Testing

@testable import LupineIO

private func v4(_ last: UInt8) -> SocketAddress { .v4(IPv4Address(192, 0, 2, last), port: 443) }
private func v6(_ last: UInt64) -> SocketAddress { .v6(IPv6Address(high: 0x2001_0DB8_0000_0000, low: last), port: 443) }

/// Something that happens at a millisecond, and all that the machine wants then, up to the time it wants to wait for.
private struct Step {
  enum Event {
    case tick
    case fail(Int, IOError)
    case connect(Int)
    case busy(Int)
  }

  var at: Int64
  var event: Event
  var actions: [HappyEyeballs.Action]

  init(_ at: Int64, _ event: Event, _ actions: [HappyEyeballs.Action]) {
    self.at = at
    self.event = event
    self.actions = actions
  }
}

private struct Race: CustomTestStringConvertible {
  var name: String
  var addresses: [SocketAddress]
  var attemptTimeout: Int64?
  var deadline: Int64?
  var steps: [Step]
  var failures: [(Int, IOError)] = []

  var testDescription: String { name }
}

private func milliseconds(_ count: Int64) -> Instant { Instant(nanoseconds: count * 1_000_000) }
private func wait(_ count: Int64) -> HappyEyeballs.Action { .wait(until: milliseconds(count)) }
private let forEver = HappyEyeballs.Action.wait(until: .distantFuture)

@Suite struct HappyEyeballsTests {
  private static let races: [Race] = [
    Race(
      name: "one address, refused: known at once", addresses: [v4(1)],
      steps: [
        Step(0, .tick, [.attempt(0), forEver]),
        Step(3, .fail(0, .refused), [.exhausted]),
        Step(9, .tick, [.exhausted]),
      ], failures: [(0, .refused)]),
    Race(
      name: "no address", addresses: [], steps: [Step(0, .tick, [.exhausted])]),
    Race(
      name: "the second starts after the delay and wins", addresses: [v6(1), v4(1)],
      steps: [
        Step(0, .tick, [.attempt(0), wait(250)]),
        Step(100, .tick, [wait(250)]),
        Step(250, .tick, [.attempt(1), forEver]),
        Step(260, .connect(1), [.won(1)]),
        Step(261, .connect(0), [.won(1)]),
        Step(262, .fail(0, .reset), [.won(1)]),
      ], failures: [(0, .reset)]),
    Race(
      name: "a failure starts the next at once", addresses: [v6(1), v4(1), v6(2)],
      steps: [
        Step(0, .tick, [.attempt(0), wait(250)]),
        Step(10, .fail(0, .unreachable(code: 101)), [.attempt(1), wait(260)]),
        Step(20, .fail(1, .refused), [.attempt(2), forEver]),
        Step(30, .connect(2), [.won(2)]),
      ], failures: [(0, .unreachable(code: 101)), (1, .refused)]),
    Race(
      name: "a failure starts only one more, while another is still trying", addresses: [v6(1), v4(1), v6(2), v4(2)],
      steps: [
        Step(0, .tick, [.attempt(0), wait(250)]),
        Step(250, .tick, [.attempt(1), wait(500)]),
        Step(300, .fail(0, .refused), [.attempt(2), wait(550)]),
        Step(310, .connect(1), [.won(1)]),
      ], failures: [(0, .refused)]),
    Race(
      name: "all fail: every error is kept, in the order of failing", addresses: [v6(1), v4(1)],
      steps: [
        Step(0, .tick, [.attempt(0), wait(250)]),
        Step(250, .tick, [.attempt(1), forEver]),
        Step(260, .fail(1, .refused), [forEver]),
        Step(270, .fail(0, .timedOut), [.exhausted]),
      ], failures: [(1, .refused), (0, .timedOut)]),
    Race(
      name: "the deadline cuts off", addresses: [v6(1), v4(1)], deadline: 400,
      steps: [
        Step(0, .tick, [.attempt(0), wait(250)]),
        Step(250, .tick, [.attempt(1), wait(400)]),
        Step(399, .fail(1, .refused), [wait(400)]),
        Step(400, .tick, [.deadlinePassed]),
        Step(401, .tick, [.deadlinePassed]),
      ], failures: [(1, .refused)]),
    Race(
      name: "a deadline that has passed before the start", addresses: [v4(1)], deadline: 0,
      steps: [Step(0, .tick, [.deadlinePassed])]),
    Race(
      name: "an attempt's own timeout", addresses: [v6(1), v4(1)], attemptTimeout: 100,
      steps: [
        Step(0, .tick, [.attempt(0), wait(100)]),
        Step(100, .tick, [.abandon(0), .attempt(1), wait(200)]),
        Step(200, .tick, [.abandon(1), .exhausted]),
      ], failures: [(0, .deadlinePassed), (1, .deadlinePassed)]),
    Race(
      name: "a full Unix listener is tried again, later each time", addresses: [.unix(path: "/s")], deadline: 10,
      steps: [
        Step(0, .tick, [.attempt(0), wait(10)]),
        Step(0, .busy(0), [wait(1)]),
        Step(1, .tick, [.attempt(0), wait(10)]),
        Step(1, .busy(0), [wait(3)]),
        Step(3, .tick, [.attempt(0), wait(10)]),
        Step(4, .connect(0), [.won(0)]),
      ]),
    Race(
      name: "a failure is counted once", addresses: [v4(1), v4(2)],
      steps: [
        Step(0, .tick, [.attempt(0), wait(250)]),
        Step(1, .fail(0, .refused), [.attempt(1), forEver]),
        Step(2, .fail(0, .reset), [forEver]),
        Step(3, .connect(0), [forEver]),
        Step(4, .fail(1, .refused), [.exhausted]),
      ], failures: [(0, .refused), (1, .refused)]),
  ]

  @Test(arguments: races) private func table(_ race: Race) {
    var machine = HappyEyeballs(
      race.addresses,
      settings: HappyEyeballs.Settings(attemptTimeoutNanoseconds: race.attemptTimeout.map { $0 * 1_000_000 }),
      now: milliseconds(0), deadline: race.deadline.map(milliseconds) ?? .distantFuture)
    for (number, step) in race.steps.enumerated() {
      let now = milliseconds(step.at)
      switch step.event {
      case .tick: break
      case .fail(let index, let error): machine.failed(index, error, now: now)
      case .connect(let index): machine.connected(index)
      case .busy(let index): machine.busy(index, now: now)
      }
      var actions: [HappyEyeballs.Action] = []
      collecting: while actions.count < 10 {
        let action = machine.next(now)
        actions.append(action)
        switch action {
        case .attempt, .abandon: continue
        case .wait, .exhausted, .deadlinePassed, .won: break collecting
        }
      }
      #expect(actions == step.actions, "step \(number)")
    }
    #expect(
      machine.failures
        == race.failures.map { HappyEyeballs.Failure(address: machine.addresses[$0.0], error: $0.1) })
  }

  @Test func familiesAlternateAndKeepTheirOrder() {
    #expect(
      HappyEyeballs.interleaved([v6(1), v6(2), v6(3), v4(1), v4(2)]) == [v6(1), v4(1), v6(2), v4(2), v6(3)])
    #expect(HappyEyeballs.interleaved([v4(1), v6(1), v6(2)]) == [v4(1), v6(1), v6(2)])
    #expect(HappyEyeballs.interleaved([v4(2), v4(1)]) == [v4(2), v4(1)])
    #expect(HappyEyeballs.interleaved([]).isEmpty)
  }

  @Test func theDelayIsKeptWithinTheLimitsOfTheStandard() {
    #expect(HappyEyeballs.Settings(attemptDelayNanoseconds: 0).attemptDelayNanoseconds == 10_000_000)
    #expect(HappyEyeballs.Settings(attemptDelayNanoseconds: .max).attemptDelayNanoseconds == 2_000_000_000)
  }

  @Test func whatWasCutOffIsNamed() {
    var machine = HappyEyeballs([v6(1), v4(1), v4(2)], now: milliseconds(0), deadline: milliseconds(300))
    #expect(machine.next(milliseconds(0)) == .attempt(0))
    #expect(machine.next(milliseconds(250)) == .attempt(1))
    #expect(machine.next(milliseconds(300)) == .deadlinePassed)
    #expect(machine.unfinished == [v6(1), v4(1)])
  }
}
