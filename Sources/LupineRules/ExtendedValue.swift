/// `charset'language'percent-encoded`, the value of a parameter whose name ends with `*` (RFC 8187).
enum ExtendedValue {
  /// The text of the value, in UTF-8 or ISO-8859-1; nil if it is malformed.
  ///
  /// More lenient than its section 3.2.1 where many senders are and only one reading is possible: the whole may be a quoted string, and the
  /// `'()*` that `encodeURIComponent` leaves may stand for themselves.
  static func decode(_ value: String) -> String? {
    let parts = value.utf8.split(separator: UInt8(ascii: "'"), maxSplits: 2, omittingEmptySubsequences: false)
    guard parts.count == 3, isPercentEncoded(parts[2]) else { return nil }
    let bytes = PercentCoding.decodedBytes(parts[2])
    switch parts[0].smallToken {
    case "utf-8": return String(validating: bytes, as: UTF8.self)
    case "iso-8859-1": return String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
    default: return nil
    }
  }

  /// Whether every percent sign begins two hexadecimal digits, and the rest is `attr-char` or what is let pass as such.
  private static func isPercentEncoded(_ text: Substring.UTF8View) -> Bool {
    var rest = text
    while let byte = rest.popFirst() {
      if byte == UInt8(ascii: "%") {
        guard let high = rest.popFirst(), let low = rest.popFirst(), URLByteClass.hexValue(high) != nil,
          URLByteClass.hexValue(low) != nil
        else { return false }
      } else if !FieldScanner.isToken(byte), byte != UInt8(ascii: "("), byte != UInt8(ascii: ")") {
        return false
      }
    }
    return true
  }
}
