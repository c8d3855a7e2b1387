import LupineBase
import LupineEngine
import LupineWire
import Testing

/// A producer that ends its body some time after it has given all that was announced: the request ended with the last byte.
@Suite(.timeLimit(.minutes(1))) struct LateProducerTests {
  /// A request whose three bytes have been sent, and whose producer has not ended.
  private func start(_ drive: Drive, firstByte: Int64? = nil) throws -> (Transfer, BodyChannel) {
    let channel = Locked<BodyChannel?>(nil)
    let stream = StreamBody(length: 3, isReplayable: false) { given in
      given.write([1, 2, 3]) { _ in }
      channel.withLock { $0 = given }
    }
    let request = try request(
      host: "h", port: 80, method: "POST", framing: .length(3), body: .stream(stream), firstByte: firstByte)
    let transfer = drive.start(request)
    drive.settle()
    #expect(drive.receive(0).suffix(3) == [1, 2, 3])
    return (transfer, try #require(channel.withLock { $0 }))
  }

  @Test func theRequestEndsWithItsLastByte() throws {
    let drive = try Drive()
    let (transfer, channel) = try start(drive)
    let end = try #require(transfer.metrics.sendEnd)
    drive.send(0, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na")
    drive.pass(milliseconds: 2_000)
    channel.finish()
    drive.settle()
    drive.send(0, "b")
    drive.settle()
    #expect(drive.outcomes.last?.status == 200 && drive.outcomes.last?.failure == nil)
    #expect(transfer.metrics.sendEnd == end)
    drive.end()
  }

  /// The time for the first byte counts from the last byte of the request, and not anew from the end of its producer.
  @Test func theTimeForTheFirstByteIsNotBegunAnew() throws {
    let drive = try Drive()
    let (_, channel) = try start(drive, firstByte: 1_000_000_000)
    drive.pass(milliseconds: 900)
    channel.finish()
    drive.settle()
    #expect(drive.outcomes.isEmpty)
    drive.pass(milliseconds: 200)
    guard case .deadline(.firstByte)? = drive.outcomes.last?.failure?.error else {
      Issue.record("\(drive.outcomes)")
      return
    }
    drive.end()
  }
}
