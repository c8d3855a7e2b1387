/// Reads a stream of server-sent events, whatever the pieces in which it comes (WHATWG HTML 9.2.6).
///
/// Lines end in LF, CR or CR LF; an empty line ends an event; a byte order mark at the beginning is skipped. What stands behind the last empty
/// line is no event.
///
/// States: inside a line; behind a CR, where an LF belongs to it. Invariant: the line under way, the data and the type of the event under way have
/// together at most `limit` bytes, and so has the identifier that is kept besides.
package struct EventStreamParser: Sendable {
  package struct Event: Hashable, Sendable {
    /// `message` unless the event says otherwise.
    package var type: String
    package var data: String
    /// That of this event, or of the last one before it that had one; empty if none had.
    package var lastEventID: String
    /// What the stream has said last of the wait before it is asked for again, in milliseconds; nil if it has said nothing.
    package var retryMilliseconds: Int64?

    package init(type: String = "message", data: String, lastEventID: String = "", retryMilliseconds: Int64? = nil) {
      self.type = type
      self.data = data
      self.lastEventID = lastEventID
      self.retryMilliseconds = retryMilliseconds
    }
  }

  /// A longer wait counts as this one, nearly 25 days, the longest that browsers have: no clock overflows with it.
  package static let longestRetryMilliseconds: Int64 = 0x7FFF_FFFF

  private static let byteOrderMark: [UInt8] = [0xEF, 0xBB, 0xBF]
  /// What a buffer keeps of its room from one event to the next.
  private static let keptCapacity = 64 << 10

  private let limit: Int
  private var line: [UInt8] = []
  private var isFirstLine = true
  private var isBehindCarriageReturn = false
  private var type: [UInt8] = []
  /// Each line with an LF behind it.
  private var data: [UInt8] = []
  /// Of the event under way.
  private var identifier = ""

  /// The identifier when an event, or a block without data, ended last: what a client says that asks for the stream again.
  package private(set) var lastEventID = ""
  /// See `Event.retryMilliseconds`.
  package private(set) var retryMilliseconds: Int64?

  /// - Parameter limit: the most bytes of an event: of its data and type, and of the line under way with the name of its field.
  package init(limit: Int) { self.limit = max(0, limit) }

  /// The next event that ends in `piece`; nil: the rest of `piece` is taken, and no event ends in it.
  ///
  /// - Parameter index: where to go on in `piece`; it is moved behind what was taken.
  package mutating func next(in piece: [UInt8], from index: inout Int) throws(StreamLimitExceeded) -> Event? {
    while index < piece.count {
      if isBehindCarriageReturn {
        isBehindCarriageReturn = false
        if piece[index] == UInt8(ascii: "\n") {
          index += 1
          continue
        }
      }
      let end = piece.span.firstIndex(of: UInt8(ascii: "\n"), or: UInt8(ascii: "\r"), in: index..<piece.count)
      try take(piece[index..<(end ?? piece.count)])
      guard let end else {
        index = piece.count
        return nil
      }
      isBehindCarriageReturn = piece[end] == UInt8(ascii: "\r")
      index = end + 1
      if let event = endLine() { return event }
    }
    return nil
  }

  private mutating func take(_ bytes: ArraySlice<UInt8>) throws(StreamLimitExceeded) {
    guard bytes.count <= limit - line.count - data.count - type.count else {
      throw StreamLimitExceeded(limit: limit)
    }
    line += bytes
  }

  private mutating func endLine() -> Event? {
    defer { line.removeAll(keepingCapacity: line.capacity <= Self.keptCapacity) }
    var text = line[...]
    if isFirstLine, text.starts(with: Self.byteOrderMark) { text = text.dropFirst(Self.byteOrderMark.count) }
    isFirstLine = false
    if text.isEmpty { return dispatch() }
    let colon = text.firstIndex(of: UInt8(ascii: ":")) ?? text.endIndex
    var value = text[colon...].dropFirst()
    if value.first == UInt8(ascii: " ") { value = value.dropFirst() }
    take(field: text[..<colon], value)
    return nil
  }

  /// A comment is a field without a name; those with other names mean nothing.
  private mutating func take(field name: ArraySlice<UInt8>, _ value: ArraySlice<UInt8>) {
    if name.elementsEqual("data".utf8) {
      data += value
      data.append(UInt8(ascii: "\n"))
    } else if name.elementsEqual("event".utf8) {
      type = Array(value)
    } else if name.elementsEqual("id".utf8) {
      if !value.contains(0) { identifier = String(decoding: value, as: UTF8.self) }
    } else if name.elementsEqual("retry".utf8), let wait = Self.milliseconds(value) {
      retryMilliseconds = wait
    }
  }

  private mutating func dispatch() -> Event? {
    lastEventID = identifier
    defer {
      type = []
      data.removeAll(keepingCapacity: data.capacity <= Self.keptCapacity)
    }
    guard !data.isEmpty else { return nil }
    return Event(
      type: type.isEmpty ? "message" : String(decoding: type, as: UTF8.self),
      data: String(decoding: data.dropLast(), as: UTF8.self), lastEventID: lastEventID,
      retryMilliseconds: retryMilliseconds)
  }

  /// Digits and nothing else; nil for anything else, nothing included.
  private static func milliseconds(_ text: ArraySlice<UInt8>) -> Int64? {
    guard !text.isEmpty else { return nil }
    var number: Int64 = 0
    for byte in text {
      guard byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") else { return nil }
      number = min(number * 10 + Int64(byte - UInt8(ascii: "0")), longestRetryMilliseconds)
    }
    return number
  }
}
