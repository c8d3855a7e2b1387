internal import LupineRules

/// Makes text of a peer safe to show: control characters cannot move the cursor, change the title or hide anything.
enum TerminalText {
  /// Escapes every unsafe character, line ends and tabs as well unless `keepsLines`.
  static func escaped(_ text: String, keepsLines: Bool = false) -> String {
    guard text.unicodeScalars.contains(where: InvisibleText.isUnsafe) else { return text }
    var result = ""
    for scalar in text.unicodeScalars {
      if !InvisibleText.isUnsafe(scalar) || keepsLines && (scalar == "\n" || scalar == "\t") {
        result.unicodeScalars.append(scalar)
      } else if scalar.value < 0x100 {
        result += "\\x" + hexadecimal(scalar.value, digits: 2)
      } else {
        result += "\\u{" + hexadecimal(scalar.value, digits: 4) + "}"
      }
    }
    return result
  }

  private static func hexadecimal(_ value: UInt32, digits: Int) -> String {
    let text = String(value, radix: 16)
    return String(repeating: "0", count: max(0, digits - text.count)) + text
  }
}

/// Escapes a body that arrives in pieces, which may cut characters and line ends apart.
struct TerminalTextStream {
  private var held: [UInt8] = []

  /// Text that is safe to show; what may be half a character is held back for the next piece.
  mutating func text(_ bytes: [UInt8]) -> String {
    var all = held + bytes
    let keep = Self.incompleteTail(all)
    held = Array(all.suffix(keep))
    all.removeLast(keep)
    return TerminalText.escaped(String(decoding: Self.unix(all), as: UTF8.self), keepsLines: true)
  }

  /// What was held back.
  mutating func finish() -> String {
    defer { held = [] }
    return TerminalText.escaped(String(decoding: Self.unix(held), as: UTF8.self), keepsLines: true)
  }

  /// CR LF is a line end everywhere; a CR alone would overwrite the line, and is escaped. By bytes: a character may have any number of marks.
  private static func unix(_ text: [UInt8]) -> [UInt8] {
    guard text.contains(0x0D) else { return text }
    return text.indices.filter { text[$0] != 0x0D || $0 + 1 == text.count || text[$0 + 1] != 0x0A }.map { text[$0] }
  }

  /// How many bytes at the end may belong to something that goes on.
  private static func incompleteTail(_ bytes: [UInt8]) -> Int {
    if bytes.last == 0x0D { return 1 }
    for back in 1...3 where back <= bytes.count {
      let byte = bytes[bytes.count - back]
      if byte < 0x80 { return 0 }
      guard byte >= 0xC0 else { continue }
      let length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2
      return length > back ? back : 0
    }
    return 0
  }
}
