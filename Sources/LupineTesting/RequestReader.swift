/// The server's own reader of requests: small, blocking, strict about framing, and written without a look at the client's code.
///
/// States: `head` → `body` (length or chunked, parts until the end) → `head` …; an error ends it.
struct RequestReader {
  static let headLimit = 256 * 1024

  enum Framing: Equatable {
    case none
    case length(Int)
    /// Within a chunk: bytes of it still to come; 0 before a chunk's size line.
    case chunked(remaining: Int, isFirst: Bool)
    case ended
  }

  /// What of the body is still to be read.
  private(set) var framing = Framing.ended

  /// Reads the next request's head; nil when the peer ended the stream before its first byte.
  mutating func readHead(
    _ stream: ConnectionStream, connection: Int, request: Int, note: ((ArraySlice<UInt8>) -> Void)? = nil
  ) throws(LoopbackError) -> ServerRequest? {
    guard let head = try Self.readRawHead(stream) else { return nil }
    note?(head[...])
    let lines = try Self.lines(head)
    guard let first = lines.first else { throw .malformedRequest("empty head") }
    let words = head[first].split(separator: 0x20, omittingEmptySubsequences: false)
    guard words.count == 3, !words[0].isEmpty, !words[1].isEmpty else {
      throw .malformedRequest("request line: \(String(decoding: head[first], as: UTF8.self))")
    }
    let version = String(decoding: words[2], as: UTF8.self)
    guard version == "HTTP/1.1" || version == "HTTP/1.0" else { throw .malformedRequest("version: \(version)") }
    let parsed = ServerRequest(
      method: String(decoding: words[0], as: UTF8.self), target: String(decoding: words[1], as: UTF8.self),
      version: version, fields: try Self.fields(head, lines.dropFirst()),
      connectionNumber: connection, requestNumber: request)
    framing = try Self.framing(parsed)
    return parsed
  }

  /// The bytes of a head with its final empty line, consumed from the stream; nil at a clean end of stream.
  static func readRawHead(_ stream: ConnectionStream) throws(LoopbackError) -> [UInt8]? {
    var scanned = 0
    while true {
      let buffered = stream.buffered
      if let end = Self.endOfHead(buffered, from: scanned) {
        let head = Array(buffered[..<end])
        stream.consume(head.count)
        return head
      }
      scanned = max(0, buffered.count - 3)
      guard buffered.count < headLimit else { throw .requestTooLarge(limit: headLimit) }
      let isEmpty = buffered.isEmpty
      guard try stream.fill() else {
        if isEmpty { return nil }
        throw .peerClosed
      }
    }
  }

  private static func endOfHead(_ bytes: ArraySlice<UInt8>, from offset: Int) -> Int? {
    var index = bytes.startIndex + offset + 3
    while index < bytes.endIndex {
      if bytes[index] == 0x0A, bytes[index - 1] == 0x0D, bytes[index - 2] == 0x0A, bytes[index - 3] == 0x0D {
        return index + 1
      }
      index += 1
    }
    return nil
  }

  /// The ranges of the lines, without their CR LF and without the empty last one. A bare CR or LF is refused.
  private static func lines(_ head: [UInt8]) throws(LoopbackError) -> [Range<Int>] {
    var lines: [Range<Int>] = []
    var start = 0
    for index in head.indices where head[index] == 0x0A || head[index] == 0x0D {
      if head[index] == 0x0D {
        guard index + 1 < head.count, head[index + 1] == 0x0A else { throw .malformedRequest("bare CR") }
      } else {
        guard index > 0, head[index - 1] == 0x0D else { throw .malformedRequest("bare LF") }
        lines.append(start..<(index - 1))
        start = index + 1
      }
    }
    lines.removeLast()
    return lines
  }

  private static func fields(_ bytes: [UInt8], _ lines: some Collection<Range<Int>>) throws(LoopbackError)
    -> ServerFields
  {
    var fields: [ServerFields.Field] = []
    fields.reserveCapacity(lines.count)
    for line in lines {
      guard let colon = bytes[line].firstIndex(of: UInt8(ascii: ":")), colon > line.lowerBound,
        bytes[line.lowerBound..<colon].allSatisfy({ $0 > 0x20 && $0 < 0x7F })
      else { throw .malformedRequest("field line: \(String(decoding: bytes[line], as: UTF8.self))") }
      var value = bytes[(colon + 1)..<line.upperBound]
      while let first = value.first, first == 0x20 || first == 0x09 { value.removeFirst() }
      while let last = value.last, last == 0x20 || last == 0x09 { value.removeLast() }
      guard value.allSatisfy({ $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }) else {
        throw .malformedRequest(
          "control byte in the value of \(String(decoding: bytes[line.lowerBound..<colon], as: UTF8.self))")
      }
      fields.append(
        .init(String(decoding: bytes[line.lowerBound..<colon], as: UTF8.self), String(decoding: value, as: UTF8.self)))
    }
    return ServerFields(fields)
  }

