internal import HTTPTypes
internal import LupineRules

/// Makes the complete list of fields of a request, in the order in which they are sent. Pure.
struct RequestComposer {
  var userAgent: String?
  var additionalFields: HTTPFields
  var acceptsCompressedContent: Bool

  /// The fields and whether the answer's content codings are ours to decode.
  func fields(
    for request: Request, url: ParsedURL, chain: RedirectChain
  ) -> (fields: [(name: String, value: String)], decodes: Bool) {
    var fields: [(name: String, value: String)] = []
    fields.reserveCapacity(request.fields.count + additionalFields.count + 4)
    // RFC 9110 7.2 recommends Host first. The caller may name another one, for this origin only.
    let host = chain.strip.contains(.target) ? nil : request.fields[.host]
    fields.append(("Host", host ?? url.authority))
    var hasUserAgent = false
    var hasAccept = false
    var hasEncoding = false
    var hasRange = false
    func take(_ field: HTTPField, unlessIn other: HTTPFields?) {
      let name = field.name
      guard name != .host, other?.contains(name) != true,
        !OriginRule.strips(
          name.rawName, chain.strip, isMarkedSensitive: request.sensitiveFields.contains(name))
      else { return }
      if name == .userAgent { hasUserAgent = true }
      if name == .accept { hasAccept = true }
      if name == .acceptEncoding { hasEncoding = true }
      if name == .range { hasRange = true }
      fields.append((name.rawName, field.value))
    }
    for field in request.fields { take(field, unlessIn: nil) }
    for field in additionalFields { take(field, unlessIn: request.fields) }
    if !hasUserAgent, let userAgent { fields.append(("User-Agent", userAgent)) }
    if !hasAccept { fields.append(("Accept", "*/*")) }
    let offers = !hasEncoding && (request.acceptsCompressedContent ?? acceptsCompressedContent)
    if offers {
      // A range of the coded form could not be decoded.
      fields.append(("Accept-Encoding", hasRange ? "identity" : ContentCodings.acceptEncoding))
    }
    return (fields, offers && !hasRange)
  }
}

extension HTTPField.Name {
  static let host = HTTPField.Name("Host") ?? .location
}
