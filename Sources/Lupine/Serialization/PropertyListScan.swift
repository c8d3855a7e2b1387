internal import Foundation

/// Looks at a property list before a recursive parser does.
enum PropertyListScan {
  /// - Throws: if the data is no XML whose tags can be seen in its bytes, or is nested too deep.
  static func check(_ data: Data) throws(PropertyListRefusal) {
    let head = String(decoding: data.prefix(512).filter { $0 != 0 }, as: UTF8.self).lowercased()
    if let declaration = head.firstRange(of: "encoding") {
      let rest = head[declaration.upperBound...].drop { $0 == "=" || $0.isWhitespace }
      let name = rest.dropFirst().prefix { $0 != "\"" && $0 != "'" }
      guard encodings.contains(String(name)) else {
        throw PropertyListRefusal(reason: "its encoding is not read")
      }
    }
    try checkXML(data)
  }

  /// Encodings that write ASCII as it is, or among zeros.
  private static let encodings: Set<String> = ["utf-8", "us-ascii", "iso-8859-1", "utf-16", "utf-16le", "utf-16be"]

  /// XML in an encoding that writes `<` as one byte, or as one among zeros: counts elements, which is all that nests.
  private static func checkXML(_ data: Data) throws(PropertyListRefusal) {
    var depth = 0
    var isFirst = true
    var last: UInt8 = 0
    var isInTag = false
    for byte in data where byte != 0 {
      if isFirst {
        // White space and byte order marks may come first, and then a tag.
        switch byte {
        case 0x20, 0x09, 0x0A, 0x0D, 0xEF, 0xBB, 0xBF, 0xFE, 0xFF: continue
        case UInt8(ascii: "<"): isFirst = false
        default: throw PropertyListRefusal(reason: "it is neither XML nor binary")
        }
      }
      switch byte {
      case UInt8(ascii: "<"): isInTag = true
      case UInt8(ascii: ">"):
        if isInTag, last == UInt8(ascii: "/") { depth -= 1 }
        isInTag = false
      case UInt8(ascii: "/") where last == UInt8(ascii: "<"): depth -= 1
      case UInt8(ascii: "!"), UInt8(ascii: "?"): break
      default:
        if last == UInt8(ascii: "<") { depth += 1 }
      }
      // Two for what a value may stand in besides: the root, and the element of the value itself.
      guard depth <= PropertyListValue.maximumDepth + 2 else {
        throw PropertyListRefusal(reason: "it is nested deeper than \(PropertyListValue.maximumDepth) levels")
      }
      last = byte
    }
    if isFirst { throw PropertyListRefusal(reason: "it is empty") }
  }
}
