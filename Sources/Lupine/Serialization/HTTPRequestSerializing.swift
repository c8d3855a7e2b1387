public import LupineSession

/// A request serializer that starts from a method and a URL, with headers and settings of its own: what `HTTPSessionManager` has.
///
/// Source: the superclass that AFNetworking's three request serializers share.
public protocol HTTPRequestSerializing: RequestSerializer {
  /// Headers, settings and rules for queries, which all have in common.
  var base: HTTPRequestSerializer { get set }

  /// A request with the headers, the settings and the parameters.
  ///
  /// - Parameters:
  ///   - method: as it is sent; never upper-cased.
  ///   - url: absolute.
  ///   - parameters: nil for none.
  /// - Throws: `SessionError` with `.badURL` or `.badRequest`, and what `serialize(_:parameters:)` throws.
  ///
  /// Source: `requestWithMethod:URLString:parameters:error:`.
  func request(method: String, url: String, parameters: (any Sendable)?) throws -> Request
}

extension HTTPRequestSerializing {
  /// A request with the headers, the settings and the parameters.
  public func request(method: String, url: String, parameters: (any Sendable)? = nil) throws -> Request {
    try serialize(try base.bareRequest(method: method, url: url), parameters: parameters)
  }
}
