internal import Foundation
internal import HTTPTypes
internal import LupineRules
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

  /// A request whose body is a form with files.
  ///
  /// The parameters become its first parts, by the names that a query would have, unescaped: `Data` as it is, nil and `NSNull` empty, anything else
  /// as text in `HTTPRequestSerializer.stringEncoding`. `constructing` adds its parts after them. A form without any part is no multipart body:
  /// the request is then that of `request(method:url:parameters:)` without parameters.
  ///
  /// - Parameters:
  ///   - method: not GET or HEAD.
  ///   - constructing: adds parts; called once, here.
  /// - Throws: `SerializationError` with `.requestSerializationFailed` for GET and HEAD, for parameters nested too deep, and for text that the encoding
  ///   cannot express; what `request(method:url:parameters:)` and `constructing` throw.
  ///
  /// Source: `multipartFormRequestWithMethod:URLString:parameters:constructingBodyWithBlock:error:`.
  func multipartRequest(
    method: String, url: String, parameters: (any Sendable)?, constructing: (inout MultipartFormData) throws -> Void
  ) throws -> Request
}

extension HTTPRequestSerializing {
  /// A request with the headers, the settings and the parameters.
  public func request(method: String, url: String, parameters: (any Sendable)? = nil) throws -> Request {
    try serialize(try base.bareRequest(method: method, url: url), parameters: parameters)
  }

  /// A request whose body is a form with files.
  public func multipartRequest(
    method: String, url: String, parameters: (any Sendable)? = nil,
    constructing: (inout MultipartFormData) throws -> Void
  ) throws -> Request {
    guard !["GET", "HEAD"].contains(method.uppercased()) else {
      throw SerializationError(
        .requestSerializationFailed, message: "A \(method.uppercased()) request has no multipart body.")
    }
    var request = try request(method: method, url: url, parameters: nil)
    var form = MultipartFormData()
    if let parameters {
      for field in try rules.formFields(parameters) { form.append(field.value, name: field.name) }
    }
    try constructing(&form)
    if !form.isEmpty { form.apply(to: &request) }
    return request
  }
}

extension HTTPRequestSerializing {
  /// The base, with the encoder that this serializer has for models everywhere.
  var rules: HTTPRequestSerializer { (self as? JSONRequestSerializer)?.queryRules ?? base }
}

extension HTTPRequestSerializer {
  /// Parameters as the fields of a form, in order.
  func formFields(_ parameters: any Sendable) throws(SerializationError) -> [(name: String, value: Data)] {
    var builder = builder
    builder.keepsData = true
    let tree = try builder.tree(parameters, depth: 0)
    let pairs: [QueryFlattener.Pair]
    do {
      pairs = try QueryFlattener.pairs(of: tree, lists: queryEncoding.lists)
    } catch {
      throw ParameterTreeBuilder.tooDeep
    }
    var fields: [(name: String, value: Data)] = []
    for pair in pairs {
      switch pair.value {
      case .null: fields.append((pair.field, Data()))
      case .bytes(let bytes): fields.append((pair.field, Data(bytes)))
      case .text(let text): fields.append((pair.field, Data(try encoded(text))))
      }
    }
    return fields
  }
}
