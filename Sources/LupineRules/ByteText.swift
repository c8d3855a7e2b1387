internal import LupineBase
internal import LupineWire

// Text from outside is compared by its bytes, or once it is known to be ASCII. Swift compares other text in a normal form: what differs in bytes may be equal
// then, and to bring many combining marks in a row into order takes the square of their number (`CombiningMarks`).

extension Collection<UInt8> {
  /// A token (RFC 9110 section 5.6.2) in small letters; nil if these bytes are none.
  package var smallToken: String? {
    !isEmpty && allSatisfy(FieldScanner.isToken) ? String(decoding: self, as: UTF8.self).lowercased() : nil
  }
}

extension String {
  /// Byte by byte, whatever the case of ASCII letters.
  ///
  /// - Parameter small: has no capitals.
  package func isSame(ignoringCase small: String) -> Bool { RequestEncoder.equalsIgnoringCase(self, small) }
}

extension [String] {
  /// One by one, byte by byte.
  package func isSame(as others: [String]) -> Bool {
    count == others.count && zip(self, others).allSatisfy { $0.hasBytes(of: $1) }
  }
}
