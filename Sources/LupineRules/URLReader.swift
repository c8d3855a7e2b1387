/// The one reader of URLs: it decides origin, authority and target, whoever carried the text here.
///
/// Grammar: RFC 3986, strict in the authority, and repairing only what cannot change the meaning of the rest:
/// - Space, `"`, `<`, `>`, `\`, `^`, `` ` ``, `{`, `|`, `}` and bytes from 0x80 up in path, query and fragment are percent-encoded
///   byte by byte; a second `#` too. `[` and `]` stay, as every browser leaves them. A `%` stays as given.
/// - Controls (CR, LF, NUL, tab, …) are refused wherever they stand.
/// - In the authority nothing is repaired: a backslash, space or second `@` is refused. A host may have Unicode letters (see
///   `InternationalName`), also percent-encoded as RFC 3986 section 3.2.2 has it; an octet that encodes ASCII is refused (`%2F`).
package enum URLReader {
  /// The longest text that is read, in bytes.
  package static let maximumLength = 64 * 1024

  /// Reads an absolute URL.
  package static func read(_ text: String) throws(URLRefusal) -> ParsedURL {
    try read(text.utf8.span)
  }

  /// Reads an absolute URL from bytes that may be anything.
  package static func read(_ bytes: Span<UInt8>) throws(URLRefusal) -> ParsedURL {
    try checkLength(bytes.count)
    guard let schemeEnd = schemeEnd(bytes) else { throw URLRefusal.missingScheme }
    let scheme = try scheme(bytes, end: schemeEnd)
    return try readHierarchy(bytes, scheme, from: schemeEnd + 1, removingDots: false)
  }

  static func checkLength(_ count: Int) throws(URLRefusal) {
    guard count <= maximumLength else { throw URLRefusal.tooLong(count: count, limit: maximumLength) }
  }

  /// The position of the colon that ends the scheme, or `nil` for a relative reference.
  static func schemeEnd(_ bytes: Span<UInt8>) -> Int? {
    guard bytes.count > 0 else { return nil }
    let first = URLByteClass.of(bytes[0])
    // A letter: in the set of schemes, and neither digit nor punctuation.
    guard first & URLByteClass.scheme != 0, first & URLByteClass.digit == 0, bytes[0] >= UInt8(ascii: "A") else {
      return nil
    }
    var index = 1
    while index < bytes.count {
      if bytes[index] == UInt8(ascii: ":") { return index }
      guard URLByteClass.of(bytes[index]) & URLByteClass.scheme != 0 else { return nil }
      index += 1
    }
    return nil
  }

  static func scheme(_ bytes: Span<UInt8>, end: Int) throws(URLRefusal) -> URLScheme {
    // Letters only differ in bit 5 from their lower case; no other scheme byte maps onto `h`, `t`, `p` or `s` by it.
    if end == 4 || end == 5, bytes[0] | 0x20 == UInt8(ascii: "h"), bytes[1] | 0x20 == UInt8(ascii: "t"),
      bytes[2] | 0x20 == UInt8(ascii: "t"), bytes[3] | 0x20 == UInt8(ascii: "p")
    {
      if end == 4 { return .http }
      if bytes[4] | 0x20 == UInt8(ascii: "s") { return .https }
    }
    throw URLRefusal.unsupportedScheme((bytes.text(0..<min(end, 32)) ?? "").lowercased())
  }

  /// Reads everything after the colon of the scheme: `//authority path ?query #fragment`.
  static func readHierarchy(
    _ bytes: Span<UInt8>, _ scheme: URLScheme, from start: Int, removingDots: Bool
  ) throws(URLRefusal) -> ParsedURL {
    guard start + 1 < bytes.count, bytes[start] == UInt8(ascii: "/"), bytes[start + 1] == UInt8(ascii: "/") else {
      throw URLRefusal.missingAuthority
    }
    let authorityEnd = endOfAuthority(bytes, from: start + 2)
    let (origin, userinfo) = try readAuthority(bytes, start + 2..<authorityEnd, scheme)
    let fragmentStart = bytes.firstIndex(of: UInt8(ascii: "#"), in: authorityEnd..<bytes.count) ?? bytes.count
    let pathEnd = bytes.firstIndex(of: UInt8(ascii: "?"), in: authorityEnd..<fragmentStart) ?? fragmentStart
    let fragment = try readFragment(bytes, from: fragmentStart)

    if !removingDots, pathEnd > authorityEnd, let target = try plainText(bytes, authorityEnd..<fragmentStart) {
      let url = ParsedURL(
        origin: origin, userinfo: userinfo, target: target, pathLength: pathEnd - authorityEnd, fragment: fragment)
      // The name of a host may be longer than it was written.
      try checkLength(of: url)
      return url
    }
    var target: [UInt8] = []
    target.reserveCapacity(fragmentStart - authorityEnd + 1)
    try appendEncoded(bytes, authorityEnd..<pathEnd, to: &target)
    if removingDots { target = DotSegments.removed(from: target) }
    if target.isEmpty { target.append(UInt8(ascii: "/")) }
    let pathLength = target.count
    try appendEncoded(bytes, pathEnd..<fragmentStart, to: &target)
    let url = ParsedURL(
      origin: origin, userinfo: userinfo, target: String(decoding: target, as: UTF8.self), pathLength: pathLength,
      fragment: fragment)
    try checkLength(of: url)
    return url
  }

  /// What is requested can be read again as it is written.
  static func checkLength(of url: ParsedURL) throws(URLRefusal) {
    try checkLength(url.scheme.text.utf8.count + 3 + url.authority.utf8.count + url.target.utf8.count)
  }

  private static func endOfAuthority(_ bytes: Span<UInt8>, from start: Int) -> Int {
    var index = start
    while index < bytes.count {
      switch bytes[index] {
      case UInt8(ascii: "/"), UInt8(ascii: "?"), UInt8(ascii: "#"): return index
      default: index += 1
      }
    }
    return index
  }

  /// The fragment that begins with the `#` at `start`, or `nil` at the end of the text.
  static func readFragment(_ bytes: Span<UInt8>, from start: Int) throws(URLRefusal) -> String? {
    guard start < bytes.count else { return nil }
    return try encodedText(bytes, start + 1..<bytes.count)
  }

  /// The bytes of `range` as a string if none of them has to be encoded.
  static func plainText(_ bytes: Span<UInt8>, _ range: Range<Int>) throws(URLRefusal) -> String? {
    var index = range.lowerBound
    while index < range.upperBound {
      if URLByteClass.of(bytes[index]) & URLByteClass.target == 0 { return nil }
      index += 1
    }
    return bytes.text(range)
  }

  static func encodedText(_ bytes: Span<UInt8>, _ range: Range<Int>) throws(URLRefusal) -> String {
    if let text = try plainText(bytes, range) { return text }
    var encoded: [UInt8] = []
    try appendEncoded(bytes, range, to: &encoded)
    return String(decoding: encoded, as: UTF8.self)
  }

  /// Appends a part of a path, query or fragment, percent-encoding what may not stand there.
  static func appendEncoded(
    _ bytes: Span<UInt8>, _ range: Range<Int>, to target: inout [UInt8]
  ) throws(URLRefusal) {
    var index = range.lowerBound
    while index < range.upperBound {
      let byte = bytes[index]
      let kind = URLByteClass.of(byte)
      if kind & URLByteClass.target != 0 {
        target.append(byte)
      } else if kind & URLByteClass.control != 0 {
        throw URLRefusal.control(byte, offset: index)
      } else {
        PercentCoding.append(byte, to: &target)
      }
      index += 1
    }
  }
}
