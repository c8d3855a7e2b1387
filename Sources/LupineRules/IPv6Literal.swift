/// IPv6 addresses as RFC 4291 section 2.2 writes them, with the zone of RFC 6874.
enum IPv6Literal {
  /// Reads what stands between the brackets.
  static func read(_ bytes: Span<UInt8>, _ range: Range<Int>) throws(HostRefusal) -> URLHost {
    guard let percent = bytes.firstIndex(of: UInt8(ascii: "%"), in: range) else {
      guard let groups = readGroups(bytes, range) else { throw HostRefusal.invalidIPv6 }
      return URLHost(kind: .ipv6, text: text(groups))
    }
    guard let groups = readGroups(bytes, range.lowerBound..<percent) else { throw HostRefusal.invalidIPv6 }
    // Only a link-local address needs a zone; elsewhere it has been used to get past rules for hosts (Go CVE-2025-22870).
    guard groups[0] & 0xFFC0 == 0xFE80 else { throw HostRefusal.invalidZone }
    guard percent + 3 < range.upperBound, bytes[percent + 1] == UInt8(ascii: "2"),
      bytes[percent + 2] == UInt8(ascii: "5")
    else { throw HostRefusal.invalidZone }
    let zone = percent + 3..<range.upperBound
    guard zone.count <= 15, zone.allSatisfy({ isZoneByte(bytes[$0]) }), let zoneText = bytes.text(zone) else {
      throw HostRefusal.invalidZone
    }
    return URLHost(kind: .ipv6, text: text(groups), zone: zoneText)
  }

  private static func isZoneByte(_ byte: UInt8) -> Bool {
    URLByteClass.of(byte) & URLByteClass.name != 0 || byte == UInt8(ascii: "~")
  }

  /// The eight groups, or `nil` for anything that is not an address.
  static func readGroups(_ bytes: Span<UInt8>, _ range: Range<Int>) -> InlineArray<8, UInt16>? {
    let colon = UInt8(ascii: ":")
    var groups = InlineArray<8, UInt16>(repeating: 0)
    var count = 0
    var gap: Int?
    var index = range.lowerBound
    if range.count >= 2, bytes[index] == colon {
      guard bytes[index + 1] == colon else { return nil }
      gap = 0
      index += 2
    }
    while index < range.upperBound {
      guard count < 8 else { return nil }
      var end = index
      var value = 0
      while end < range.upperBound, end - index < 4, let digit = URLByteClass.hexValue(bytes[end]) {
        value = value << 4 | Int(digit)
        end += 1
      }
      if end < range.upperBound, bytes[end] == UInt8(ascii: ".") {
        guard count <= 6, let address = readIPv4(bytes, index..<range.upperBound) else { return nil }
        groups[count] = UInt16(address >> 16)
        groups[count + 1] = UInt16(address & 0xFFFF)
        count += 2
        index = range.upperBound
        break
      }
      guard end > index else { return nil }
      groups[count] = UInt16(value)
      count += 1
      index = end
      guard index < range.upperBound else { break }
      guard bytes[index] == colon, index + 1 < range.upperBound else { return nil }
      index += 1
      if bytes[index] == colon {
        guard gap == nil else { return nil }
        gap = count
        index += 1
      }
    }
    return expanded(groups, count: count, gap: gap)
  }

  /// Moves the groups after `::` to the end.
  private static func expanded(
    _ groups: InlineArray<8, UInt16>, count: Int, gap: Int?
  ) -> InlineArray<8, UInt16>? {
    guard let gap else { return count == 8 ? groups : nil }
    guard count < 8 else { return nil }
    var result = InlineArray<8, UInt16>(repeating: 0)
    for index in 0..<count {
      result[index < gap ? index : 8 - count + index] = groups[index]
    }
    return result
  }

  /// Four decimal octets without leading zeros as one number, or `nil`.
  static func readIPv4(_ bytes: Span<UInt8>, _ range: Range<Int>) -> UInt32? {
    var address: UInt32 = 0
    var octets = 0
    var index = range.lowerBound
    while index < range.upperBound {
      let start = index
      var value: UInt32 = 0
      while index < range.upperBound, index - start < 3, URLByteClass.of(bytes[index]) & URLByteClass.digit != 0 {
        value = value * 10 + UInt32(bytes[index] - UInt8(ascii: "0"))
        index += 1
      }
      guard index > start, value <= 255, octets < 4, index - start == 1 || bytes[start] != UInt8(ascii: "0") else {
        return nil
      }
      address = address << 8 | value
      octets += 1
      guard index < range.upperBound else { break }
      guard bytes[index] == UInt8(ascii: "."), index + 1 < range.upperBound else { return nil }
      index += 1
    }
    return octets == 4 ? address : nil
  }

  /// RFC 5952: lower case, no leading zeros, the longest run of two or more zero groups as `::`, the first of equals;
  /// IPv4-mapped addresses end in dotted decimal.
  private static func text(_ groups: InlineArray<8, UInt16>) -> String {
    if groups[5] == 0xFFFF, (0..<5).allSatisfy({ groups[$0] == 0 }) {
      return "::ffff:\(groups[6] >> 8).\(groups[6] & 0xFF).\(groups[7] >> 8).\(groups[7] & 0xFF)"
    }
    var best = 0..<0
    var index = 0
    while index < 8 {
      var end = index
      while end < 8, groups[end] == 0 { end += 1 }
      if end - index > max(best.count, 1) { best = index..<end }
      index = max(end, index + 1)
    }
    var result = ""
    index = 0
    while index < 8 {
      if !best.isEmpty, index == best.lowerBound {
        result += "::"
        index = best.upperBound
      } else {
        if !result.isEmpty, !result.hasSuffix(":") { result += ":" }
        result += String(groups[index], radix: 16)
        index += 1
      }
    }
    return result
  }
}
