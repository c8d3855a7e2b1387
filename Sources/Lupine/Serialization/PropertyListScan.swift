internal import Foundation
internal import LupineRules

/// Looks at a property list in XML before a recursive parser does, and sees the elements that CoreFoundation's parser sees: tags end at the first
/// `>`, whatever their attributes have in them, and what is in comments, instructions and CDATA sections are no tags.
struct PropertyListScan {
  private let bytes: [UInt8]
  private var index = 0

  private init(_ bytes: [UInt8]) {
    self.bytes = bytes
  }

  /// - Throws: if the data is no XML whose tags can be seen in its bytes, has declarations, is nested too deep, or has text that cannot be a key in
  /// reasonable time.
  static func check(_ data: Data) throws(PropertyListRefusal) {
    var scan = PropertyListScan(try text([UInt8](data)))
    try scan.checkElements()
    // Anywhere, which is simpler than in keys alone: no text has as many.
    if let offset = CombiningMarks.excess(in: scan.bytes.span, .xml) {
      throw PropertyListRefusal(
        reason: "it has more than \(CombiningMarks.limit) combining marks in a row at byte \(offset)")
    }
  }

  /// The text in ASCII and more.
  private static func text(_ bytes: [UInt8]) throws(PropertyListRefusal) -> [UInt8] {
    let text: [UInt8]
    switch XMLEncoding(of: bytes) {
    case .asciiCompatible: text = bytes
    case .utf16BigEndian: text = Array((String(bytes: bytes, encoding: .utf16BigEndian) ?? "\0").utf8)
    case .utf16LittleEndian: text = Array((String(bytes: bytes, encoding: .utf16LittleEndian) ?? "\0").utf8)
    case .unsupported: throw PropertyListRefusal(reason: "its encoding is not read")
    }
    guard !text.contains(0) else { throw PropertyListRefusal(reason: "its encoding is not read") }
    return text
  }

  private mutating func checkElements() throws(PropertyListRefusal) {
    if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { index = 3 }
    index = bytes[index...].firstIndex { $0 != 0x20 && $0 != 0x09 && $0 != 0x0A && $0 != 0x0D } ?? bytes.count
    guard index < bytes.count else { throw PropertyListRefusal(reason: "it is empty") }
    guard bytes[index] == UInt8(ascii: "<") else { throw PropertyListRefusal(reason: "it is neither XML nor binary") }
    var depth = 0
    while let start = bytes[index...].firstIndex(of: UInt8(ascii: "<")) {
      index = start + 1
      if try skipOther() { continue }
      guard let end = bytes[index...].firstIndex(of: UInt8(ascii: ">")) else { throw Self.incomplete }
      if bytes[index] == UInt8(ascii: "/") {
        depth -= 1
        guard depth >= 0 else { throw PropertyListRefusal(reason: "more elements end than begin") }
      } else {
        // Two for what a value may stand in besides: the root, and the element of the value itself.
        guard depth < PropertyListValue.maximumDepth + 2 else {
          throw PropertyListRefusal(reason: "it is nested deeper than \(PropertyListValue.maximumDepth) levels")
        }
        if bytes[end - 1] != UInt8(ascii: "/") { depth += 1 }
      }
      index = end + 1
    }
  }

  private static let incomplete = PropertyListRefusal(reason: "it is not complete")

  /// Skips what begins as a tag does and is no element, if it is that. The index is behind the `<`.
  private mutating func skipOther() throws(PropertyListRefusal) -> Bool {
    if has("!--") {
      try skip(3, to: "-->")
    } else if has("![CDATA[") {
      try skip(8, to: "]]>")
    } else if has("?") {
      try skip(1, to: "?>")
    } else if has("!DOCTYPE") {
      let start = index
      try skip(8, to: ">")
      guard !bytes[start..<index].contains(UInt8(ascii: "[")) else {
        throw PropertyListRefusal(reason: "it has declarations of its own")
      }
    } else if has("!") {
      throw PropertyListRefusal(reason: "a declaration is malformed")
    } else {
      return false
    }
    return true
  }

  private func has(_ text: String) -> Bool { bytes[index...].starts(with: text.utf8) }

  /// Moves on by `count` bytes, and then to behind the next `end`, whose last byte is `>`.
  private mutating func skip(_ count: Int, to end: String) throws(PropertyListRefusal) {
    index += count
    let first = index
    while let close = bytes[index...].firstIndex(of: UInt8(ascii: ">")) {
      index = close + 1
      if index - first >= end.utf8.count, bytes[..<index].suffix(end.utf8.count).elementsEqual(end.utf8) { return }
    }
    throw Self.incomplete
  }
}
