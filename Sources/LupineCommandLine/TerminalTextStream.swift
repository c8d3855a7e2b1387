/// Escapes a body that arrives in pieces, which may cut characters and line ends apart.
package struct TerminalTextStream {
  /// At most three bytes.
  private var held: [UInt8] = []

  package init() {}

  /// Text that is safe to show; what may be half a character is held back for the next piece.
  package mutating func text(_ bytes: [UInt8]) -> String {
    var all = held + bytes
    let keep = Self.incompleteTail(all)
    held = Array(all.suffix(keep))
    all.removeLast(keep)
    return TerminalText.escaped(String(decoding: Self.unix(all), as: UTF8.self), keepsLines: true)
  }

  /// What was held back.
  package mutating func finish() -> String {
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
