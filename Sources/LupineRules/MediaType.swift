/// The value of `Content-Type` (RFC 9110 section 8.3.1).
package struct MediaType: Hashable, Sendable {
  /// Lower-cased.
  package let type: String
  /// Lower-cased, with its suffix.
  package let subtype: String
  private let list: ParameterList

  /// Reads a field value; `nil` unless it begins with `type/subtype`. Malformed parameters are left out.
  package init?(_ text: String) {
    let bytes = FieldScanner.trimmed(text[...].utf8)
    let type = bytes.prefix(while: FieldScanner.isToken)
    let afterType = bytes.dropFirst(type.count)
    guard !type.isEmpty, afterType.first == UInt8(ascii: "/") else { return nil }
    let subtype = afterType.dropFirst().prefix(while: FieldScanner.isToken)
    let rest = afterType.dropFirst(subtype.count + 1).drop(while: FieldScanner.isBlank)
    guard !subtype.isEmpty, rest.isEmpty || rest.first == UInt8(ascii: ";") else { return nil }
    self.type = String(decoding: type, as: UTF8.self).lowercased()
    self.subtype = String(decoding: subtype, as: UTF8.self).lowercased()
    list = ParameterList(rest)
  }

  /// `type/subtype`, lower-cased: the MIME type of a response.
  package var essence: String { "\(type)/\(subtype)" }

  /// The structured suffix after the last `+`: `json` for `application/problem+json`.
  package var suffix: String? {
    guard let plus = subtype.utf8.lastIndex(of: UInt8(ascii: "+")) else { return nil }
    let suffix = subtype[subtype.utf8.index(after: plus)...]
    return suffix.isEmpty ? nil : String(suffix)
  }

  /// Whether a reader of these media types, in lower case, can read this one: it is one of them, or its structured suffix says that it is written in one.
  /// `application/problem+json` is where `application/json` is (RFC 6839 section 3.1), and `image/svg+xml` where `application/xml` is (RFC 7303 section 9.2).
  package func isReadable(as types: Set<String>) -> Bool {
    if types.contains(essence) { return true }
    return switch suffix {
    case "json": types.contains("application/json")
    case "xml": types.contains("application/xml")
    default: false
    }
  }

  /// The value of the `charset` parameter, lower-cased. Of a longer one the beginning: no name has more than 40 bytes (RFC 2978 section 2.3), and
  /// others compare what this gives.
  package var charset: String? {
    list["charset"].map { String(decoding: $0.utf8.prefix(64), as: UTF8.self).lowercased() }
  }

  /// The parameters in order; names are lower-cased.
  package var parameters: [(name: String, value: String)] { list.parameters.map { ($0.name, $0.value) } }

  /// The value of a parameter; the name in lower case.
  package subscript(name: String) -> String? { list[name] }
}
