/// A line, or an event, of a stream that is longer than it may be.
package struct StreamLimitExceeded: Error, Hashable, Sendable {
  /// In bytes.
  package var limit: Int

  package init(limit: Int) { self.limit = limit }
}

/// Cuts a body into lines that end in LF or CR LF, whatever the pieces in which it comes. A CR elsewhere is a part of its line.
///
/// Invariant: of a line at most `limit` bytes are held, and a CR behind them that may belong to its end. What is found does not depend on the
/// pieces.
package struct LineScanner: Sendable {
  private let limit: Int
  /// The line under way.
  private var line: [UInt8] = []

  /// - Parameter limit: the most bytes of a line, its end left out.
  package init(limit: Int) { self.limit = max(0, limit) }

  /// The next line that ends in `piece`, without its end; nil: the rest of `piece` is taken, and the line goes on in the next one.
  ///
  /// - Parameter index: where to go on in `piece`; it is moved behind what was taken.
  package mutating func next(in piece: [UInt8], from index: inout Int) throws(StreamLimitExceeded) -> [UInt8]? {
    let end = piece.span.firstIndex(of: UInt8(ascii: "\n"), in: index..<piece.count)
    try take(piece[index..<(end ?? piece.count)])
    index = end.map { $0 + 1 } ?? piece.count
    guard end != nil else { return nil }
    if line.last == UInt8(ascii: "\r") { line.removeLast() }
    defer { line = [] }
    return line
  }

  /// What stands behind the last end of a line; nil if nothing does.
  package mutating func rest() throws(StreamLimitExceeded) -> [UInt8]? {
    guard line.count <= limit else { throw StreamLimitExceeded(limit: limit) }
    defer { line = [] }
    return line.isEmpty ? nil : line
  }

  private mutating func take(_ bytes: ArraySlice<UInt8>) throws(StreamLimitExceeded) {
    let excess = line.count + bytes.count - limit
    // The one byte more may be the first of CR LF.
    guard excess <= 0 || excess == 1 && (bytes.last ?? line.last) == UInt8(ascii: "\r") else {
      throw StreamLimitExceeded(limit: limit)
    }
    line += bytes
  }
}
