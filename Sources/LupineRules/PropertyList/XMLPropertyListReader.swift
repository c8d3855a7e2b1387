/// Why a text is no property list in XML, and at which byte.
package struct XMLPropertyListError: Error, Equatable, Sendable, CustomStringConvertible {
  package enum Reason: Equatable, Sendable {
    case noElement
    case endsInside(String)
    case malformed(String)
    /// A document type with declarations of its own.
    case internalSubset
    case unknownElement
    /// Text or an element that has no place there.
    case misplaced
    case keyWithoutValue
    case contentAfterRoot
    case tooDeep(limit: Int)
    /// A key has more combining marks in a row than `CombiningMarks.limit`.
    case tooManyMarks
  }

  package var reason: Reason
  package var offset: Int

  package var description: String {
    let text =
      switch reason {
      case .noElement: "there is no element"
      case .endsInside(let what): "the text ends inside \(what)"
      case .malformed(let what): "\(what) is malformed"
      case .internalSubset: "a document type with declarations of its own is refused"
      case .unknownElement: "an element is none of a property list's"
      case .misplaced: "something stands where it has no place"
      case .keyWithoutValue: "a key has no value"
      case .contentAfterRoot: "something follows the list"
      case .tooDeep(let limit): "more than \(limit) levels of nesting"
      case .tooManyMarks: "a key has more than \(CombiningMarks.limit) combining marks in a row"
      }
    return "\(text) at byte \(offset)"
  }
}

