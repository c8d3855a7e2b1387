/// Why a text is no XML that is handed to a parser, and at which byte.
package struct XMLShapeError: Error, Equatable, Sendable, CustomStringConvertible {
  package enum Reason: Equatable, Sendable {
    case noRootElement
    case endsInside(String)
    case malformed(String)
    case mismatchedEnd
    case contentAfterRoot
    /// The document declares a type of its own inside: entities, which can name files and grow without bound.
    case internalSubset
    case undefinedEntity
    case tooDeep(limit: Int)
    /// Of one element.
    case tooManyAttributes(limit: Int)
    /// Of all elements that are open.
    case tooManyNamespaces(limit: Int)
  }

  package var reason: Reason
  package var offset: Int

  package init(reason: Reason, offset: Int) {
    self.reason = reason
    self.offset = offset
  }

  package var description: String {
    let text =
      switch reason {
      case .noRootElement: "there is no element"
      case .endsInside(let what): "the text ends inside \(what)"
      case .malformed(let what): "\(what) is malformed"
      case .mismatchedEnd: "an end tag does not match its start tag"
      case .contentAfterRoot: "something follows the root element"
      case .internalSubset: "a document type with declarations of its own is refused"
      case .undefinedEntity: "an entity is not defined"
      case .tooDeep(let limit): "more than \(limit) levels of nesting"
      case .tooManyAttributes(let limit): "an element has more than \(limit) attributes"
      case .tooManyNamespaces(let limit): "more than \(limit) namespaces are declared"
      }
    return "\(text) at byte \(offset)"
  }
}

