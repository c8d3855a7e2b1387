internal import LupineBase

/// Whoever goes through the bytes of an XML text.
protocol XMLScanning {
  var bytes: [UInt8] { get }
  var index: Int { get set }
}

extension XMLScanning {
  /// - Parameter text: not empty.
  func has(_ text: String) -> Bool {
    let wanted = text.utf8.span
    // Most bytes are not even the first of what is looked for.
    guard wanted.count <= bytes.count - index, bytes[index] == wanted[0] else { return false }
    return bytes.span.extracting(index..<index + wanted.count).hasBytes(of: wanted)
  }

  static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D }

  mutating func skipByteOrderMark() {
    if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { index = 3 }
  }

  /// Whether there was any.
  @discardableResult
  mutating func skipSpace() -> Bool {
    let start = index
    while index < bytes.count, Self.isSpace(bytes[index]) { index += 1 }
    return index > start
  }

  /// Moves to behind the next `end`; false, and to the end of the text, if there is none.
  ///
  /// - Parameter end: not empty.
  mutating func skip(to end: String) -> Bool {
    let first = end.utf8.span[0]
    while index < bytes.count, let place = bytes.span.firstIndex(of: first, in: index..<bytes.count) {
      index = place
      if has(end) {
        index += end.utf8.count
        return true
      }
      index += 1
    }
    index = bytes.count
    return false
  }
}
