/// Reads `Set-Cookie` field values (RFC 6265bis section 5.6).
///
/// Lenient as that section is, because servers write what they like: unknown and malformed attributes are skipped. Refused as a whole are only control
/// bytes, pairs without any content or of more than 4,096 bytes, what is no UTF-8 in name, value or the `Path` that counts, and a `Domain` that
/// counts and is not ASCII.
package enum SetCookieReader {
  /// Bytes of name and value together.
  package static let pairLimit = 4096
  /// Bytes of an attribute's value; a longer attribute is skipped.
  package static let attributeLimit = 1024
  /// The longest life of a cookie: 400 days.
  package static let ageLimit: Int64 = 400 * 86_400

  /// Longer than all dates of cookies are apart, for what is only shown.
  package static let anyAge: Int64 = 1 << 40

  /// - Parameter ageLimit: seconds from now, at most `anyAge`.
  package static func read(
    _ text: String, now: HTTPDate, ageLimit: Int64 = Self.ageLimit
  ) throws(CookieRefusal) -> SetCookie {
    try read(text.utf8.span, now: now, ageLimit: ageLimit)
  }

  package static func read(
    _ bytes: Span<UInt8>, now: HTTPDate, ageLimit: Int64 = Self.ageLimit
  ) throws(CookieRefusal) -> SetCookie {
    try refuseControls(bytes)
    let (name, value, pairEnd) = pair(bytes)
    let count = name.count + value.count
    guard count > 0 else { throw CookieRefusal.empty }
    guard count <= pairLimit else { throw CookieRefusal.tooLong(count: count, limit: pairLimit) }
    guard let nameText = bytes.text(name), let valueText = bytes.text(value) else { throw CookieRefusal.notUTF8 }
    var attributes = Attributes(cookie: SetCookie(name: nameText, value: valueText), now: now, ageLimit: ageLimit)
    var index = pairEnd
    while index < bytes.count {
      let start = index + 1
      index = bytes.firstIndex(of: UInt8(ascii: ";"), in: start..<bytes.count) ?? bytes.count
      attributes.take(bytes, start..<index)
    }
    return try attributes.finished()
  }

  /// Name and value of a cookie, whether it is one that is taken or not; attributes behind them are passed over.
  package static func pair(_ text: String) -> (name: String, value: String) {
    let bytes = text.utf8.span
    let (name, value, _) = pair(bytes)
    return (bytes.text(name) ?? "", bytes.text(value) ?? "")
  }

  /// - Returns: also where the attributes begin.
  private static func pair(_ bytes: Span<UInt8>) -> (name: Range<Int>, value: Range<Int>, end: Int) {
    let end = bytes.firstIndex(of: UInt8(ascii: ";"), in: 0..<bytes.count) ?? bytes.count
    // Without "=" the whole is the value of a cookie that has no name.
    let equals = bytes.firstIndex(of: UInt8(ascii: "="), in: 0..<end)
    let name = equals.map { trimmed(bytes, 0..<$0) } ?? 0..<0
    return (name, trimmed(bytes, (equals.map { $0 + 1 } ?? 0)..<end), end)
  }

  /// Refuses control bytes other than tabs.
  static func refuseControls(_ bytes: Span<UInt8>) throws(CookieRefusal) {
    var index = 0
    while index < bytes.count {
      let byte = bytes[index]
      if byte < 0x20 && byte != UInt8(ascii: "\t") || byte == 0x7F { throw CookieRefusal.controlByte(byte) }
      index += 1
    }
  }

  /// Without spaces and tabs at the ends.
  static func trimmed(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Range<Int> {
    var (start, end) = (range.lowerBound, range.upperBound)
    while start < end, FieldScanner.isBlank(bytes[start]) { start += 1 }
    while end > start, FieldScanner.isBlank(bytes[end - 1]) { end -= 1 }
    return start..<end
  }

  /// Collects attributes: of several of one kind the last counts, and `Max-Age` counts before `Expires`.
  private struct Attributes {
    var cookie: SetCookie
    let now: HTTPDate
    let ageLimit: Int64
    var maximumAge: HTTPDate?
    var expires: HTTPDate?
    /// What is wrong with the last `Domain` and the last `Path`. Known for good only at the end: a later one may take its place.
    var domainRefusal: CookieRefusal?
    var pathRefusal: CookieRefusal?

    mutating func take(_ bytes: Span<UInt8>, _ range: Range<Int>) {
      let equals = bytes.firstIndex(of: UInt8(ascii: "="), in: range)
      let name = trimmed(bytes, range.lowerBound..<(equals ?? range.upperBound))
      let value = trimmed(bytes, (equals.map { $0 + 1 } ?? range.upperBound)..<range.upperBound)
      // The longest name that means anything has 8 bytes.
      guard name.count <= 8, value.count <= SetCookieReader.attributeLimit else { return }
      switch bytes.text(name)?.lowercased() {
      case "expires":
        if let date = CookieDate.read(bytes, value) { expires = date }
      case "max-age":
        if let date = end(afterAge: bytes, value) { maximumAge = date }
      case "domain": takeDomain(bytes, value)
      case "path": takePath(bytes, value)
      case "secure": cookie.isSecure = true
      case "httponly": cookie.isHTTPOnly = true
      case "samesite":
        switch value.count <= 6 ? bytes.text(value)?.lowercased() : nil {
        case "none": cookie.sameSite = .none
        case "lax": cookie.sameSite = .lax
        case "strict": cookie.sameSite = .strict
        default: cookie.sameSite = .unspecified
        }
      default: break
      }
    }

    private mutating func takeDomain(_ bytes: Span<UInt8>, _ value: Range<Int>) {
      var value = value
      if !value.isEmpty, bytes[value.lowerBound] == UInt8(ascii: ".") {
        value = value.lowerBound + 1..<value.upperBound
      }
      domainRefusal = value.contains { bytes[$0] >= 0x80 } ? .invalidDomain : nil
      cookie.domain = value.isEmpty ? nil : bytes.text(value)?.lowercased()
    }

    private mutating func takePath(_ bytes: Span<UInt8>, _ value: Range<Int>) {
      let isAbsolute = !value.isEmpty && bytes[value.lowerBound] == UInt8(ascii: "/")
      cookie.path = isAbsolute ? bytes.text(value) : nil
      pathRefusal = isAbsolute && cookie.path == nil ? .notUTF8 : nil
    }

    /// When an age ends; nil if it is no number. Numbers beyond all bounds are the bound (Rust cookie CVE-2017-18589).
    private func end(afterAge bytes: Span<UInt8>, _ value: Range<Int>) -> HTTPDate? {
      guard let first = value.first else { return nil }
      let isNegative = bytes[first] == UInt8(ascii: "-")
      var age: Int64 = 0
      for index in isNegative ? first + 1..<value.upperBound : value {
        guard URLByteClass.of(bytes[index]) & URLByteClass.digit != 0 else { return nil }
        age = min(age * 10 + Int64(bytes[index] - UInt8(ascii: "0")), ageLimit)
      }
      guard !isNegative, age > 0 else { return HTTPDate(seconds: .min) }
      let (end, overflow) = now.seconds.addingReportingOverflow(age)
      return HTTPDate(seconds: overflow ? .max : end)
    }

    func finished() throws(CookieRefusal) -> SetCookie {
      if let refusal = domainRefusal ?? pathRefusal { throw refusal }
      var cookie = cookie
      cookie.expiry = (maximumAge ?? expires).map { SetCookieReader.capped($0, now: now, ageLimit: ageLimit) }
      return cookie
    }
  }

  /// At most 400 days from now, or so many seconds.
  static func capped(_ expiry: HTTPDate, now: HTTPDate, ageLimit: Int64 = Self.ageLimit) -> HTTPDate {
    let (latest, overflow) = now.seconds.addingReportingOverflow(ageLimit)
    return overflow ? expiry : min(expiry, HTTPDate(seconds: latest))
  }
}
