import LupineIO
import LupineSession
import LupineTesting
import Testing

/// What a download keeps back of its body, without a thread or a file.
@Suite struct BodyPiecesTests {
  /// A body, how much of it has been read and written, and the memory that it was ever in.
  private struct Run {
    private struct Known {
      weak var buffer: ReadBuffer?
    }

    var pieces = BodyPieces()
    var read = 0
    var written = 0
    private var underWay: KeptRead?
    private var known: [Known] = []

    /// What waits, and what is being written.
    var held: Int { read - written }
    /// Buffers that are there still.
    var buffers: Int { known.count { $0.buffer != nil } }

    private static func bytes(_ range: Range<Int>) -> [UInt8] {
      var bytes: [UInt8] = []
      Pattern.each(range.count, from: range.lowerBound) { bytes += $0 }
      return bytes
    }

    mutating func take(_ count: Int, keeps: Bool, expected: Int64?) {
      let bytes = Self.bytes(read..<read + count)
      read += count
      if keeps {
        var kept = KeptRead(into: pieces.takeSpare() ?? ReadBuffer())
        let fits = kept.append(bytes.span)
        #expect(fits == count)
        add(kept)
        return
      }
      var copied = 0
      while copied < count {
        var piece = pieces.copyTarget(expected: expected.map { $0 - Int64(copied) })
        let more = piece.append(bytes.span.extracting(droppingFirst: copied))
        #expect(more > 0)
        copied += more
        add(piece)
      }
    }

    private mutating func add(_ piece: KeptRead) {
      pieces.update(piece)
      if !known.contains(where: { $0.buffer === piece.buffer }) { known.append(Known(buffer: piece.buffer)) }
      known.removeAll { $0.buffer == nil }
    }

    /// Begins to write a piece, or ends it.
    mutating func write(keeping limit: Int = 2) {
      guard let piece = underWay else {
        underWay = pieces.takeFirst()
        return
      }
      let bytes = unsafe piece.bytes.withUnsafeBytes { unsafe [UInt8]($0) }
      #expect(bytes == Self.bytes(written..<written + piece.count))
      written += piece.count
      underWay = nil
      pieces.recycle(piece, limit: limit)
    }
  }

  /// Whatever is read at a time, and however slow the disk is: everything is written in order, and there is memory for five pieces at most.
  @Test(arguments: 0..<20) func memoryIsBounded(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    let piece = LoopContext.largeReadSize
    let sizes = [1, 1000, 65_536, 262_144, 300_000, piece - 1, piece]
    var run = Run()
    var most = 0
    for _ in 0..<60 {
      if run.held < piece * 3 / 2, Bool.random(using: &random) {
        let size = sizes.randomElement(using: &random) ?? 1
        run.take(size, keeps: size == piece && Bool.random(using: &random), expected: nil)
      } else {
        run.write()
      }
      most = max(most, run.buffers)
    }
    #expect(most <= 5)
    while run.held > 0 { run.write() }
    #expect(run.pieces.count == 0 && run.written == run.read && run.buffers <= 2)
  }

  /// A body whose length is known takes no more memory than it has, and what is longer than was said is taken all the same.
  @Test func smallBodies() {
    var run = Run()
    run.take(1000, keeps: false, expected: 3000)
    run.take(2000, keeps: false, expected: 2000)
    run.write()
    run.write()
    #expect(run.written == 3000 && run.buffers == 0)
    run.take(100, keeps: false, expected: 10)
    #expect(run.pieces.count == 100)
    while run.held > 0 { run.write() }
  }

  /// Who is slow keeps one buffer back.
  @Test func sparesAreGivenBack() {
    var run = Run()
    run.take(3 * LoopContext.largeReadSize, keeps: false, expected: nil)
    #expect(run.buffers == 3)
    run.write()
    run.write()
    run.write()
    run.write()
    #expect(run.buffers == 3)
    run.write()
    run.write(keeping: 1)
    #expect(run.held == 0 && run.buffers == 1)
  }
}
