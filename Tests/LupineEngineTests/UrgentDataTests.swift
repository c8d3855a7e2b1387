import Glibc
import LupineBase
import LupineEngine
import LupineIO
import LupineTesting
import LupineWire
import Testing

/// TCP's urgent data, which HTTP has no use for: a read ends before it, although more waits, and no further event says so.
@Suite(.timeLimit(.minutes(1))) struct UrgentDataTests {
  @Test func whatComesBehindItIsReadToo() throws {
    let drive = try TCPDrive()
    let body = try drive.fetch("/1", from: 0) {
      drive.send(0, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
      drive.send(0, "w", isUrgent: true)
      drive.send(0, "orld")
    }
    #expect(body == Array("helloworld".utf8))
    drive.end()
  }

  /// A response, and behind an urgent byte one that nobody has asked for: it does not wait there for the next request.
  @Test func aResponseBehindItIsNotTheNextOne() throws {
    let drive = try TCPDrive()
    let first = try drive.fetch("/1", from: 0) {
      drive.send(0, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK")
      drive.send(0, "H", isUrgent: true)
      drive.send(0, "TTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nEVIL!")
    }
    #expect(first == Array("OK".utf8))
    let second = try drive.fetch("/2", from: 1) {
      drive.send(1, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood")
    }
    #expect(second == Array("good".utf8))
    drive.end()
  }

  /// A pipe stops at it for good, and calls what waits behind it the end once the peer has ended: it is read then.
  @Test(arguments: [false, true]) func largeBodiesGoOnBehindIt(_ ends: Bool) throws {
    let drive = try TCPDrive()
    let writer = try PipeWriter()
    let transfer = try drive.start(writer)
    let (size, mark) = (6_000_000, 3_000_000)
    drive.send(0, "HTTP/1.1 200 OK\r\nContent-Length: \(size)\r\n\r\n")
    let body = PatternBody.bytes(size)
    var sent = 0
    for _ in 0..<100_000 where sent < size {
      // Nothing is read while it takes bytes of which some are behind the mark.
      if sent < mark {
        sent += drive.sendSome(body[sent..<mark])
      } else if sent == mark {
        sent += drive.sendSome(body[mark...mark], isUrgent: true)
      } else {
        let taken = drive.sendSome(body[sent...])
        sent += taken
        if taken > 0 { continue }
      }
      _ = drive.engine.context.turn()
      try writer.write(transfer)
    }
    #expect(sent == size && !writer.piped.isEmpty)
    if ends { drive.shutDownServer() }
    for _ in 0..<1000 where !writer.isOver {
      drive.engine.world.now = drive.engine.world.now.advanced(byNanoseconds: 1_000_000)
      _ = drive.engine.context.turn()
      try writer.write(transfer)
    }
    #expect(writer.isOver && writer.failure == nil)
    #expect(try writer.isWhole(size))
    drive.end()
  }
}
