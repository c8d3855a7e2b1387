/// A JSON value (RFC 8259).
///
/// Equality is that of the cases: `.integer(1)` is not `.number(1)`. Of several members with one name the last one counts.
public enum JSONValue: Sendable, Hashable {
  /// `null`
  case null
  /// `true` and `false`
  case bool(Bool)
  /// A number without fraction and exponent that 64 bits hold.
  case integer(Int64)
  /// A number without fraction and exponent that is more than `Int64.max`, and that 64 bits without a sign hold; every smaller one is an `.integer`.
  case unsigned(UInt64)
  /// Any other number.
  case number(Double)
  /// Text.
  case string(String)
  /// Values in order.
  case array([JSONValue])
  /// Values by name.
  case object([String: JSONValue])

  /// The member of an object; nil if it is missing or this is no object. Setting nil removes it; setting into anything but an object makes it
  /// one.
  public subscript(_ name: String) -> JSONValue? {
    get {
      guard case .object(let members) = self else { return nil }
      return members[name]
    }
    set {
      guard case .object(var members) = self else {
        self = .object(newValue.map { [name: $0] } ?? [:])
        return
      }
      self = .null
      members[name] = newValue
      self = .object(members)
    }
  }

  /// The element of an array; nil if there is none or this is no array.
  public subscript(_ index: Int) -> JSONValue? {
    guard case .array(let elements) = self, elements.indices.contains(index) else { return nil }
    return elements[index]
  }

  /// Whether this is `null`.
  public var isNull: Bool { self == .null }

  /// The truth value; nil for anything else, numbers included.
  public var boolValue: Bool? { if case .bool(let value) = self { value } else { nil } }

  /// The text; nil for anything else.
  public var stringValue: String? { if case .string(let value) = self { value } else { nil } }

  /// The elements; nil for anything else.
  public var arrayValue: [JSONValue]? { if case .array(let value) = self { value } else { nil } }

  /// The members; nil for anything else.
  public var objectValue: [String: JSONValue]? { if case .object(let value) = self { value } else { nil } }

  /// The number as an integer, also of `1.0`; nil for anything else.
  public var intValue: Int? {
    switch self {
    case .integer(let value): Int(exactly: value)
    case .unsigned(let value): Int(exactly: value)
    case .number(let value): Int(exactly: value)
    default: nil
    }
  }

  /// The number as an integer without a sign, also of `1.0`; nil for anything else.
  public var unsignedValue: UInt64? {
    switch self {
    case .integer(let value): UInt64(exactly: value)
    case .unsigned(let value): value
    case .number(let value): UInt64(exactly: value)
    default: nil
    }
  }

  /// The number, rounded if it is an integer of more than 53 bits; nil for anything else.
  public var doubleValue: Double? {
    switch self {
    case .integer(let value): Double(value)
    case .unsigned(let value): Double(value)
    case .number(let value): value
    default: nil
    }
  }

  /// The same without members and elements that are null, at every depth. A value that is null itself stays.
  ///
  /// Source: `AFJSONObjectByRemovingKeysWithNullValues`.
  public var removingNulls: JSONValue {
    switch self {
    case .array(let elements): .array(elements.compactMap { $0.isNull ? nil : $0.removingNulls })
    case .object(let members): .object(members.compactMapValues { $0.isNull ? nil : $0.removingNulls })
    default: self
    }
  }
}

extension JSONValue: ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
  ExpressibleByFloatLiteral, ExpressibleByStringLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
  /// `.bool`
  public init(booleanLiteral value: Bool) { self = .bool(value) }
  /// `.integer`
  public init(integerLiteral value: Int64) { self = .integer(value) }
  /// `.number`
  public init(floatLiteral value: Double) { self = .number(value) }
  /// `.string`
  public init(stringLiteral value: String) { self = .string(value) }
  /// `.array`
  public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
  /// `.object`; of equal names the last one counts.
  public init(dictionaryLiteral elements: (String, JSONValue)...) {
    self = .object(Dictionary(elements) { _, last in last })
  }
}
