extension URLReader {
  /// Resolves a reference against a base (RFC 3986 section 5.2, strict: a scheme in the reference is never ignored).
  ///
  /// Userinfo of the base goes with its authority, as the RFC says. The fragment is the reference's alone; inheriting one
  /// (RFC 9110 section 10.2.2) is the redirect rule's work.
  package static func resolve(_ reference: String, against base: ParsedURL) throws(URLRefusal) -> ParsedURL {
    try resolve(reference.utf8.span, against: base)
  }

  /// Resolves a reference of any bytes, those of a `Location` field for example.
  package static func resolve(_ reference: Span<UInt8>, against base: ParsedURL) throws(URLRefusal) -> ParsedURL {
    try checkLength(reference.count)
    if let end = schemeEnd(reference) {
      return try readHierarchy(reference, try scheme(reference, end: end), from: end + 1, removingDots: true)
    }
    let slash = UInt8(ascii: "/")
    if reference.count >= 2, reference[0] == slash, reference[1] == slash {
      return try readHierarchy(reference, base.scheme, from: 0, removingDots: true)
    }
    let fragmentStart = reference.firstIndex(of: UInt8(ascii: "#"), in: 0..<reference.count) ?? reference.count
    let pathEnd = reference.firstIndex(of: UInt8(ascii: "?"), in: 0..<fragmentStart) ?? fragmentStart
    let fragment = try readFragment(reference, from: fragmentStart)

    var target: [UInt8] = []
    target.reserveCapacity(base.target.utf8.count + reference.count)
    if pathEnd == 0 {
      target.append(contentsOf: fragmentStart == 0 ? base.target.utf8 : base.path.utf8)
    } else {
      if reference[0] != slash {
        // Byte by byte, and not by way of the path as a text of its own: a client's paths are resolved for each of its requests.
        let former = base.target
        let bytes = former.utf8.span
        var end = base.pathLength
        while end > 1, bytes[end - 1] != slash { end -= 1 }
        for index in 0..<end { target.append(bytes[index]) }
      }
      try appendEncoded(reference, 0..<pathEnd, to: &target)
      target = DotSegments.removed(from: target)
    }
    let pathLength = target.firstIndex(of: UInt8(ascii: "?")) ?? target.count
    try appendEncoded(reference, pathEnd..<fragmentStart, to: &target)
    let url = base.replacing(
      target: String(decoding: target, as: UTF8.self), pathLength: pathLength, fragment: fragment)
    try checkLength(of: url)
    return url
  }
}

/// RFC 3986 section 5.2.4 in one pass: every byte is written once and taken back at most once, so the work is linear
/// in the length of the path (Go CVE-2025-61724 and CVE-2026-56860 were not).
enum DotSegments {
  /// The path without its `.` and `..` segments; a path that begins with `/` still does.
  static func removed(from path: [UInt8]) -> [UInt8] {
    let slash = UInt8(ascii: "/")
    guard path.first == slash, hasDots(path) else { return path }
    var output: [UInt8] = []
    output.reserveCapacity(path.count)
    var start = 0
    while start < path.count {
      // `start` is at a slash; the segment runs to the next one.
      var end = start + 1
      while end < path.count, path[end] != slash { end += 1 }
      let isLast = end == path.count
      switch dots(path, start + 1..<end) {
      case 1:
        if isLast { output.append(slash) }
      case 2:
        while let byte = output.popLast(), byte != slash {}
        if isLast { output.append(slash) }
      default:
        output.append(contentsOf: path[start..<end])
      }
      start = end
    }
    return output.isEmpty ? [slash] : output
  }

  /// Whether a segment begins with a dot; almost none does.
  private static func hasDots(_ path: [UInt8]) -> Bool {
    for index in path.indices.dropLast() where path[index + 1] == UInt8(ascii: ".") && path[index] == UInt8(ascii: "/")
    {
      return true
    }
    return false
  }

  /// 1 for `.`, 2 for `..`, 0 for any other segment.
  private static func dots(_ path: [UInt8], _ range: Range<Int>) -> Int {
    let dot = UInt8(ascii: ".")
    switch range.count {
    case 1: return path[range.lowerBound] == dot ? 1 : 0
    case 2: return path[range.lowerBound] == dot && path[range.lowerBound + 1] == dot ? 2 : 0
    default: return 0
    }
  }
}
