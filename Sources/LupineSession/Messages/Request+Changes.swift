public import FoundationEssentials
internal import HTTPTypes
internal import LupineRules

/// Changes of a request that is made already, as an interceptor makes them: everything that is not named stays as it is.
extension Request {
  /// Puts another URL in the place of the request's, for example that of another server of the same kind.
  ///
  /// To the same origin (scheme, host and port) the request stays as it is otherwise; a user in the former URL stays too unless the new one names its own, as
  /// `urlString` and `url` never show it. To another origin nothing goes that was meant for the former one: gone are a user in the former URL,
  /// `credential`, the fields `Authorization`, `Cookie`, `Origin`, `Proxy-*`, `X-Api-Key` and the like and those of `sensitiveFields`, which has the list, and a
  /// `Host` of the caller's; of a `Referer` no more stays than the origin, unless it is of the other origin itself, and nothing over http of a page that came over
  /// https. Set again afterwards what the other origin is to have. It is the rule for redirects (curl CVE-2022-27774). `SessionConfiguration.sensitiveFields` are among
  /// those of the requests that delegates and interceptors are shown; one that was not in a session's hands does not know them. The document that the request is made for stays (`setMainDocument(_:)`).
  ///
  /// - Parameter url: an absolute URL.
  /// - Throws: `SessionError` with `.badURL`, which says what is wrong and where; nothing is changed then.
  public mutating func setURL(_ url: String) throws(SessionError) {
    move(to: try Request(url).parsedURL)
  }

  /// Puts another URL in the place of the request's; see `setURL(_:)` for a text.
  public mutating func setURL(_ url: URL) throws(SessionError) {
    try setURL(url.absoluteString)
  }

  private mutating func move(to url: ParsedURL) {
    guard !OriginRule.isSame(parsedURL, url) else {
      parsedURL = url.userinfo == nil ? url.replacingUserinfo(parsedURL.userinfo) : url
      return
    }
    parsedURL = url
    if credential != nil { credential = nil }
    let secrets = sensitiveFields
    let kept = fields.filter { field in
      !OriginRule.strips(
        field.name.rawName, [.sensitive, .target], isMarkedSensitive: secrets.contains(field.name))
    }
    if kept.count != fields.count { fields = HTTPFields(kept) }
    if let referrer = fields[.referer] {
      fields[.referer] = OriginRule.referrer(given: referrer, entering: url, crossed: true)
    }
  }

  /// As somebody is shown it who may change it: with the marks of its session.
  package func marked(by configuration: SessionConfiguration) -> Request {
    guard !configuration.sensitiveFields.isEmpty else { return self }
    var request = self
    request.sensitiveFields.formUnion(configuration.sensitiveFields)
    return request
  }

  /// Adds parameters to the query of the URL, behind what is in it, in their order: `name=value`, with every byte escaped except letters, digits and
  /// `-._~/?`, as the managers' serializers do it (RFC 3986 section 3.4). What is escaped already is escaped again.
  ///
  /// - Throws: `SessionError` with `.badURL` where the path and query become longer than 64 KiB; nothing is changed then.
  public mutating func appendQuery(_ items: [(name: String, value: String)]) throws(SessionError) {
    do throws(URLRefusal) {
      parsedURL = try parsedURL.appendingQuery(Self.query(of: items))
    } catch {
      throw SessionError(
        .badURL, phase: .prepare, message: "the query cannot be sent: \(error)", failingURL: urlString,
        underlying: error)
    }
  }

  private static func query(of items: [(name: String, value: String)]) -> String {
    items.map { "\(QueryEscaping.escaped($0.name))=\(QueryEscaping.escaped($0.value))" }.joined(separator: "&")
  }

  /// Makes names and values, as a form, the body, in their order and escaped as by `appendQuery(_:)`, and says so: `Content-Type:
  /// application/x-www-form-urlencoded` unless the request has one; `Content-Length`, `Content-Encoding` and `Transfer-Encoding` of the body before go. What
  /// logins and the token endpoints of OAuth 2.0 (RFC 6749 section 4) take. For files there is `MultipartFormData` of the managers. The method stays: it is GET unless another one
  /// was set.
  public mutating func setForm(_ items: [(name: String, value: String)]) {
    setBody(.bytes(Array(Self.query(of: items).utf8)), type: "application/x-www-form-urlencoded")
  }

  private mutating func setBody(_ new: Body, type: String) {
    body = new
    let former: [HTTPField.Name] = [.contentLength, .contentEncoding, .transferEncoding]
    for name in former where fields.contains(name) { fields[name] = nil }
    if !fields.contains(.contentType) { fields[.contentType] = type }
  }

  /// Makes a value, as JSON, the body, and says so: `Content-Type: application/json` unless the request has one; `Content-Length`,
  /// `Content-Encoding` and `Transfer-Encoding` of the body before go.
  /// The method stays: it is GET unless another one was set.
  ///
  /// - Parameter encoder: writes the JSON. Default `JSONEncoder()`.
  /// - Throws: `SessionError` with `.badRequest` for a value that cannot be written, with the encoder's error as `underlying`; nothing is changed then.
  public mutating func setJSON(
    _ value: some Encodable, encoder: JSONEncoder = JSONEncoder()
  ) throws(SessionError) {
    let json: Data
    do {
      json = try encoder.encode(value)
    } catch {
      throw SessionError(
        .badRequest, phase: .prepare, message: "the value, of the type \(type(of: value)), cannot be written as JSON",
        failingURL: urlString, underlying: error)
    }
    setBody(.data(json), type: "application/json")
  }
}
