internal import Foundation
internal import LupineRules

/// Makes of a caller's values what JSON can hold, with numbers as they are spelled: a `Decimal` has more digits than a `Double`.
struct JSONTreeBuilder {
  typealias Tree = LupineRules.JSONValue

  /// Asked for each `Encodable` that is met.
  var encoder: () -> JSONEncoder = { JSONEncoder() }

  func tree(_ value: Any, depth: Int = 0) throws(SerializationError) -> Tree {
    guard depth <= JSONValue.maximumDepth else { throw Self.tooDeep }
    switch ParameterShape(value) {
    case .null: return .null
    case .boolean(let flag): return .boolean(flag)
    case .integer(let number): return .integer(number)
    case .unsigned(let number): return .integer(number)
    case .number(let number):
      guard number.isFinite else { throw JSONValue.refused("\(number) is no JSON number") }
      return .number(number.description)
    case .decimal(let number):
      guard number.isFinite else { throw JSONValue.refused("\(number) is no JSON number") }
      return .number(number.description)
    case .text(let text): return .string(text)
    case .json(let value): return try Self.tree(value, depth: depth)
    case .list(let list):
      var elements: [Tree] = []
      elements.reserveCapacity(list.count)
      for element in list { elements.append(try tree(element, depth: depth + 1)) }
      return .array(elements)
    case .dictionary(let list):
      var members: [Tree.Member] = []
      members.reserveCapacity(list.count)
      for (key, value) in list {
        guard case .text(let name) = ParameterShape(key) else {
          throw JSONValue.refused("the key \(key) is no string")
        }
        members.append(Tree.Member(name, try tree(value, depth: depth + 1)))
      }
      return .object(members)
    case .set: throw JSONValue.refused("a set has no order")
    case .other(let value):
      switch value {
      case is Date, is Data, is URL: throw JSONValue.refused("a \(type(of: value)) has no one form in it")
      case let value as any Encodable: return try Self.tree(encoding: value, with: encoder())
      default: throw JSONValue.refused("a \(type(of: value)) has no form in it")
      }
    }
  }

  /// The same value. One that is nested too deep is refused; for numbers that are not finite see who writes them.
  static func tree(_ value: JSONValue, depth: Int = 0) throws(SerializationError) -> Tree {
    guard depth <= JSONValue.maximumDepth else { throw tooDeep }
    switch value {
    case .null: return .null
    case .bool(let flag): return .boolean(flag)
    case .integer(let number): return .integer(number)
    case .unsigned(let number): return .integer(number)
    case .number(let number): return .number(number.description)
    case .string(let text): return .string(text)
    case .array(let list):
      var elements: [Tree] = []
      elements.reserveCapacity(list.count)
      for element in list { elements.append(try tree(element, depth: depth + 1)) }
      return .array(elements)
    case .object(let list):
      var members: [Tree.Member] = []
      members.reserveCapacity(list.count)
      for (name, value) in list { members.append(Tree.Member(name, try tree(value, depth: depth + 1))) }
      return .object(members)
    }
  }

  /// One encoder for all who ask, made when the first does.
  static func once(_ make: @escaping () -> JSONEncoder) -> () -> JSONEncoder {
    var made: JSONEncoder?
    return {
      let encoder = made ?? make()
      made = encoder
      return encoder
    }
  }

  /// What a value encodes to.
  static func tree(encoding value: any Encodable, with encoder: JSONEncoder) throws(SerializationError) -> Tree {
    do {
      return try JSONReader.read(JSONValue.utf8(try encoder.encode(value)))
    } catch {
      throw JSONValue.refused("\(type(of: value)) cannot be encoded", underlying: error)
    }
  }

  private static var tooDeep: SerializationError {
    JSONValue.refused("it is nested deeper than \(JSONValue.maximumDepth) levels")
  }
}
