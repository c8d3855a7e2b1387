internal import LupineBase

/// A cookie as it is kept.
package struct CookieRecord: Hashable, Sendable {
  /// May be empty; then only the value is sent.
  package var name: String
  package var value: String
  /// A host in its one spelling, without a leading dot.
  package var domain: String
  /// Sent to that host only, not to the names below it.
  package var isHostOnly: Bool
  package var path: String
  package var isSecure: Bool
  package var isHTTPOnly: Bool
  package var sameSite: SameSite
  /// nil: with the session.
  package var expiry: HTTPDate?
  package var created: HTTPDate

  package init(
    name: String, value: String, domain: String, isHostOnly: Bool = true, path: String = "/", isSecure: Bool = false,
    isHTTPOnly: Bool = false, sameSite: SameSite = .unspecified, expiry: HTTPDate? = nil, created: HTTPDate
  ) {
    self.name = name
    self.value = value
    self.domain = domain
    self.isHostOnly = isHostOnly
    self.path = path
    self.isSecure = isSecure
    self.isHTTPOnly = isHTTPOnly
    self.sameSite = sameSite
    self.expiry = expiry
    self.created = created
  }

  /// Whether its time is over. Exactly at its expiry it is.
  package func isExpired(_ now: HTTPDate) -> Bool {
    expiry.map { $0 <= now } ?? false
  }

  /// Whether the two are one cookie, of which the newer one stays.
  func isSameCookie(_ other: CookieRecord) -> Bool {
    hasSameName(as: other) && domain == other.domain && path.hasBytes(of: other.path) && isHostOnly == other.isHostOnly
  }

  /// Byte by byte (RFC 6265bis section 5.7).
  func hasSameName(as other: CookieRecord) -> Bool { name.hasBytes(of: other.name) }

  /// Whether servers take one for the other: by their names, or by what is sent in the place of one, which of a cookie without a name is up to its value
  /// (`=name=value`).
  func isSentLike(_ other: CookieRecord) -> Bool {
    hasSameName(as: other) || sentName.elementsEqual(other.sentName)
  }

  /// What stands before the first `=` of the pair, or all of it.
  private var sentName: Substring.UTF8View {
    name.isEmpty ? FieldScanner.trimmed(value.utf8.prefix { $0 != UInt8(ascii: "=") }) : name.utf8[...]
  }

  /// As it stands in a `Cookie` field.
  package var pair: String {
    name.isEmpty ? value : "\(name)=\(value)"
  }
}

/// The request that cookies are for, or the one whose response sets them.
package struct CookieContext: Sendable {
  package var url: ParsedURL
  /// The document that the request is made for; nil: the request is one of its own, hence same-site.
  package var mainDocument: ParsedURL?

  package init(url: ParsedURL, mainDocument: ParsedURL? = nil) {
    self.url = url
    self.mainDocument = mainDocument
  }

  /// Only https is secure, loopback or not.
  var isSecure: Bool { url.scheme == .https }

  /// RFC 6265bis section 5.2: equal schemes and registrable domains.
  func isSameSite(_ suffixes: PublicSuffixList) -> Bool {
    guard let mainDocument else { return true }
    return mainDocument.scheme == url.scheme && isFirstParty(suffixes)
  }

  /// Equal registrable domains.
  func isFirstParty(_ suffixes: PublicSuffixList) -> Bool {
    guard let mainDocument else { return true }
    if mainDocument.host.text == url.host.text { return true }
    guard let domain = suffixes.registrableDomain(of: url.host) else { return false }
    return domain == suffixes.registrableDomain(of: mainDocument.host)
  }
}

/// Whose cookies are accepted.
package enum CookieAcceptance: Hashable, Sendable {
  case always
  case never
  /// Not those of another registrable domain than the main document's.
  case onlyFromMainDocumentDomain
}

// What a cookie must be to be kept at all (RFC 6265bis section 5.7), whoever gives it.
extension CookieRecord {
  /// Bytes of a path.
  package static let pathLimit = SetCookieReader.attributeLimit

