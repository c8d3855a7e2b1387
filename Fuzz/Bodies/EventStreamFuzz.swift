internal import LupineRules

/// Oracle: in whatever pieces a stream comes, its events are those that a plain reading of the whole by WHATWG HTML 9.2.6 finds, and its lines
/// those between its line feeds; a limit ends both at the same place as it ends that reading.
///
/// The first byte is the limit (255: none), the second the size of the pieces.
package enum EventStreamFuzz {
  typealias Event = EventStreamParser.Event

  package static func run(bytes: [UInt8]) {
    guard bytes.count >= 2 else { return }
    let limit = bytes[0] == 255 ? Int.max : Int(bytes[0])
    let stream = Array(bytes.dropFirst(2))
    for size in [max(1, Int(bytes[1])), max(1, stream.count)] {
      let pieces = stride(from: 0, to: stream.count, by: size).map { Array(stream[$0..<min($0 + size, stream.count)]) }
      precondition(events(pieces, limit) == plainEvents(stream, limit), "other events")
      precondition(lines(pieces, limit) == plainLines(stream, limit), "other lines")
    }
  }

  /// What was read, and whether the limit ended it.
  private struct Reading<Element: Equatable>: Equatable {
    var elements: [Element] = []
    var isTooLong = false
    var lastEventID = ""
    var retry: Int64?
  }

  private static func events(_ pieces: [[UInt8]], _ limit: Int) -> Reading<Event> {
    var parser = EventStreamParser(limit: limit)
    var reading = Reading<Event>()
    do {
      for piece in pieces {
        var index = 0
        while let event = try parser.next(in: piece, from: &index) { reading.elements.append(event) }
        precondition(index == piece.count, "something was left")
      }
    } catch {
      reading.isTooLong = true
    }
    reading.lastEventID = parser.lastEventID
    reading.retry = parser.retryMilliseconds
    return reading
  }

  private static func lines(_ pieces: [[UInt8]], _ limit: Int) -> Reading<[UInt8]> {
    var scanner = LineScanner(limit: limit)
    var reading = Reading<[UInt8]>()
    do {
      for piece in pieces {
        var index = 0
        while let line = try scanner.next(in: piece, from: &index) { reading.elements.append(line) }
      }
      if let rest = try scanner.rest() { reading.elements.append(rest) }
    } catch {
      reading.isTooLong = true
    }
    return reading
  }

  // MARK: The plain readings

  private static func plainLines(_ stream: [UInt8], _ limit: Int) -> Reading<[UInt8]> {
    var reading = Reading<[UInt8]>()
    let parts = stream.split(separator: 10, omittingEmptySubsequences: false)
    for (number, part) in parts.enumerated() {
      let isLast = number == parts.count - 1
      let line = !isLast && part.last == 13 ? part.dropLast() : part
      if line.count > limit {
        reading.isTooLong = true
        return reading
      }
      if !isLast || !line.isEmpty { reading.elements.append(Array(line)) }
    }
    return reading
  }

  /// The stream's lines by the three ends that there are, and what stands behind the last.
  private static func split(_ stream: [UInt8]) -> (lines: [[UInt8]], rest: [UInt8]) {
    var lines: [[UInt8]] = []
    var line: [UInt8] = []
    for (index, byte) in stream.enumerated() {
      switch byte {
      case 10 where index > 0 && stream[index - 1] == 13: continue
      case 10, 13:
        lines.append(line)
        line = []
      default: line.append(byte)
      }
    }
    return (lines, line)
  }

  private static func plainEvents(_ stream: [UInt8], _ limit: Int) -> Reading<Event> {
    var reading = Reading<Event>()
    let (lines, rest) = split(stream)
    var data: [String] = []
    var (type, identifier, held) = ([UInt8](), "", 0)
    for (number, line) in lines.enumerated() {
      if line.count + held + type.count > limit {
        reading.isTooLong = true
        return reading
      }
      let hasMark = number == 0 && line.starts(with: [0xEF, 0xBB, 0xBF])
      let text = hasMark ? Array(line[3...]) : line
      if text.isEmpty {
        reading.lastEventID = identifier
        if !data.isEmpty {
          reading.elements.append(
            Event(
              type: type.isEmpty ? "message" : decoded(type), data: data.joined(separator: "\n"),
              lastEventID: identifier, retryMilliseconds: reading.retry))
        }
        (data, type, held) = ([], [], 0)
        continue
      }
      let parts = text.split(separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
      var value = parts.count == 2 ? Array(parts[1]) : []
      if value.first == 0x20 { value.removeFirst() }
      switch decoded(Array(parts[0])) {
      case "data":
        data.append(decoded(value))
        held += value.count + 1
      case "event": type = value
      case "id" where !value.contains(0): identifier = decoded(value)
      case "retry" where !value.isEmpty && value.allSatisfy { (0x30...0x39).contains($0) }:
        reading.retry = min(Int64(decoded(value)) ?? .max, EventStreamParser.longestRetryMilliseconds)
      default: break
      }
    }
    reading.isTooLong = rest.count + held + type.count > limit
    return reading
  }

  private static func decoded(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
}
