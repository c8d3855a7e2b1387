import Foundation
import LupineSimulation
import Testing

/// The engine among simulated servers: `make simulate` plays more of it.
@Suite struct SimulationTests {
  @Test func noInvariantIsBroken() throws {
    let count = ProcessInfo.processInfo.environment["LUPINE_SIMULATION_SEEDS"].flatMap(UInt64.init) ?? 20
    var totals = SimulationTotals()
    for seed in 1...max(1, count) {
      let report = try Simulation.run(seed: seed)
      #expect(
        report.violation == nil,
        "seed \(seed): to repeat it: make simulate SEED=\(seed)\n\(report.trace.joined(separator: "\n"))")
      totals += report.totals
    }
    // Otherwise the seeds would show little.
    guard count >= 20 else { return }
    for number in [
      totals.completed, totals.failed, totals.deadlines, totals.cancelled, totals.reused, totals.repeated,
      totals.pauses,
      totals.resets, totals.surplus,
    ] {
      #expect(number > 0, "\(totals)")
    }
    #expect(totals.completed > totals.requests / 2)
  }

  @Test(arguments: [3, 11, 4711]) func aSeedHappensTwiceInTheSameWay(_ seed: UInt64) throws {
    let (first, second) = (try Simulation.run(seed: seed), try Simulation.run(seed: seed))
    #expect(first.hash == second.hash)
    #expect(first.totals == second.totals)
    let other = try Simulation.run(seed: seed + 1)
    #expect(other.hash != first.hash)
  }
}
