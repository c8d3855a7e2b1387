import LupineBase
import LupineEngine
import LupineIO
import LupineSimulation
import LupineTesting
import LupineWire
import Testing

/// Which bytes of a body go into the pipe of whoever takes them, and that nothing but their way changes.
@Suite(.timeLimit(.minutes(1))) struct PipedBodyTests {
  private static let size = 6_000_000
  private static let head = "HTTP/1.1 200 OK\r\nContent-Length: \(size)\r\n\r\n"

  private func begin(_ writer: PipeWriter, _ head: String = head) throws -> (Drive, Transfer) {
    let drive = try Drive()
    drive.serverBuffer = 1 << 20
    let transfer = Transfer(
      try request(host: "h", port: 80), handler: writer, createdAt: drive.engine.context.now)
    drive.engine.start(transfer, in: drive.pool)
    drive.settle()
    #expect(drive.received(0).hasPrefix("GET / "))
    drive.send(0, head)
    return (drive, transfer)
  }

  /// Gives bytes of the pattern, as many as the socket takes at once, to so many in all; the writer writes behind each.
  private func give(
    _ drive: Drive, _ writer: PipeWriter, _ transfer: Transfer, _ range: Range<Int>, atMost limit: Int = .max
  ) throws {
    var sent = range.lowerBound
    while sent < range.upperBound {
      let bytes = PatternBody.bytes(min(range.upperBound - sent, limit), from: sent)
      let count = drive.servers[0].send(bytes.span)
      try #require(count > 0, "the client reads no more, of \(sent) bytes")
      sent += count
      repeat { drive.settle() } while try writer.write(transfer)
    }
  }

  @Test(arguments: [40_000, 300_000, 1_000_000]) func aLargeBody(_ piece: Int) throws {
    let writer = try PipeWriter()
    let (drive, transfer) = try begin(writer)
    try give(drive, writer, transfer, 0..<Self.size, atMost: piece)
    #expect(writer.isOver && writer.failure == nil && writer.received == Self.size)
    #expect(try writer.isWhole(Self.size))
    // Its beginning and its end are looked at; that it comes fast is known of large reads.
    #expect(writer.piped.reduce(0, +) > Self.size / 2)
    #expect(writer.shown >= 64 << 10)
    let record = transfer.report.lastRecord
    #expect(record.responseBodyBytes == Int64(Self.size) && record.responseDecodedBytes == Int64(Self.size))
    #expect(record.responseBytes == Int64(Self.size + Self.head.utf8.count))
    // The connection serves again.
    drive.start(try request(host: "h", port: 80))
    drive.settle()
    #expect(drive.servers.count == 1 && drive.received(0).hasPrefix("GET / "))
    drive.send(0, "HTTP/1.1 204 No Content\r\n\r\n")
    drive.settle()
    #expect(drive.outcomes.map(\.status) == [204])
    drive.end()
  }

  /// Without a length there is no telling where a body ends, a coding must be undone, and a small body is not worth it.
  @Test(arguments: [
    "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5b8d80\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n",
  ])
  func bodiesThatAreShown(_ head: String) throws {
    let writer = try PipeWriter()
    let (drive, transfer) = try begin(writer, head)
    try give(drive, writer, transfer, 0..<min(Self.size, head.contains("1000000") ? 1_000_000 : Self.size))
    if head.contains("chunked") { drive.send(0, "\r\n0\r\n\r\n") }
    drive.servers[0].close()
    drive.settle()
    #expect(writer.isOver && writer.failure == nil && writer.piped.isEmpty)
    #expect(try writer.isWhole(writer.shown))
    drive.end()
  }

  /// The first bytes of a member of gzip (RFC 1952) whose blocks are not compressed (RFC 1951 section 3.2.4): as many as its text has, and a little more.
  @Test func codedBodiesAreShown() throws {
    let writer = try PipeWriter()
    let (drive, transfer) = try begin(
      writer, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: \(Self.size)\r\n\r\n")
    var coded: [UInt8] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255]
    let block = 60_000
    let text = 50 * block
    for start in stride(from: 0, to: text, by: block) {
      coded += [0, UInt8(block & 255), UInt8(block >> 8), UInt8(~block & 255), UInt8(~block >> 8 & 255)]
      coded += PatternBody.bytes(block, from: start)
    }
    var sent = 0
    while sent < coded.count {
      let count = drive.servers[0].send(coded.span.extracting(sent..<coded.count))
      try #require(count > 0)
      sent += count
      repeat { drive.settle() } while try writer.write(transfer)
    }
    #expect(!writer.isOver && writer.piped.isEmpty && writer.shown == text)
    #expect(try writer.isWhole(text))
    drive.engine.cancel(transfer)
    drive.end()
  }

  /// What waits behind a pipe that took less than a watermark is read at once: nothing more may come that would tell of it.
  @Test func theLastPart() throws {
    let writer = try PipeWriter()
    let (drive, transfer) = try begin(writer)
    try give(drive, writer, transfer, 0..<Self.size - 540_000, atMost: 1_000_000)
    try give(drive, writer, transfer, Self.size - 540_000..<Self.size)
    #expect(writer.isOver && writer.failure == nil)
    #expect(try writer.isWhole(Self.size))
    drive.end()
  }

  /// A slow disk is no slow network: however long the writer takes, what comes then goes by the pipe.
  @Test func slowWriters() throws {
    let writer = try PipeWriter()
    let (drive, transfer) = try begin(writer)
    try give(drive, writer, transfer, 0..<2_000_000)
    var sent = 2_000_000
    let shown = writer.shown
    while sent < Self.size - 1_000_000 {
      let bytes = PatternBody.bytes(Self.size - 1_000_000 - sent, from: sent)
      let count = drive.servers[0].send(bytes.span)
      try #require(count > 0)
      sent += count
      drive.settle()
      drive.engine.world.now = drive.engine.world.now.advanced(byNanoseconds: 200_000_000)
      repeat { drive.settle() } while try writer.write(transfer)
    }
    #expect(writer.shown == shown && writer.received == sent)
    try give(drive, writer, transfer, sent..<Self.size)
    #expect(writer.isOver && writer.failure == nil)
    #expect(try writer.isWhole(Self.size))
    drive.end()
  }

  /// Who takes no pipe, or has not emptied it, is shown what comes, in its place.
  @Test(arguments: [false, true]) func whileThereIsNoPipe(_ hasPipe: Bool) throws {
    let writer = try PipeWriter(hasPipe: hasPipe)
    writer.pauses = false
    let (drive, transfer) = try begin(writer)
    // Nothing is written but by what is shown behind it.
    var sent = 0
    while sent < Self.size {
      let bytes = PatternBody.bytes(Self.size - sent, from: sent)
      sent += drive.servers[0].send(bytes.span)
      drive.settle()
    }
    try writer.write(transfer)
    #expect(writer.isOver && writer.failure == nil)
    #expect(try writer.isWhole(Self.size))
    #expect(writer.piped.isEmpty != hasPipe)
    drive.end()
  }

  /// A body that breaks off is told as one that is shown, with what is missing; what came is there.
  @Test func aBodyThatBreaksOff() throws {
    let writer = try PipeWriter()
    let (drive, transfer) = try begin(writer)
    try give(drive, writer, transfer, 0..<4_000_000)
    #expect(!writer.piped.isEmpty && !writer.isOver)
    drive.servers[0].close()
    drive.settle()
    guard case .wire(let error)? = writer.failure?.error else {
      Issue.record("\(String(describing: writer.failure))")
      return
    }
    #expect(error.reason == .truncatedBody(missing: 2_000_000))
    #expect(error.offset == 4_000_000 + Self.head.utf8.count)
    #expect(writer.received == 4_000_000)
    #expect(try writer.isWhole(4_000_000))
    drive.end()
  }

  /// The pipe ends before the body does: what follows a body is not a part of it, and closes the connection.
  @Test func bytesBehindTheBody() throws {
    let writer = try PipeWriter()
    let (drive, transfer) = try begin(writer)
    try give(drive, writer, transfer, 0..<Self.size - 10)
    var bytes = PatternBody.bytes(10, from: Self.size - 10)
    bytes += Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8)
    _ = drive.servers[0].send(bytes.span)
    drive.settle()
    #expect(writer.isOver && writer.failure == nil)
    #expect(try writer.isWhole(Self.size))
    let isClosed = drive.servers[0].isHungUp
    #expect(isClosed)
    drive.end()
  }

  /// Once nobody wants it, a body is read and dropped.
  @Test func aBodyThatIsDiscarded() throws {
    let writer = try PipeWriter()
    writer.discards = true
    let (drive, _) = try begin(writer)
    let bytes = PatternBody.bytes(2_000_000)
    for _ in 0..<3 where !writer.isOver {
      _ = drive.servers[0].send(bytes.span)
      drive.settle()
    }
    #expect(writer.piped.count == 1 && writer.isOver)
    let isClosed = drive.servers[0].isHungUp
    #expect(isClosed)
    drive.end()
  }

  /// A pipe that has drained the socket is not filled again, little by little, whenever it has been emptied: the watermark is waited for, or its time.
  @Test func littleBehindMuch() throws {
    let drive = try TCPDrive()
    let writer = try PipeWriter()
    let transfer = try drive.start(writer)
    drive.send(0, Self.head)
    let body = PatternBody.bytes(Self.size)
    var sent = 0
    func turn(_ isDone: () -> Bool) {
      for _ in 0..<1000 where !isDone() { _ = drive.engine.context.turn() }
    }
    // It is known to be fast, and nothing waits.
    while sent < 3_000_000 {
      sent += drive.sendSome(body[sent..<3_000_000])
      turn { writer.received == sent }
      try writer.write(transfer)
    }
    for _ in 0..<100 {
      _ = drive.engine.context.turn()
      try writer.write(transfer)
    }
    let fills = writer.piped.count
    try #require(fills > 0 && writer.received == sent)
    // More than the watermark: one fill takes it all, and the writer takes its time.
    sent += drive.sendSome(body[sent..<sent + 700_000])
    turn { writer.received == sent }
    try #require(writer.piped.count == fills + 1 && writer.received == sent)
    let more = drive.sendSome(body[sent..<sent + 100_000])
    #expect(more == 100_000)
    try writer.write(transfer)
    turn { writer.received > sent }
    #expect(writer.received == sent)
    drive.engine.world.now = drive.engine.world.now.advanced(byNanoseconds: 30_000_000)
    turn { writer.received > sent }
    try writer.write(transfer)
    #expect(writer.received == sent + more)
    #expect(try writer.isWhole(sent + more))
    drive.engine.cancel(transfer)
    drive.end()
  }

  /// A peer that sends little at a time, long enough apart, is read as others are.
  @Test func aSlowPeer() throws {
    let writer = try PipeWriter()
    let (drive, transfer) = try begin(writer)
    var sent = 0
    while sent < 3_000_000 {
      try give(drive, writer, transfer, sent..<sent + 20_000)
      sent += 20_000
      drive.pass(milliseconds: 25)
    }
    #expect(writer.piped.isEmpty && writer.shown == sent)
    drive.engine.cancel(transfer)
    drive.end()
  }
}
