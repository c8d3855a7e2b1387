import Glibc
import LupineSimulation
import Synchronization

/// The seed that is being played, for whoever has to tell of a trap.
private let current = Atomic<UInt64>(0)

/// Writes a line at once: after a trap nothing is flushed.
private func say(_ line: String) {
  let bytes = Array("\(line)\n".utf8)
  _ = unsafe bytes.withUnsafeBytes { unsafe write(1, $0.baseAddress, $0.count) }
}

/// `simulate [--seeds COUNT] [--first SEED]`: plays so many seeds, and ends with what they did. `simulate --seed SEED`: plays one, twice, and
/// tells its last events. A broken invariant ends it with status 1, and so does a trap, of which the seed is told before.
@main struct Main {
  static func main() {
    var seeds: UInt64 = 1000
    var first: UInt64 = 1
    var only: UInt64?
    var words = CommandLine.arguments.dropFirst()
    while let word = words.popFirst() {
      guard let value = words.popFirst().flatMap(UInt64.init) else { usage() }
      switch word {
      case "--seeds": seeds = value
      case "--first": first = value
      case "--seed": only = value
      default: usage()
      }
    }
    watchForTraps()
    if let only { replay(only) } else { playAll(first..<first + seeds) }
  }

  private static func usage() -> Never {
    say("usage: simulate [--seeds COUNT] [--first SEED] | --seed SEED")
    exit(64)
  }

  private static func playAll(_ seeds: Range<UInt64>) {
    // The first one makes what all of them share.
    _ = play(seeds.lowerBound)
    let before = descriptors()
    var totals = SimulationTotals()
    for seed in seeds {
      let report = play(seed)
      if report.violation != nil { tell(report) }
      totals += report.totals
    }
    let after = descriptors()
    tell(totals)
    guard after == before else {
      say("error: \(before) descriptors were open before, \(after) are now")
      exit(1)
    }
  }

  private static func replay(_ seed: UInt64) {
    let report = play(seed)
    let again = play(seed)
    guard report.hash == again.hash else {
      say("error: seed \(seed) did not happen twice in the same way")
      exit(1)
    }
    if report.violation != nil { tell(report) }
    tell(report.totals)
    say("seed \(seed): no invariant broken, hash \(String(report.hash, radix: 16))")
  }

  private static func play(_ seed: UInt64) -> SimulationReport {
    current.store(seed, ordering: .relaxed)
    do {
      return try Simulation.run(seed: seed)
    } catch {
      say("error: seed \(seed) cannot be played: \(error)")
      exit(1)
    }
  }

  /// A trap in the engine ends the process: its seed is told first.
  private static func watchForTraps() {
    for number in [SIGILL, SIGTRAP, SIGABRT, SIGSEGV, SIGBUS] {
      signal(number) { number in
        let seed = current.load(ordering: .relaxed)
        say("error: seed \(seed): the process was ended by signal \(number)")
        say("  to repeat it: make simulate SEED=\(seed)")
        _exit(1)
      }
    }
  }

  private static func tell(_ report: SimulationReport) -> Never {
    for line in report.trace { say(line) }
    say("error: seed \(report.seed): \(report.violation ?? "")")
    say("  the last events are above; hash \(String(report.hash, radix: 16))")
    say("  to repeat it: make simulate SEED=\(report.seed)")
    exit(1)
  }

  private static func tell(_ totals: SimulationTotals) {
    say(
      """
      \(totals.seeds) seeds, \(totals.simulatedSeconds) simulated seconds: \(totals.requests) requests on \(totals.connections) connections
        completed \(totals.completed), failed \(totals.failed), past a deadline \(totals.deadlines), cancelled \(totals.cancelled)
        on a connection used before \(totals.reused), sent again \(totals.repeated), pauses \(totals.pauses), \
      resets \(totals.resets), surplus responses \(totals.surplus), body bytes \(totals.bodyBytes)
      """)
  }

  /// Descriptors of the process.
  private static func descriptors() -> Int {
    (0..<Int32(1024)).count { fcntl($0, F_GETFD) >= 0 }
  }
}