/// Reads a property list in XML (PropertyList-1.0.dtd), with or without the `plist` element around the value.
///
/// CoreFoundation's parser puts keys into tables whose hash anybody can compute: 16,000 keys of 160 characters that collide took it 1.3 s, and four times as many
/// sixteen times as long. It recurses without a limit as well. Where it is lenient with what no writer writes (base64 with foreign characters, anything behind the
/// list) this is not.
package struct XMLPropertyListReader: XMLScanning {
  let bytes: [UInt8]
  private let depthLimit: Int
  var index = 0

  private init(bytes: [UInt8], depthLimit: Int) {
    self.bytes = bytes
    self.depthLimit = depthLimit
  }

  /// Reads the value of a list. Of several values of one key the last one counts.
  ///
  /// - Parameter bytes: UTF-8, whatever the declaration says.
  package static func read(_ bytes: [UInt8], depthLimit: Int) throws(XMLPropertyListError) -> PropertyListContent {
    var reader = XMLPropertyListReader(bytes: bytes, depthLimit: depthLimit)
    return try reader.document()
  }

  private struct Tag {
    var name: ArraySlice<UInt8>
    var isEmpty: Bool

    func isCalled(_ text: String) -> Bool { name.elementsEqual(text.utf8) }
  }

  private func error(_ reason: XMLPropertyListError.Reason) -> XMLPropertyListError {
    XMLPropertyListError(reason: reason, offset: index)
  }

  // MARK: Elements

  private mutating func document() throws(XMLPropertyListError) -> PropertyListContent {
    skipByteOrderMark()
    try skipBetween(allowsType: true)
    guard has("<"), !has("</") else { throw error(.noElement) }
    let root = try tag()
    let content: PropertyListContent
    if root.isCalled("plist") {
      guard !root.isEmpty, let first = try next() else { throw error(.noElement) }
      content = try value(first, depth: 0)
      guard try next() == nil else { throw error(.misplaced) }
      try endTag(root)
    } else {
      content = try value(root, depth: 0)
    }
    try skipBetween(allowsType: false)
    guard index == bytes.count else { throw error(.contentAfterRoot) }
    return content
  }

  private mutating func value(_ tag: Tag, depth: Int) throws(XMLPropertyListError) -> PropertyListContent {
    guard depth <= depthLimit else { throw error(.tooDeep(limit: depthLimit)) }
    switch String(decoding: tag.name, as: UTF8.self) {
    case "array": return .array(try elements(tag, depth))
    case "dict": return .dictionary(try members(tag, depth))
    case "string", "key": return .string(try text(tag))
    case "true": return .boolean(try nothing(in: tag, true))
    case "false": return .boolean(try nothing(in: tag, false))
    case "integer": return try leaf(tag, "an integer", PropertyListText.integer)
    case "real": return try leaf(tag, "a real", PropertyListText.real)
    case "date": return try leaf(tag, "a date", PropertyListText.date)
    case "data": return try leaf(tag, "data", PropertyListText.data)
    default: throw error(.unknownElement)
    }
  }

  private mutating func elements(_ tag: Tag, _ depth: Int) throws(XMLPropertyListError) -> [PropertyListContent] {
    var elements: [PropertyListContent] = []
    guard !tag.isEmpty else { return elements }
    while let next = try next() { elements.append(try value(next, depth: depth + 1)) }
    try endTag(tag)
    return elements
  }

  private mutating func members(_ tag: Tag, _ depth: Int) throws(XMLPropertyListError) -> [PropertyListContent.Member] {
    var members: [PropertyListContent.Member] = []
    var places: [String: Int] = [:]
    guard !tag.isEmpty else { return members }
    while let key = try next() {
      guard key.isCalled("key") else { throw error(.misplaced) }
      let name = try text(key)
      guard !CombiningMarks.areTooMany(in: name) else { throw error(.tooManyMarks) }
      guard let next = try next() else { throw error(.keyWithoutValue) }
      let value = try value(next, depth: depth + 1)
      if let place = places[name] {
        members[place].value = value
      } else {
        places[name] = members.count
        members.append(.init(name: name, value: value))
      }
    }
    try endTag(tag)
    return members
  }

  private mutating func nothing(in tag: Tag, _ value: Bool) throws(XMLPropertyListError) -> Bool {
    guard !tag.isEmpty else { return value }
    guard try next() == nil else { throw error(.misplaced) }
    try endTag(tag)
    return value
  }

  private mutating func leaf(
    _ tag: Tag, _ what: String, _ read: (String) -> PropertyListContent?
  ) throws(XMLPropertyListError) -> PropertyListContent {
    guard let value = read(try text(tag)) else { throw error(.malformed(what)) }
    return value
  }

  /// The next element within one; nil at its end tag, which is left there.
  private mutating func next() throws(XMLPropertyListError) -> Tag? {
    try skipBetween(allowsType: false)
    guard index < bytes.count else { throw error(.endsInside("an element")) }
    guard has("<") else { throw error(.misplaced) }
    return has("</") ? nil : try tag()
  }

  // MARK: Tags

  /// A start tag. Its attributes say nothing.
  private mutating func tag() throws(XMLPropertyListError) -> Tag {
    index += 1
    let name = name()
    guard !name.isEmpty, index == bytes.count || Self.isSpace(bytes[index]) || has("/") || has(">") else {
      throw error(.malformed("a start tag"))
    }
    while index < bytes.count {
      switch bytes[index] {
      case UInt8(ascii: ">"):
        index += 1
        return Tag(name: name, isEmpty: bytes[index - 2] == UInt8(ascii: "/"))
      case UInt8(ascii: "<"): throw error(.malformed("a start tag"))
      case UInt8(ascii: "\""), UInt8(ascii: "'"):
        let quote = bytes[index]
        guard let end = bytes[(index + 1)...].firstIndex(of: quote) else { throw error(.endsInside("a start tag")) }
        index = end + 1
      default: index += 1
      }
    }
    throw error(.endsInside("a start tag"))
  }

  private mutating func endTag(_ tag: Tag) throws(XMLPropertyListError) {
    guard has("</") else { throw error(.misplaced) }
    index += 2
    guard name().elementsEqual(tag.name) else { throw error(.malformed("an end tag")) }
    skipSpace()
    guard has(">") else { throw error(.malformed("an end tag")) }
    index += 1
  }

  private mutating func name() -> ArraySlice<UInt8> {
    let start = index
    while index < bytes.count, case UInt8(ascii: "a")...UInt8(ascii: "z") = bytes[index] { index += 1 }
    return bytes[start..<index]
  }

  // MARK: Text

  /// The text of an element that has nothing else, and its end tag.
  private mutating func text(_ tag: Tag) throws(XMLPropertyListError) -> String {
    guard !tag.isEmpty else { return "" }
    var text: [UInt8] = []
    while !has("</") {
      guard index < bytes.count else { throw error(.endsInside("an element")) }
      if has("&") {
        try reference(into: &text)
      } else if has("<![CDATA[") {
        let start = index + 9
        try skip(9, to: "]]>", "a CDATA section")
        text += bytes[start..<(index - 3)]
      } else if has("<") {
        guard try skipOther() else { throw error(.misplaced) }
      } else {
        let end =
          bytes.span.firstIndex(of: UInt8(ascii: "<"), or: UInt8(ascii: "&"), in: index..<bytes.count) ?? bytes.count
        text += bytes[index..<end]
        index = end
      }
    }
    try endTag(tag)
    guard text.span.firstIndex(of: 0, in: 0..<text.count) == nil, let string = text.span.text(0..<text.count) else {
      throw error(.malformed("text"))
    }
    return string
  }

  private mutating func reference(into text: inout [UInt8]) throws(XMLPropertyListError) {
    for (name, byte) in [("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"), ("&quot;", "\""), ("&apos;", "'")]
    where has(name) {
      index += name.utf8.count
      text += byte.utf8
      return
    }
    let end = bytes[index...].prefix(12).firstIndex(of: UInt8(ascii: ";"))
    guard has("&#"), let end else { throw error(.malformed("a reference")) }
    let isHex = has("&#x")
    let digits = String(decoding: bytes[(index + (isHex ? 3 : 2))..<end], as: UTF8.self)
    guard digits.utf8.allSatisfy({ $0 != UInt8(ascii: "+") && $0 != UInt8(ascii: "-") }),
      let scalar = UInt32(digits, radix: isHex ? 16 : 10).flatMap({ Unicode.Scalar($0) }), scalar.value > 0
    else { throw error(.malformed("a reference")) }
    text += String(scalar).utf8
    index = end + 1
  }

  // MARK: What is between elements

  private mutating func skipBetween(allowsType: Bool) throws(XMLPropertyListError) {
    var allowsType = allowsType
    while index < bytes.count {
      if skipSpace() { continue }
      if allowsType, has("<!DOCTYPE") {
        let start = index
        try skip(9, to: ">", "the document type")
        guard !bytes[start..<index].contains(UInt8(ascii: "[")) else { throw error(.internalSubset) }
        allowsType = false
      } else if try !skipOther() {
        return
      }
    }
  }

  /// Skips a comment or an instruction, if there is one.
  private mutating func skipOther() throws(XMLPropertyListError) -> Bool {
    if has("<!--") {
      try skip(4, to: "-->", "a comment")
    } else if has("<?") {
      try skip(2, to: "?>", "an instruction")
    } else {
      return false
    }
    return true
  }

  /// Moves on by `count` bytes, and then to behind the next `end`.
  private mutating func skip(_ count: Int, to end: String, _ what: String) throws(XMLPropertyListError) {
    index += count
    guard skip(to: end) else { throw error(.endsInside(what)) }
  }
}