  /// RFC 9112 section 6.3 for requests; what the RFC lets a server refuse is refused.
  private static func framing(_ request: ServerRequest) throws(LoopbackError) -> Framing {
    let codings = request.fields.values("Transfer-Encoding")
    let lengths = request.fields.values("Content-Length")
    if !codings.isEmpty {
      guard codings.count == 1, equalIgnoringCase(codings[0], "chunked"), request.version == "HTTP/1.1" else {
        throw .malformedRequest("transfer coding: \(codings)")
      }
      guard lengths.isEmpty else { throw .malformedRequest("Content-Length beside Transfer-Encoding") }
      return .chunked(remaining: 0, isFirst: true)
    }
    guard let text = lengths.first else { return .none }
    guard lengths.count == 1, text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }), let length = Int(text) else {
      throw .malformedRequest("content length: \(lengths)")
    }
    return .length(length)
  }

  // MARK: Bodies

  /// Whether the body was read to its end.
  var isAtEnd: Bool { framing == .none || framing == .ended || framing == .length(0) }

  /// The next bytes of the body, at most what is buffered; nil at its end. They are to be consumed by the caller with `consumed`.
  mutating func nextPart(
    _ stream: ConnectionStream, trailers: inout ServerFields
  ) throws(LoopbackError) -> ArraySlice<UInt8>? {
    while true {
      switch framing {
      case .none, .ended, .length(0):
        framing = .ended
        return nil
      case .length(let remaining):
        guard try stream.ensureBuffered() else { throw .peerClosed }
        return stream.buffered.prefix(remaining)
      case .chunked(let remaining, _) where remaining > 0:
        guard try stream.ensureBuffered() else { throw .peerClosed }
        return stream.buffered.prefix(remaining)
      case .chunked(_, let isFirst):
        if !isFirst, try !Self.line(stream).isEmpty { throw .malformedRequest("no CR LF after chunk data") }
        let size = try Self.chunkSize(Self.line(stream))
        if size == 0 {
          trailers = try Self.trailers(stream)
          framing = .ended
          return nil
        }
        framing = .chunked(remaining: size, isFirst: false)
      }
    }
  }

  /// Marks bytes of the last part as used.
  mutating func consumed(_ count: Int, _ stream: ConnectionStream) {
    stream.consume(count)
    switch framing {
    case .length(let remaining): framing = .length(remaining - count)
    case .chunked(let remaining, _): framing = .chunked(remaining: remaining - count, isFirst: false)
    case .none, .ended: break
    }
  }

  /// One line without its CR LF, consumed.
  static func line(_ stream: ConnectionStream) throws(LoopbackError) -> [UInt8] {
    while true {
      let buffered = stream.buffered
      if let end = buffered.firstIndex(of: 0x0A) {
        let line = buffered[..<end]
        guard line.last == 0x0D else { throw .malformedRequest("bare LF") }
        let result = Array(line.dropLast())
        stream.consume(line.count + 1)
        return result
      }
      guard buffered.count < headLimit else { throw .requestTooLarge(limit: headLimit) }
      guard try stream.fill() else { throw .peerClosed }
    }
  }

  private static func chunkSize(_ line: [UInt8]) throws(LoopbackError) -> Int {
    let digits = line.prefix { $0 != UInt8(ascii: ";") && $0 != 0x20 }
    var size = 0
    guard !digits.isEmpty, digits.count <= 15 else { throw .malformedRequest("chunk size") }
    for digit in digits {
      guard let value = hexadecimal(digit) else { throw .malformedRequest("chunk size") }
      size = size << 4 | Int(value)
    }
    return size
  }

  private static func trailers(_ stream: ConnectionStream) throws(LoopbackError) -> ServerFields {
    var section: [UInt8] = []
    var lines: [Range<Int>] = []
    while true {
      let line = try Self.line(stream)
      if line.isEmpty { return try fields(section, lines) }
      lines.append(section.count..<(section.count + line.count))
      section += line
      guard section.count < headLimit else { throw .requestTooLarge(limit: headLimit) }
    }
  }
}
