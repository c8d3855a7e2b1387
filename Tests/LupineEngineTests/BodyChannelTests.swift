import LupineBase
import Testing

@testable import LupineEngine

/// The producer's side of a body channel, which nobody reads here.
@Suite struct BodyChannelTests {
  @Test func writerIsHeldAtTheHighWatermarkAndToldOfTheClose() {
    let channel = BodyChannel()
    let answers = Locked<[Bool]>([])
    let chunk = [UInt8](repeating: 0, count: BodyChannel.highWatermark / 4)
    for _ in 0..<4 { channel.write(chunk) { answer in answers.withLock { $0.append(answer) } } }
    #expect(answers.withLock { $0 } == [true, true, true])
    channel.close()
    #expect(answers.withLock { $0 } == [true, true, true, false])
    channel.write(chunk) { answer in answers.withLock { $0.append(answer) } }
    #expect(answers.withLock { $0 }.last == false)
  }

  private struct Case: Sendable {
    var low: Int
    var high: Int
    /// Chunks that must be taken before a writer that is held goes on.
    var takings: Int
  }

  private static let cases = [
    Case(low: 0, high: 1, takings: 1), Case(low: 1, high: 1, takings: 1), Case(low: 0, high: 3, takings: 3),
    Case(low: 1, high: 3, takings: 2), Case(low: 2, high: 3, takings: 1),
  ]

  @Test(arguments: cases) private func watermarksAreSettings(_ one: Case) {
    let channel = BodyChannel(lowWatermark: one.low, highWatermark: one.high)
    let answers = Locked(0)
    for _ in 0..<one.high { channel.write([1]) { _ in answers.withLock { $0 += 1 } } }
    #expect(answers.withLock { $0 } == one.high - 1)
    for taking in 1...one.takings {
      guard case .chunk = channel.next() else {
        Issue.record("a chunk is lost")
        return
      }
      #expect(answers.withLock { $0 } == (taking < one.takings ? one.high - 1 : one.high))
    }
  }

  /// A chunk that is longer than a piece is handed out in several, and its writer goes on when enough of it has gone.
  @Test func longChunksAreHandedOutInPieces() {
    let channel = BodyChannel()
    let (size, answers) = (BodyChannel.pieceSize, Locked<[Bool]>([]))
    let chunk = (0..<2 * size + 3).map { UInt8(truncatingIfNeeded: $0 >> 8 &+ $0) }
    channel.write(chunk) { answer in answers.withLock { $0.append(answer) } }
    channel.finish()
    var pieces: [Int] = []
    var bytes: [UInt8] = []
    while case .chunk(let chunk, let range) = channel.next() {
      pieces.append(range.count)
      bytes += chunk[range]
      #expect(answers.withLock { $0 } == (pieces.count < 2 ? [] : [true]))
    }
    #expect(pieces == [size, size, 3] && bytes == chunk)
    // What is left of one goes with the channel.
    let closed = BodyChannel()
    closed.write(chunk) { _ in }
    _ = closed.next()
    closed.close()
    guard case .empty = closed.next() else {
      Issue.record("something is left")
      return
    }
  }

  @Test func closeIsToldOnceWhicheverComesFirst() {
    let channel = BodyChannel()
    let told = Locked(0)
    channel.onClose { told.withLock { $0 += 1 } }
    #expect(told.withLock { $0 } == 0)
    channel.close()
    channel.close()
    #expect(told.withLock { $0 } == 1)
    channel.onClose { told.withLock { $0 += 1 } }
    #expect(told.withLock { $0 } == 2)
  }

  @Test func nothingIsWrittenAfterTheEnd() {
    let channel = BodyChannel()
    channel.finish()
    let answer = Locked<Bool?>(nil)
    channel.write([1]) { told in answer.withLock { $0 = told } }
    #expect(answer.withLock { $0 } == false)
  }
}
