internal import LupineBase
internal import LupineIO

/// What has arrived of a body and is not in the file yet, in order, and memory for more of it.
///
/// Of what is copied, two buffers take turns, one being filled while the other is written; a read that is kept is exchanged for the memory of one that
/// has been written. So memory is neither asked for nor touched anew each time.
struct BodyPieces {
  enum Piece: Sendable {
    case copied(Locked<[UInt8]>)
    case kept(KeptRead)
  }

  private var waiting: [(piece: Piece, count: Int)] = []
  /// Bytes that wait.
  private(set) var count = 0
  /// Of the piece that has been written last.
  private var copySpare: Locked<[UInt8]>?
  /// As many as wait or are written at a time, which is two.
  private var spares: [ReadBuffer] = []

  /// Where the next bytes may be copied to; `append` must follow.
  mutating func copyTarget() -> Locked<[UInt8]> {
    if case .copied(let last) = waiting.last?.piece { return last }
    return copySpare.take() ?? Locked([])
  }

  /// What the loop may have for a read that is kept.
  mutating func takeSpare() -> ReadBuffer? { spares.popLast() }

  /// So many bytes have come into `piece`: a new one, or the last one.
  mutating func append(_ count: Int, in piece: Piece) {
    self.count += count
    if case .copied(let target) = piece, let last = waiting.indices.last, case .copied(let copy) = waiting[last].piece,
      copy === target
    {
      waiting[last].count += count
    } else {
      waiting.append((piece, count))
    }
  }

  /// The piece that is to be written next.
  mutating func takeFirst() -> (piece: Piece, count: Int)? {
    guard !waiting.isEmpty else { return nil }
    let first = waiting.removeFirst()
    count -= first.count
    return first
  }

  /// A piece is in the file. Its memory serves again, that of copies only while there is need of them.
  mutating func recycle(_ piece: Piece) {
    switch piece {
    case .copied(let copy):
      copySpare = copy
      // There may be no more reads to keep.
      if !waiting.contains(where: { if case .kept = $0.piece { true } else { false } }) { spares = [] }
    case .kept(let read):
      spares.append(read.buffer)
      copySpare = nil
    }
  }
}

extension BodyPieces.Piece {
  /// Writes its bytes, and empties it if they are a copy. On a file thread.
  func write(to file: File, at offset: Int64) throws(IOError) {
    switch self {
    case .kept(let read): try file.write(read.bytes, at: offset)
    case .copied(let copy):
      try copy.withLock { (bytes) throws(IOError) in
        try file.write(bytes, at: offset)
        bytes.removeAll(keepingCapacity: true)
      }
    }
  }
}
