extension ParsedURL {
  /// The same URL with more in its query: after `&` if it has one, after `?` otherwise. An empty query (`/path?`) is begun, not continued; the
  /// fragment stays behind the query. What may not stand in a query is percent-encoded as `URLReader` does it, `#` too.
  ///
  /// - Throws: `URLRefusal.control`, with an offset into `text`, and `.tooLong` with the length of the path and the whole query.
  package func appendingQuery(_ text: String) throws(URLRefusal) -> ParsedURL {
    guard !text.isEmpty else { return self }
    var target = Array(self.target.utf8)
    let pathLength = path.utf8.count
    try URLReader.checkLength(target.count + text.utf8.count + 1)
    if target.count == pathLength {
      target.append(UInt8(ascii: "?"))
    } else if target.count > pathLength + 1 {
      target.append(UInt8(ascii: "&"))
    }
    let bytes = text.utf8.span
    try URLReader.appendEncoded(bytes, 0..<bytes.count, to: &target)
    let url = ParsedURL(
      origin: origin, userinfo: userinfo, target: String(decoding: target, as: UTF8.self), pathLength: pathLength,
      fragment: fragment)
    try URLReader.checkLength(of: url)
    return url
  }
}
