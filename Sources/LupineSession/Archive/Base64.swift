internal import FoundationEssentials

/// RFC 4648 section 4, with its padding.
package enum Base64 {
  package static func encode(_ bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }

  /// Nil: this is none, also where padding stands before its end or is too long. Bits that nobody reads may be others than zero.
  package static func decode(_ text: [UInt8]) -> [UInt8]? {
    // Foundation takes it for digits: "AB=C" and "====" are bytes to it.
    let digits = text.firstIndex(of: UInt8(ascii: "=")) ?? text.count
    guard text.count % 4 == 0, text.count - digits <= 2, text[digits...].allSatisfy({ $0 == UInt8(ascii: "=") })
    else { return nil }
    return Data(base64Encoded: Data(text)).map { [UInt8]($0) }
  }

  package static func decode(_ text: String) -> [UInt8]? { decode(Array(text.utf8)) }
}