/// Checks the shape of an XML text (XML 1.0, fifth edition) before a parser gets it: one root element, tags that match, attributes in quotes,
/// no entities but the five that everybody knows, no declarations.
///
/// Foundation's parsers on Linux accept a text that ends in the middle of a tag, read the files that external entities name, and expand
/// entities without bound; and they compare each attribute with all before it, and each prefix with all that are declared, so that a hundred thousand of
/// either take minutes. The bytes are those of an encoding that writes ASCII as it is. Names and characters are not checked further, nor that
/// attributes differ: a parser does that.
package struct XMLShape: XMLScanning {
  package static let depthLimit = 200
  package static let attributeLimit = 256
  package static let namespaceLimit = 1024

  let bytes: [UInt8]
  var index = 0
  /// The names of the elements that are open, as ranges of the input.
  private var open: [Range<Int>] = []
  /// Namespaces that each of them declares, and all.
  private var declared: [Int] = []
  private var namespaces = 0

  private init(_ bytes: [UInt8]) {
    self.bytes = bytes
  }

  /// Checks the whole document.
  package static func check(_ bytes: [UInt8]) throws(XMLShapeError) {
    var shape = XMLShape(bytes)
    try shape.prolog()
    try shape.rootElement()
    try shape.epilog()
  }

  /// Checks only what comes before the root element: whether it declares anything. A text that is malformed there is refused if it has a
  /// document type at all, since a parser may make more of it.
  package static func checkDeclarations(_ bytes: [UInt8]) throws(XMLShapeError) {
    var shape = XMLShape(bytes)
    do throws(XMLShapeError) {
      try shape.prolog()
      guard shape.has("<") else { throw shape.error(.noRootElement) }
    } catch {
      if error.reason == .internalSubset { throw error }
      shape.index = 0
      guard shape.skip(to: "<!DOCTYPE") else { return }
      shape.index -= "<!DOCTYPE".utf8.count
      throw shape.error(.internalSubset)
    }
  }

  private func error(_ reason: XMLShapeError.Reason) -> XMLShapeError { XMLShapeError(reason: reason, offset: index) }

  /// A character of a name, roughly: whatever has no meaning of its own in a tag.
  static func isName(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: ":"), UInt8(ascii: "-"),
      UInt8(ascii: "."), 0x80...0xFF:
      true
    default: false
    }
  }

  private mutating func name(of what: String) throws(XMLShapeError) -> Range<Int> {
    let start = index
    while index < bytes.count, Self.isName(bytes[index]) { index += 1 }
    guard index > start else { throw error(index < bytes.count ? .malformed(what) : .endsInside(what)) }
    switch bytes[start] {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."): throw error(.malformed(what))
    default: return start..<index
    }
  }

  /// Skips to behind the next `end`.
  private mutating func skip(to end: String, in what: String) throws(XMLShapeError) {
    guard skip(to: end) else { throw error(.endsInside(what)) }
  }

  /// A comment or a processing instruction, if there is one.
  private mutating func miscellaneous() throws(XMLShapeError) -> Bool {
    if has("<!--") {
      index += 4
      try skip(to: "--", in: "a comment")
      guard index < bytes.count, bytes[index] == UInt8(ascii: ">") else { throw error(.malformed("a comment")) }
      index += 1
      return true
    }
    if has("<?") {
      index += 2
      _ = try name(of: "a processing instruction")
      try skip(to: "?>", in: "a processing instruction")
      return true
    }
    return false
  }

  private mutating func prolog() throws(XMLShapeError) {
    skipByteOrderMark()
    var hasType = false
    while true {
      skipSpace()
      guard index < bytes.count else { throw error(.noRootElement) }
      if try miscellaneous() { continue }
      guard has("<!") else { return }
      guard has("<!DOCTYPE"), !hasType else { throw error(.malformed("a declaration")) }
      hasType = true
      index += "<!DOCTYPE".utf8.count
      try documentType()
    }
  }

  /// A name, and what identifies the type elsewhere, which is never fetched (XML 1.0, production 28): anything more could be quotes to one reader, and
  /// declarations to another.
  private mutating func documentType() throws(XMLShapeError) {
    let what = "the document type"
    guard skipSpace() else { throw error(index < bytes.count ? .malformed(what) : .endsInside(what)) }
    _ = try name(of: what)
    if skipSpace() {
      let literals = has("SYSTEM") ? 1 : has("PUBLIC") ? 2 : 0
      if literals > 0 { index += "SYSTEM".utf8.count }
      for _ in 0..<literals { try literal(of: what) }
      skipSpace()
    }
    guard index < bytes.count else { throw error(.endsInside(what)) }
    if bytes[index] == UInt8(ascii: "[") { throw error(.internalSubset) }
    guard bytes[index] == UInt8(ascii: ">") else { throw error(.malformed(what)) }
    index += 1
  }

  /// Space, a quote, and everything up to the same quote.
  private mutating func literal(of what: String) throws(XMLShapeError) {
    let hasSpace = skipSpace()
    guard index < bytes.count else { throw error(.endsInside(what)) }
    let quote = bytes[index]
    guard hasSpace, quote == UInt8(ascii: "\"") || quote == UInt8(ascii: "'") else { throw error(.malformed(what)) }
    index += 1
    while index < bytes.count, bytes[index] != quote { index += 1 }
    guard index < bytes.count else { throw error(.endsInside(what)) }
    index += 1
  }

  private mutating func rootElement() throws(XMLShapeError) {
    guard bytes[index] == UInt8(ascii: "<") else { throw error(.noRootElement) }
    try startTag()
    while !open.isEmpty {
      guard index < bytes.count else { throw error(.endsInside("an element")) }
      switch bytes[index] {
      case UInt8(ascii: "<"):
        if has("</") {
          try endTag()
        } else if has("<![CDATA[") {
          index += "<![CDATA[".utf8.count
          try skip(to: "]]>", in: "a CDATA section")
        } else if try !miscellaneous() {
          try startTag()
        }
      case UInt8(ascii: "&"): try reference()
      default: index += 1
      }
    }
  }

  private mutating func epilog() throws(XMLShapeError) {
    while true {
      skipSpace()
      guard index < bytes.count else { return }
      guard try miscellaneous() else { throw error(.contentAfterRoot) }
    }
  }

  private mutating func startTag() throws(XMLShapeError) {
    index += 1
    let name = try name(of: "a start tag")
    var (attributes, ownNamespaces) = (0, 0)
    while true {
      let hasSpace = skipSpace()
      guard index < bytes.count else { throw error(.endsInside("a start tag")) }
      if bytes[index] == UInt8(ascii: ">") {
        index += 1
        guard open.count < Self.depthLimit else { throw error(.tooDeep(limit: Self.depthLimit)) }
        open.append(name)
        declared.append(ownNamespaces)
        namespaces += ownNamespaces
        return
      }
      if has("/>") {
        index += 2
        return
      }
      guard hasSpace else { throw error(.malformed("a start tag")) }
      guard attributes < Self.attributeLimit else { throw error(.tooManyAttributes(limit: Self.attributeLimit)) }
      attributes += 1
      if has("xmlns") { ownNamespaces += 1 }
      guard namespaces + ownNamespaces <= Self.namespaceLimit else {
        throw error(.tooManyNamespaces(limit: Self.namespaceLimit))
      }
      try attribute()
    }
  }

  private mutating func attribute() throws(XMLShapeError) {
    _ = try name(of: "an attribute")
    skipSpace()
    guard index < bytes.count else { throw error(.endsInside("a start tag")) }
    guard bytes[index] == UInt8(ascii: "=") else { throw error(.malformed("an attribute")) }
    index += 1
    skipSpace()
    guard index < bytes.count else { throw error(.endsInside("a start tag")) }
    let quote = bytes[index]
    guard quote == UInt8(ascii: "\"") || quote == UInt8(ascii: "'") else { throw error(.malformed("an attribute")) }
    index += 1
    while index < bytes.count, bytes[index] != quote {
      switch bytes[index] {
      case UInt8(ascii: "<"): throw error(.malformed("an attribute"))
      case UInt8(ascii: "&"): try reference()
      default: index += 1
      }
    }
    guard index < bytes.count else { throw error(.endsInside("an attribute")) }
    index += 1
  }

  private mutating func endTag() throws(XMLShapeError) {
    index += 2
    let name = try name(of: "an end tag")
    guard let start = open.popLast(), bytes[start] == bytes[name] else { throw error(.mismatchedEnd) }
    namespaces -= declared.popLast() ?? 0
    skipSpace()
    guard index < bytes.count else { throw error(.endsInside("an end tag")) }
    guard bytes[index] == UInt8(ascii: ">") else { throw error(.malformed("an end tag")) }
    index += 1
  }

  /// `&name;` of the five, or `&#number;`.
  private mutating func reference() throws(XMLShapeError) {
    for known in ["&amp;", "&lt;", "&gt;", "&quot;", "&apos;"] where has(known) {
      index += known.utf8.count
      return
    }
    guard has("&#") else { throw error(.undefinedEntity) }
    index += 2
    let isHexadecimal = index < bytes.count && bytes[index] == UInt8(ascii: "x")
    if isHexadecimal { index += 1 }
    let start = index
    while index < bytes.count, index < start + 9 {
      let digit = Character(Unicode.Scalar(bytes[index]))
      guard isHexadecimal ? digit.isHexDigit : "0"..."9" ~= digit else { break }
      index += 1
    }
    guard index > start, index < bytes.count, bytes[index] == UInt8(ascii: ";") else {
      throw error(.malformed("a character reference"))
    }
    index += 1
  }
}
