public import Foundation
internal import LupineRules

/// A value of a property list.
public enum PropertyListValue: Sendable, Hashable {
  /// A truth value.
  case boolean(Bool)
  /// A number without fraction.
  case integer(Int64)
  /// A number between the largest `Int64` and the largest `UInt64`.
  case unsigned(UInt64)
  /// A number.
  case real(Double)
  /// Text.
  case string(String)
  /// A point in time.
  case date(Date)
  /// Bytes.
  case data(Data)
  /// Values in order.
  case array([PropertyListValue])
  /// Values by name.
  case dictionary([String: PropertyListValue])

  /// How deep arrays and dictionaries may be nested, read or written.
  public static let maximumDepth = 128

  /// The member of a dictionary; nil if it is missing or this is none.
  public subscript(_ name: String) -> PropertyListValue? {
    if case .dictionary(let members) = self { members[name] } else { nil }
  }

  /// The element of an array; nil if there is none or this is no array.
  public subscript(_ index: Int) -> PropertyListValue? {
    guard case .array(let elements) = self, elements.indices.contains(index) else { return nil }
    return elements[index]
  }

  /// The text; nil for anything else.
  public var stringValue: String? { if case .string(let value) = self { value } else { nil } }

  /// A value of dictionaries with string keys, arrays, strings, numbers, truth values, dates and data.
  ///
  /// - Throws: `SerializationError` with `.requestSerializationFailed` for anything else, nil and sets among it.
  public init(_ value: any Sendable) throws(SerializationError) {
    do throws(PropertyListRefusal) {
      try self.init(any: value, depth: 0)
    } catch {
      throw SerializationError(
        .requestSerializationFailed, message: "The `parameters` argument is no property list: \(error.reason).")
    }
  }

  /// The value as Foundation's property lists have it.
  public var foundationObject: Any {
    switch self {
    case .boolean(let value): NSNumber(value: value)
    case .integer(let value): NSNumber(value: value)
    case .unsigned(let value): NSNumber(value: value)
    case .real(let value): NSNumber(value: value)
    case .string(let value): value
    case .date(let value): value
    case .data(let value): value
    case .array(let value): value.map(\.foundationObject)
    case .dictionary(let value): value.mapValues(\.foundationObject)
    }
  }
}

/// Why something is no property list.
struct PropertyListRefusal: Error {
  var reason: String
}

extension PropertyListValue {
  /// By its text: a decimal's own way to a `Double` divides by ten for each digit, and 19.99 is not what comes out.
  private static func number(spelled text: String) -> PropertyListValue {
    if let number = Int64(text) { return .integer(number) }
    if let number = UInt64(text) { return .unsigned(number) }
    return .real(Double(text) ?? .nan)
  }

  init(any value: Any, depth: Int) throws(PropertyListRefusal) {
    try Self.check(depth)
    switch ParameterShape(value) {
    case .null: throw PropertyListRefusal(reason: "it has no null")
    case .boolean(let flag): self = .boolean(flag)
    case .integer(let number): self = .integer(number)
    case .unsigned(let number): self = .unsigned(number)
    case .number(let number): self = .real(number)
    case .decimal(let number): self = Self.number(spelled: number.description)
    case .text(let text): self = .string(text)
    case .set: throw PropertyListRefusal(reason: "a set has no order")
    case .json(let value):
      // As deep as it is, it is read again as what it stands for.
      try self.init(any: value.foundationObject, depth: depth)
    case .list(let list):
      var elements: [PropertyListValue] = []
      elements.reserveCapacity(list.count)
      for element in list { elements.append(try PropertyListValue(any: element, depth: depth + 1)) }
      self = .array(elements)
    case .dictionary(let list):
      var members: [String: PropertyListValue] = [:]
      members.reserveCapacity(list.count)
      for (key, value) in list {
        guard case .text(let name) = ParameterShape(key) else {
          throw PropertyListRefusal(reason: "the key \(key) is no string")
        }
        members[name] = try PropertyListValue(any: value, depth: depth + 1)
      }
      self = .dictionary(members)
    case .other(let value):
      switch value {
      case let value as PropertyListValue:
        try value.checkDepth(depth)
        self = value
      case let value as Date: self = .date(value)
      case let value as Data: self = .data(value)
      default: throw PropertyListRefusal(reason: "a \(type(of: value)) has no form in it")
      }
    }
  }

  private static func check(_ depth: Int) throws(PropertyListRefusal) {
    guard depth <= maximumDepth else {
      throw PropertyListRefusal(reason: "it is nested deeper than \(maximumDepth) levels")
    }
  }

  /// - Parameter depth: where the value stands.
  private func checkDepth(_ depth: Int) throws(PropertyListRefusal) {
    try Self.check(depth)
    switch self {
    case .array(let elements): for element in elements { try element.checkDepth(depth + 1) }
    case .dictionary(let members): for member in members.values { try member.checkDepth(depth + 1) }
    default: break
    }
  }

  /// Reads a property list in XML or binary form.
  ///
  /// The older text form is refused: it makes a property list of nearly any word. So is nesting deeper than `maximumDepth`, and a key with more than 256 combining
  /// marks in a row, which would take very long to look for. Of several values of one key in the XML form the last one counts.
  ///
  /// - Throws: `SerializationError` with `.cannotParseResponse`.
  public init(parsing data: Data) throws(SerializationError) {
    do {
      if BinaryPropertyListReader.recognises(data) {
        self = try PropertyListValue(BinaryPropertyListReader.read([UInt8](data), depthLimit: Self.maximumDepth))
      } else {
        self = try PropertyListValue(XMLPropertyListReader.read(Self.text(data), depthLimit: Self.maximumDepth))
      }
    } catch let refusal as PropertyListRefusal {
      throw SerializationError(
        .cannotParseResponse, message: "The data is no property list: \(refusal.reason).")
    } catch {
      throw SerializationError(
        .cannotParseResponse, message: "The data is no property list.", underlying: error)
    }
  }

  /// The text in UTF-8.
  private static func text(_ data: Data) throws(PropertyListRefusal) -> [UInt8] {
    let bytes = [UInt8](data)
    let encoding: String.Encoding?
    switch XMLEncoding(of: bytes) {
    case .asciiCompatible:
      guard case .encoding(let name) = XMLEncoding.declared(in: bytes), !["utf-8", "utf8"].contains(name) else {
        return bytes
      }
      encoding = String.Encoding(ianaName: name)
    case .utf16BigEndian: encoding = .utf16BigEndian
    case .utf16LittleEndian: encoding = .utf16LittleEndian
    case .unsupported: encoding = nil
    }
    guard let encoding, let text = String(data: data, encoding: encoding) else {
      throw PropertyListRefusal(reason: "its encoding is not read")
    }
    return Array(text.utf8)
  }

  private init(_ value: PropertyListContent) {
    switch value {
    case .boolean(let value): self = .boolean(value)
    case .integer(let value): self = .integer(value)
    case .unsigned(let value): self = .unsigned(value)
    case .real(let value): self = .real(value)
    case .date(let value): self = .date(Date(timeIntervalSinceReferenceDate: value))
    case .data(let value): self = .data(Data(value))
    case .string(let value): self = .string(value)
    case .array(let values): self = .array(values.map { PropertyListValue($0) })
    case .dictionary(let members):
      self = .dictionary(
        Dictionary(members.map { ($0.name, PropertyListValue($0.value)) }) { first, _ in first })
    }
  }
}
