import FoundationEssentials
import LupineSession
import LupineTesting
import Testing

/// Server-sent events from servers.
@Suite(.timeLimit(.minutes(5))) struct ServerSentEventTests {
  static let head = ScriptBytes("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")

  /// Each event comes when its empty line has come, and not only with what follows: the server waits until it was read.
  @Test(arguments: [false, true]) func eventsComeAsTheyAreSent(_ isSecure: Bool) async throws {
    let wasRead = try Latch()
    try await withScript(
      [
        [
          .readHead, .send(Self.head), .drip("\u{FEFF}: hello\r\nretry: 250\r\rid: 1\revent: add\rdata: 7\r\r"),
          .stall(wasRead), .drip("\ndata: été\ndata:\n\n"), .send("id: 2\n\ndata: never ended\n"), .close,
        ]
      ], isSecure: isSecure
    ) { session, server in
      let (bytes, response) = try await session.bytes(for: Request(server.url()))
      #expect(response.mimeType == "text/event-stream")
      var events = bytes.events.makeAsyncIterator()
      #expect(events.lastEventID == "" && events.retry == nil)
      #expect(
        try await events.next()
          == ServerSentEvent(type: "add", data: "7", lastEventID: "1", retry: .milliseconds(250)))
      wasRead.release()
      #expect(try await events.next() == ServerSentEvent(data: "été\n", lastEventID: "1", retry: .milliseconds(250)))
      #expect(try await events.next() == nil)
      #expect(try await events.next() == nil)
      #expect(events.lastEventID == "2")
    }
  }

  /// The error comes as soon as the event is too long; it is the last word, and the connection is closed.
  @Test func anEventThatIsTooLongEndsTheRequest() async throws {
    try await withScript([
      [.readHead, .send(Self.head), .send("data:1\n\ndata: 1\n"), .drip("data: 23"), .waitForClose]
    ]) { session, server in
      let (bytes, _) = try await session.bytes(for: Request(server.url()))
      var events = bytes.events(upTo: 9).makeAsyncIterator()
      #expect(try await events.next()?.data == "1")
      let error = try await failure { try await events.next() }
      #expect(error.code == .bodyTooLarge && error.phase == .receive && error.message.contains("longer than 9 bytes"))
      #expect(try await events.next() == nil)
      #expect(await server.hasPlayed(1))
      withExtendedLifetime(bytes) {}
    }
  }

  /// Unasked, an event has at most 16 MiB, and its lines come one by one.
  @Test(arguments: [0, 1]) func theLimitThatNobodyAskedFor(_ excess: Int) async throws {
    let line = Array("data:".utf8) + [UInt8](repeating: 0x61, count: (1 << 20) - 6) + [10]
    try await withServer([
      ServerRoute("GET", "/events") { _, connection in
        // Of each line without its name 1 MiB less 5 bytes is held.
        let rest = (16 << 20) - 15 * (line.count - 5) - 5 + excess
        try connection.begin(framing: .length(15 * line.count + 5 + rest + 2))
        for _ in 0..<15 { try connection.write(line) }
        try connection.write(Array("data:".utf8) + [UInt8](repeating: 0x62, count: rest) + [10, 10])
        try connection.finish()
      }
    ]) { session, server in
      let (bytes, _) = try await session.bytes(for: Request(server.url("/events")))
      var events = bytes.events.makeAsyncIterator()
      if excess == 0 {
        #expect(try await events.next()?.data.utf8.count == (16 << 20) - 5)
        #expect(try await events.next() == nil)
      } else {
        let error = try await failure { try await events.next() }
        #expect(error.code == .bodyTooLarge && error.message.contains("16777216"))
      }
    }
  }

  /// A stream may be quiet for as long as its request says: the limit of the session would have ended it.
  @Test func aQuietStreamHasTheTimeOfItsRequest() async throws {
    let isTold = try Latch()
    try await withScript(
      [
        [.readHead, .send(Self.head), .stall(isTold), .sendAndFinish("data: late\n\n")],
        [.readHead, .send(Self.head), .waitForClose],
      ], configure: { $0.timeoutIntervalForRequest = .seconds(3) }
    ) { session, server in
      var patient = try Request(server.url())
      patient.timeoutInterval = .seconds(86_400)
      let (bytes, _) = try await session.bytes(for: patient)
      // Begun later and ended for its time: the other one has been quiet for longer.
      let (impatient, _) = try await session.bytes(for: Request(server.url()))
      let error = try await failure { for try await _ in impatient.events {} }
      #expect(error.code == .timedOut && error.phase == .receive)
      isTold.release()
      var events: [String] = []
      for try await event in bytes.events { events.append(event.data) }
      #expect(events == ["late"])
    }
  }
}
