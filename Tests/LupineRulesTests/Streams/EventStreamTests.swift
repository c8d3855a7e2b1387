import LupineRules
import Testing

typealias StreamEvent = EventStreamParser.Event

/// Streams of server-sent events by the rules of WHATWG HTML 9.2.6, each whole, byte by byte, and at every split.
@Suite struct EventStreamTests {
  struct Case: Sendable, CustomTestStringConvertible {
    var name: String
    var stream: [UInt8]
    var events: [StreamEvent]
    var lastEventID = ""
    var retry: Int64?
    var testDescription: String { name }

    init(_ name: String, _ stream: String, _ events: [StreamEvent], lastEventID: String = "", retry: Int64? = nil) {
      self.init(name, bytes: Array(stream.utf8), events, lastEventID: lastEventID, retry: retry)
    }

    init(_ name: String, bytes: [UInt8], _ events: [StreamEvent], lastEventID: String = "", retry: Int64? = nil) {
      self.name = name
      stream = bytes
      self.events = events
      self.lastEventID = lastEventID
      self.retry = retry
    }
  }

  static let examples = [
    Case(
      "the standard: three lines of data", "data: YHOO\ndata: +2\ndata: 10\n\n", [StreamEvent(data: "YHOO\n+2\n10")]),
    Case(
      "the standard: a comment, identifiers, one that is taken back, a space",
      ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
      [
        StreamEvent(data: "first event", lastEventID: "1"), StreamEvent(data: "second event"),
        StreamEvent(data: " third event"),
      ]),
    Case(
      "the standard: data without a value", "data\n\ndata\ndata\n\ndata:",
      [StreamEvent(data: ""), StreamEvent(data: "\n")]),
    Case(
      "the standard: the space is no part of it", "data:test\n\ndata: test\n\n",
      Array(repeating: StreamEvent(data: "test"), count: 2)),
    Case(
      "the standard: types", "event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\ndata: 113411\n\n",
      [
        StreamEvent(type: "add", data: "73857293"), StreamEvent(type: "remove", data: "2153"),
        StreamEvent(data: "113411"),
      ]),
  ]

  static let lines = [
    Case("nothing", "", []),
    Case("CR", "data: a\rdata: b\r\rdata: c\r\r", [StreamEvent(data: "a\nb"), StreamEvent(data: "c")]),
    Case("CR LF", "data: a\r\ndata: b\r\n\r\n", [StreamEvent(data: "a\nb")]),
    Case("one of each", "data: a\rdata: b\ndata: c\r\n\r", [StreamEvent(data: "a\nb\nc")]),
    Case("LF CR is two ends", "data: a\n\rdata: b\n\n", [StreamEvent(data: "a"), StreamEvent(data: "b")]),
    Case("a byte order mark", "\u{FEFF}data: a\n\n", [StreamEvent(data: "a")]),
    Case("a second byte order mark", "\u{FEFF}\u{FEFF}data: a\n\ndata: b\n\n", [StreamEvent(data: "b")]),
    Case("a mark that is none", bytes: [0xEF, 0xBB] + Array("data: a\n\ndata: b\n\n".utf8), [StreamEvent(data: "b")]),
    Case("a mark on a later line", "data: a\n\u{FEFF}data: b\n\n", [StreamEvent(data: "a")]),
    Case("a mark alone", "\u{FEFF}\n\ndata: a\n\n", [StreamEvent(data: "a")]),
    Case("without its empty line", "data: a\n", []),
    Case("without the end of its line", "data: a\n\ndata: b", [StreamEvent(data: "a")]),
    Case(
      "bytes that are no UTF-8", bytes: Array("data: ".utf8) + [0xFF, 0xC3] + Array("\n\n".utf8),
      [StreamEvent(data: "\u{FFFD}\u{FFFD}")]),
    Case("NUL", "data: \0\n\n", [StreamEvent(data: "\0")]),
  ]

