internal import LupineWire

/// Oracle: a strict reader that knows nothing of the encoder gets back exactly the parts, the length said before is that of the bytes, and the
/// boundary stands in no head and no content; what is refused is refused by the letter of RFC 2046 and of the grammar of fields.
///
/// The first byte chooses a boundary of the caller's or one of a number; then come parts: kind, strings and content, each with its length in the
/// byte before it. The highest bit of a kind puts the boundary into the content.
package enum MultipartFuzz {
  package static func run(bytes: [UInt8]) {
    var input = Input(bytes: bytes[...])
    guard var boundary = boundary(&input) else { return }
    var parts: [Part] = []
    while let kind = input.byte() {
      guard let part = Part(kind, &input, boundary.text) else { continue }
      parts.append(part)
    }
    var number: UInt64 = 0
    while parts.contains(where: { holds($0, boundary) }) {
      boundary = MultipartBoundary(number: number)
      number += 1
    }
    check(encode(parts, boundary), parts, boundary)
  }

  // MARK: Input

  private struct Input {
    var bytes: ArraySlice<UInt8>

    mutating func byte() -> UInt8? { bytes.popFirst() }

    mutating func piece(atMost limit: Int) -> [UInt8] {
      let count = Int(byte() ?? 0) % (limit + 1)
      defer { bytes = bytes.dropFirst(count) }
      return Array(bytes.prefix(count))
    }

    mutating func text(atMost limit: Int) -> String { String(decoding: piece(atMost: limit), as: UTF8.self) }
  }

  private struct Part {
    var head: MultipartPartHead
    /// As the grammar has them, without the encoder.
    var lines: [[UInt8]]
    var content: [UInt8]

    init?(_ kind: UInt8, _ input: inout Input, _ boundary: String) {
      let (name, second) = (input.text(atMost: 63), input.text(atMost: 63))
      content = input.piece(atMost: 255)
      if kind & 0x80 != 0 { content.insert(contentsOf: boundary.utf8, at: content.count / 2) }
      if kind & 3 == 3 {
        let isAllowed = MultipartFuzz.isFieldName(name) && MultipartFuzz.isFieldValue(second)
        guard let head = try? MultipartPartHead(fields: [(name: name, value: second)]) else {
          precondition(!isAllowed, "a good field is refused")
          return nil
        }
        precondition(isAllowed, "a bad field is taken")
        self.head = head
        lines = [Array("\(name): \(second)".utf8)]
        return
      }
      let fileName = kind & 1 == 0 ? nil : second
      let type = kind & 2 == 0 ? nil : second
      head = MultipartPartHead(name: name, fileName: fileName, mediaType: type)
      var line = "Content-Disposition: form-data; name=\"\(MultipartFuzz.escaped(name, isQuoted: true))\""
      if let fileName { line += "; filename=\"\(MultipartFuzz.escaped(fileName, isQuoted: true))\"" }
      lines = [Array(line.utf8)]
      if let type, !type.isEmpty {
        lines.append(Array("Content-Type: \(MultipartFuzz.escaped(type, isQuoted: false))".utf8))
      }
    }
  }

  private static func boundary(_ input: inout Input) -> MultipartBoundary? {
    guard let choice = input.byte() else { return nil }
    guard choice & 1 == 1 else {
      let number = input.piece(atMost: 8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
      let boundary = MultipartBoundary(number: number)
      for made in [boundary, MultipartBoundary.random()] {
        precondition(isBoundary(made.text) && made.parameterValue == made.description, "a made boundary is none")
      }
      return boundary
    }
    let text = input.text(atMost: 80)
    guard let boundary = try? MultipartBoundary(text) else {
      precondition(!isBoundary(text), "a good boundary is refused")
      return nil
    }
    precondition(isBoundary(text), "a bad boundary is taken")
    precondition(boundary.text == text && (boundary.parameterValue == text || boundary.parameterValue == "\"\(text)\""))
    return boundary
  }

  // MARK: Grammar, a second time

  private static func isBoundary(_ text: String) -> Bool {
    let allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'()+_,-./:=? "
    return (1...70).contains(text.utf8.count) && text.utf8.allSatisfy { allowed.utf8.contains($0) }
      && text.utf8.last != 0x20
  }

  private static func isFieldName(_ text: String) -> Bool {
    let allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~"
    return !text.isEmpty && text.utf8.allSatisfy { allowed.utf8.contains($0) }
  }

  private static func isFieldValue(_ text: String) -> Bool {
    let ends = [text.utf8.first, text.utf8.last]
    return text.utf8.allSatisfy { $0 == 0x09 || $0 >= 0x20 && $0 != 0x7F } && !ends.contains(0x20)
      && !ends.contains(0x09)
  }

  private static func escaped(_ text: String, isQuoted: Bool) -> String {
    text.unicodeScalars.reduce(into: "") { result, scalar in
      switch scalar {
      case "\"" where isQuoted: result += "%22"
      case "\r": result += "%0D"
      case "\n": result += "%0A"
      case "\0": result += "%00"
      default: result.unicodeScalars.append(scalar)
      }
    }
  }

  private static func find(_ pattern: [UInt8], in bytes: ArraySlice<UInt8>) -> Int? {
    guard bytes.count >= pattern.count else { return nil }
    return (bytes.startIndex...bytes.endIndex - pattern.count).first { start in
      bytes[start] == pattern[0] && bytes[start..<start + pattern.count].elementsEqual(pattern)
    }
  }

  private static func holds(_ part: Part, _ boundary: MultipartBoundary) -> Bool {
    let pattern = Array(boundary.text.utf8)
    for bytes in [part.head.bytes, part.content] {
      let isThere = find(pattern, in: bytes[...]) != nil
      precondition(boundary.occurs(in: bytes.span) == isThere, "the search and the plain search disagree")
      if isThere { return true }
    }
    return false
  }

  // MARK: There and back

  private static func encode(_ parts: [Part], _ boundary: MultipartBoundary) -> [UInt8] {
    var body: [UInt8] = []
    for (index, part) in parts.enumerated() {
      MultipartEncoder.opening(of: part.head, isFirst: index == 0, boundary: boundary, into: &body)
      body += part.content
    }
    if !parts.isEmpty { MultipartEncoder.end(boundary: boundary, into: &body) }
    return body
  }

  private static func check(_ body: [UInt8], _ parts: [Part], _ boundary: MultipartBoundary) {
    let sizes = parts.map { (head: $0.head, contentLength: Int64($0.content.count)) }
    let length = try? MultipartEncoder.length(of: sizes, boundary: boundary)
    precondition(length == Int64(body.count), "another length than was said")
    guard !parts.isEmpty else { return }
    let delimiter = Array("\r\n--\(boundary.text)".utf8)
    // As if the line before had ended.
    var rest = ([0x0D, 0x0A] + body)[...]
    for part in parts {
      rest = skip(delimiter + [0x0D, 0x0A], rest)
      for line in part.lines { rest = skip(line + [0x0D, 0x0A], rest) }
      rest = skip([0x0D, 0x0A], rest)
      guard let end = find(delimiter, in: rest) else { preconditionFailure("a part does not end") }
      precondition(rest[..<end].elementsEqual(part.content), "another content")
      precondition(part.lines.joined().allSatisfy { $0 != 0 && $0 != 0x0A && $0 != 0x0D }, "a line breaks")
      rest = rest[end...]
    }
    precondition(skip(delimiter + Array("--\r\n".utf8), rest).isEmpty, "bytes after the end")
  }

  private static func skip(_ bytes: [UInt8], _ rest: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    precondition(rest.starts(with: bytes), "other bytes than the grammar has")
    return rest.dropFirst(bytes.count)
  }
}
