internal import FoundationEssentials
internal import LupineBase
internal import LupineRules

extension HTTPArchive {
  /// The archive as HAR 1.2: valid JSON whatever the messages hold; one entry a line. What HAR has no place for has names that begin with
  /// an underscore, as it asks for.
  ///
  /// - Parameters:
  ///   - redactingSecrets: leave out credentials and cookies: the values of `Authorization`, `Proxy-Authorization`, `Cookie`, `Set-Cookie`,
  ///     of `X-Api-Key` and the like (`Request.sensitiveFields` has the list) and of fields marked sensitive, userinfo in URLs, and query parameters that are known to carry credentials. Bodies are written
  ///     as they are. Default true.
  ///   - includingBodies: write the bodies. Default true.
  public func json(redactingSecrets: Bool = true, includingBodies: Bool = true) -> [UInt8] {
    let writer = ArchiveWriter(redacts: redactingSecrets, includesBodies: includingBodies)
    var head: [JSONValue.Member] = [
      .init("version", .string("1.2")),
      .init(
        "creator",
        .object([.init("name", .string(creator.name)), .init("version", .string(creator.version))])),
    ]
    if let comment { head.append(.init("comment", .string(comment))) }
    var output = Array(#"{"log":"#.utf8)
    output += JSONWriter.line(.object(head), escapingC1: true).dropLast()
    output += #","entries":["#.utf8
    for (index, entry) in entries.enumerated() {
      output += (index == 0 ? "\n" : ",\n").utf8
      output += JSONWriter.line(writer.entry(entry), escapingC1: true)
    }
    output += "\n]}}\n".utf8
    return output
  }
}

/// Makes JSON of an archive's entries.
private struct ArchiveWriter {
  let redacts: Bool
  let includesBodies: Bool

  private typealias Member = JSONValue.Member

  func entry(_ entry: HTTPArchive.Entry) -> JSONValue {
    var members = [
      Member("startedDateTime", .string(InternetDate.text(milliseconds: Self.milliseconds(entry.startedAt)))),
      Member("time", Self.number(entry.timings.total)),
      Member("request", request(entry.request)),
      Member("response", response(entry)),
      Member("cache", .object([])),
      Member("timings", timings(entry.timings)),
    ]
    if let address = entry.serverAddress { members.append(Member("serverIPAddress", .string(address))) }
    if let connection = entry.connection { members.append(Member("connection", .string(connection))) }
    if let comment = entry.comment { members.append(Member("comment", .string(comment))) }
    if let isReused = entry.isReusedConnection { members.append(Member("_reusedConnection", .boolean(isReused))) }
    if entry.fetchType != .networkLoad {
      members.append(Member("_fromCache", .string(entry.isFromDisk ? "disk" : "memory")))
      if entry.fetchType == .validatedCache { members.append(Member("_cacheValidated", .boolean(true))) }
    }
    if let tls = entry.tls {
      members.append(
        Member(
          "_tls",
          .object([
            Member("version", .string(tls.version)), Member("cipher", tls.cipher.map { .string($0) } ?? .null),
            Member("resumed", .boolean(tls.isResumed)),
          ])))
    }
    if let failure = entry.failure {
      members.append(
        Member(
          "_error",
          .object([
            Member("code", .string(failure.code)), Member("phase", .string(failure.phase)),
            Member("message", .string(failure.message)),
            Member("requestBytesSent", .boolean(failure.requestBytesSent)),
          ])))
    }
    return .object(members)
  }

  // MARK: Messages

  private func request(_ request: HTTPArchive.Request) -> JSONValue {
    let url = redacts ? SecretText.redacted(url: request.url) : request.url
    var members = [
      Member("method", .string(request.method)), Member("url", .string(url)),
      Member("httpVersion", .string(request.httpVersion)),
      Member("cookies", .array(ArchiveCookies.request(shown(request.fields)).map { cookie($0) })),
      Member("headers", fields(request.fields)),
      Member("queryString", query(url)),
    ]
    if let body = request.body, includesBodies, !body.isEmpty {
      let (text, isBase64) = Self.text(body)
      var data = [
        Member("mimeType", .string(mimeType(request.fields) ?? "")), Member("params", .array([])),
        Member("text", .string(text)),
      ]
      if isBase64 { data.append(Member("_encoding", .string("base64"))) }
      members.append(Member("postData", .object(data)))
    }
    members.append(Member("headersSize", Self.size(request.headerBytes)))
    members.append(Member("bodySize", Self.size(request.bodyBytes ?? request.body.map { Int64($0.count) })))
    if !request.trailers.isEmpty { members.append(Member("_trailers", fields(request.trailers))) }
    return .object(members)
  }

