internal import LupineBase
internal import LupineCommandLine

/// One line on a terminal that shows how far something is; silent where standard error is no terminal.
final class ProgressBar: Sendable {
  private struct State {
    var shownAt: Int64 = 0
    var isShown = false
  }

  /// Often enough to look smooth, seldom enough to cost nothing.
  private static let interval: Int64 = 100_000_000

  private let isActive: Bool
  private let style: Style
  private let startedAt = System.now()
  private let state = Locked(State())

  init(isActive: Bool, style: Style) {
    self.isActive = isActive
    self.style = style
  }

  /// Shows that `done` of `total` (unknown: nil) are done, `before` of them by an earlier attempt.
  func show(_ done: Int64, of total: Int64?, startingAt before: Int64 = 0, unit: (Int64) -> String = Units.bytes) {
    guard isActive else { return }
    let now = System.now()
    let isDue = state.withLock { state -> Bool in
      guard now - state.shownAt >= Self.interval else { return false }
      state.shownAt = now
      state.isShown = true
      return true
    }
    guard isDue else { return }
    let seconds = max(Double(now - startedAt) / 1e9, 1e-9)
    let rate = Double(done - before) / seconds
    let line = Self.line(
      done: done, total: total, rate: rate, width: System.columns(.error), style: style, unit: unit)
    System.tell("\r\u{1b}[K" + line)
  }

  /// Removes the line.
  func clear() {
    guard isActive else { return }
    let wasShown = state.withLock { state in
      defer { state.isShown = false }
      return state.isShown
    }
    if wasShown { System.tell("\r\u{1b}[K") }
  }

  /// The line: bar, percentage, amount, rate, time left.
  static func line(
    done: Int64, total: Int64?, rate: Double, width: Int, style: Style, unit: (Int64) -> String = Units.bytes
  ) -> String {
    let speed = unit(Int64(min(rate, 1e18))) + "/s"
    guard let total, total > 0 else { return "\(unit(done))  \(speed)" }
    let fraction = min(1, max(0, Double(done) / Double(total)))
    // A server may announce what takes centuries, which is more than a number of nanoseconds holds.
    let remaining = rate > 0 ? max(0, Double(total - done) / rate * 1e9) : .infinity
    let left = fraction < 1 && remaining < 1e17 ? "  \(Units.nanoseconds(Int64(remaining))) left" : ""
    let text = "\(Units.right("\(Int(fraction * 100))", 3))%  \(unit(done)) of \(unit(total))  \(speed)\(left)"
    let room = min(40, width - text.count - 4)
    guard room >= 8 else { return text }
    let full = Int(fraction * Double(room))
    let bar =
      style.paint(String(repeating: "━", count: full), .green)
      + style.paint(String(repeating: "─", count: room - full), .dim)
    return bar + "  " + text
  }
}
