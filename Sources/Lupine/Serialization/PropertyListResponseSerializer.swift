public import Foundation
public import LupineSession

/// Makes a `PropertyListValue` of a body.
///
/// Source: `AFPropertyListResponseSerializer`. Its `format` and `readOptions` have no effect there but on mutability, and none here.
public struct PropertyListResponseSerializer: HTTPResponseSerializing, Codable {
  /// Default: 200 to 299; `application/x-plist`.
  public var validation: ResponseValidation

  /// A serializer of property lists in XML or binary form.
  public init() {
    validation = ResponseValidation(acceptableContentTypes: ["application/x-plist"])
  }

  /// The value of the body; nil for an empty one.
  ///
  /// - Throws: `SerializationError`: `.unacceptableContentType`, at once; `.cannotParseResponse`, with an error of the status behind it if that is
  ///   wrong too; `.unacceptableStatusCode`, with the value of the body.
  public func serialize(_ response: Response?, data: Data?) throws -> PropertyListValue? {
    try validation.serialize(
      response, data,
      parse: { data throws(SerializationError) in data.isEmpty ? nil : try PropertyListValue(parsing: data) },
      attached: { $0 })
  }
}
