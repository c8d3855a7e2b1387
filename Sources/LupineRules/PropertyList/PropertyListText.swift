/// Values of a property list as XML writes them. White space around them is nobody's.
enum PropertyListText {
  /// Decimal, or hexadecimal behind `0x`, with a sign.
  static func integer(_ text: String) -> PropertyListContent? {
    var digits = trimmed(text)
    let isNegative = digits.first == UInt8(ascii: "-")
    if isNegative || digits.first == UInt8(ascii: "+") { digits = digits.dropFirst() }
    let isHex = digits.starts(with: "0x".utf8) || digits.starts(with: "0X".utf8)
    if isHex { digits = digits.dropFirst(2) }
    guard let first = digits.first, first != UInt8(ascii: "-"), first != UInt8(ascii: "+"),
      let magnitude = UInt64(String(decoding: digits, as: UTF8.self), radix: isHex ? 16 : 10)
    else { return nil }
    if !isNegative { return Int64(exactly: magnitude).map { .integer($0) } ?? .unsigned(magnitude) }
    guard magnitude <= Int64.min.magnitude else { return nil }
    return .integer(Int64(truncatingIfNeeded: 0 &- magnitude))
  }

  static func real(_ text: String) -> PropertyListContent? {
    let text = String(decoding: trimmed(text), as: UTF8.self)
    // What Swift reads and no list has: hexadecimal numbers, and quiet ones with a payload.
    guard !text.utf8.contains(where: { $0 == UInt8(ascii: "x") || $0 == UInt8(ascii: "X") || $0 == UInt8(ascii: "(") })
    else {
      return nil
    }
    return Double(text).map { .real($0) }
  }

  static func date(_ text: String) -> PropertyListContent? {
    // Seconds since 2001.
    InternetDate.milliseconds(String(decoding: trimmed(text), as: UTF8.self))
      .map { .date((Double($0) - 978_307_200_000) / 1000) }
  }

  /// Base64 (RFC 4648) with white space anywhere; what is missing at the end is no fault.
  static func data(_ text: String) -> PropertyListContent? {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.utf8.count / 4 * 3)
    var (bits, count) = (UInt32(0), 0)
    var hasEnded = false
    for byte in text.utf8 where !isSpace(byte) {
      if byte == UInt8(ascii: "=") {
        hasEnded = true
        continue
      }
      guard !hasEnded, let value = sextet(byte) else { return nil }
      bits = bits << 6 | value
      count += 6
      guard count >= 8 else { continue }
      count -= 8
      bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
      bits &= 1 << UInt32(count) - 1
    }
    return .data(bytes)
  }

  private static func sextet(_ byte: UInt8) -> UInt32? {
    switch byte {
    case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(byte - UInt8(ascii: "A"))
    case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(byte - UInt8(ascii: "a")) + 26
    case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(byte - UInt8(ascii: "0")) + 52
    case UInt8(ascii: "+"): 62
    case UInt8(ascii: "/"): 63
    default: nil
    }
  }

  private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0D).contains(byte) }

  private static func trimmed(_ text: String) -> ArraySlice<UInt8> {
    let bytes = Array(text.utf8).drop { isSpace($0) }
    guard let last = bytes.lastIndex(where: { !isSpace($0) }) else { return [] }
    return bytes[...last]
  }
}
