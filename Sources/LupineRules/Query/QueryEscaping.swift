/// Percent-encoding of the names and values of a query (RFC 3986 sections 2.1 and 3.4).
///
/// Unescaped stay letters, digits, and `-._~/?`: what the grammar of a query allows, without the delimiters that have a meaning in it.
package enum QueryEscaping {
  package static func isPlain(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
      UInt8(ascii: "~"), UInt8(ascii: "/"), UInt8(ascii: "?"):
      true
    default: false
    }
  }

  package static func escaped(_ text: String) -> String {
    if text.utf8.allSatisfy(isPlain) { return text }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.utf8.count + text.utf8.count / 2)
    append(text, to: &bytes)
    return String(decoding: bytes, as: UTF8.self)
  }

  static func append(_ text: String, to bytes: inout [UInt8]) {
    for byte in text.utf8 { append(byte, to: &bytes) }
  }

  static func append(_ byte: UInt8, to bytes: inout [UInt8]) {
    if isPlain(byte) { bytes.append(byte) } else { PercentCoding.append(byte, to: &bytes) }
  }
}
