import Foundation

/// The first bytes of a text, where they say how it is encoded (WHATWG Encoding section 6, and UTF-32 besides).
enum ByteOrderMark {
  /// That of UTF-32 stands before that of UTF-16 which it begins with.
  private static let marks: [(bytes: [UInt8], encoding: String.Encoding)] = [
    ([0xEF, 0xBB, 0xBF], .utf8), ([0xFF, 0xFE, 0, 0], .utf32LittleEndian), ([0, 0, 0xFE, 0xFF], .utf32BigEndian),
    ([0xFE, 0xFF], .utf16BigEndian), ([0xFF, 0xFE], .utf16LittleEndian),
  ]

  /// The encoding that a mark names, and the text behind it; without one all of it.
  static func split(_ data: Data) -> (encoding: String.Encoding?, text: Data) {
    for (bytes, encoding) in marks where data.starts(with: bytes) { return (encoding, data.dropFirst(bytes.count)) }
    return (nil, data)
  }

  /// The text behind a mark that is one of this encoding; of any other encoding it is text.
  static func skip(in data: Data, of encoding: String.Encoding) -> Data {
    for (bytes, own) in marks where own == encoding && data.starts(with: bytes) { return data.dropFirst(bytes.count) }
    return data
  }
}
