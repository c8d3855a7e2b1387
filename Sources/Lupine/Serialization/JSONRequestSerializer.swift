public import Foundation
internal import LupineRules
public import LupineSession

/// Puts parameters into the body of requests as JSON; those of GET, HEAD and DELETE into the query, as `HTTPRequestSerializer` does.
///
/// Source: `AFJSONRequestSerializer`.
public struct JSONRequestSerializer: HTTPRequestSerializing {
  /// Headers, settings, and rules for queries.
  public var base: HTTPRequestSerializer
  /// How bodies are written. Default none. With `.sortedKeys` equal parameters give equal bodies.
  public var writingOptions: JSONValue.WritingOptions
  /// Makes the encoder of each `Encodable` other than dictionaries and arrays, which may hold some, for queries and the fields of forms with files too, where
  /// it takes the place of that of `base`; nil is `JSONEncoder()`, with `writingOptions`. Called at most once for a request.
  public var makeEncoder: (@Sendable () -> JSONEncoder)?

  /// A serializer with the default headers.
  public init(writingOptions: JSONValue.WritingOptions = []) {
    base = HTTPRequestSerializer()
    self.writingOptions = writingOptions
  }

  /// A copy of `request` with `parameters` as its body and `Content-Type: application/json` unless it has one. Without parameters neither is
  /// touched.
  ///
  /// - Parameter parameters: a dictionary or an array of what `JSONValue.init(_:)` reads, a `JSONValue` of these, or any `Encodable`.
  /// - Throws: `SerializationError` with `.requestSerializationFailed` for anything else.
  public func serialize(_ request: Request, parameters: (any Sendable)?) throws -> Request {
    guard !base.encodesInURL(request.method) else { return try queryRules.serialize(request, parameters: parameters) }
    var request = request
    try base.addHeaders(to: &request)
    guard let parameters else { return request }
    if !request.fields.contains(.contentType) { request.fields[.contentType] = "application/json" }
    request.body = .data(try data(parameters))
    return request
  }

  private func data(_ parameters: any Sendable) throws -> Data {
    if case .other(let value) = ParameterShape(parameters), let encodable = value as? any Encodable,
      !(value is Date || value is Data || value is URL)
    {
      do {
        return try encoder.encode(encodable)
      } catch {
        throw JSONValue.refused("\(type(of: value)) cannot be encoded", underlying: error)
      }
    }
    let tree = try JSONTreeBuilder(encoder: JSONTreeBuilder.once { encoder }).tree(parameters)
    switch tree {
    case .array, .object: return try JSONTreeWriter.data(tree, writingOptions)
    default: throw JSONValue.refused("it is neither a dictionary nor an array")
    }
  }

  /// What makes queries, and fields of forms.
  var queryRules: HTTPRequestSerializer {
    var rules = base
    if let makeEncoder { rules.makeEncoder = makeEncoder }
    return rules
  }

  private var encoder: JSONEncoder {
    if let makeEncoder { return makeEncoder() }
    let encoder = JSONEncoder()
    if writingOptions.contains(.prettyPrinted) { encoder.outputFormatting.insert(.prettyPrinted) }
    if writingOptions.contains(.sortedKeys) { encoder.outputFormatting.insert(.sortedKeys) }
    if writingOptions.contains(.withoutEscapingSlashes) { encoder.outputFormatting.insert(.withoutEscapingSlashes) }
    return encoder
  }
}
