package import HTTPTypes
package import LupineRules
package import LupineSession

extension HTTPField {
  /// A field as somebody wrote it, or a refusal: what would break the framing of the message must not be repaired silently.
  package static func written(_ name: String, _ value: String) throws(BatchRefusal) -> HTTPField {
    guard let parsed = HTTPField.Name(name) else {
      throw BatchRefusal("\(BatchRefusal.quoted(nameIn: name)) is no name for a header field")
    }
    // RFC 9110 5.5: white space around a value is not part of it.
    let value = value.trimmingSpaces
    guard HTTPField.isValidValue(value) else {
      throw BatchRefusal(
        "the value of \(BatchRefusal.quoted(name)) has characters that no header field can carry, such as line ends")
    }
    return HTTPField(name: parsed, value: value)
  }

  /// `Expect: 100-continue`, which is more than a field: whoever says it has the body wait (RFC 9110 section 10.1.1).
  package var asksForContinue: Bool { name == .expect && value.lowercased() == "100-continue" }
}

extension Request {
  /// Announces fields that follow the body. Secrets are marked before.
  ///
  /// - Returns: what speaks against it, for which nothing would be sent; nil: nothing does.
  package mutating func announce(_ trailers: HTTPFields) -> TrailerRefusal? {
    for field in trailers where !trailerNames.contains(field.name) { trailerNames.append(field.name) }
    let secrets = sensitiveFields
    return TrailerRule.refusal(
      announcing: trailerNames.map(\.rawName),
      isMarkedSensitive: { name in HTTPField.Name(name).map { secrets.contains($0) } ?? false })
  }
}

extension String {
  /// Without spaces and tabs at both ends. By bytes: a space with a mark above it is one character.
  fileprivate var trimmingSpaces: String {
    let rest = utf8.drop { $0 == 0x20 || $0 == 0x09 }
    guard let last = rest.lastIndex(where: { $0 != 0x20 && $0 != 0x09 }) else { return "" }
    return String(Substring(rest[...last]))
  }
}
