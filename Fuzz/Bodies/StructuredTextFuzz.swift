internal import LupineRules

/// Oracle: what is read of a property list, binary or in XML, has no more values than the list has bytes, no more bytes in strings and data than its limit, and
/// no more levels than allowed; one in XML is none with anything behind it; a text with the shape of XML loses it by anything before or after it, and declares nothing; a text in UTF-16
/// declares no encoding but that.
///
/// The first byte chooses between the three.
package enum StructuredTextFuzz {
  package static func run(bytes: [UInt8]) {
    guard let first = bytes.first else { return }
    let rest = Array(bytes.dropFirst())
    switch first & 3 {
    case 0: propertyList(rest)
    case 2: xmlPropertyList(rest)
    default: document(rest)
    }
  }

  private static func xmlPropertyList(_ bytes: [UInt8]) {
    let limit = 16
    do {
      let value = try XMLPropertyListReader.read(bytes, depthLimit: limit)
      var (count, content) = (0, 0)
      check(value, limit, &count, &content)
      // A value takes four bytes at least, and a text no more than it is written in.
      precondition(count <= bytes.count && content <= bytes.count, "more values or text than bytes")
      for end in ["x", "<true/>", "</plist>", "<", "&#65;"] {
        precondition(
          (try? XMLPropertyListReader.read(bytes + end.utf8, depthLimit: limit)) == nil, "something behind it is taken")
      }
    } catch {
      precondition((0...bytes.count).contains(error.offset) && !error.description.isEmpty, "the fault lies outside")
    }
  }

  private static func propertyList(_ bytes: [UInt8]) {
    let limit = 16
    guard let value = try? BinaryPropertyListReader.read(bytes, depthLimit: limit) else { return }
    var (count, content) = (0, 0)
    check(value, limit, &count, &content)
    // The value itself is in no container.
    precondition(count - 1 <= BinaryPropertyListReader.valueLimit(bytes.count), "values without bound")
    precondition(content <= BinaryPropertyListReader.contentLimit(bytes.count), "strings and data without bound")
  }

  private static func check(
    _ value: PropertyListContent, _ levels: Int, _ count: inout Int, _ content: inout Int
  ) {
    precondition(levels >= 0, "deeper than allowed")
    count += 1
    switch value {
    case .array(let values): for value in values { check(value, levels - 1, &count, &content) }
    case .dictionary(let members):
      count += members.count
      for member in members {
        content += member.name.utf8.count
        check(member.value, levels - 1, &count, &content)
      }
    case .string(let text): content += text.utf8.count
    case .data(let bytes): content += bytes.count
    default: break
    }
  }

  private static func document(_ bytes: [UInt8]) {
    if let text = utf16(bytes) { return document(text) }
    if XMLEncoding(of: bytes) == .asciiCompatible {
      precondition(XMLEncoding.asciiCompatible.isConsistent(with: bytes))
      precondition(XMLEncoding.declared(in: bytes) != .unreadable, "a declaration that cannot be read is believed")
    }
    do {
      try XMLShape.check(bytes)
    } catch {
      precondition((0...bytes.count).contains(error.offset) && !error.description.isEmpty, "the fault lies outside")
      try? XMLShape.checkDeclarations(bytes)
      return
    }
    precondition((try? XMLShape.checkDeclarations(bytes)) != nil, "a document declares something")
    precondition(bytes.contains(UInt8(ascii: "<")) && bytes.contains(UInt8(ascii: ">")), "a document without tags")
    for end in ["x", "<", "&lt;", "</a>", "<a/>"] {
      precondition((try? XMLShape.check(bytes + end.utf8)) == nil, "something after the root element is taken")
    }
    for start in ["x", "<", "</a>", "<a/>", "<a>"] {
      precondition((try? XMLShape.check(start.utf8 + bytes)) == nil, "something before the root element is taken")
    }
  }

  /// A text in UTF-16 as UTF-8, if a parser may see it.
  private static func utf16(_ bytes: [UInt8]) -> [UInt8]? {
    let encoding = XMLEncoding(of: bytes)
    guard encoding == .utf16BigEndian || encoding == .utf16LittleEndian else { return nil }
    let isBigEndian = encoding == .utf16BigEndian
    let units = stride(from: 0, to: bytes.count - 1, by: 2).map { place in
      let (first, second) = (UInt16(bytes[place]), UInt16(bytes[place + 1]))
      return isBigEndian ? first << 8 | second : second << 8 | first
    }
    let text = String(decoding: units, as: UTF16.self)
    guard encoding.isConsistent(with: text.utf8) else { return nil }
    let start = text.utf8.prefix(256).prefix { $0 != UInt8(ascii: ">") }
    var declaration = Array(String(decoding: start, as: UTF8.self).unicodeScalars)[...]
    if declaration.first == "\u{FEFF}" { declaration = declaration.dropFirst() }
    declaration = declaration.drop { " \t\r\n".unicodeScalars.contains($0) }
    let written = String(String.UnicodeScalarView(declaration))
    let words = written.lowercased()
    // Without space behind it the name is that of another instruction.
    let isDeclaration = ["<?xml ", "<?xml\t", "<?xml\r", "<?xml\n"].contains { written.utf8.starts(with: $0.utf8) }
    if isDeclaration, words.contains("encoding") {
      precondition(words.contains("utf-16"), "another encoding is declared")
      let other = isBigEndian ? "utf-16le" : "utf-16be"
      precondition(!words.contains("encoding=\"\(other)\""), "the other order is declared")
    }
    return Array(text.utf8)
  }
}
