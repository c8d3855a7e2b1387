internal import Foundation

/// What a value of the caller's is, for those who write it: a form, JSON, a property list.
///
/// Values come as `Any`; bridged casts of Foundation would take 1 for `true`, so types are asked by conformance alone.
enum ParameterShape {
  case null
  case boolean(Bool)
  case integer(Int64)
  /// More than `Int64` holds.
  case unsigned(UInt64)
  case number(Double)
  case decimal(Decimal)
  case text(String)
  case list([Any])
  case set([Any])
  case dictionary([(key: Any, value: Any)])
  case json(JSONValue)
  case other(Any)

  init(_ value: Any) {
    if let shaped = value as? any ParameterShaped { self = shaped.parameterShape } else { self = .other(value) }
  }
}

/// A type that knows what it is.
protocol ParameterShaped {
  var parameterShape: ParameterShape { get }
}

extension Optional: ParameterShaped {
  var parameterShape: ParameterShape {
    switch self {
    case nil: .null
    case let value?: ParameterShape(value)
    }
  }
}

extension Bool: ParameterShaped { var parameterShape: ParameterShape { .boolean(self) } }

extension BinaryInteger {
  var integerShape: ParameterShape {
    if let value = Int64(exactly: self) { return .integer(value) }
    if let value = UInt64(exactly: self) { return .unsigned(value) }
    return .other(self)
  }
}

extension Int: ParameterShaped { var parameterShape: ParameterShape { .integer(Int64(self)) } }
extension Int8: ParameterShaped { var parameterShape: ParameterShape { .integer(Int64(self)) } }
extension Int16: ParameterShaped { var parameterShape: ParameterShape { .integer(Int64(self)) } }
extension Int32: ParameterShaped { var parameterShape: ParameterShape { .integer(Int64(self)) } }
extension Int64: ParameterShaped { var parameterShape: ParameterShape { .integer(self) } }
extension UInt: ParameterShaped { var parameterShape: ParameterShape { integerShape } }
extension UInt8: ParameterShaped { var parameterShape: ParameterShape { .integer(Int64(self)) } }
extension UInt16: ParameterShaped { var parameterShape: ParameterShape { .integer(Int64(self)) } }
extension UInt32: ParameterShaped { var parameterShape: ParameterShape { .integer(Int64(self)) } }
extension UInt64: ParameterShaped { var parameterShape: ParameterShape { integerShape } }
extension Double: ParameterShaped { var parameterShape: ParameterShape { .number(self) } }
extension Float: ParameterShaped {
  /// By way of the shortest text: 0.1 stays 0.1.
  var parameterShape: ParameterShape { .number(Double(description) ?? Double(self)) }
}
extension CGFloat: ParameterShaped { var parameterShape: ParameterShape { .number(Double(self)) } }
extension Decimal: ParameterShaped { var parameterShape: ParameterShape { .decimal(self) } }
extension String: ParameterShaped { var parameterShape: ParameterShape { .text(self) } }
extension Substring: ParameterShaped { var parameterShape: ParameterShape { .text(String(self)) } }
extension Character: ParameterShaped { var parameterShape: ParameterShape { .text(String(self)) } }
extension Array: ParameterShaped { var parameterShape: ParameterShape { .list(map { $0 as Any }) } }
extension ArraySlice: ParameterShaped { var parameterShape: ParameterShape { .list(map { $0 as Any }) } }
extension ContiguousArray: ParameterShaped { var parameterShape: ParameterShape { .list(map { $0 as Any }) } }
extension Set: ParameterShaped { var parameterShape: ParameterShape { .set(map { $0 as Any }) } }
extension Dictionary: ParameterShaped {
  var parameterShape: ParameterShape { .dictionary(map { (key: $0.key as Any, value: $0.value as Any) }) }
}
extension AnyHashable: ParameterShaped { var parameterShape: ParameterShape { ParameterShape(base) } }
extension JSONValue: ParameterShaped { var parameterShape: ParameterShape { .json(self) } }

extension NSNull: ParameterShaped { var parameterShape: ParameterShape { .null } }
extension NSString: ParameterShaped { var parameterShape: ParameterShape { .text(String(self)) } }
extension NSArray: ParameterShaped { var parameterShape: ParameterShape { .list(Array(self)) } }
extension NSSet: ParameterShaped { var parameterShape: ParameterShape { .set(Array(self)) } }
extension NSDictionary: ParameterShaped {
  var parameterShape: ParameterShape { .dictionary(map { (key: $0.key, value: $0.value) }) }
}
extension NSNumber: ParameterShaped {
  var parameterShape: ParameterShape {
    // There is one object for each truth value.
    if self === NSNumber(value: true) || self === NSNumber(value: false) { return .boolean(boolValue) }
    // The description of a floating-point number has a point, an exponent, or letters.
    let text = description
    if let value = Int64(text) { return .integer(value) }
    if let value = UInt64(text) { return .unsigned(value) }
    if let number = self as? NSDecimalNumber { return .decimal(number.decimalValue) }
    // A `Float` is not asked for more digits than it has; the rest gives the same by way of its text.
    return .number(Double(text) ?? doubleValue)
  }
}
