public import Foundation
public import LupineSession

/// Validates a response and gives its body as it is.
///
/// Source: `AFHTTPResponseSerializer`.
public struct HTTPResponseSerializer: HTTPResponseSerializing, Codable {
  /// Default: 200 to 299, any media type.
  public var validation: ResponseValidation

  /// A serializer that accepts what `validation` does.
  public init(validation: ResponseValidation = ResponseValidation()) {
    self.validation = validation
  }

  /// The body, empty if there is none.
  ///
  /// - Throws: `SerializationError` of `validation`, whose `value` is the body.
  public func serialize(_ response: Response?, data: Data?) throws -> Data {
    guard var error = validation.validate(response, data: data) else { return data ?? Data() }
    error.value = data
    throw error
  }
}
