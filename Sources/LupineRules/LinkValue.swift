/// A link as it stands in a `Link` field (RFC 8288 section 3), its target unread.
package struct LinkValue: Hashable, Sendable {
  /// More than any sender has; the rest is ignored.
  package static let maximumCount = 256

  /// A URI reference, relative to the URL of the response.
  package let target: String
  private let list: ParameterList

  /// Types of `rel` that are read, and bytes of one: each is compared with those before it, and nobody has as many.
  package static let maximumRelations = 64, maximumRelationLength = 256

  /// The types of `rel`, in order, each once. Letters are small, because types are the same whatever the case of theirs. They are names and URIs, and
  /// thus ASCII (RFC 8288 section 2.1); what is not is left out, as are those past the limits.
  package var relations: [String] {
    var found: [String] = []
    let types = (list["rel"] ?? "").utf8.lazy.split(whereSeparator: FieldScanner.isBlank)
    for bytes in types.prefix(Self.maximumRelations)
    where bytes.count <= Self.maximumRelationLength && bytes.allSatisfy({ $0 < 0x80 }) {
      let type = String(decoding: bytes, as: UTF8.self).lowercased()
      if !found.contains(type) { found.append(type) }
    }
    return found
  }

  /// The first parameter of a name, which has small letters.
  package subscript(name: String) -> String? { list[name] }

  /// `title*` if it is well-formed, else `title`.
  package var title: String? { list["title*"].flatMap(ExtendedValue.decode) ?? list["title"] }

  /// The links of a field, at most `maximumCount`. What is none is skipped up to the next comma outside quotes.
  package static func read(_ field: String) -> [LinkValue] {
    var links: [LinkValue] = []
    var rest = field[...].utf8
    while links.count < maximumCount {
      rest = rest.drop { FieldScanner.isBlank($0) || $0 == UInt8(ascii: ",") }
      guard let first = rest.first else { break }
      var target: Substring.UTF8View?
      if first == UInt8(ascii: "<") {
        // No link is complete from here on, and to look for this again from every `<` would take the square of the time.
        guard let end = rest.firstIndex(of: UInt8(ascii: ">")) else { break }
        target = FieldScanner.trimmed(rest[rest.index(after: rest.startIndex)..<end])
        rest = rest[rest.index(after: end)...]
      }
      let parameters = rest.prefix(upTo: endOfElement(rest))
      rest = rest[parameters.endIndex...]
      guard let target else { continue }
      links.append(LinkValue(target: String(decoding: target, as: UTF8.self), list: ParameterList(parameters)))
    }
    return links
  }

  /// The next comma outside quotes.
  private static func endOfElement(_ text: Substring.UTF8View) -> Substring.UTF8View.Index {
    var index = text.startIndex
    var isQuoted = false
    while index < text.endIndex {
      switch text[index] {
      case UInt8(ascii: ",") where !isQuoted: return index
      case UInt8(ascii: "\""): isQuoted.toggle()
      case UInt8(ascii: "\\") where isQuoted:
        text.formIndex(after: &index)
        if index == text.endIndex { return index }
      default: break
      }
      text.formIndex(after: &index)
    }
    return index
  }
}
