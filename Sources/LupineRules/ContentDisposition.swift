/// The value of `Content-Disposition` (RFC 6266).
package struct ContentDisposition: Hashable, Sendable {
  /// Lower-cased: `attachment`, `inline`, `form-data`.
  package let type: String
  /// The file name as a single safe path component: `filename*` if it is well-formed, else `filename`.
  package let fileName: String?

  /// Reads a field value; `nil` unless it begins with a token.
  package init?(_ text: String) {
    let bytes = FieldScanner.trimmed(text[...].utf8)
    let type = bytes.prefix(while: FieldScanner.isToken)
    let rest = bytes.dropFirst(type.count).drop(while: FieldScanner.isBlank)
    guard !type.isEmpty, rest.isEmpty || rest.first == UInt8(ascii: ";") else { return nil }
    self.type = String(decoding: type, as: UTF8.self).lowercased()
    let list = ParameterList(rest)
    let extended = list["filename*"].flatMap(ExtendedValue.decode).flatMap(SafeFileName.component)
    fileName = extended ?? list["filename"].flatMap(SafeFileName.component)
  }
}

/// File names that a peer suggests.
package enum SafeFileName {
  /// Bytes of a component on every file system of Linux.
  package static let maximumLength = 255

  /// The last component of `name` without control, invisible and bidirectional-control characters, without leading dots and spaces, without
  /// trailing dots and spaces, cut to 255 bytes with its extension kept; `nil` if nothing is left.
  ///
  /// Both slashes separate, because some senders give Windows paths.
  package static func component(_ name: String) -> String? {
    let scalars = name.unicodeScalars
    let start = scalars.lastIndex { $0 == "/" || $0 == "\\" }.map { scalars.index(after: $0) } ?? scalars.startIndex
    var kept = scalars[start...].filter(isVisible)[...]
    while let first = kept.first, first == "." || first.properties.isWhitespace { kept.removeFirst() }
    trimEnd(&kept)
    guard !kept.isEmpty else { return nil }
    return String(shortened(kept))
  }

  /// The component that the last segment of a URL's path names, without its percent-encoding (RFC 3986 section 2.1). A segment that is no text then, or more than one
  /// component, keeps it.
  package static func name(ofSegment segment: String) -> String? {
    guard let decoded = PercentCoding.decode(segment.utf8),
      !decoded.unicodeScalars.contains(where: { $0 == "/" || $0 == "\\" })
    else { return component(segment) }
    return component(decoded)
  }

  private static func isVisible(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.properties.generalCategory {
    case .control, .format, .surrogate, .lineSeparator, .paragraphSeparator: false
    default: !scalar.properties.isDefaultIgnorableCodePoint && scalar.value != 0xFFFD
    }
  }

  private static func trimEnd(_ scalars: inout Substring.UnicodeScalarView) {
    while let last = scalars.last, last == "." || last.properties.isWhitespace { scalars.removeLast() }
  }

  private static func shortened(
    _ scalars: Substring.UnicodeScalarView
  ) -> Substring.UnicodeScalarView {
    guard length(scalars) > maximumLength else { return scalars }
    var ending = Substring.UnicodeScalarView()
    if let dot = scalars.lastIndex(of: "."), dot > scalars.startIndex, length(scalars[dot...]) <= 32 {
      ending = scalars[dot...]
    }
    var room = maximumLength - length(ending)
    var result = Substring.UnicodeScalarView()
    for scalar in scalars {
      room -= UTF8.width(scalar)
      guard room >= 0 else { break }
      result.append(scalar)
    }
    // Where the cut is may be the inside of a run of blanks.
    if ending.isEmpty { trimEnd(&result) }
    result.append(contentsOf: ending)
    return result
  }

  private static func length(_ scalars: Substring.UnicodeScalarView) -> Int {
    scalars.reduce(0) { $0 + UTF8.width($1) }
  }
}
