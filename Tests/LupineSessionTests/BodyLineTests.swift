import FoundationEssentials
import LupineSession
import LupineTesting
import Testing

/// The lines of a body, which a server may not let grow without end.
@Suite(.timeLimit(.minutes(5))) struct BodyLineTests {
  /// An answer whose body goes on until the connection ends.
  static let head = ScriptBytes("HTTP/1.1 200 OK\r\n\r\n")

  @Test func linesAcrossPieces() async throws {
    try await withScript([
      [.readHead, .send(Self.head), .drip("one\r\n\nthr\ree\r"), .send("\nvier\n"), .sendAndFinish("end")]
    ]) { session, server in
      let (bytes, _) = try await session.bytes(for: Request(server.url()))
      var lines: [String] = []
      for try await line in bytes.lines(upTo: 6) { lines.append(line) }
      #expect(lines == ["one", "", "thr\ree", "vier", "end"])
    }
  }

  /// The error comes as soon as the line is too long, although the server says nothing more; it is the last word, and the connection is closed.
  @Test func aLineThatIsTooLongEndsTheRequest() async throws {
    try await withScript([
      [.readHead, .send(Self.head), .send("abcd\r\n"), .drip("abcde"), .waitForClose]
    ]) { session, server in
      let (bytes, _) = try await session.bytes(for: Request(server.url("/x")))
      var lines = bytes.lines(upTo: 4).makeAsyncIterator()
      #expect(try await lines.next() == "abcd")
      let error = try await failure { try await lines.next() }
      #expect(error.code == .bodyTooLarge && error.phase == .receive && error.requestBytesSent)
      #expect(error.message.contains("longer than 4 bytes") && error.failingURL == server.url("/x"))
      #expect(try await lines.next() == nil)
      // Held until here: it is not letting go of the body that closes the connection.
      #expect(await server.hasPlayed(1))
      withExtendedLifetime(bytes) {}
    }
  }

  /// What there is of a line when the body is cut is none.
  @Test func aLineThatIsCutIsNone() async throws {
    try await withScript([[.readHead, .send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\none\ntw"), .close]]) {
      session, server in
      let (bytes, _) = try await session.bytes(for: Request(server.url("/x")))
      var lines = bytes.lines.makeAsyncIterator()
      #expect(try await lines.next() == "one")
      _ = try await failure { try await lines.next() }
      #expect(try await lines.next() == nil)
    }
  }

  /// Of two readers that both have to wait one is refused, and the other one gets what comes.
  @Test func aSecondReaderIsRefused() async throws {
    let goOn = try Latch()
    defer { goOn.release() }
    try await withScript([[.readHead, .send(Self.head), .stall(goOn), .sendAndFinish("end")]]) { session, server in
      let (bytes, _) = try await session.bytes(for: Request(server.url("/x")))
      let (refused, read) = await withTaskGroup(of: Result<[UInt8], any Error>.self) { group in
        for _ in 0..<2 {
          group.addTask {
            do { return .success(try await bytes.collect(upTo: 9)) } catch { return .failure(error) }
          }
        }
        let refused = await group.next()
        goOn.release()
        return (refused, await group.next())
      }
      let error = try await failure { try refused?.get() }
      #expect(error.code == .unknown && error.message.contains("one reader"))
      let body = try read?.get()
      #expect(body == Array("end".utf8))
    }
  }

  /// Unasked, a line has at most 1 MiB.
  @Test(arguments: [0, 1]) func theLimitThatNobodyAskedFor(_ excess: Int) async throws {
    let line = [UInt8](repeating: 0x61, count: 1 << 20)
    let more = [UInt8](repeating: 0x62, count: excess)
    try await withServer([
      ServerRoute("GET", "/line") { _, connection in
        try connection.respond(body: line + more + Array("\r\nend".utf8))
      }
    ]) { session, server in
      let (bytes, _) = try await session.bytes(for: Request(server.url("/line")))
      var lines = bytes.lines.makeAsyncIterator()
      if excess == 0 {
        #expect(try await lines.next()?.utf8.count == 1 << 20)
        #expect(try await lines.next() == "end")
      } else {
        let error = try await failure { try await lines.next() }
        #expect(error.code == .bodyTooLarge && error.message.contains("1048576"))
      }
    }
  }
}
