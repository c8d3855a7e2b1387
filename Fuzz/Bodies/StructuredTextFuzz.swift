internal import LupineRules

/// Oracle: what is read of a binary property list has no more values than the list has bytes, no more bytes in strings and data than its limit, and
/// no more levels than allowed; a text with the shape of XML loses it by anything before or after it, and declares nothing.
///
/// The first byte chooses between the two.
package enum StructuredTextFuzz {
  package static func run(bytes: [UInt8]) {
    guard let first = bytes.first else { return }
    let rest = Array(bytes.dropFirst())
    if first & 1 == 0 { propertyList(rest) } else { document(rest) }
  }

  private static func propertyList(_ bytes: [UInt8]) {
    let limit = 16
    guard let value = try? BinaryPropertyListReader.read(bytes, depthLimit: limit) else { return }
    var (count, content) = (0, 0)
    check(value, limit, &count, &content)
    precondition(count <= bytes.count, "more values than bytes")
    precondition(content <= BinaryPropertyListReader.contentLimit(bytes.count), "strings and data without bound")
  }

  private static func check(
    _ value: BinaryPropertyListValue, _ levels: Int, _ count: inout Int, _ content: inout Int
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
    if XMLEncoding(of: bytes) == .asciiCompatible {
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
}
