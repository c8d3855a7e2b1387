import LupineBase
import LupineEngine
import LupineIO
import LupineSimulation
import LupineTesting
import LupineWire
import Testing

/// A connection that always has more to do leaves turns of the loop to the others.
@Suite(.timeLimit(.minutes(1))) struct FairnessTests {
  private static let answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

  /// Counts pieces of a body, sent or received, and calls somebody at each.
  private final class Pieces: TransferHandler {
    private(set) var count = 0
    var onPiece: (Int) -> Void = { _ in }

    private func note() {
      count += 1
      onPiece(count)
    }

    func transfer(_ transfer: Transfer, didReceiveInformational head: ResponseHead) {}
    func transfer(_ transfer: Transfer, didReceive head: ResponseHead, framing: BodyFraming) {}
    func transfer(_ transfer: Transfer, didReceiveBody bytes: Span<UInt8>) { note() }
    func transfer(_ transfer: Transfer, didReceiveTrailers trailers: FieldSection) {}
    func transfer(_ transfer: Transfer, didSendBodyBytes count: Int) { note() }
    func transfer(_ transfer: Transfer, didEndWith failure: TransferFailure?) {}
  }

  /// An engine, and on server 0 a request that waits for its answer.
  private func driveWithAWaitingRequest() throws -> Drive {
    let drive = try Drive()
    drive.start(try request(host: "h", port: 80))
    drive.settle()
    #expect(drive.received(0).hasPrefix("GET / "))
    return drive
  }

  /// Takes turns until the waiting request has its answer, and says how many pieces of the other's body there were by then.
  private func pieces(of pieces: Pieces, until drive: Drive) -> Int {
    for _ in 0..<100 where drive.outcomes.isEmpty { _ = drive.engine.context.turn() }
    #expect(drive.outcomes.first?.body == Array("hello".utf8))
    return pieces.count
  }

  /// The body is there, and the server takes whatever we send.
  @Test func anUploadLeavesTurnsToOthers() throws {
    let drive = try driveWithAWaitingRequest()
    let channelSize = 128
    let body = RequestBody.stream(
      StreamBody(length: nil, isReplayable: false) { channel in
        for _ in 0..<channelSize { channel.write([1]) { _ in } }
        channel.finish()
      })
    let upload = Pieces()
    upload.onPiece = { if $0 == 1 { drive.send(0, Self.answer) } }
    let put = try request(host: "h", port: 80, method: "PUT", framing: .chunked, body: body)
    drive.engine.start(Transfer(put, handler: upload, createdAt: drive.engine.context.now), in: drive.pool)
    let sent = pieces(of: upload, until: drive)
    #expect(sent > 0 && sent < channelSize / 2, "\(sent)")
    drive.settle()
    #expect(upload.count == channelSize)
    upload.onPiece = { _ in }
    drive.servers[1].close()
    drive.end()
  }

  /// The server has sent as much again before we have read what it sent.
  @Test func aDownloadLeavesTurnsToOthers() throws {
    let drive = try driveWithAWaitingRequest()
    // As much as a system with no settings of its own gives, which doubles it: more than one read.
    drive.serverBuffer = 212_992
    let download = Pieces()
    drive.engine.start(
      Transfer(try request(host: "h", port: 80), handler: download, createdAt: drive.engine.context.now), in: drive.pool
    )
    drive.settle()
    #expect(drive.received(1).hasPrefix("GET / "))
    let bytes = [UInt8](repeating: 1, count: 2 * LoopContext.readBufferSize)
    let limit = 64
    download.onPiece = { count in
      if count == 1 { drive.send(0, Self.answer) }
      if count < limit { _ = drive.servers[1].send(bytes.span) }
    }
    drive.send(1, "HTTP/1.1 200 OK\r\n\r\n")
    #expect(drive.servers[1].send(bytes.span) > LoopContext.readBufferSize)
    let received = pieces(of: download, until: drive)
    #expect(received > 0 && received < limit / 2, "\(received)")
    download.onPiece = { _ in }
    drive.servers[1].close()
    drive.end()
  }
}
