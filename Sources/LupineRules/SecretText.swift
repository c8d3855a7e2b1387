/// What of a message must not be shown: one rule for archives, commands and logs.
package enum SecretText {
  /// Stands in the place of a secret.
  package static let mark = "[redacted]"

  /// A field's value without its secrets: the scheme of credentials, the names of cookies and their attributes stay.
  ///
  /// - Parameter isSensitive: the caller said that the field is a secret, whatever its name.
  package static func redacted(field name: String, value: String, isSensitive: Bool = false) -> String {
    switch name.lowercased() {
    case "authorization", "proxy-authorization": credentials(value)
    case "cookie", "cookie2": value.split(separator: ";").map { cookie($0) }.joined(separator: "; ")
    case "set-cookie", "set-cookie2": setCookie(value)
    case _ where isSensitive: mark
    case "location", "content-location", "referer", "refresh", "link", "origin": redacted(url: value)
    default: value
    }
  }

  /// The scheme, if there is one, and nothing else.
  private static func credentials(_ value: String) -> String {
    guard let space = value.firstIndex(of: " "), space != value.startIndex else { return mark }
    let scheme = value[..<space]
    let isToken = scheme.utf8.allSatisfy { byte in
      UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte | 0x20 || UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte
        || byte == UInt8(ascii: "-")
    }
    return isToken ? "\(scheme) \(mark)" : mark
  }

  private static func cookie(_ pair: Substring) -> String {
    let text = pair.drop { $0 == " " }
    guard let equals = text.firstIndex(of: "=") else { return mark }
    return "\(text[..<equals])=\(mark)"
  }

  private static func setCookie(_ value: String) -> String {
    let parts = value.split(separator: ";", maxSplits: 1, omittingEmptySubsequences: false)
    return cookie(parts[0]) + (parts.count > 1 ? ";\(parts[1])" : "")
  }

  /// A URL or reference without userinfo, and without the values of query parameters that carry credentials (RFC 6750 section 2.3,
  /// signed URLs of storage services).
  package static func redacted(url: String) -> String {
    var text = withoutUserinfo(url)
    guard let mark = text.firstIndex(of: "?") else { return text }
    let start = text.index(after: mark)
    let end = text[start...].firstIndex(of: "#") ?? text.endIndex
    let query = text[start..<end]
    guard query.contains("=") else { return text }
    var changed = false
    let parts = query.split(separator: "&", omittingEmptySubsequences: false).map { part -> String in
      guard let equals = part.firstIndex(of: "="), isSecret(part[..<equals]), part.index(after: equals) != part.endIndex
      else { return String(part) }
      changed = true
      return "\(part[..<equals])=REDACTED"
    }
    if changed { text.replaceSubrange(start..<end, with: parts.joined(separator: "&")) }
    return text
  }

  private static func isSecret(_ name: Substring) -> Bool {
    switch name.lowercased() {
    case "access_token", "refresh_token", "id_token", "client_secret", "password", "api_key", "apikey", "sig",
      "signature", "x-amz-signature", "x-amz-security-token", "x-amz-credential", "x-goog-signature",
      "x-goog-credential":
      true
    default: false
    }
  }

  private static func withoutUserinfo(_ url: String) -> String {
    let bytes = Array(url.utf8)
    guard let slashes = firstDoubleSlash(bytes) else { return url }
    let start = slashes + 2
    let end =
      bytes[start...].firstIndex {
        $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") || $0 == UInt8(ascii: "\\")
      } ?? bytes.count
    guard let at = bytes[start..<end].lastIndex(of: UInt8(ascii: "@")) else { return url }
    return String(decoding: bytes[..<start] + bytes[(at + 1)...], as: UTF8.self)
  }

  private static func firstDoubleSlash(_ bytes: [UInt8]) -> Int? {
    guard bytes.count > 1 else { return nil }
    return (0..<bytes.count - 1).first { bytes[$0] == UInt8(ascii: "/") && bytes[$0 + 1] == UInt8(ascii: "/") }
  }
}
