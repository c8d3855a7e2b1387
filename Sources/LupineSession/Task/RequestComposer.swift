internal import HTTPTypes
internal import LupineRules
internal import LupineWire

/// What a session adds to the fields of its requests.
final class RequestComposer: Sendable {
  let userAgent: String?
  let additionalFields: HTTPFields
  let acceptsCompressedContent: Bool
  /// The fields of a request that sets none itself, with and without an offer of codings, checked and encoded once.
  private let defaults: (offering: PreparedFields, plain: PreparedFields)

  /// - Throws: `WireError` if the user agent would break the framing.
  init(userAgent: String?, additionalFields: HTTPFields, acceptsCompressedContent: Bool) throws(WireError) {
    self.userAgent = userAgent
    self.additionalFields = additionalFields
    self.acceptsCompressedContent = acceptsCompressedContent
    var fields: [(name: String, value: String)] = []
    if let userAgent { fields.append(("User-Agent", userAgent)) }
    fields.append(("Accept", "*/*"))
    let plain = try PreparedFields(fields)
    fields.append(("Accept-Encoding", ContentCodings.acceptEncoding))
    defaults = (try PreparedFields(fields), plain)
  }

  fileprivate func prepared(offering: Bool) -> PreparedFields {
    offering ? defaults.offering : defaults.plain
  }
}

/// The complete list of fields of one request, in the order in which they are sent; made when it is asked for.
struct ComposedFields: Sendable {
  /// Whose request it is: by reference, because a request is a large value.
  let run: TaskRun
  let url: ParsedURL
  let strip: OriginRule.Strip

  private var composer: RequestComposer { run.session.composer }
  private var request: Request { run.request }

  private var offers: Bool { run.request.acceptsCompressedContent ?? composer.acceptsCompressedContent }

  /// Whether there is nothing but what the session adds.
  private var isDefault: Bool { run.request.fields.isEmpty && composer.additionalFields.isEmpty }

  /// Whether the content codings of the answer were offered by us, so that we decode them.
  var offersCodings: Bool {
    guard offers else { return false }
    guard !isDefault else { return true }
    return !contains(.acceptEncoding) && !contains(.range)
  }

  private func contains(_ name: HTTPField.Name) -> Bool {
    request.fields.contains(name) || composer.additionalFields.contains(name)
  }

  /// What the jar has for this hop (RFC 6265bis section 5.8). A `Cookie` field of the caller's takes its place, as long as it is sent.
  private var jarCookies: String? {
    let configuration = run.session.configuration
    guard let jar = configuration.cookieStorage, !jar.isEmpty, configuration.setsCookies, request.handlesCookies,
      isDefault || strip.contains(.sensitive) || !contains(.cookie)
    else { return nil }
    return jar.field(for: CookieContext(url: url, mainDocument: request.mainDocument))
  }

  /// All fields as pairs.
  var pairs: [(name: String, value: String)] {
    // RFC 9110 7.2 recommends Host first. The caller may name another one, for the first origin only.
    let host = strip.contains(.target) ? nil : request.fields[.host]
    var pairs = [(name: "Host", value: host ?? url.authority)]
    func take(_ field: HTTPField) {
      guard field.name != .host,
        !OriginRule.strips(
          field.name.rawName, strip,
          isMarkedSensitive: request.sensitiveFields.contains(field.name)
            || run.session.configuration.sensitiveFields.contains(field.name))
      else { return }
      pairs.append((field.name.rawName, field.value))
    }
    for field in request.fields { take(field) }
    for field in composer.additionalFields where !request.fields.contains(field.name) { take(field) }
    if let cookies = jarCookies { pairs.append(("Cookie", cookies)) }
    if !contains(.userAgent), let userAgent = composer.userAgent { pairs.append(("User-Agent", userAgent)) }
    if !contains(.accept) { pairs.append(("Accept", "*/*")) }
    if offers, !contains(.acceptEncoding) {
      // A range of the coded form could not be decoded.
      pairs.append(("Accept-Encoding", contains(.range) ? "identity" : ContentCodings.acceptEncoding))
    }
    return pairs
  }

  /// The head as it is sent.
  ///
  /// - Parameter isExpecting: whether to ask for 100 (Continue).
  func head(method: String, framing: RequestFraming, isExpecting: Bool = false) throws(WireError) -> [UInt8] {
    let cookies = isDefault ? jarCookies : nil
    if isDefault, cookies == nil, framing == .none, !isExpecting {
      return try RequestEncoder.head(
        method: method, target: url.target, host: url.authority, fields: composer.prepared(offering: offers))
    }
    var head = try RequestHeadBuilder(method: method, target: url.target, framing: framing)
    if isDefault {
      try head.append("Host", url.authority)
      head.append(composer.prepared(offering: offers))
      if let cookies { try head.append("Cookie", cookies) }
    } else {
      for (name, value) in pairs { try head.append(name, value) }
    }
    if isExpecting { try head.append("Expect", "100-continue") }
    return try head.finish()
  }

  /// Whether the caller says that the request may be repeated.
  var hasIdempotencyKey: Bool {
    guard !isDefault else { return false }
    return request.fields.contains { RetryRule.isIdempotencyKey($0.name.rawName) }
  }
}

extension HTTPField.Name {
  static let host = HTTPField.Name("Host") ?? .location
}
