/// The one rule for what may follow a request to another origin.
package enum OriginRule {
  /// Which fields of a request must not be sent any more.
  package struct Strip: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8

    @inlinable
    package init(rawValue: UInt8) {
      self.rawValue = rawValue
    }

    /// `[]` and the like. The general form is not specialised across modules: `[]` alone took 765 instructions of every request.
    @inlinable
    package init(arrayLiteral elements: Strip...) {
      var bits: UInt8 = 0
      for element in elements { bits |= element.rawValue }
      self.init(rawValue: bits)
    }

    /// The origin changed: credentials, keys in fields that carry them by custom, and whatever the caller marked sensitive.
    package static let sensitive = Strip(rawValue: 1)
    /// The body was dropped: the fields that describe it (RFC 9110 section 15.4, urllib3 CVE-2023-45803).
    package static let content = Strip(rawValue: 2)
    /// The origin changed: fields that name the old target. A `Host` of the caller's is one of the servers at the first origin, which a redirect
    /// to a mere path means as well (Go 22233); elsewhere, and from there on, it is made from the URL (curl CVE-2026-6276).
    package static let target = Strip(rawValue: 4)
    /// The whole is wanted after all: the fields that ask for a part of it.
    package static let range = Strip(rawValue: 8)
  }

  /// Whether the two URLs have the same scheme, host and port (curl CVE-2022-27774: a port or scheme is enough to differ).
  package static func isSame(_ left: ParsedURL, _ right: ParsedURL) -> Bool {
    left.origin == right.origin
  }

  /// Whether a field has to go.
  ///
  /// - Parameter isMarkedSensitive: the caller said that the field is a secret, whatever its name; asked only if that matters.
  package static func strips(
    _ name: String, _ strip: Strip, isMarkedSensitive: @autoclosure () -> Bool = false
  ) -> Bool {
    // The first request of every chain ends here, for every field.
    guard !strip.isEmpty else { return false }
    let lower = name.lowercased()
    if strip.contains(.sensitive), isSensitive(lowercased: lower) || isMarkedSensitive() { return true }
    if strip.contains(.content), describesContent(lowercased: lower) { return true }
    if strip.contains(.range), lower == "range" || lower == "if-range" { return true }
    return strip.contains(.target) && lower == "host"
  }

  private static func isSensitive(lowercased name: String) -> Bool {
    switch name {
    case "www-authenticate", "origin": true
    default: isCredential(lowercased: name) || isForProxy(lowercased: name)
    }
  }

  /// Whether a field is for the next proxy, and for no origin (RFC 9110 section 11.7.2).
  package static func isForProxy(lowercased name: String) -> Bool { name.hasPrefix("proxy-") }

  /// Whether a field says who is asking.
  package static func isCredential(lowercased name: String) -> Bool {
    switch name {
    case "authorization", "proxy-authorization", "cookie", "cookie2": true
    default: APIKeyField.isOne(lowercased: name)
    }
  }

  private static func describesContent(lowercased name: String) -> Bool {
    switch name {
    case "transfer-encoding", "trailer", "expect", "digest", "repr-digest", "last-modified": true
    default: name.hasPrefix("content-")
    }
  }

  /// What `Referer` may say of `previous` in a request to `next`: all but userinfo and fragment to the same origin, the origin to another
  /// one, nothing from https to http. Made anew for every hop (curl CVE-2021-22876, CVE-2026-9546).
  package static func referrer(leaving previous: ParsedURL, entering next: ParsedURL) -> String? {
    if isSame(previous, next) { return previous.requestString }
    if previous.scheme == .https, next.scheme == .http { return nil }
    return previous.origin.serialized + "/"
  }

  /// What a `Referer` that the caller has given may say in a request to `next`: all but userinfo and fragment (RFC 9110 section 10.1.3) where the
  /// caller has named the target or its origin has; from the first redirect to another origin on, what `referrer(leaving:entering:)` leaves of it.
  ///
  /// - Parameter crossed: whether a redirect has led to another origin.
  /// - Returns: nil: there may be none. A value that is no whole URL is none of another origin's business, and says nothing there.
  package static func referrer(given value: String, entering next: ParsedURL, crossed: Bool) -> String? {
    guard crossed else { return withoutUserAndFragment(value) }
    guard let page = try? URLReader.read(value) else { return nil }
    return referrer(leaving: page, entering: next)
  }

  /// As it is written otherwise: it need not be a URL that can be fetched.
  private static func withoutUserAndFragment(_ value: String) -> String {
    let bytes = value.utf8
    guard bytes.contains(where: { $0 == UInt8(ascii: "#") || $0 == UInt8(ascii: "@") }) else { return value }
    let end = bytes.firstIndex(of: UInt8(ascii: "#")) ?? bytes.endIndex
    let isPathOrQuery: (UInt8) -> Bool = { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") }
    // The authority is behind the first "//", before which there is nothing but a scheme.
    guard let slash = bytes[..<end].firstIndex(where: isPathOrQuery), bytes[slash..<end].starts(with: "//".utf8),
      slash == bytes.startIndex || bytes[bytes.index(before: slash)] == UInt8(ascii: ":")
    else { return String(value[..<end]) }
    let start = bytes.index(slash, offsetBy: 2)
    let stop = bytes[start..<end].firstIndex(where: isPathOrQuery) ?? end
    guard let at = bytes[start..<stop].lastIndex(of: UInt8(ascii: "@")) else { return String(value[..<end]) }
    return String(value[..<start]) + String(value[bytes.index(after: at)..<end])
  }
}
