public import Foundation
public import LupineSession
internal import LupineBase
internal import LupineRules
internal import LupineWire

/// What a response has to be before its body is looked at.
///
/// Source: `validateResponse:data:error:` of `AFHTTPResponseSerializer`.
public struct ResponseValidation: Sendable, Hashable, Codable {
  /// Status codes that are no error; nil: any. Default 200 to 299.
  public var acceptableStatusCodes: Set<Int>?
  /// Media types in lower case without parameters, `text/html`, that the body may have; nil: any.
  ///
  /// With `application/json` among them go all types that end in `+json`, as `application/problem+json`, and with `application/xml` those that end in `+xml`
  /// (RFC 6839 section 3.1, RFC 7303 section 9.2): they say that they are written in it. AFNetworking takes the names alone. With `application/octet-stream`
  /// among them goes a response without a media type (RFC 9110 section 8.3).
  public var acceptableContentTypes: Set<String>?

  /// Rules of these codes and types.
  public init(
    acceptableStatusCodes: Set<Int>? = ResponseValidation.successfulStatusCodes,
    acceptableContentTypes: Set<String>? = nil
  ) {
    self.acceptableStatusCodes = acceptableStatusCodes
    self.acceptableContentTypes = acceptableContentTypes
  }

  /// 200 to 299.
  public static let successfulStatusCodes = Set(200...299)

  /// What is wrong with a response; nil if nothing is.
  ///
  /// - No response: nothing to check.
  /// - Its media type is not acceptable and there is a body: `.unacceptableContentType`. Without a body the type means nothing, as
  ///   with 204 and 205.
  /// - Its status is not: `.unacceptableStatusCode`; an error about the media type is then its `underlying`.
  ///
  /// The error carries response and body.
  public func validate(_ response: Response?, data: Data?) -> SerializationError? {
    guard let response else { return nil }
    let typeError = acceptableContentTypes.flatMap { validate(response, data, types: $0) }
    guard let codes = acceptableStatusCodes, !codes.contains(response.statusCode) else { return typeError }
    return Self.unacceptableStatus(response, data: data, underlying: typeError)
  }

  /// The error of a status that is not acceptable.
  static func unacceptableStatus(
    _ response: Response, data: Data?, underlying: (any Error)? = nil
  ) -> SerializationError {
    SerializationError(
      .unacceptableStatusCode,
      message: "Request failed: \(StatusText.of(response.statusCode)) (\(response.statusCode))", response: response,
      data: data, underlying: underlying)
  }

  private func validate(_ response: Response, _ data: Data?, types: Set<String>) -> SerializationError? {
    guard let data, !data.isEmpty else { return nil }
    // Most responses name the type and nothing else, in lower case. No text is made of it to see that.
    let fields = response.head.fields
    if let index = fields.firstIndex(.contentType) {
      let value = fields.valueBytes(at: index)
      for type in types where value.hasBytes(of: type.utf8.span) { return nil }
    }
    // RFC 9110 section 8.3: what has no type may be taken for anything.
    if !fields.has(.contentType), types.contains("application/octet-stream") { return nil }
    let type = response.mediaType
    if let type, type.isReadable(as: types) { return nil }
    let accepted = types.sorted().joined(separator: ", ")
    return SerializationError(
      .unacceptableContentType,
      message: "Request failed: unacceptable content-type: \(type?.essence ?? "none") (acceptable: \(accepted))",
      response: response, data: data)
  }
}

extension Response {
  /// Whether the media type is `application/json`, written like that and without parameters, as almost every server of JSON writes it.
  var isPlainJSON: Bool {
    let fields = head.fields
    guard let index = fields.firstIndex(.contentType) else { return false }
    return fields.valueBytes(at: index).hasBytes(of: "application/json".utf8.span)
  }
}

extension SerializationError {
  /// Whether this error or one behind it has the code: a page that is neither of the right status nor of the right type is both.
  ///
  /// Source: the "has code in domain" test of AFNetworking's serializers.
  public func contains(_ code: Code) -> Bool {
    if self.code == code { return true }
    return (underlying as? SerializationError)?.contains(code) ?? false
  }
}

extension ResponseValidation {
  /// The steps that serializers share: validates; parses unless the media type is wrong; throws the error with what was parsed.
  ///
  /// - Parameters:
  ///   - parse: makes the value of the body, which may be empty; what it throws as `SerializationError` gets response and body.
  ///   - attached: what an error carries of the value; not asked about an optional that is nil, of which it carries nothing.
  /// - Throws: an error of the media type, at once; an error of the status, with the value of the body if it has one; what the parser throws,
  ///   with the error of the status behind it.
  public func serialize<Value: Sendable>(
    _ response: Response?, _ data: Data?, parse: (Data) throws -> Value,
    attached: (Value) -> (any Sendable)? = { $0 }
  ) throws -> Value {
    let error = validate(response, data: data)
    if let error, error.contains(.unacceptableContentType) { throw error }
    let value: Value
    do {
      value = try parse(data ?? Data())
    } catch var failure as SerializationError {
      failure.response = response
      failure.failingURL = response?.urlString
      failure.data = data
      if var error {
        error.underlying = failure.underlying
        failure.underlying = error
      }
      throw failure
    }
    guard var error else { return value }
    error.value = isNothing(value) ? nil : attached(value)
    throw error
  }
}
