public import Foundation
public import LupineSession

/// Puts parameters into the body of requests as a property list; those of GET, HEAD and DELETE into the query, as `HTTPRequestSerializer` does.
///
/// Source: `AFPropertyListRequestSerializer`.
public struct PropertyListRequestSerializer: HTTPRequestSerializing {
  /// Headers, settings, and rules for queries.
  public var base: HTTPRequestSerializer
  /// XML (the default) or binary; the older text form cannot be written.
  public var format: PropertyListSerialization.PropertyListFormat

  /// A serializer with the default headers.
  public init(format: PropertyListSerialization.PropertyListFormat = .xml) {
    base = HTTPRequestSerializer()
    self.format = format
  }

  /// A copy of `request` with `parameters` as its body and `Content-Type: application/x-plist` unless it has one. Without parameters neither is
  /// touched.
  ///
  /// - Parameter parameters: what `PropertyListValue.init(_:)` reads, or one `Encodable` of another type: models in dictionaries and arrays are refused,
  ///   unless these are within a model.
  /// - Throws: `SerializationError` with `.requestSerializationFailed` for anything else.
  public func serialize(_ request: Request, parameters: (any Sendable)?) throws -> Request {
    guard !base.encodesInURL(request.method) else { return try base.serialize(request, parameters: parameters) }
    var request = request
    try base.addHeaders(to: &request)
    guard let parameters else { return request }
    if !request.fields.contains(.contentType) { request.fields[.contentType] = "application/x-plist" }
    request.body = .data(try data(parameters))
    return request
  }

  private func data(_ parameters: any Sendable) throws(SerializationError) -> Data {
    do {
      if case .other(let value) = ParameterShape(parameters), let encodable = value as? any Encodable,
        !(value is Date || value is Data || value is PropertyListValue)
      {
        let encoder = PropertyListEncoder()
        encoder.outputFormat = format
        return try encoder.encode(encodable)
      }
      let value = try PropertyListValue(parameters)
      return try PropertyListSerialization.data(fromPropertyList: value.foundationObject, format: format, options: 0)
    } catch let error as SerializationError {
      throw error
    } catch {
      throw SerializationError(
        .requestSerializationFailed, message: "The `parameters` argument is no property list.", underlying: error)
    }
  }
}
