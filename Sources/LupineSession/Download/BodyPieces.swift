package import LupineIO

/// Bytes of a body on their way into its file.
package enum BodyPiece: Sendable {
  case gathered(GatheredBytes)
  /// So many, which wait in a pipe, and are all that do.
  case piped(BodyPipe, Int)

  package var count: Int {
    switch self {
    case .gathered(let bytes): bytes.count
    case .piped(_, let count): count
    }
  }
}

/// What has arrived of a body and is not in the file yet, in order, and memory for more of it.
///
/// What is copied goes into the memory of a piece that has been written, so that memory is neither asked for nor touched anew each time. It comes in one
/// size, whatever the reads are: memory that grows with them is left in parts that nothing else fits into, and a process had 15 MB more of it where reads
/// were short. A piece is full before the next is begun, but for one that a pipe follows.
package struct BodyPieces {
  private var waiting: [BodyPiece] = []
  /// Bytes that wait.
  package private(set) var count = 0
  /// Of a piece that has been written.
  private var spare: PieceMemory?

  package init() {}

  /// Where the next bytes may be copied to; `update` must follow.
  ///
  /// - Parameter expected: how many are to come, if that is known. A small body is worth no more memory than it has.
  package mutating func copyTarget(expected: Int64?) -> GatheredBytes {
    if case .gathered(let last) = waiting.last, last.hasRoom { return last }
    if let spare = spare.take() { return GatheredBytes(in: spare) }
    guard let expected, expected > 0, expected < PieceMemory.size else { return GatheredBytes(in: PieceMemory()) }
    return GatheredBytes(in: PieceMemory(byteCount: Int(expected)))
  }

  /// Bytes have come into `piece`: a new one, or the last one.
  package mutating func update(_ piece: GatheredBytes) {
    count += piece.count
    if case .gathered(let last) = waiting.last, last.memory === piece.memory {
      count -= last.count
      waiting.removeLast()
    }
    waiting.append(.gathered(piece))
  }

  /// So many bytes have come in a pipe.
  package mutating func add(_ bytes: Int, in pipe: BodyPipe) {
    count += bytes
    waiting.append(.piped(pipe, bytes))
  }

  /// Whether bytes wait in a pipe, which takes no more before they are written.
  package var holdsPipe: Bool { waiting.contains { if case .piped = $0 { true } else { false } } }

  /// The piece that is to be written next.
  package mutating func takeFirst() -> BodyPiece? {
    guard !waiting.isEmpty else { return nil }
    let first = waiting.removeFirst()
    count -= first.count
    return first
  }

  /// A piece is in the file: its memory serves again.
  package mutating func recycle(_ piece: BodyPiece) {
    if case .gathered(let bytes) = piece, bytes.memory.isWhole { spare = bytes.memory }
  }
}
