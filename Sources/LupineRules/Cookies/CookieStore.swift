/// The cookies of a user agent (RFC 6265bis section 5.7 and 5.8), and who gets them.
///
/// Cookies are kept in one bucket for each registrable domain, so that neither choosing nor storing looks at the cookies of others.
///
/// Invariants: no bucket is empty; `count` is the number of all cookies, at most `totalLimit`; no bucket has more than `domainLimit`; no two
/// cookies of a bucket are the same cookie; every cookie is in the bucket of its domain.
package struct CookieStore: Sendable {
  /// Cookies of one registrable domain. Of more, expired ones go first, then those that are not `Secure`, then the rest; the least
  /// recently used of them first.
  package static let domainLimit = 180
  /// Cookies in all. Of more, expired ones go, and if there are none, the least recently used down to `roomyTotal`.
  package static let totalLimit = 3_000
  /// Cookies that stay when there were too many.
  package static let roomyTotal = 2_900
  /// Cookies that one response may set, unless somebody says otherwise; the rest is refused.
  package static let responseLimit = 50
  /// Cookies in one request; the rest, which have shorter paths or are younger, stay behind.
  package static let sentLimit = 150
  /// Bytes of the `Cookie` field of one request: what common servers accept as a field. The rest stays behind.
  package static let sentBytesLimit = 8_190

  private struct Entry: Sendable {
    var record: CookieRecord
    /// Order of creation, which no two share. Kept when a cookie that has not expired is replaced.
    var order: UInt64
    /// When it was last used, in steps of the store.
    var use: UInt64
  }

  package let suffixes: PublicSuffixList
  private var buckets: [String: [Entry]] = [:]
  package private(set) var count = 0
  private var step: UInt64 = 0

  package init(suffixes: PublicSuffixList) {
    self.suffixes = suffixes
  }

  /// The same cookies by another list, less those that it forbids.
  package init(_ other: CookieStore, by suffixes: PublicSuffixList, now: HTTPDate) {
    self.init(suffixes: suffixes)
    for record in other.records(now) { try? insert(record, now: now) }
  }

  package var isEmpty: Bool { count == 0 }

  /// Every cookie that has not expired, in order of creation.
  package func records(_ now: HTTPDate) -> [CookieRecord] {
    buckets.values.joined().filter { !$0.record.isExpired(now) }.sorted { $0.order < $1.order }.map(\.record)
  }

  private func bucketName(_ host: URLHost) -> String {
    suffixes.registrableDomain(of: host) ?? host.text
  }

  /// The bucket of a domain that is in its one spelling.
  private func bucketName(domain: String) -> String {
    guard let host = try? HostReader.read(domain) else { return domain }
    return bucketName(host)
  }

  // MARK: Storing

  /// Takes the cookies of one response.
  ///
  /// - Returns: why some were not taken.
  @discardableResult
  package mutating func receive(
    _ values: [[UInt8]], from context: CookieContext, acceptance: CookieAcceptance = .onlyFromMainDocumentDomain,
    atMost limit: Int = responseLimit, now: HTTPDate
  ) -> [CookieRefusal] {
    switch acceptance {
    case .always: break
    case .never: return [.policy]
    case .onlyFromMainDocumentDomain:
      guard context.isFirstParty(suffixes) else { return [.policy] }
    }
    var refusals: [CookieRefusal] = []
    for value in values.prefix(limit) {
      do throws(CookieRefusal) {
        try receive(value.span, from: context, now: now)
      } catch {
        refusals.append(error)
      }
    }
    if values.count > limit { refusals.append(.tooMany(limit: limit)) }
    return refusals
  }

  /// Takes one `Set-Cookie`.
  package mutating func receive(
    _ value: Span<UInt8>, from context: CookieContext, now: HTTPDate
  ) throws(CookieRefusal) {
    let record = try CookieRecord(
      try SetCookieReader.read(value, now: now), from: context, suffixes: suffixes, now: now)
    let name = bucketName(context.url.host)
    if !record.isSecure, !context.isSecure, hides(record, in: name, now) { throw CookieRefusal.overwritesSecure }
    put(record, in: name, now)
  }

  /// Takes a cookie that a caller or a file gives; one that has expired deletes.
  package mutating func insert(_ record: CookieRecord, now: HTTPDate) throws(CookieRefusal) {
    let record = try record.validated(suffixes: suffixes, now: now)
    put(record, in: bucketName(domain: record.domain), now)
  }

  /// "Leave Secure cookies alone": whether a Secure cookie of that name would be replaced, or sent beside this one as if both had it. One that has
  /// expired is not there any more, though it may not have been removed yet.
  private func hides(_ record: CookieRecord, in name: String, _ now: HTTPDate) -> Bool {
    buckets[name, default: []].contains { entry in
      let other = entry.record
      return other.isSecure && other.isSentLike(record) && !other.isExpired(now)
        && (other.domain == record.domain || DomainName.name(other.domain, isBelow: record.domain)
          || DomainName.name(record.domain, isBelow: other.domain))
        && CookieMatch.path(record.path.utf8, isWithin: other.path)
    }
  }

  private mutating func put(_ record: CookieRecord, in name: String, _ now: HTTPDate) {
    step += 1
    var entry = Entry(record: record, order: step, use: step)
    // Taken out of the dictionary, so that it is changed in place.
    var bucket = buckets.removeValue(forKey: name) ?? []
    let old = bucket.count
    if let index = bucket.firstIndex(where: { $0.record.isSameCookie(record) }) {
      let other = bucket.remove(at: index)
      // One that has expired leaves its age to nobody.
      if !other.record.isExpired(now) {
        entry.order = other.order
        entry.record.created = other.record.created
      }
    }
    if !record.isExpired(now) {
      bucket.append(entry)
      if bucket.count > Self.domainLimit { Self.makeRoom(in: &bucket, now) }
    }
    count += bucket.count - old
    if !bucket.isEmpty { buckets[name] = bucket }
    if count > Self.totalLimit { evict(now) }
  }

  /// The new one is among those that may go: one that anybody on the way can set pushes out no Secure one (RFC 6265bis section 5.7).
  private static func makeRoom(in bucket: inout [Entry], _ now: HTTPDate) {
    bucket.removeAll { $0.record.isExpired(now) }
    guard bucket.count > domainLimit else { return }
    let insecure = bucket.indices.filter { !bucket[$0].record.isSecure }
    let candidates = insecure.isEmpty ? Array(bucket.indices) : insecure
    if let index = candidates.min(by: { bucket[$0].use < bucket[$1].use }) { bucket.remove(at: index) }
  }

  /// Makes room for a while: looking for the oldest takes all cookies, so it must not happen at every one that comes. Those that were sent
  /// together were used in one step: of them the oldest go, as many as have to.
  private mutating func evict(_ now: HTTPDate) {
    removeAll { $0.isExpired(now) }
    guard count > Self.totalLimit else { return }
    let ages = buckets.values.joined().map { ($0.use, $0.order) }.sorted { $0 < $1 }
    let last = ages[count - Self.roomyTotal - 1]
    for name in Array(buckets.keys) { removeEntries(in: name) { ($0.use, $0.order) <= last } }
  }

  // MARK: Choosing

  /// The cookies that a request gets, in the order in which they are sent: longer paths first, then older ones.
  package mutating func select(for context: CookieContext, now: HTTPDate) -> [CookieRecord] {
    guard count > 0, context.url.host.zone == nil else { return [] }
    let name = bucketName(context.url.host)
    guard let position = buckets.index(forKey: name) else { return [] }
    let host = context.url.host
    let path = context.url.path.utf8
    let (isSecure, isSameSite) = (context.isSecure, context.isSameSite(suffixes))
    step += 1
    var chosen: [Entry] = []
    var hasExpired = false
    for index in buckets.values[position].indices {
      let record = buckets.values[position][index].record
      guard !record.isExpired(now) else {
        hasExpired = true
        continue
      }
      guard !record.isSecure || isSecure, isSameSite || record.sameSite == .none,
        record.isHostOnly ? record.domain == host.text : CookieMatch.domain(host, isWithin: record.domain),
        CookieMatch.path(path, isWithin: record.path)
      else { continue }
      buckets.values[position][index].use = step
      chosen.append(buckets.values[position][index])
    }
    if hasExpired { removeAll(in: name) { $0.isExpired(now) } }
    chosen.sort {
      let (left, right) = ($0.record.path.utf8.count, $1.record.path.utf8.count)
      return left == right ? $0.order < $1.order : left > right
    }
    return chosen.map(\.record)
  }

  /// The value of the `Cookie` field of a request; nil if it gets none.
  package mutating func field(for context: CookieContext, now: HTTPDate) -> String? {
    var text = ""
    for record in select(for: context, now: now).prefix(Self.sentLimit) {
      let pair = record.pair
      guard text.utf8.count + pair.utf8.count + 2 <= Self.sentBytesLimit + (text.isEmpty ? 2 : 0) else { break }
      if !text.isEmpty { text += "; " }
      text += pair
    }
    return text.isEmpty ? nil : text
  }

  // MARK: Removing

  /// Removes one cookie, however its domain is written; false if it is not there.
  @discardableResult
  package mutating func remove(_ cookie: CookieRecord) -> Bool {
    guard let host = try? CookieMatch.canonicalDomain(cookie.domain) else { return false }
    var record = cookie
    record.domain = host.text
    if host.isAddress { record.isHostOnly = true }
    let old = count
    removeAll(in: bucketName(domain: record.domain)) { $0.isSameCookie(record) }
    return count < old
  }

  /// Removes every cookie of which `condition` holds.
  package mutating func removeAll(where condition: (CookieRecord) -> Bool) {
    for name in Array(buckets.keys) { removeAll(in: name, where: condition) }
  }

  private mutating func removeAll(in name: String, where condition: (CookieRecord) -> Bool) {
    removeEntries(in: name) { condition($0.record) }
  }

  private mutating func removeEntries(in name: String, where condition: (Entry) -> Bool) {
    // Most buckets stay as they are.
    guard buckets[name]?.contains(where: condition) == true, var bucket = buckets.removeValue(forKey: name) else {
      return
    }
    let old = bucket.count
    bucket.removeAll(where: condition)
    count += bucket.count - old
    if !bucket.isEmpty { buckets[name] = bucket }
  }
}
