/// Why a text is no JSON, and at which byte.
package struct JSONError: Error, Equatable, Sendable, CustomStringConvertible {
  package var reason: String
  package var offset: Int

  package init(reason: String, offset: Int) {
    self.reason = reason
    self.offset = offset
  }

  package var description: String { "\(reason) at byte \(offset)" }
}

/// Reads one JSON text (RFC 8259), strictly; nesting is limited, so that no input can exhaust the stack, and so may be the number of
/// values, each of which takes far more memory than its two bytes of text. So are the marks in names: see `CombiningMarks`.
package struct JSONReader {
  package static let depthLimit = 256

  private let bytes: [UInt8]
  private var index = 0
  private var depth = 0
  private let depthLimit: Int
  private var valuesLeft: Int

  private init(_ bytes: [UInt8], depthLimit: Int, valueLimit: Int) {
    self.bytes = bytes
    self.depthLimit = min(depthLimit, Self.depthLimit)
    valuesLeft = valueLimit
  }

  /// Reads the whole input as one value.
  package static func read(
    _ bytes: [UInt8], depthLimit: Int = depthLimit, valueLimit: Int = .max
  ) throws(JSONError) -> JSONValue {
    var reader = JSONReader(bytes, depthLimit: depthLimit, valueLimit: valueLimit)
    reader.skipSpace()
    let value = try reader.value()
    reader.skipSpace()
    guard reader.index == bytes.count else { throw reader.error("unexpected bytes after the value") }
    return value
  }

  package static func read(_ text: String) throws(JSONError) -> JSONValue { try read(Array(text.utf8)) }

  private func error(_ reason: String) -> JSONError { JSONError(reason: reason, offset: index) }

  private var current: UInt8? { index < bytes.count ? bytes[index] : nil }

  private mutating func skipSpace() {
    while let byte = current, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { index += 1 }
  }

  private mutating func value() throws(JSONError) -> JSONValue {
    guard let first = current else { throw error("the text ends where a value is expected") }
    guard valuesLeft > 0 else { throw error("too many values") }
    valuesLeft -= 1
    switch first {
    case UInt8(ascii: "{"): return try nested { reader throws(JSONError) in try reader.object() }
    case UInt8(ascii: "["): return try nested { reader throws(JSONError) in try reader.array() }
    case UInt8(ascii: "\""): return .string(try string())
    case UInt8(ascii: "t"): return try literal("true", .boolean(true))
    case UInt8(ascii: "f"): return try literal("false", .boolean(false))
    case UInt8(ascii: "n"): return try literal("null", .null)
    case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return .number(try number())
    default: throw error("no value begins so")
    }
  }

  private mutating func nested(
    _ body: (inout JSONReader) throws(JSONError) -> JSONValue
  ) throws(JSONError) -> JSONValue {
    guard depth < depthLimit else { throw error("more than \(depthLimit) levels of nesting") }
    depth += 1
    defer { depth -= 1 }
    index += 1
    skipSpace()
    return try body(&self)
  }

  private mutating func object() throws(JSONError) -> JSONValue {
    var members: [JSONValue.Member] = []
    if take("}") { return .object(members) }
    while true {
      guard current == UInt8(ascii: "\"") else { throw error("a member's name is expected") }
      let start = index
      let name = try string()
      guard !CombiningMarks.areTooMany(in: name) else {
        throw JSONError(
          reason: "a member's name has more than \(CombiningMarks.limit) combining marks in a row", offset: start)
      }
      skipSpace()
      guard take(":") else { throw error("\":\" is expected") }
      skipSpace()
      members.append(JSONValue.Member(name, try value()))
      skipSpace()
      if take("}") { return .object(members) }
      guard take(",") else { throw error("\",\" or \"}\" is expected") }
      skipSpace()
    }
  }

  private mutating func array() throws(JSONError) -> JSONValue {
    var values: [JSONValue] = []
    if take("]") { return .array(values) }
    while true {
      values.append(try value())
      skipSpace()
      if take("]") { return .array(values) }
      guard take(",") else { throw error("\",\" or \"]\" is expected") }
      skipSpace()
    }
  }

  private mutating func take(_ scalar: Unicode.Scalar) -> Bool {
    guard current == UInt8(ascii: scalar) else { return false }
    index += 1
    return true
  }

  private mutating func literal(_ text: StaticString, _ value: JSONValue) throws(JSONError) -> JSONValue {
    for scalar in text.description.unicodeScalars {
      guard take(scalar) else { throw error("no value begins so") }
    }
    return value
  }

  private mutating func digits() -> Int {
    let start = index
    while let byte = current, byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") { index += 1 }
    return index - start
  }

  private mutating func number() throws(JSONError) -> String {
    let start = index
    _ = take("-")
    if !take("0"), digits() == 0 { throw error("a digit is expected") }
    if take("."), digits() == 0 { throw error("a digit is expected") }
    if take("e") || take("E") {
      if !take("+") { _ = take("-") }
      if digits() == 0 { throw error("a digit is expected") }
    }
    return String(decoding: bytes[start..<index], as: UTF8.self)
  }

  private mutating func string() throws(JSONError) -> String {
    index += 1
    var content: [UInt8] = []
    while true {
      let start = index
      while index < bytes.count, Self.isPlain(bytes[index]) { index += 1 }
      content += bytes[start..<index]
      guard let byte = current else { break }
      index += 1
      switch byte {
      case UInt8(ascii: "\""):
        guard let text = String(validating: content, as: UTF8.self) else { throw error("a string is not UTF-8") }
        return text
      case UInt8(ascii: "\\"): try escape(into: &content)
      case 0..<0x20:
        index -= 1
        throw error("a control character in a string must be escaped")
      default: preconditionFailure("a plain byte ended a run of plain bytes")
      }
    }
    throw error("the text ends inside a string")
  }

  private static func isPlain(_ byte: UInt8) -> Bool {
    byte >= 0x20 && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
  }

  private mutating func escape(into content: inout [UInt8]) throws(JSONError) {
    guard let byte = current else { throw error("the text ends inside a string") }
    index += 1
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): content.append(byte)
    case UInt8(ascii: "b"): content.append(0x08)
    case UInt8(ascii: "f"): content.append(0x0C)
    case UInt8(ascii: "n"): content.append(0x0A)
    case UInt8(ascii: "r"): content.append(0x0D)
    case UInt8(ascii: "t"): content.append(0x09)
    case UInt8(ascii: "u"): content += String(Character(try unicodeEscape())).utf8
    default:
      index -= 1
      throw error("unknown escape")
    }
  }

  /// A lone surrogate becomes U+FFFD: Swift's strings cannot hold it.
  private mutating func unicodeEscape() throws(JSONError) -> Unicode.Scalar {
    let high = try hexadecimal()
    guard (0xD800..<0xDC00).contains(high) else { return Unicode.Scalar(high) ?? "\u{FFFD}" }
    let resume = index
    if take("\\"), take("u") {
      let low = try hexadecimal()
      if (0xDC00..<0xE000).contains(low) {
        return Unicode.Scalar(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)) ?? "\u{FFFD}"
      }
    }
    index = resume
    return "\u{FFFD}"
  }

  private mutating func hexadecimal() throws(JSONError) -> UInt32 {
    var value: UInt32 = 0
    for _ in 0..<4 {
      guard let byte = current, let digit = Character(Unicode.Scalar(byte)).hexDigitValue, byte < 0x80 else {
        throw error("four hexadecimal digits are expected")
      }
      value = value << 4 | UInt32(digit)
      index += 1
    }
    return value
  }
}
