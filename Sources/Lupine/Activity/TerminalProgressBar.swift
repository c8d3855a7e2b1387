internal import Foundation
public import LupineSession

/// Draws the progress of a task as a line of text: `[=====>    ]  50% 512 KiB of 1.0 MiB`.
///
/// A value without effects: print what `line` gives after a carriage return, for example from a `TaskProgressBinder`.
public struct TerminalProgressBar: Sendable, Hashable {
  /// Which way the bytes go.
  public enum Direction: Sendable, Hashable {
    /// Received. Default.
    case download
    /// Sent.
    case upload
  }

  /// Which way the bytes go.
  public var direction: Direction
  /// Columns between the brackets: at least 1, and drawn are 1,000 at most.
  public var width: Int

  /// A bar.
  ///
  /// - Parameters:
  ///   - direction: which way the bytes go.
  ///   - width: columns between the brackets. Default 30.
  public init(direction: Direction = .download, width: Int = 30) {
    self.direction = direction
    self.width = max(1, width)
  }

  /// The line of a state; without a known length only the bytes.
  public func line(_ progress: TaskProgress) -> String {
    let (done, total, fraction) =
      switch direction {
      case .download:
        (progress.countOfBytesReceived, progress.countOfDecodedBytesExpectedToReceive, progress.fractionReceived)
      case .upload: (progress.countOfBytesSent, progress.countOfBytesExpectedToSend, progress.fractionSent)
      }
    guard let fraction, let total else { return Self.bytes(done) }
    let columns = min(max(1, width), 1_000)
    let filled = Int((fraction * Double(columns)).rounded(.down))
    let head = filled < columns ? ">" : ""
    let bar = String(repeating: "=", count: filled) + head
    let room = String(repeating: " ", count: max(0, columns - bar.count))
    let percent = String(Int((fraction * 100).rounded(.down)))
    let margin = String(repeating: " ", count: max(0, 3 - percent.count))
    return "[\(bar)\(room)] \(margin)\(percent)% \(Self.bytes(done)) of \(Self.bytes(total))"
  }

  /// Bytes in the largest binary unit of which there is at least one, with one digit below ten.
  static func bytes(_ count: Int64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
    var value = Double(max(0, count))
    var unit = 0
    while value >= 1024, unit < units.count - 1 {
      value /= 1024
      unit += 1
    }
    guard unit > 0, value < 10 else { return "\(Int(value)) \(units[unit])" }
    let tenths = Int((value * 10).rounded(.down))
    return "\(tenths / 10).\(tenths % 10) \(units[unit])"
  }
}