  /// The cookie that a response sets, if the response may set it; what depends on other cookies is the store's to say.
  package init(
    _ setCookie: SetCookie, from context: CookieContext, suffixes: PublicSuffixList, now: HTTPDate
  ) throws(CookieRefusal) {
    let host = context.url.host
    // The zone is part of who the host is, but has no place in a domain.
    guard host.zone == nil else { throw CookieRefusal.invalidDomain }
    let path = setCookie.path ?? CookieMatch.defaultPath(of: context.url.path)
    self.init(
      name: setCookie.name, value: setCookie.value, domain: host.text, path: path, isSecure: setCookie.isSecure,
      isHTTPOnly: setCookie.isHTTPOnly, sameSite: setCookie.sameSite, expiry: setCookie.expiry, created: now)
    if let text = setCookie.domain {
      let domain = try CookieMatch.canonicalDomain(text)
      if domain.text == host.text {
        // A suffix or address that names itself sets a cookie for itself only.
        isHostOnly = domain.isAddress || suffixes.isPublic(domain)
      } else {
        guard !suffixes.isPublic(domain) else { throw CookieRefusal.publicSuffix(domain.text) }
        guard CookieMatch.domain(host, isWithin: domain.text) else { throw CookieRefusal.foreignDomain }
        // A suffix between the two (`s3.amazonaws.com`) parts them, though the domain above it is somebody's own: the cookie would be one for
        // everybody below it, and belong to another bucket than its host's.
        guard suffixes.registrableDomain(of: domain) == suffixes.registrableDomain(of: host) else {
          throw CookieRefusal.publicSuffix(domain.text)
        }
        self.domain = domain.text
        isHostOnly = false
      }
    }
    if isSecure, !context.isSecure { throw CookieRefusal.secureOverHTTP }
    if sameSite != .none, !context.isSameSite(suffixes) { throw CookieRefusal.crossSite }
    // `__Host-` wants the attribute, not a default that happens to be the same.
    try check(namesPath: setCookie.path != nil)
  }

  /// Checks what holds for every cookie.
  ///
  /// - Parameter namesPath: whether the path was said, not taken from the URL.
  func check(namesPath: Bool) throws(CookieRefusal) {
    let length = path.utf8.count
    guard length <= Self.pathLimit else { throw CookieRefusal.pathTooLong(count: length, limit: Self.pathLimit) }
    if sameSite == .none, !isSecure { throw CookieRefusal.insecureSameSiteNone }
    if name.isEmpty {
      if Self.begins(value, "__secure-") || Self.begins(value, "__host-") { throw CookieRefusal.hiddenPrefix }
    } else if Self.begins(name, "__secure-") {
      guard isSecure else { throw CookieRefusal.securePrefix }
    } else if Self.begins(name, "__host-") {
      guard isSecure, isHostOnly, namesPath, path == "/" else { throw CookieRefusal.hostPrefix }
    }
  }

  /// The same cookie as the store may keep it, when a caller or a file gives it: domain in its one spelling, expiry capped.
  package func validated(suffixes: PublicSuffixList, now: HTTPDate) throws(CookieRefusal) -> CookieRecord {
    var record = self
    let count = name.utf8.count + value.utf8.count
    guard count > 0 else { throw CookieRefusal.empty }
    guard count <= SetCookieReader.pairLimit else {
      throw CookieRefusal.tooLong(count: count, limit: SetCookieReader.pairLimit)
    }
    for text in [name, value, path] {
      let bytes = text.utf8.span
      try SetCookieReader.refuseControls(bytes)
      guard SetCookieReader.trimmed(bytes, 0..<bytes.count) == 0..<bytes.count else { throw CookieRefusal.ambiguous }
    }
    // A path is never sent, and that of a URL, which is the default, may have semicolons.
    guard !Self.has(UInt8(ascii: "="), name), !Self.has(UInt8(ascii: ";"), name), !Self.has(UInt8(ascii: ";"), value)
    else { throw CookieRefusal.ambiguous }
    guard path.utf8.first == UInt8(ascii: "/") else { throw CookieRefusal.invalidPath }
    let host = try CookieMatch.canonicalDomain(domain)
    record.domain = host.text
    if host.isAddress { record.isHostOnly = true }
    if !record.isHostOnly, suffixes.isPublic(host) { throw CookieRefusal.publicSuffix(host.text) }
    record.expiry = expiry.map { SetCookieReader.capped($0, now: now) }
    try record.check(namesPath: true)
    return record
  }

  private static func has(_ byte: UInt8, _ text: String) -> Bool {
    let bytes = text.utf8.span
    return bytes.firstIndex(of: byte, in: 0..<bytes.count) != nil
  }

  private static func begins(_ text: String, _ prefix: String) -> Bool {
    let start = text.utf8.prefix(prefix.utf8.count)
    return start.count == prefix.utf8.count
      && zip(start, prefix.utf8).allSatisfy { $0 == $1 || $0 | 0x20 == $1 && $1 >= 0x61 }
  }
}
