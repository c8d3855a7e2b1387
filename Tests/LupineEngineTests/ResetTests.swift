import Glibc
import LupineBase
import LupineIO
import LupineTestSupport
import LupineTesting
import LupineWire
import Testing

@testable import LupineEngine

/// A reset that a write has met: the socket tells the read behind it an end, which is none in order (RFC 9112 section 8).
@Suite(.timeLimit(.minutes(2))) struct ResetTests {
  private func expectReset(_ drive: TCPDrive, sourceLocation: SourceLocation = #_sourceLocation) {
    guard case .io(.reset)? = drive.outcomes.first?.failure?.error else {
      Issue.record("a reset passed for an end: \(drive.outcomes)", sourceLocation: sourceLocation)
      return
    }
  }

  /// Where the end came in order before, the body is complete all the same.
  @Test(arguments: [false, true]) func aBodyThatEndsWithTheConnection(_ isInOrder: Bool) throws {
    let drive = try TCPDrive()
    let given = Locked<BodyChannel?>(nil)
    let body = StreamBody(length: 1000, isReplayable: false) { channel in given.withLock { $0 = channel } }
    drive.start(try request(host: "h", port: 80, method: "PUT", framing: .length(1000), body: .stream(body)))
    drive.awaitRequest(0)
    drive.send(0, "HTTP/1.1 200 OK\r\n\r\nhalf")
    for _ in 0..<10 { _ = drive.engine.context.turn() }
    #expect(drive.outcomes.isEmpty)
    let confined = LoopConfined(drive)
    // Behind the look at the socket of the turn, so that the write meets it first.
    drive.engine.context.loop.submit {
      if isInOrder { confined.onLoop.shutDownServer() }
      confined.onLoop.reset(0)
      given.withLock { $0 }?.write([1]) { _ in }
    }
    let deadline = ContinuousClock.now + .seconds(20)
    while drive.outcomes.isEmpty, ContinuousClock.now < deadline { _ = drive.engine.context.turn() }
    #expect(drive.outcomes.first?.body == Array("half".utf8))
    if isInOrder { #expect(drive.outcomes.first?.failure == nil) } else { expectReset(drive) }
    drive.end()
  }

  /// A file thread that is putting bytes into the socket meets it, with its first bytes or behind others, before the loop may look.
  @Test func aBodyBesideAFile() throws {
    let count = 100_000_000
    var name = Array("/tmp/lupine-test-XXXXXX".utf8CString)
    let file = unsafe mkstemp(&name)
    unsafe unlink(name)
    defer { _ = close(file) }
    #expect(ftruncate(file, count) == 0)
    let body = RequestBody.file(FileBody(path: "/proc/self/fd/\(file)", length: Int64(count)))
    let put = try request(host: "h", port: 80, method: "PUT", framing: .length(Int64(count)), body: body)
    for _ in 0..<30 {
      let drive = try TCPDrive()
      drive.start(put)
      drive.awaitRequest(0)
      drive.send(0, "HTTP/1.1 200 OK\r\n\r\nhalf")
      // The head is read, and the socket full by then, or nearly so.
      for _ in 0..<3_000 { _ = drive.engine.context.turn() }
      drive.drain(0)
      _ = drive.engine.context.turn()
      drive.reset(0)
      let deadline = ContinuousClock.now + .seconds(20)
      while drive.outcomes.isEmpty, ContinuousClock.now < deadline { _ = drive.engine.context.turn() }
      expectReset(drive)
      drive.end()
    }
  }
}
