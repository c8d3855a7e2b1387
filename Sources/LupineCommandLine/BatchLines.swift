/// Cuts what a batch reads into lines that end in LF or CR LF, whatever the pieces in which it comes; blank ones are counted, and left out.
///
/// Invariant: of a line at most `limit` bytes are held, and none of one that is longer. What is found does not depend on the pieces.
package struct BatchLines: Sendable {
  package enum Line: Sendable, Equatable {
    /// Without its end.
    case text(number: Int, [UInt8])
    /// Longer than the limit; it was skipped.
    case tooLong(number: Int)
  }

  private let limit: Int
  /// The line under way.
  private var line: [UInt8] = []
  private var isTooLong = false
  private var number = 0

  /// - Parameter limit: the most bytes of a line, a CR at its end among them.
  package init(limit: Int = BatchLine.lengthLimit) {
    self.limit = max(0, limit)
  }

  /// The next line that ends in `piece`; nil: the rest of `piece` is taken, and the line goes on in the next one.
  ///
  /// - Parameter index: where to go on in `piece`; it is moved behind what was taken.
  package mutating func next(in piece: [UInt8], from index: inout Int) -> Line? {
    while index < piece.count {
      let end = piece[index...].firstIndex(of: UInt8(ascii: "\n"))
      take(piece[index..<(end ?? piece.count)])
      index = end.map { $0 + 1 } ?? piece.count
      guard end != nil else { return nil }
      if let line = finish() { return line }
    }
    return nil
  }

  /// What stands behind the last end of a line; nil if nothing does.
  package mutating func rest() -> Line? {
    line.isEmpty && !isTooLong ? nil : finish()
  }

  private mutating func take(_ bytes: ArraySlice<UInt8>) {
    guard !isTooLong else { return }
    guard bytes.count <= limit - line.count else {
      isTooLong = true
      line = []
      return
    }
    line += bytes
  }

  private mutating func finish() -> Line? {
    defer {
      line = []
      isTooLong = false
    }
    number += 1
    guard !isTooLong else { return .tooLong(number: number) }
    if line.last == UInt8(ascii: "\r") { line.removeLast() }
    let isBlank = line.allSatisfy { $0 == 0x20 || $0 == 0x09 }
    return isBlank ? nil : .text(number: number, line)
  }
}