  /// HAR knows no exchange without a response: status 0, as browsers write it.
  private func response(_ entry: HTTPArchive.Entry) -> JSONValue {
    var shown = entry.response ?? HTTPArchive.Response(status: 0)
    let isCached = entry.response != nil && entry.fetchType != .networkLoad
    // "Set to zero in case of responses coming from the cache."
    if isCached { shown.bodyBytes = 0 }
    let seen = self.shown(shown.fields)
    let location = HTTPArchive.first(seen, "location") ?? ""
    let now = HTTPDate(seconds: Self.milliseconds(entry.startedAt) / 1_000)
    var members = [
      Member("status", .integer(shown.status)), Member("statusText", .string(shown.reason)),
      Member("httpVersion", .string(entry.response == nil ? "" : shown.httpVersion)),
      Member("cookies", .array(ArchiveCookies.response(seen, at: now).map { cookie($0) })),
      Member("headers", fields(shown.fields)),
      Member("content", content(shown, isCached: isCached)),
      Member("redirectURL", .string(location)),
      Member("headersSize", Self.size(shown.headerBytes)), Member("bodySize", Self.size(shown.bodyBytes)),
    ]
    if !shown.trailers.isEmpty { members.append(Member("_trailers", fields(shown.trailers))) }
    if !shown.informational.isEmpty {
      members.append(
        Member(
          "_informational",
          .array(
            shown.informational.map {
              .object([Member("status", .integer($0.status)), Member("headers", fields($0.fields))])
            })))
    }
    return .object(members)
  }

  private func content(_ response: HTTPArchive.Response, isCached: Bool) -> JSONValue {
    // Of a body that was cut the archive has less than came.
    let size = max(response.body.map { Int64($0.count) } ?? 0, response.decodedBytes ?? 0)
    var members = [Member("size", .integer(size))]
    // What a coding saved: nothing of what a cache had came over the wire at all.
    if !isCached, let wire = response.bodyBytes, response.body != nil, size > wire, Self.isCoded(response) {
      members.append(Member("compression", .integer(size - wire)))
    }
    members.append(Member("mimeType", .string(mimeType(response.fields) ?? "x-unknown")))
    if let body = response.body, includesBodies {
      let (text, isBase64) = Self.text(body)
      members.append(Member("text", .string(text)))
      if isBase64 { members.append(Member("encoding", .string("base64"))) }
    }
    return .object(members)
  }

  private static func isCoded(_ response: HTTPArchive.Response) -> Bool {
    response.fields.contains { field in
      field.name.isSame(ignoringCase: "content-encoding") && !field.value.isEmpty
        && !field.value.isSame(ignoringCase: "identity")
    }
  }

  private func fields(_ fields: [HTTPArchive.Field]) -> JSONValue {
    .array(
      shown(fields).map { .object([Member("name", .string($0.name)), Member("value", .string($0.value))]) })
  }

  /// The fields as they may be seen. Cookies are listed from these: one without a name is all secret.
  private func shown(_ fields: [HTTPArchive.Field]) -> [HTTPArchive.Field] {
    guard redacts else { return fields }
    return fields.map { field in
      HTTPArchive.Field(
        field.name, SecretText.redacted(field: field.name, value: field.value, isSensitive: field.isSensitive))
    }
  }

  /// As little of it is said here as among the fields.
  private func mimeType(_ fields: [HTTPArchive.Field]) -> String? { HTTPArchive.first(shown(fields), "content-type") }

  private func cookie(_ cookie: ArchiveCookies.Cookie) -> JSONValue {
    var members = [
      Member("name", .string(cookie.name)),
      Member("value", .string(cookie.value)),
    ]
    if let path = cookie.path { members.append(Member("path", .string(path))) }
    if let domain = cookie.domain { members.append(Member("domain", .string(domain))) }
    if let expiry = cookie.expiry {
      // Not every reader knows an earlier date than this, which any cookie ended before that is to be removed.
      members.append(Member("expires", .string(InternetDate.text(milliseconds: max(0, expiry.seconds) * 1_000))))
    }
    if cookie.isHTTPOnly { members.append(Member("httpOnly", .boolean(true))) }
    if cookie.isSecure { members.append(Member("secure", .boolean(true))) }
    return .object(members)
  }

