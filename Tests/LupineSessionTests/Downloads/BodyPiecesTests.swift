import LupineIO
import LupineSession
import LupineTesting
import Testing

/// What a download keeps back of its body, without a thread or a file.
@Suite struct BodyPiecesTests {
  /// A body, how much of it has been read and written, and the memory that it was ever in.
  private struct Run {
    private struct Known {
      weak var memory: PieceMemory?
    }

    var pieces = BodyPieces()
    var read = 0
    var written = 0
    private var underWay: BodyPiece?
    private var known: [Known] = []

    /// What waits, and what is being written.
    var held: Int { read - written }
    /// Buffers that are there still.
    var buffers: Int { known.count { $0.memory != nil } }

    private static func bytes(_ range: Range<Int>) -> [UInt8] {
      var bytes: [UInt8] = []
      Pattern.each(range.count, from: range.lowerBound) { bytes += $0 }
      return bytes
    }

    mutating func take(_ count: Int, expected: Int64?) {
      let bytes = Self.bytes(read..<read + count)
      read += count
      var copied = 0
      while copied < count {
        var piece = pieces.copyTarget(expected: expected.map { $0 - Int64(copied) })
        let more = piece.append(bytes.span.extracting(droppingFirst: copied))
        #expect(more > 0)
        copied += more
        add(piece)
      }
    }

    private mutating func add(_ piece: GatheredBytes) {
      pieces.update(piece)
      if !known.contains(where: { $0.memory === piece.memory }) { known.append(Known(memory: piece.memory)) }
      known.removeAll { $0.memory == nil }
    }

    /// Begins to write a piece, or ends it.
    mutating func write() {
      guard let piece = underWay else {
        underWay = pieces.takeFirst()
        return
      }
      if case .gathered(let gathered) = piece {
        #expect(gathered.bytes.count == piece.count)
        #expect(unsafe gathered.bytes.withUnsafeBytes { unsafe PatternBody.matches($0, from: written) })
      }
      written += piece.count
      underWay = nil
      pieces.recycle(piece)
    }
  }

  /// Whatever is read at a time, and however slow the disk is: everything is written in order, and there is memory for four pieces at most.
  @Test(arguments: 0..<20) func memoryIsBounded(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    let sizes = [1, 1000, 65_536, 196_608, PieceMemory.size - 1, PieceMemory.size]
    var run = Run()
    var most = 0
    for _ in 0..<60 {
      if run.held < 192 << 10, Bool.random(using: &random) {
        let size = sizes.randomElement(using: &random) ?? 1
        run.take(size, expected: nil)
      } else {
        run.write()
      }
      most = max(most, run.buffers)
    }
    #expect(most <= 4)
    while run.held > 0 { run.write() }
    #expect(run.pieces.count == 0 && run.written == run.read && run.buffers <= 1)
  }

  /// A body whose length is known takes no more memory than it has, and what is longer than was said is taken all the same.
  @Test func smallBodies() {
    var run = Run()
    run.take(1000, expected: 3000)
    run.take(2000, expected: 2000)
    run.write()
    run.write()
    #expect(run.written == 3000 && run.buffers == 0)
    run.take(100, expected: 10)
    #expect(run.pieces.count == 100)
    while run.held > 0 { run.write() }
  }

  /// One buffer is kept back.
  @Test func sparesAreGivenBack() {
    var run = Run()
    run.take(3 * PieceMemory.size, expected: nil)
    #expect(run.buffers == 3)
    for _ in 0..<4 { run.write() }
    #expect(run.buffers == 2)
    run.write()
    run.write()
    #expect(run.held == 0 && run.buffers == 1)
    run.take(1, expected: nil)
    #expect(run.buffers == 1)
  }

  /// What waits in a pipe keeps its place: what is gathered behind it is a piece of its own, although the one before it has room.
  @Test func pipesKeepTheirPlace() throws {
    let pipe = try #require(BodyPipe.make())
    var run = Run()
    run.take(1000, expected: nil)
    #expect(!run.pieces.holdsPipe)
    run.pieces.add(5000, in: pipe)
    run.take(10, expected: nil)
    run.take(20, expected: nil)
    #expect(run.pieces.holdsPipe && run.pieces.count == 6030 && run.buffers == 2)
    #expect([1000, 5000, 30].allSatisfy { run.pieces.takeFirst()?.count == $0 })
    #expect(run.pieces.count == 0 && run.pieces.takeFirst() == nil && !run.pieces.holdsPipe)
  }
}
