import LupineBase
import LupineEngine
import Testing

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