  private func query(_ url: String) -> JSONValue {
    guard let mark = url.firstIndex(of: "?") else { return .array([]) }
    let query = url[url.index(after: mark)...].prefix { $0 != "#" }
    return .array(
      query.split(separator: "&").map { part in
        let equals = part.firstIndex(of: "=")
        let name = PercentText.decoded(part[..<(equals ?? part.endIndex)])
        let value = equals.map { PercentText.decoded(part[part.index(after: $0)...]) } ?? ""
        return .object([Member("name", .string(name)), Member("value", .string(value))])
      })
  }

  private func timings(_ timings: HTTPArchive.Timings) -> JSONValue {
    let connect =
      timings.connect == nil && timings.tls == nil ? nil : (timings.connect ?? .zero) + (timings.tls ?? .zero)
    return .object([
      Member("blocked", Self.number(timings.blocked)), Member("dns", Self.number(timings.resolve)),
      Member("connect", Self.number(connect)), Member("ssl", Self.number(timings.tls)),
      // These three are not optional in HAR.
      Member("send", Self.number(timings.send ?? .zero)), Member("wait", Self.number(timings.wait ?? .zero)),
      Member("receive", Self.number(timings.receive ?? .zero)),
    ])
  }

  // MARK: Values

  /// Text as it is; bytes that are no UTF-8 as Base64.
  private static func text(_ bytes: [UInt8]) -> (text: String, isBase64: Bool) {
    if let text = String(validating: bytes, as: UTF8.self) { return (text, false) }
    return (Base64.encode(bytes), true)
  }

  private static func size(_ count: Int64?) -> JSONValue { .integer(count ?? -1) }

  /// Since 1970; as far as it can be written, so that what is worked out from it is the same when it is read again.
  private static func milliseconds(_ date: Date) -> Int64 {
    let value = (date.timeIntervalSince1970 * 1_000).rounded()
    let range = InternetDate.range
    return value.isFinite ? Int64(max(Double(range.lowerBound), min(Double(range.upperBound), value))) : 0
  }

  /// Milliseconds, to the microsecond; -1 for what is not known.
  private static func number(_ duration: Duration?) -> JSONValue {
    guard let duration else { return .number("-1") }
    let microseconds = max(0, duration.saturatedNanoseconds) / 1_000
    let fraction = String(microseconds % 1_000)
    return .number("\(microseconds / 1_000)." + String(repeating: "0", count: 3 - fraction.count) + fraction)
  }
}

/// Percent-decoding for people: what is no UTF-8 is repaired.
enum PercentText {
  static func decoded(_ text: Substring) -> String {
    let source = Array(text.utf8)
    guard source.contains(UInt8(ascii: "%")) else { return String(text) }
    var result: [UInt8] = []
    var index = 0
    while index < source.count {
      if source[index] == UInt8(ascii: "%"), index + 2 < source.count, let high = hexadecimal(source[index + 1]),
        let low = hexadecimal(source[index + 2])
      {
        result.append(high << 4 | low)
        index += 3
      } else {
        result.append(source[index])
        index += 1
      }
    }
    return String(decoding: result, as: UTF8.self)
  }

  private static func hexadecimal(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
    default: nil
    }
  }
}

/// Cookies as an archive lists them, beside the fields that carry them; nobody acts upon these.
enum ArchiveCookies {
  struct Cookie {
    /// Empty of a cookie without a name.
    var name: String
    var value: String
    var path: String?
    var domain: String?
    var expiry: HTTPDate?
    var isHTTPOnly = false
    var isSecure = false

    fileprivate init(_ text: String) {
      (name, value) = SetCookieReader.pair(text)
    }
  }

  static func request(_ fields: [HTTPArchive.Field]) -> [Cookie] {
    fields.filter { $0.name.isSame(ignoringCase: "cookie") }.flatMap { field in
      field.value.utf8.split(separator: UInt8(ascii: ";")).map { Cookie(String(Substring($0))) }
    }
  }

  /// One for each line: browsers' archives join the values of several fields with line feeds.
  ///
  /// - Parameter now: what ages count from.
  static func response(_ fields: [HTTPArchive.Field], at now: HTTPDate) -> [Cookie] {
    fields.filter { $0.name.isSame(ignoringCase: "set-cookie") }.flatMap { field in
      field.value.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map {
        response(String(Substring($0)), at: now)
      }
    }
  }

  private static func response(_ line: String, at now: HTTPDate) -> Cookie {
    var cookie = Cookie(line)
    // What no jar takes has a name and a value all the same.
    guard let read = try? SetCookieReader.read(line, now: now, ageLimit: SetCookieReader.anyAge) else { return cookie }
    cookie.path = read.path
    cookie.domain = read.domain
    cookie.expiry = read.expiry
    cookie.isHTTPOnly = read.isHTTPOnly
    cookie.isSecure = read.isSecure
    return cookie
  }
}
