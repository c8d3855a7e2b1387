package import LupineIO

/// What has arrived of a body and is not in the file yet, in order, and memory for more of it.
///
/// A read that is kept is exchanged for the memory of one that has been written, and what is copied goes there as well: so memory is neither asked for
/// nor touched anew each time. It comes in one size, whatever the reads are: memory that grows with them is left in parts that nothing else fits into, and a
/// process had 15 MB more of it where reads were short. A piece is full before the next is begun, but for one that a kept read follows: with a
/// watermark of a piece and a half there are five buffers at most.
package struct BodyPieces {
  private var waiting: [KeptRead] = []
  /// Bytes that wait.
  package private(set) var count = 0
  /// Of pieces that have been written.
  private var spares: [ReadBuffer] = []

  package init() {}

  /// Where the next bytes may be copied to; `update` must follow.
  ///
  /// - Parameter expected: how many are to come, if that is known. A small body is worth no more memory than it has.
  package mutating func copyTarget(expected: Int64?) -> KeptRead {
    if let last = waiting.last, last.hasRoom { return last }
    if let spare = spares.popLast() { return KeptRead(into: spare) }
    guard let expected, expected > 0, expected < LoopContext.largeReadSize else { return KeptRead(into: ReadBuffer()) }
    return KeptRead(into: ReadBuffer(byteCount: Int(expected)))
  }

  /// What the loop may have for a read that is kept.
  package mutating func takeSpare() -> ReadBuffer? { spares.popLast() }

  /// Bytes have come into `piece`: a new one, or the last one.
  package mutating func update(_ piece: KeptRead) {
    count += piece.count
    if let last = waiting.last, last.buffer === piece.buffer {
      count -= last.count
      waiting.removeLast()
    }
    waiting.append(piece)
  }

  /// The piece that is to be written next.
  package mutating func takeFirst() -> KeptRead? {
    guard !waiting.isEmpty else { return nil }
    let first = waiting.removeFirst()
    count -= first.count
    return first
  }

  /// A piece is in the file: its memory serves again, if no more than `limit` are kept for that.
  package mutating func recycle(_ piece: KeptRead, limit: Int) {
    if spares.count < limit, piece.buffer.isLarge { spares.append(piece.buffer) }
    if spares.count > limit { spares.removeLast(spares.count - limit) }
  }
}
