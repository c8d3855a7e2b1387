import LupineBase
import LupineEngine
import LupineIO
import LupineSimulation
import LupineTLS
import LupineTesting
import LupineWire
import Testing

/// What arrived before TLS failed is delivered before the failure is, however slowly it is read.
@Suite(.timeLimit(.minutes(1))) struct HeldFailureTests {
  /// Pauses at every span.
  private final class Slow: TransferHandler {
    private(set) var received = 0
    private(set) var end: TransferFailure??

    func transfer(_ transfer: Transfer, didReceiveInformational head: ResponseHead) {}
    func transfer(_ transfer: Transfer, didReceive head: ResponseHead, framing: BodyFraming) {}
    func transfer(_ transfer: Transfer, didReceiveTrailers trailers: FieldSection) {}
    func transfer(_ transfer: Transfer, didSendBodyBytes count: Int) {}

    func transfer(_ transfer: Transfer, didReceiveBody bytes: Span<UInt8>) {
      received += bytes.count
      transfer.pause()
    }

    func transfer(_ transfer: Transfer, didEndWith failure: TransferFailure?) { end = .some(failure) }
  }

  /// With all of the body, or all but its end; and while a body is sent that goes on.
  @Test(arguments: [0, 9], [false, true])
  func aDamagedRecordBehindTheBody(_ missing: Int, _ isUploading: Bool) throws {
    let plain = [UInt8](repeating: 7, count: 40_000) + PatternBody.bytes(2_000)
    var body: [UInt8] = []
    for _ in 0..<60 { body += plain }
    let packed = try Compression.gzip.encode(body)
    let secure = try SecureDrive { _ in }
    secure.deliver(secure.takeOutput()[...])
    let empty = Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8)
    try secure.server.send(empty.span)
    secure.deliver(secure.takeOutput()[...])
    secure.drive.settle()
    #expect(secure.drive.outcomes.count == 1)

    let reader = Slow()
    let channel = Locked<BodyChannel?>(nil)
    let upload = StreamBody(length: nil, isReplayable: false) { given in channel.withLock { $0 = given } }
    let request = try secure.transferRequest("POST", body: isUploading ? .stream(upload) : .none)
    let transfer = Transfer(request, handler: reader, createdAt: secure.drive.engine.context.now)
    secure.drive.engine.start(transfer, in: secure.drive.pool)
    secure.drive.settle()
    let head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: \(packed.count)\r\n\r\n"
    let response = Array(head.utf8) + packed.dropLast(missing)
    try secure.server.send(response.span)
    let damaged: [UInt8] = [0x17, 3, 3, 0, 32] + [UInt8](repeating: 0, count: 32)
    secure.deliver((secure.takeOutput() + damaged)[...])
    secure.drive.settle()
    let isHeard = Locked<Bool?>(nil)
    channel.withLock { $0 }?.write([1]) { told in isHeard.withLock { $0 = told } }
    secure.drive.settle()
    #expect(isHeard.withLock { $0 } == (isUploading ? false : nil))
    #expect(reader.received > 0 && reader.received < body.count && reader.end == nil)
    for _ in 0..<1000 where reader.end == nil {
      transfer.resume()
      secure.drive.settle()
    }
    let end = try #require(reader.end)
    if missing == 0 {
      #expect(reader.received == body.count && end == nil)
    } else {
      #expect(reader.received > body.count - 100_000)
      guard case .tls? = end?.error else {
        Issue.record("\(String(describing: end))")
        return
      }
    }
    #expect(secure.drive.servers[0].isHungUp)
    secure.drive.end()
  }
}
