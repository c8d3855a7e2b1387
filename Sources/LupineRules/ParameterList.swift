/// `; name=value; name="quoted"` as `Content-Type` and `Content-Disposition` have it (RFC 9110 section 5.6.6).
///
/// What is malformed is skipped up to the next semicolon outside quotes; of two parameters of one name the first counts.
/// Every byte is looked at a bounded number of times, whatever it is.
struct ParameterList: Hashable, Sendable {
  struct Parameter: Hashable, Sendable {
    /// Lower-cased.
    let name: String
    let value: String
  }

  /// More than any sender has; the rest is ignored.
  static let maximumCount = 64

  private(set) var parameters: [Parameter] = []

  /// Reads what follows the first element of a field value.
  init(_ text: Substring.UTF8View) {
    var rest = text
    while !rest.isEmpty, parameters.count < Self.maximumCount {
      guard rest.removeFirst() == UInt8(ascii: ";") else { continue }
      rest = rest.drop(while: FieldScanner.isBlank)
      let name = rest.prefix(while: FieldScanner.isToken)
      rest = rest.dropFirst(name.count).drop(while: FieldScanner.isBlank)
      guard !name.isEmpty, rest.first == UInt8(ascii: "=") else {
        rest = Self.afterGarbage(rest)
        continue
      }
      rest = rest.dropFirst().drop(while: FieldScanner.isBlank)
      guard let value = Self.readValue(&rest) else { continue }
      let lower = String(decoding: name, as: UTF8.self).lowercased()
      if !parameters.contains(where: { $0.name == lower }) {
        parameters.append(Parameter(name: lower, value: value))
      }
      rest = Self.afterGarbage(rest)
    }
  }

  subscript(name: String) -> String? {
    parameters.first { $0.name == name }?.value
  }

  /// A quoted string, or everything up to a semicolon: unquoted file names with spaces are common.
  private static func readValue(_ rest: inout Substring.UTF8View) -> String? {
    guard rest.first == UInt8(ascii: "\"") else {
      let value = FieldScanner.trimmed(rest.prefix { $0 != UInt8(ascii: ";") })
      rest = rest.drop { $0 != UInt8(ascii: ";") }
      return value.isEmpty ? nil : String(decoding: value, as: UTF8.self)
    }
    rest.removeFirst()
    var value: [UInt8] = []
    while let byte = rest.popFirst() {
      if byte == UInt8(ascii: "\"") { return String(decoding: value, as: UTF8.self) }
      if byte == UInt8(ascii: "\\") {
        guard let escaped = rest.popFirst() else { break }
        value.append(escaped)
      } else {
        value.append(byte)
      }
    }
    return nil  // The quote is never closed.
  }

  private static func afterGarbage(_ text: Substring.UTF8View) -> Substring.UTF8View {
    var rest = text
    var isQuoted = false
    while let byte = rest.first {
      if byte == UInt8(ascii: "\"") { isQuoted.toggle() }
      if byte == UInt8(ascii: "\\"), isQuoted { rest.removeFirst() }
      if byte == UInt8(ascii: ";"), !isQuoted { break }
      if !rest.isEmpty { rest.removeFirst() }
    }
    return rest
  }
}
