internal import LupineBase
package import LupineWire

/// On what terms a stored response may be used again: everything that its fields say of it, worked out once.
package struct CacheTerms: Hashable, Sendable {
  /// Seconds from the origin's sending on (RFC 9111 section 4.2.1).
  package let lifetime: Int64
  /// Whether the lifetime is our guess (RFC 9111 section 4.2.2).
  package let isHeuristic: Bool
  /// The age when it arrived (RFC 9111 section 4.2.3).
  package let initialAge: Int64
  /// When it arrived, in seconds of the wall clock.
  package let responseTime: Int64
  /// Not to be used without asking, fresh or not.
  package let noCache: Bool
  /// Not to be used stale.
  package let mustRevalidate: Bool
  package let staleWhileRevalidate: Int64
  package let staleIfError: Int64?
  /// Whether it may answer somebody else than the one it was made for; see `StorageRule.isBound`.
  package let isShareable: Bool
  package let entityTag: String?
  package let lastModified: String?

  /// A guess is a tenth of the time since the last change, and at most this: a day.
  package static let heuristicLimit: Int64 = 86_400

  /// - Parameters:
  ///   - requestTime: when the request was made, in seconds of the wall clock.
  ///   - responseTime: when the head arrived.
  package init(_ head: ResponseHead, requestTime: Int64, responseTime: Int64) {
    let fields = head.fields
    let directives = CacheDirectives(fields.values(named: "cache-control"))
    let now = HTTPDate(seconds: responseTime)
    let date = Self.date(fields, "date", now)?.seconds
    self.responseTime = responseTime
    noCache = directives.noCache || Self.isPragmaNoCache(fields)
    mustRevalidate = directives.mustRevalidate
    staleWhileRevalidate = directives.staleWhileRevalidate ?? 0
    staleIfError = directives.staleIfError
    isShareable = !directives.isPrivate && (directives.isPublic || directives.hasSharedAge)
    entityTag = Self.entityTag(fields)
    lastModified = Self.date(fields, "last-modified", now) == nil ? nil : Self.single(fields, "last-modified")
    initialAge = Self.initialAge(fields, date: date, requestTime: requestTime, responseTime: responseTime)
    if let explicit = Self.explicitLifetime(fields, directives, date: date ?? responseTime, now) {
      lifetime = explicit
      isHeuristic = false
    } else if StorageRule.isHeuristicallyCacheable(head.status) || directives.isPublic,
      let changed = Self.date(fields, "last-modified", now)?.seconds
    {
      lifetime = min(max(0, (date ?? responseTime) - changed) / 10, Self.heuristicLimit)
      isHeuristic = true
    } else {
      lifetime = 0
      isHeuristic = false
    }
  }

  /// `Pragma: no-cache` means nothing in a response (RFC 9111 section 5.4); but who sends it, and no `Cache-Control`, means what browsers take it for.
  private static func isPragmaNoCache(_ fields: FieldSection) -> Bool {
    fields.firstIndex(named: "cache-control") == nil && CacheDirectives(fields.values(named: "pragma")).noCache
  }

  private static func explicitLifetime(
    _ fields: FieldSection, _ directives: CacheDirectives, date: Int64, _ now: HTTPDate
  ) -> Int64? {
    if let age = directives.maximumAge { return age }
    let expires = fields.values(named: "expires")
    guard let first = expires.first else { return nil }
    // RFC 9111 section 5.3: what is no date, above all "0", lies in the past; so do dates that differ.
    guard expires.allSatisfy({ $0.hasBytes(of: first) }), let end = HTTPDate(first, now: now) else { return 0 }
    return max(0, end.seconds - date)
  }

  private static func initialAge(
    _ fields: FieldSection, date: Int64?, requestTime: Int64, responseTime: Int64
  ) -> Int64 {
    let apparent = max(0, responseTime - (date ?? responseTime))
    let delay = max(0, responseTime - requestTime)
    // RFC 9111 section 5.1: the first of several; what is no number is no age.
    let stated = fields.first(named: "age").flatMap { text -> Int64? in
      let digits = FieldScanner.trimmed(text.utf8.prefix { $0 != UInt8(ascii: ",") })
      guard !digits.isEmpty, digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
      return min(FieldScanner.number(digits) ?? CacheDirectives.endless, CacheDirectives.endless)
    }
    return max(apparent, (stated ?? 0) + delay)
  }

  private static func single(_ fields: FieldSection, _ name: String) -> String? {
    let values = fields.values(named: name)
    return values.count == 1 ? values[0] : nil
  }

  private static func date(_ fields: FieldSection, _ name: String, _ now: HTTPDate) -> HTTPDate? {
    single(fields, name).flatMap { HTTPDate($0, now: now) }
  }

  /// The entity tag of a response; nil without one, and if it is no validator: there twice, none by its form, or not in UTF-8. Fields are
  /// written in UTF-8, so that such a one would go back as other bytes, and the server has to compare bytes (RFC 9110 section 8.8.3).
  static func entityTag(_ fields: FieldSection) -> String? {
    guard let index = fields.firstIndex(named: "etag"), fields.firstIndex(named: "etag", from: index + 1) == nil else {
      return nil
    }
    let tag = fields.value(at: index)
    return isEntityTag(tag) && tag.utf8.count == fields.valueBytes(at: index).count ? tag : nil
  }

  static func isWeak(_ tag: String) -> Bool { tag.utf8.starts(with: "W/".utf8) }

  /// RFC 9110 section 8.8.3: anything else would not be understood when it comes back.
  private static func isEntityTag(_ text: String) -> Bool {
    let bytes = text.utf8.dropFirst(isWeak(text) ? 2 : 0)
    guard bytes.count >= 2, bytes.first == 0x22, bytes.last == 0x22 else { return false }
    return bytes.dropFirst().dropLast().allSatisfy { $0 > 0x20 && $0 != 0x22 && $0 != 0x7F }
  }

  /// The age now (RFC 9111 section 4.2.3). A clock that was set back makes nothing younger than it came.
  package func age(at now: Int64) -> Int64 {
    let (age, overflow) = initialAge.addingReportingOverflow(max(0, now - responseTime))
    return overflow ? CacheDirectives.endless : min(age, CacheDirectives.endless)
  }

  /// Whether a server can be asked about it.
  package var hasValidator: Bool { entityTag != nil || lastModified != nil }

  /// The fields of the question whether it still holds (RFC 9111 section 4.3.1).
  package var conditions: [(name: String, value: String)] {
    var fields: [(name: String, value: String)] = []
    if let entityTag { fields.append(("If-None-Match", entityTag)) }
    if let lastModified { fields.append(("If-Modified-Since", lastModified)) }
    return fields
  }
}
