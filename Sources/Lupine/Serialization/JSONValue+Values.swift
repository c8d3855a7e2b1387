internal import Foundation

extension JSONValue {
  /// The error of parameters that are no JSON. Source: code -1016 of AFNetworking's request domain, and its text.
  static func refused(_ reason: String, underlying: (any Error)? = nil) -> SerializationError {
    SerializationError(
      .requestSerializationFailed, message: "The `parameters` argument is not valid JSON: \(reason).",
      underlying: underlying)
  }

  /// A value of dictionaries with string keys, arrays, strings, numbers, truth values, nil and `NSNull`; of an `Encodable` what it encodes to.
  ///
  /// A `Decimal` is rounded to what the case of its number holds; `JSONRequestSerializer` writes it with every digit.
  ///
  /// Sets, dates, data and other types with a meaning of their own have no one form in JSON: they are refused, unless inside an `Encodable`.
  ///
  /// - Throws: `SerializationError` with `.requestSerializationFailed`.
  ///
  /// Source: `isValidJSONObject`.
  public init(_ value: any Sendable) throws(SerializationError) {
    // As it is, what does not fit into JSON too: whoever writes it is told.
    if let value = value as? JSONValue {
      self = value
    } else {
      let tree = try JSONTreeBuilder().tree(value)
      // A value inside may be a number that is none in JSON.
      do { self = try JSONValue(tree) } catch { throw Self.refused("a number in it is not finite", underlying: error) }
    }
  }

  /// The value as Foundation's JSON has it: `NSNull`, `NSNumber`, `NSString`, arrays and dictionaries of `Any`.
  public var foundationObject: Any {
    switch self {
    case .null: NSNull()
    case .bool(let value): NSNumber(value: value)
    case .integer(let value): NSNumber(value: value)
    case .unsigned(let value): NSNumber(value: value)
    case .number(let value): NSNumber(value: value)
    case .string(let value): value
    case .array(let value): value.map(\.foundationObject)
    case .object(let value): value.mapValues(\.foundationObject)
    }
  }
}