  static let fields = [
    Case("comments", ":\n:data: x\n: \ndata: a\n:\n\n", [StreamEvent(data: "a")]),
    Case("unknown names", "DATA: x\ndata : x\n data: x\ndatas: x\ndat: x\nx\ndata: a\n\n", [StreamEvent(data: "a")]),
    Case("a tab is no space", "data:\ta\n\n", [StreamEvent(data: "\ta")]),
    Case("a colon in the value", "data: a:b: c\n\n", [StreamEvent(data: "a:b: c")]),
    Case("a type without data is forgotten", "event: x\n\ndata: a\n\n", [StreamEvent(data: "a")]),
    Case("the last type counts", "event: x\nevent: y\ndata: a\n\n", [StreamEvent(type: "y", data: "a")]),
    Case("a type that is taken back", "event: x\nevent\ndata: a\n\n", [StreamEvent(data: "a")]),
    Case(
      "an identifier goes on", "id: 1\ndata: a\n\ndata: b\n\n",
      [StreamEvent(data: "a", lastEventID: "1"), StreamEvent(data: "b", lastEventID: "1")], lastEventID: "1"),
    Case(
      "an identifier with NUL", "id: 1\nid: 2\0\ndata: a\n\n", [StreamEvent(data: "a", lastEventID: "1")],
      lastEventID: "1"),
    Case("an identifier without data", "id: 7\n\n", [], lastEventID: "7"),
    Case("an identifier of an event that never ends", "id: 1\n\nid: 2\ndata: a\n", [], lastEventID: "1"),
    Case(
      "a wait", "retry: 1500\n\ndata: a\n\n", [StreamEvent(data: "a", retryMilliseconds: 1500)], retry: 1500),
    Case(
      "waits that are none",
      "retry: 5\nretry:\nretry\nretry: -1\nretry: 1.5\nretry: 1 \nretry:  1\nretry: 0x1\nretry: ١\n\n", [],
      retry: 5),
    Case("a wait at the limit", "retry: 2147483647\n", [], retry: 2_147_483_647),
    Case("a wait beyond it", "retry: 2147483648\n", [], retry: 2_147_483_647),
    Case("a wait that overflows", "retry: 99999999999999999999999999\n", [], retry: 2_147_483_647),
  ]

  @Test(arguments: examples + lines + fields) func streamsAreRead(_ one: Case) throws {
    for pieces in Pieces.all(of: one.stream) {
      var parser = EventStreamParser(limit: 1000)
      #expect(try Self.read(pieces, &parser) == one.events, "\(pieces)")
      #expect(parser.lastEventID == one.lastEventID && parser.retryMilliseconds == one.retry, "\(pieces)")
    }
  }

  struct Limit: Sendable, CustomTestStringConvertible {
    var stream: String
    /// The least limit with which it is read.
    var least: Int
    var testDescription: String { String(reflecting: stream) }
  }

  static let limits = [
    Limit(stream: "data: 1234\n\n", least: 10),
    Limit(stream: ": 12345678\n\n", least: 10),
    Limit(stream: ": 12345678\r\n\r\n", least: 10),
    // Three bytes of data are held, and the second line.
    Limit(stream: "data:12\ndata:12\n\n", least: 10),
    Limit(stream: "event:12\ndata:123\n\n", least: 10),
    // An event that is over makes room, and so does a line that means nothing.
    Limit(stream: "data:12345\n\ndata:12345\n\n:12345678\n:12345678\n\n", least: 10),
  ]

  /// Each at its limit and below, whole, byte by byte and at every split.
  @Test(arguments: limits) func limitsAreExact(_ one: Limit) throws {
    for pieces in Pieces.all(of: Array(one.stream.utf8)) {
      var parser = EventStreamParser(limit: one.least)
      _ = try Self.read(pieces, &parser)
      parser = EventStreamParser(limit: one.least - 1)
      #expect(throws: StreamLimitExceeded(limit: one.least - 1), "\(pieces)") { try Self.read(pieces, &parser) }
    }
  }

  private static func read(_ pieces: [[UInt8]], _ parser: inout EventStreamParser) throws -> [StreamEvent] {
    var events: [StreamEvent] = []
    for piece in pieces {
      var index = 0
      while let event = try parser.next(in: piece, from: &index) { events.append(event) }
    }
    return events
  }
}
