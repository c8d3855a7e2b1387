/// How an XML text says what its bytes mean (XML 1.0, appendix F).
package enum XMLEncoding: Equatable, Sendable {
  /// ASCII is written as it is.
  case asciiCompatible
  case utf16BigEndian
  case utf16LittleEndian
  /// Anything else, also what the declaration names. Such a text could hide its tags from whoever looks at the bytes.
  case unsupported

  /// The encoding of a text.
  package init(of bytes: some Collection<UInt8>) {
    let head = Array(bytes.prefix(256))
    if head.starts(with: [0xFE, 0xFF]) || head.starts(with: [0, 0x3C]) {
      self = .utf16BigEndian
    } else if head.starts(with: [0xFF, 0xFE]) && !head.starts(with: [0xFF, 0xFE, 0, 0])
      || head.starts(with: [0x3C, 0]) && head.dropFirst(2).first != 0
    {
      self = .utf16LittleEndian
    } else if head.prefix(4).contains(0) {
      self = .unsupported
    } else {
      self = Self.isCompatible(head) ? .asciiCompatible : .unsupported
    }
  }

  private static let compatible: [String] = ["utf-8", "utf8", "us-ascii", "ascii"]

  /// Whether the declaration, if there is one, names an encoding of ASCII and more.
  private static func isCompatible(_ head: [UInt8]) -> Bool {
    var text = head[...]
    if text.starts(with: [0xEF, 0xBB, 0xBF]) { text = text.dropFirst(3) }
    // EBCDIC writes `<` as 0x4C.
    if text.first == 0x4C { return false }
    text = text.drop { $0 == 0x20 || $0 == 0x09 || $0 == 0x0A || $0 == 0x0D }
    guard text.starts(with: "<?xml".utf8) else { return true }
    let declaration = String(decoding: text.prefix { $0 != UInt8(ascii: ">") }, as: UTF8.self).lowercased()
    guard declaration.utf8.count < text.count else { return false }
    guard let name = value(of: "encoding", in: declaration) else { return !declaration.contains("encoding") }
    return compatible.contains(name) || name.hasPrefix("iso-8859-") || name.hasPrefix("windows-125")
  }

  private static func value(of name: String, in declaration: String) -> String? {
    let words = declaration.split { $0 == " " || $0 == "\t" || $0 == "\n" || $0 == "\r" || $0 == "\r\n" || $0 == "=" }
    guard let place = words.firstIndex(where: { $0 == name }), place + 1 < words.count else { return nil }
    let word = words[place + 1].prefix { $0 != "?" }
    guard let quote = word.first, quote == "\"" || quote == "'", word.last == quote, word.count > 2 else { return nil }
    return String(word.dropFirst().dropLast())
  }
}
