/// Cookies as JSON: an array of objects with `name`, `value`, `domain`, `hostOnly`, `path`, `secure`, `httpOnly`, `sameSite` (missing if the
/// server did not say), `expires` (missing for a session cookie) and `created`; times in seconds since 1970.
package enum CookieJSON {
  /// The version of the file that holds the array.
  package static let version = 1

  package static func value(of record: CookieRecord) -> JSONValue {
    var members = [
      JSONValue.Member("name", .string(record.name)), JSONValue.Member("value", .string(record.value)),
      JSONValue.Member("domain", .string(record.domain)), JSONValue.Member("hostOnly", .boolean(record.isHostOnly)),
      JSONValue.Member("path", .string(record.path)), JSONValue.Member("secure", .boolean(record.isSecure)),
      JSONValue.Member("httpOnly", .boolean(record.isHTTPOnly)),
    ]
    if record.sameSite != .unspecified {
      members.append(JSONValue.Member("sameSite", .string(record.sameSite.rawValue)))
    }
    if let expiry = record.expiry { members.append(JSONValue.Member("expires", .integer(expiry.seconds))) }
    members.append(JSONValue.Member("created", .integer(record.created.seconds)))
    return .object(members)
  }

  /// The cookie of one element; nil if it is none. It still has to be validated.
  package static func record(_ value: JSONValue, now: HTTPDate) -> CookieRecord? {
    guard let name = value["name"]?.string, let text = value["value"]?.string, let domain = value["domain"]?.string,
      let path = value["path"]?.string, let isHostOnly = flag(value["hostOnly"], otherwise: nil),
      let isSecure = flag(value["secure"], otherwise: false),
      let isHTTPOnly = flag(value["httpOnly"], otherwise: false), let sameSite = sameSite(value["sameSite"]),
      let created = date(value["created"], otherwise: now), let expiry = expiry(value["expires"])
    else { return nil }
    return CookieRecord(
      name: name, value: text, domain: domain.lowercased(), isHostOnly: isHostOnly, path: path, isSecure: isSecure,
      isHTTPOnly: isHTTPOnly, sameSite: sameSite, expiry: expiry.date, created: min(created, now))
  }

  private static func flag(_ value: JSONValue?, otherwise: Bool?) -> Bool? {
    value.map { $0.boolean } ?? otherwise
  }

  private static func sameSite(_ value: JSONValue?) -> SameSite? {
    guard let value else { return .unspecified }
    return value.string.flatMap { SameSite(rawValue: $0) }
  }

  private static func date(_ value: JSONValue?, otherwise: HTTPDate) -> HTTPDate? {
    guard let value else { return otherwise }
    guard let number = value.number, number.isFinite else { return nil }
    return HTTPDate(seconds: Int64(exactly: number.rounded(.down)) ?? (number < 0 ? .min : .max))
  }

  /// The outer nil: this is no date; the inner one: the session's.
  private static func expiry(_ value: JSONValue?) -> (date: HTTPDate?, Void)? {
    guard let value, value != .null else { return (nil, ()) }
    guard let date = date(value, otherwise: HTTPDate(seconds: 0)) else { return nil }
    return (date, ())
  }
}
