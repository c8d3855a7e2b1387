/// What names one version of a representation strongly enough to put two parts of it together (RFC 9110 section 8.8).
package enum ResumeValidator: Hashable, Sendable {
  /// A strong entity tag, quotes included.
  case entityTag(String)
  /// A date of last change, as the server wrote it, that counts as strong.
  case lastModified(String)

  package static let maximumLength = 4096

  /// How much older than the response a date of last change must be. Section 8.8.2.2 asks for a second and for clocks that agree; nobody
  /// tells us whether they do, and a minute, as RFC 7232 had it, covers what clocks of one site differ by.
  package static let minimumAge: Int64 = 60

  /// Whether it tells versions of other resources apart as well, mostly: a date is that of many.
  package var isEntityTag: Bool { if case .entityTag = self { true } else { false } }

  /// What stands in `If-Range`.
  package var text: String {
    switch self {
    case .entityTag(let text), .lastModified(let text): text
    }
  }

  /// Reads the validators of a response; nil if none is strong. Each list holds the values of every field of that name: a field that is
  /// there twice names nothing.
  package init?(entityTags: [String], lastModified: [String], dates: [String], now: HTTPDate) {
    if !entityTags.isEmpty {
      // A weak tag says that a byte may differ while the tag stays, so that the date is no stronger.
      guard entityTags.count == 1, Self.isStrong(entityTags[0]) else { return nil }
      self = .entityTag(entityTags[0])
      return
    }
    guard lastModified.count == 1, dates.count == 1, let changed = HTTPDate(lastModified[0], now: now),
      let sent = HTTPDate(dates[0], now: now), Self.isOldEnough(changed, sent)
    else { return nil }
    self = .lastModified(lastModified[0])
  }

  /// Reads what a record says; nil if it is no strong entity tag, or no date.
  init?(recordedTag text: String) {
    guard Self.isStrong(text) else { return nil }
    self = .entityTag(text)
  }

  init?(recordedDate text: String) {
    guard HTTPDate(text, now: HTTPDate(seconds: 0)) != nil else { return nil }
    self = .lastModified(text)
  }

  private static func isOldEnough(_ changed: HTTPDate, _ sent: HTTPDate) -> Bool {
    let (age, overflow) = sent.seconds.subtractingReportingOverflow(changed.seconds)
    return !overflow && age >= minimumAge
  }

  /// `DQUOTE *etagc DQUOTE` (section 8.8.3) in ASCII: what lies beyond could come back in another encoding than it went.
  package static func isStrong(_ text: String) -> Bool {
    let bytes = text.utf8
    guard bytes.count >= 2, bytes.count <= maximumLength, bytes.first == UInt8(ascii: "\""),
      bytes.last == UInt8(ascii: "\"")
    else { return false }
    return bytes.dropFirst().dropLast().allSatisfy { $0 == 0x21 || (0x23...0x7E).contains($0) }
  }
}
