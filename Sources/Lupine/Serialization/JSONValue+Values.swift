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
  /// Sets, dates, data and other types with a meaning of their own have no one form in JSON: they are refused, unless inside an `Encodable`.
  ///
  /// - Throws: `SerializationError` with `.requestSerializationFailed`.
  ///
  /// Source: `isValidJSONObject`.
  public init(_ value: any Sendable) throws(SerializationError) {
    try self.init(any: value, depth: 0) { JSONEncoder() }
  }

  /// What `init(_:)` makes.
  ///
  /// - Parameter encoder: asked for each `Encodable` that is met.
  init(any value: Any, depth: Int, encoder: () -> JSONEncoder) throws(SerializationError) {
    guard depth <= Self.maximumDepth else {
      throw Self.refused("it is nested deeper than \(Self.maximumDepth) levels")
    }
    switch ParameterShape(value) {
    case .null: self = .null
    case .boolean(let flag): self = .bool(flag)
    case .integer(let number): self = .integer(number)
    case .unsigned(let number): self = .unsigned(number)
    case .number(let number):
      guard number.isFinite else { throw Self.refused("\(number) is no JSON number") }
      self = .number(number)
    case .text(let text): self = .string(text)
    case .json(let value): self = value
    case .list(let list):
      var elements: [JSONValue] = []
      elements.reserveCapacity(list.count)
      for element in list { elements.append(try JSONValue(any: element, depth: depth + 1, encoder: encoder)) }
      self = .array(elements)
    case .dictionary(let list):
      var members: [String: JSONValue] = [:]
      members.reserveCapacity(list.count)
      for (key, value) in list {
        guard case .text(let name) = ParameterShape(key) else {
          throw Self.refused("the key \(key) is no string")
        }
        members[name] = try JSONValue(any: value, depth: depth + 1, encoder: encoder)
      }
      self = .object(members)
    case .set: throw Self.refused("a set has no order")
    case .other(let value): self = try Self.other(value, encoder)
    }
  }

  private static func other(_ value: Any, _ encoder: () -> JSONEncoder) throws(SerializationError) -> JSONValue {
    switch value {
    case is Date, is Data, is URL, is Decimal: throw refused("a \(type(of: value)) has no one form in it")
    case let value as any Encodable: return try JSONValue(encoding: value, with: encoder())
    default: throw refused("a \(type(of: value)) has no form in it")
    }
  }

  /// What a value encodes to.
  init(encoding value: any Encodable, with encoder: JSONEncoder = JSONEncoder()) throws(SerializationError) {
    do {
      self = try JSONValue(parsing: try encoder.encode(value))
    } catch {
      throw Self.refused("\(type(of: value)) cannot be encoded", underlying: error)
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
