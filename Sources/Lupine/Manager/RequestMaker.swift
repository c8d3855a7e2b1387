internal import HTTPTypes
internal import LupineRules
internal import LupineSession

/// Makes the requests of an `HTTPSessionManager` with its serializer: what follows from that is found out when it is set, not for each request.
final class RequestMaker: Sendable {
  let serializer: any HTTPRequestSerializing
  /// Whether its `request(method:url:parameters:)` is the default, so that a URL which is read already need not be written and read again.
  private let takesReadURLs: Bool
  /// Its headers, settings and rules for queries, if that is so. No optional, which would be copied where it is looked into.
  private let rules: HTTPRequestSerializer
  /// Whether there are settings among them.
  private let hasSettings: Bool

  init(_ serializer: any HTTPRequestSerializing) {
    self.serializer = serializer
    takesReadURLs =
      serializer is HTTPRequestSerializer || serializer is JSONRequestSerializer
      || serializer is PropertyListRequestSerializer
    rules = takesReadURLs ? serializer.rules : HTTPRequestSerializer()
    hasSettings = rules.hasSettings
  }

  /// A request for a reference to what `base` names; for an absolute URL if there is no base.
  func request(
    _ method: HTTPRequest.Method, _ reference: String, _ base: BaseURL?, _ parameters: (any Sendable)?
  ) throws -> Request {
    guard takesReadURLs, let base else {
      return try serializer.request(
        method: method.rawValue, url: base?.resolve(reference) ?? reference, parameters: parameters)
    }
    return try request(method, base.resolved(reference), parameters)
  }

  // One request in one place, passed on by reference: it has so many parts that a copy costs 300 instructions. A second way out would make one.
  private func request(
    _ method: HTTPRequest.Method, _ url: ParsedURL, _ parameters: (any Sendable)?
  ) throws -> Request {
    var request = Request(parsed: url, method: method, fields: HTTPFields(), body: .none)
    try complete(&request, parameters)
    return request
  }

  private func complete(_ request: inout Request, _ parameters: (any Sendable)?) throws {
    if hasSettings { rules.applySettings(to: &request) }
    if rules.encodesInURL(request.method) {
      try rules.addHeaders(to: &request)
      if parameters != nil { try rules.addQuery(of: parameters, to: &request) }
    } else {
      request = try serializer.serialize(request, parameters: parameters)
    }
  }
}
