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
    // EBCDIC writes `<` as 0x4C.
    if head.first == 0x4C { return false }
    switch declared(in: head) {
    case .nothing: return true
    case .unreadable: return false
    case .encoding(let name): return compatible.contains(name) || isOfBytes(name)
    }
  }

  /// Whether an encoding writes one byte for each character, ASCII as it is: of the families of ISO-8859 and Windows-125x. Nothing else is behind such a name,
  /// as a converter may take more for its instructions.
  private static func isOfBytes(_ name: String) -> Bool {
    for (family, digits) in [("iso-8859-", 1...2), ("windows-125", 1...1)] where name.hasPrefix(family) {
      let number = name.utf8.dropFirst(family.utf8.count)
      return digits.contains(number.count) && number.allSatisfy { (0x30...0x39).contains($0) }
    }
    return false
  }

  /// The encoding of one byte for each character that a text declares; nil: it is in UTF-8, or says so by its byte order mark.
  package static func declaredOfBytes(_ bytes: some Collection<UInt8>) -> String? {
    guard !bytes.starts(with: [0xEF, 0xBB, 0xBF]), case .encoding(let name) = declared(in: bytes), isOfBytes(name)
    else {
      return nil
    }
    return name
  }

  private static func isInUTF8(_ text: some Collection<UInt8>) -> Bool {
    switch declared(in: text) {
    case .nothing: true
    case .encoding(let name): compatible.contains(name)
    case .unreadable: false
    }
  }

  /// A text in UTF-8 whose declaration, if it names another encoding than that and ASCII, names UTF-8; nil if it cannot be made to.
  package static func declaringUTF8(_ text: [UInt8]) -> [UInt8]? {
    let word = Array("encoding".utf8)
    guard case .encoding(let name) = declared(in: text), !compatible.contains(name),
      let end = text.firstIndex(of: UInt8(ascii: ">")),
      let start = text[..<end].indices.first(where: { index in
        text[index..<end].prefix(word.count).map { $0 | 0x20 } == word
      }),
      let open = text[start..<end].firstIndex(where: { $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: "'") }),
      let close = text[(open + 1)..<end].firstIndex(of: text[open])
    else { return isInUTF8(text) ? text : nil }
    let result = text[...open] + Array("utf-8".utf8) + text[close...]
    return isInUTF8(result) ? Array(result) : nil
  }

  /// What the declaration of a text says of its encoding.
  package enum Declared: Equatable, Sendable {
    case nothing
    /// In small letters.
    case encoding(String)
    /// Two readers might see two encodings.
    case unreadable
  }

  /// What a text in ASCII and more declares.
  package static func declared(in bytes: some Collection<UInt8>) -> Declared {
    var text = Array(bytes.prefix(256))[...]
    if text.starts(with: [0xEF, 0xBB, 0xBF]) { text = text.dropFirst(3) }
    text = text.drop { $0 == 0x20 || $0 == 0x09 || $0 == 0x0A || $0 == 0x0D }
    // `<?xml-stylesheet` is another instruction.
    guard text.starts(with: "<?xml".utf8), text.dropFirst(5).first.map({ !XMLShape.isName($0) }) ?? true else {
      return .nothing
    }
    let bytes = text.prefix { $0 != UInt8(ascii: ">") }
    guard bytes.count < text.count, bytes.last == UInt8(ascii: "?") else { return .unreadable }
    let declaration = String(decoding: bytes, as: UTF8.self).lowercased()
    let mentions = declaration.ranges(of: "encoding").count
    guard mentions > 0 else { return .nothing }
    guard mentions == 1, let name = value(of: "encoding", in: declaration) else { return .unreadable }
    return .encoding(name)
  }

  /// Whether a text in this encoding, given in UTF-8, declares it or nothing. A parser may go on in the encoding that is declared after it has
  /// read the declaration in another (libxml2 does), and see other text than whoever looks at the bytes.
  package func isConsistent(with utf8: some Collection<UInt8>) -> Bool {
    guard self != .asciiCompatible else { return true }
    switch (Self.declared(in: utf8), self) {
    case (.nothing, .utf16BigEndian), (.nothing, .utf16LittleEndian), (.encoding("utf-16"), .utf16BigEndian),
      (.encoding("utf-16"), .utf16LittleEndian), (.encoding("utf-16be"), .utf16BigEndian),
      (.encoding("utf-16le"), .utf16LittleEndian):
      return true
    default: return false
    }
  }

  private static func value(of name: String, in declaration: String) -> String? {
    let words = declaration.split { $0 == " " || $0 == "\t" || $0 == "\n" || $0 == "\r" || $0 == "\r\n" || $0 == "=" }
    guard let place = words.firstIndex(where: { $0 == name }), place + 1 < words.count else { return nil }
    let word = words[place + 1].prefix { $0 != "?" }
    guard let quote = word.first, quote == "\"" || quote == "'", word.last == quote, word.count > 2 else { return nil }
    return String(word.dropFirst().dropLast())
  }
}
