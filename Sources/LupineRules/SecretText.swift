/// What of a message must not be shown: one rule for archives, commands and logs.
package enum SecretText {
  /// Stands in the place of a secret.
  package static let mark = "[redacted]"

  /// A field's value without its secrets: the scheme of credentials, the names of cookies and their attributes stay. Of keys that have a field of their own
  /// by custom (`APIKeyField`) nothing does.
  ///
  /// - Parameter isSensitive: the caller said that the field is a secret, whatever its name.
  package static func redacted(field name: String, value: String, isSensitive: Bool = false) -> String {
    let lower = name.lowercased()
    return switch lower {
    case "authorization", "proxy-authorization": credentials(value)
    case "cookie", "cookie2":
      value.utf8.split(separator: UInt8(ascii: ";")).map { cookie(Substring($0)) }.joined(separator: "; ")
    case "set-cookie", "set-cookie2": setCookie(value)
    case _ where isSensitive || APIKeyField.isOne(lowercased: lower): mark
    case "link": redacted(links: value)
    case "location", "content-location", "referer", "refresh", "origin": redacted(url: value)
    // Of HTTP/2, as browsers list it in their archives: the URL a second time, and no authority in it.
    case ":path": redactedParameters(of: value)
    default: value
    }
  }

  /// The scheme, if there is one, and nothing else.
  private static func credentials(_ value: String) -> String {
    guard let space = value.utf8.firstIndex(of: UInt8(ascii: " ")), space != value.startIndex else { return mark }
    let scheme = value[..<space]
    let isToken = scheme.utf8.allSatisfy { byte in
      UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte | 0x20 || UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte
        || byte == UInt8(ascii: "-")
    }
    return isToken ? "\(scheme) \(mark)" : mark
  }

  private static func cookie(_ pair: Substring) -> String {
    let text = pair.utf8.drop { $0 == UInt8(ascii: " ") }
    guard let equals = text.firstIndex(of: UInt8(ascii: "=")) else { return mark }
    return "\(Substring(text[..<equals]))=\(mark)"
  }

  /// Each line on its own: browsers' archives join the values of several fields with line feeds.
  private static func setCookie(_ value: String) -> String {
    value.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map { line -> String in
      let end = line.firstIndex(of: UInt8(ascii: ";")) ?? line.endIndex
      return "\(cookie(Substring(line[..<end])))\(Substring(line[end...]))"
    }.joined(separator: "\n")
  }

  /// Each URL of a `Link` field on its own (RFC 8288 section 3): in angle brackets, and in the quotes of parameters such as `anchor`.
  private static func redacted(links value: String) -> String {
    let text = value.utf8
    var redacted = ""
    var start = text.startIndex
    /// What ends the part that begins at `start`; nil between URLs.
    var closing: UInt8?
    var index = text.startIndex
    func part(_ end: String.Index) -> String { Self.redacted(url: String(value[start..<end])) }
    while index < text.endIndex {
      let byte = text[index]
      let opened: UInt8? =
        switch byte {
        case UInt8(ascii: "<"): UInt8(ascii: ">")
        case UInt8(ascii: "\""): byte
        default: nil
        }
      if closing == nil ? opened != nil : closing == byte {
        redacted += part(index)
        start = index
        closing = closing == nil ? opened : nil
      }
      index = text.index(after: index)
    }
    return redacted + part(text.endIndex)
  }

  /// A URL or reference without userinfo, and without the values of parameters that carry credentials, in its query (RFC 6750 section 2.3,
  /// signed URLs of storage services) and in its fragment, by which answers of OAuth come (RFC 6749 section 4.2.2).
  package static func redacted(url: String) -> String { redactedParameters(of: withoutUserinfo(url)) }

  private static func redactedParameters(of text: String) -> String {
    let bytes = text.utf8
    guard let start = bytes.firstIndex(where: { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") }) else {
      return text
    }
    let fragment = bytes[start...].firstIndex(of: UInt8(ascii: "#")) ?? bytes.endIndex
    return
      "\(text[..<start])\(redacted(parameters: bytes[start..<fragment]))\(redacted(parameters: bytes[fragment...]))"
  }

  /// - Parameter text: with the mark that begins it; empty if there is none.
  private static func redacted(parameters text: Substring.UTF8View) -> String {
    let parts = text.split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: false)
    return parts.map { redacted(parameter: $0) }.joined(separator: "&")
  }

  /// All behind the name of a secret is its value, with whatever marks are in it. Behind another value a name may follow: some servers part parameters
  /// with semicolons too, and a fragment may be a path of its own, with a query and a fragment.
  private static func redacted(parameter text: Substring.UTF8View) -> Substring {
    var rest = text
    while let equals = rest.firstIndex(of: UInt8(ascii: "=")), rest.index(after: equals) != rest.endIndex {
      let mark = rest[..<equals].lastIndex { "?#/!;".utf8.contains($0) }
      let name = Substring(rest[(mark.map { rest.index(after: $0) } ?? rest.startIndex)..<equals])
      if isSecret(name) { return "\(Substring(text[..<equals]))=REDACTED" }
      guard let next = rest[equals...].firstIndex(where: { "?#;".utf8.contains($0) }) else { break }
      rest = rest[next...]
    }
    return Substring(text)
  }

  private static func isSecret(_ name: Substring) -> Bool {
    switch PercentCoding.decodedBytes(name.utf8).smallToken {
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
