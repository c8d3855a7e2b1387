internal import LupineBase

/// What happened in a simulation, as a number that two equal runs share, and as the lines that come last.
package struct SimulationTrace {
  package enum Event: UInt8 {
    case start, informational, head, body, trailers, end, cancel, pause, resume
    case resolve, connect, refuse, accept, gone
    case request, upload, uploaded, send, sent, close, halfClose, reset, surplus
  }

  private struct Entry {
    let at: Int64
    let event: Event
    let first: Int
    let second: Int
  }

  package private(set) var hash: UInt64 = 0xCBF2_9CE4_8422_2325
  private var entries: [Entry] = []
  private static let kept = 400

  mutating func note(_ now: Instant, _ event: Event, _ first: Int, _ second: Int) {
    for value in [
      UInt64(bitPattern: now.nanoseconds), UInt64(event.rawValue), UInt64(first), UInt64(bitPattern: Int64(second)),
    ] {
      hash = (hash ^ value) &* 0x0000_0100_0000_01B3
      hash ^= hash >> 29
    }
    entries.append(Entry(at: now.nanoseconds, event: event, first: first, second: second))
    if entries.count >= 2 * Self.kept { entries.removeFirst(Self.kept) }
  }

  /// The lines that come last: time in milliseconds, event, request or connection, and how many bytes, or which status or error.
  var lines: [String] {
    entries.suffix(Self.kept).map { entry in
      let time = String(entry.at / 1_000_000)
      return String(repeating: " ", count: max(0, 9 - time.utf8.count))
        + "\(time) ms  \(entry.event) \(entry.first) \(entry.second)"
    }
  }
}

/// What simulations did, in all: also to see that they did what they are for.
package struct SimulationTotals: Sendable, Equatable {
  package var seeds = 0
  package var requests = 0
  package var completed = 0
  package var failed = 0
  package var cancelled = 0
  package var deadlines = 0
  package var repeated = 0
  package var connections = 0
  package var reused = 0
  package var resets = 0
  package var surplus = 0
  package var pauses = 0
  package var bodyBytes = 0
  package var simulatedSeconds = 0

  package init() {}

  package static func += (left: inout SimulationTotals, right: SimulationTotals) {
    left.seeds += right.seeds
    left.requests += right.requests
    left.completed += right.completed
    left.failed += right.failed
    left.cancelled += right.cancelled
    left.deadlines += right.deadlines
    left.repeated += right.repeated
    left.connections += right.connections
    left.reused += right.reused
    left.resets += right.resets
    left.surplus += right.surplus
    left.pauses += right.pauses
    left.bodyBytes += right.bodyBytes
    left.simulatedSeconds += right.simulatedSeconds
  }
}

/// What came of one seed.
package struct SimulationReport: Sendable {
  package let seed: UInt64
  /// The same for two runs of a seed.
  package let hash: UInt64
  package let totals: SimulationTotals
  /// The invariant that was broken; nil if none was.
  package let violation: String?
  /// What happened last.
  package let trace: [String]
}
