internal import LupineBase

/// Long runs of combining marks in text that comes from outside.
///
/// Swift compares and hashes strings in a normal form, for which it sorts the marks behind a letter: the time grows with the square of their number, and a
/// name of 256 kB takes seconds. So what becomes the key of a dictionary may have `limit` of them in a row. The Stream-Safe Text Format (UAX #15
/// section 13) allows 30, and no language needs as many; a run of 256 takes twice the time of as many marks in order.
package enum CombiningMarks {
  /// How many may stand in a row.
  package static let limit = 256

  /// How a text writes a character besides the character itself.
  package enum Notation: Sendable {
    /// In no other way.
    case plain
    /// `\u0301`, as in a JSON string.
    case json
    /// `&#769;` and `&#x301;`; comments and the marks of CDATA sections are not seen by who reads the text.
    case xml
  }

  /// Whether a text has too many in a row. Most are too short for that, and not looked at.
  package static func areTooMany(in text: String) -> Bool {
    guard text.utf8.count > 2 * limit else { return false }
    return excess(in: text.utf8.span, .plain) != nil
  }

  /// Where the first run of too many becomes too long, as an offset; nil if there is none.
  ///
  /// - Parameter bytes: UTF-8. In other encodings of ASCII and more, as XML may have, a letter or mark from 0xC0 on that is no UTF-8 counts as a mark:
  ///   no other bytes are marks there.
  package static func excess(in bytes: Span<UInt8>, _ notation: Notation) -> Int? {
    // A mark takes two bytes at least.
    guard bytes.count > 2 * limit, hasAny(bytes, notation) else { return nil }
    var scan = Scan(notation: notation)
    while scan.index < bytes.count {
      scan.step(bytes)
      if scan.run > limit { return scan.index }
    }
    return nil
  }

  /// A loop without a way out is one over many bytes at a time.
  private static func hasAny(_ bytes: Span<UInt8>, _ notation: Notation) -> Bool {
    let escape: UInt8 =
      switch notation {
      case .plain: 0xFF
      case .json: UInt8(ascii: "\\")
      case .xml: UInt8(ascii: "&")
      }
    var found: UInt8 = 0
    for index in bytes.indices { found |= bytes[index] & 0x80 | (bytes[index] == escape ? 0x80 : 0) }
    return found != 0
  }

  private struct Scan {
    let notation: Notation
    var index = 0
    var run = 0

    mutating func step(_ bytes: Span<UInt8>) {
      let byte = bytes[index]
      switch (notation, byte) {
      case (_, 0x80...): multibyte(bytes)
      case (.json, UInt8(ascii: "\\")): escape(bytes)
      case (.xml, UInt8(ascii: "&")): reference(bytes)
      case (.xml, UInt8(ascii: "<")), (.xml, UInt8(ascii: "]")): markup(bytes)
      default: starter(1)
      }
    }

    private mutating func starter(_ count: Int) {
      run = 0
      index += count
    }

    private mutating func take(_ value: UInt32, _ count: Int) {
      let isMark = Unicode.Scalar(value).map { $0.properties.canonicalCombiningClass != .notReordered } ?? false
      run = isMark ? run + 1 : 0
      index += count
    }

    private mutating func multibyte(_ bytes: Span<UInt8>) {
      let first = bytes[index]
      let count = first < 0xC0 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF8 ? 4 : 0
      guard count > 0, index + count <= bytes.count else { return malformed(first) }
      var value = UInt32(first) & (0xFF >> UInt32(count + 1))
      for offset in 1..<count {
        guard bytes[index + offset] & 0xC0 == 0x80 else { return malformed(first) }
        value = value << 6 | UInt32(bytes[index + offset] & 0x3F)
      }
      take(value, count)
    }

    private mutating func malformed(_ byte: UInt8) {
      run = byte >= 0xC0 ? run + 1 : 0
      index += 1
    }

    private mutating func escape(_ bytes: Span<UInt8>) {
      guard let first = unit(bytes, at: index) else { return starter(2) }
      guard (0xD800..<0xDC00).contains(first), let second = unit(bytes, at: index + 6),
        (0xDC00..<0xE000).contains(second)
      else { return take(first, 6) }
      take(0x10000 + (first - 0xD800) << 10 + (second - 0xDC00), 12)
    }

    /// The code unit of `\u0301`.
    private func unit(_ bytes: Span<UInt8>, at start: Int) -> UInt32? {
      guard start + 6 <= bytes.count, bytes[start] == UInt8(ascii: "\\"), bytes[start + 1] == UInt8(ascii: "u") else {
        return nil
      }
      var value: UInt32 = 0
      for offset in 2..<6 {
        guard let digit = URLByteClass.hexValue(bytes[start + offset]) else { return nil }
        value = value << 4 | UInt32(digit)
      }
      return value
    }

    private mutating func reference(_ bytes: Span<UInt8>) {
      var end = index + 2
      guard end < bytes.count, bytes[index + 1] == UInt8(ascii: "#") else { return starter(1) }
      let base: UInt32 = bytes[end] == UInt8(ascii: "x") ? 16 : 10
      if base == 16 { end += 1 }
      var value: UInt32 = 0
      // A number may begin with any number of zeros.
      while end < bytes.count, let digit = URLByteClass.hexValue(bytes[end]), digit < base, value <= 0x10FFFF {
        value = value * base + UInt32(digit)
        end += 1
      }
      guard end < bytes.count, bytes[end] == UInt8(ascii: ";") else { return starter(1) }
      take(value, end + 1 - index)
    }

    private mutating func markup(_ bytes: Span<UInt8>) {
      if has("<![CDATA[", bytes) {
        index += 9
      } else if has("]]>", bytes) {
        index += 3
      } else if has("<!--", bytes) {
        index += 4
        while index < bytes.count, !has("-->", bytes) { index += 1 }
        index = min(bytes.count, index + 3)
      } else {
        starter(1)
      }
    }

    private func has(_ text: String, _ bytes: Span<UInt8>) -> Bool {
      let wanted = text.utf8.span
      return wanted.count <= bytes.count - index
        && bytes.extracting(index..<index + wanted.count).hasBytes(of: wanted)
    }
  }
}
