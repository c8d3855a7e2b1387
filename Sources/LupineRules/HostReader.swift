/// Reads the host of an authority into its one spelling, or refuses it.
package enum HostReader {
  /// Reads a host given by itself: a name, an IPv4 address, or an IPv6 address with or without brackets.
  package static func read(_ text: String) throws(HostRefusal) -> URLHost {
    let bytes = text.utf8.span
    if bytes.count > 0, bytes[0] != UInt8(ascii: "["),
      bytes.firstIndex(of: UInt8(ascii: ":"), in: 0..<bytes.count) != nil
    {
      return try IPv6Literal.read(bytes, 0..<bytes.count)
    }
    return try read(bytes, 0..<bytes.count)
  }

  static func read(_ bytes: Span<UInt8>, _ range: Range<Int>) throws(HostRefusal) -> URLHost {
    guard let first = range.first else { throw HostRefusal.empty }
    if bytes[first] == UInt8(ascii: "[") {
      guard range.count > 2, bytes[range.upperBound - 1] == UInt8(ascii: "]") else { throw HostRefusal.invalidIPv6 }
      return try IPv6Literal.read(bytes, first + 1..<range.upperBound - 1)
    }
    var kinds: UInt8 = 0
    var every: UInt8 = 0xFF
    for index in range {
      let kind = URLByteClass.of(bytes[index])
      kinds |= kind
      every &= kind
    }
    guard every & URLByteClass.name != 0 else { return try readUnicode(bytes, range) }
    if kinds & URLByteClass.upper != 0 {
      var lower: [UInt8] = []
      lower.reserveCapacity(range.count)
      for index in range {
        let byte = bytes[index]
        lower.append(URLByteClass.of(byte) & URLByteClass.upper != 0 ? byte | 0x20 : byte)
      }
      return try readName(lower.span, 0..<lower.count)
    }
    return try readName(bytes, range)
  }

  /// A host with bytes that are not a name's: Unicode, perhaps percent-encoded, or a mistake.
  private static func readUnicode(_ bytes: Span<UInt8>, _ range: Range<Int>) throws(HostRefusal) -> URLHost {
    var decoded: [UInt8] = []
    var index = range.lowerBound
    while index < range.upperBound {
      var byte = bytes[index]
      if byte == UInt8(ascii: "%") {
        guard index + 2 < range.upperBound, let high = URLByteClass.hexValue(bytes[index + 1]),
          let low = URLByteClass.hexValue(bytes[index + 2]), high >= 8
        else { throw HostRefusal.invalidByte(byte) }
        byte = high << 4 | low
        index += 2
      } else if byte < 0x80, URLByteClass.of(byte) & URLByteClass.name == 0 {
        throw HostRefusal.invalidByte(byte)
      }
      decoded.append(byte)
      index += 1
    }
    guard let text = decoded.span.text(0..<decoded.count) else { throw HostRefusal.notUTF8 }
    let name = try InternationalName.asciiName(text)
    return try readName(name.span, 0..<name.count)
  }

  /// A lower-case ASCII name of letters, digits, `-`, `_` and `.`.
  ///
  /// Underscores and hyphens at the ends of a label are not host-name syntax (RFC 1123) but exist in the DNS and are harmless.
  private static func readName(_ bytes: Span<UInt8>, _ range: Range<Int>) throws(HostRefusal) -> URLHost {
    let dot = UInt8(ascii: ".")
    let absolute = range.count > 1 && bytes[range.upperBound - 1] == dot
    let end = absolute ? range.upperBound - 1 : range.upperBound
    guard end - range.lowerBound <= 253 else { throw HostRefusal.nameTooLong(end - range.lowerBound) }
    var labelStart = range.lowerBound
    var index = range.lowerBound
    while true {
      if index == end || bytes[index] == dot {
        try checkLabel(bytes, labelStart..<index)
        if index == end { break }
        labelStart = index + 1
      }
      index += 1
    }
    if isNumber(bytes, labelStart..<end) {
      guard !absolute, isIPv4(bytes, range) else { throw HostRefusal.ambiguousIPv4 }
      return URLHost(kind: .ipv4, text: bytes.text(range) ?? "")
    }
    return URLHost(kind: .name, text: bytes.text(range) ?? "")
  }

  private static func checkLabel(_ bytes: Span<UInt8>, _ label: Range<Int>) throws(HostRefusal) {
    guard !label.isEmpty else { throw HostRefusal.emptyLabel }
    guard label.count <= 63 else { throw HostRefusal.labelTooLong(label.count) }
    let start = label.lowerBound
    let hyphen = UInt8(ascii: "-")
    guard label.count >= 4, bytes[start + 2] == hyphen, bytes[start + 3] == hyphen, bytes[start] == UInt8(ascii: "x"),
      bytes[start + 1] == UInt8(ascii: "n")
    else { return }
    try InternationalName.checkASCIILabel(bytes, start + 4..<label.upperBound)
  }

  /// Whether some reader somewhere takes a host with this last label for an IPv4 address: all digits, or `0x` and hexadecimal digits.
  private static func isNumber(_ bytes: Span<UInt8>, _ label: Range<Int>) -> Bool {
    let first = label.lowerBound
    guard URLByteClass.of(bytes[first]) & URLByteClass.digit != 0 else { return false }
    if label.allSatisfy({ URLByteClass.of(bytes[$0]) & URLByteClass.digit != 0 }) { return true }
    guard label.count >= 2, bytes[first] == UInt8(ascii: "0"), bytes[first + 1] == UInt8(ascii: "x") else {
      return false
    }
    return label.dropFirst(2).allSatisfy { URLByteClass.of(bytes[$0]) & URLByteClass.hex != 0 }
  }

  /// Four decimal octets without leading zeros, nothing else.
  static func isIPv4(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Bool {
    IPv6Literal.readIPv4(bytes, range) != nil
  }
}
