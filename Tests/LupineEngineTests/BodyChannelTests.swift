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
