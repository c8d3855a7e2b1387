public import Foundation
public import LupineSession

/// Makes a `JSONValue` of a body.
///
/// Source: `AFJSONResponseSerializer`.
public struct JSONResponseSerializer: HTTPResponseSerializing, Codable {
  /// Default: 200 to 299; `application/json`, and with it what ends in `+json`; `text/json`, `text/javascript`.
  public var validation: ResponseValidation
  /// Default none: a text is an array or an object.
  public var readingOptions: JSONValue.ReadingOptions
  /// Whether members and elements that are null are left out, at every depth, in arrays too. Default false.
  public var removesKeysWithNullValues = false

  /// `application/json`, `text/json`, `text/javascript`.
  public static let contentTypes: Set<String> = ["application/json", "text/json", "text/javascript"]

  /// A serializer for what servers call JSON.
  public init(readingOptions: JSONValue.ReadingOptions = []) {
    validation = ResponseValidation(acceptableContentTypes: Self.contentTypes)
    self.readingOptions = readingOptions
  }

  /// The value of the body; nil for a body that is empty or white space.
  ///
  /// - Throws: `SerializationError`: `.unacceptableContentType`, at once; `.cannotParseResponse`, with an error of the status behind it if that is
  ///   wrong too; `.unacceptableStatusCode`, with the value of the body.
  public func serialize(_ response: Response?, data: Data?) throws -> JSONValue? {
    try validation.serialize(response, data, parse: value, attached: { $0 })
  }

  /// The value of the body; nil for a body that is empty or white space.
  public func anyValue(_ response: Response?, data: Data?) throws -> (any Sendable)? {
    try serialize(response, data: data).map { $0 as any Sendable }
  }

  private func value(_ data: Data) throws(SerializationError) -> JSONValue? {
    if JSONValue.isBlank(data) { return nil }
    let value = try JSONValue(parsing: data, options: readingOptions)
    return removesKeysWithNullValues ? value.removingNulls : value
  }
}
