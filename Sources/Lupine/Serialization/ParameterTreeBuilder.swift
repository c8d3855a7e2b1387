internal import Foundation
internal import LupineRules

/// Makes of a caller's values what a form can hold.
struct ParameterTreeBuilder {
  let booleans: QueryEncoding.BooleanStyle
  /// Whether `Data` stays as it is, for a multipart body, instead of being refused.
  var keepsData = false
  /// Asked for each model that is met.
  var encoder: () -> JSONEncoder = { JSONEncoder() }

  static var tooDeep: SerializationError {
    SerializationError(
      .requestSerializationFailed,
      message: "The parameters are nested deeper than \(ParameterTree.depthLimit) levels.")
  }

  private static func refusal(_ what: String, _ advice: String) -> SerializationError {
    SerializationError(
      .requestSerializationFailed, message: "\(what) has no form among parameters: \(advice).")
  }

  func tree(_ value: Any, depth: Int) throws(SerializationError) -> ParameterTree {
    let shape = ParameterShape(value)
    switch shape {
    case .list, .set, .dictionary: guard depth < ParameterTree.depthLimit else { throw Self.tooDeep }
    default: break
    }
    switch shape {
    case .null: return .null
    case .boolean(let flag): return .value(text(flag))
    case .integer(let number): return .value(String(number))
    case .unsigned(let number): return .value(String(number))
    case .number(let number): return .value(Self.text(number))
    case .decimal(let number): return .value(number.description)
    case .text(let text): return .value(text)
    case .list(let elements): return .list(try trees(elements, depth))
    case .set(let elements):
      // What has no form is refused as a value.
      let sorted = elements.map { (key: (try? Self.description($0)) ?? String(describing: $0), value: $0) }
        .sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
      return .group(try trees(sorted.map(\.value), depth))
    case .dictionary(let members):
      var children: [ParameterTree.Member] = []
      children.reserveCapacity(members.count)
      for (key, value) in members {
        children.append(.init(try Self.description(key), try tree(value, depth: depth + 1)))
      }
      return .dictionary(children)
    case .json(let value):
      let same: LupineRules.JSONValue
      do { same = try JSONTreeBuilder.tree(value) } catch { throw Self.tooDeep }
      return try tree(same, depth)
    case .other(let value): return try other(value, depth)
    }
  }

  private func trees(_ elements: [Any], _ depth: Int) throws(SerializationError) -> [ParameterTree] {
    var trees: [ParameterTree] = []
    trees.reserveCapacity(elements.count)
    for element in elements { trees.append(try tree(element, depth: depth + 1)) }
    return trees
  }

  /// What a model encodes to: its numbers are written as they are spelled, those of a `Decimal` with every digit.
  private func tree(_ value: LupineRules.JSONValue, _ depth: Int) throws(SerializationError) -> ParameterTree {
    guard depth < ParameterTree.depthLimit else { throw Self.tooDeep }
    switch value {
    case .null: return .null
    case .boolean(let flag): return .value(text(flag))
    case .number(let text): return .value(Self.withoutEmptyFraction(text))
    case .string(let text): return .value(text)
    case .array(let elements):
      var children: [ParameterTree] = []
      for element in elements { children.append(try tree(element, depth + 1)) }
      return .list(children)
    case .object(let members):
      var children: [ParameterTree.Member] = []
      for member in members { children.append(.init(member.name, try tree(member.value, depth + 1))) }
      return .dictionary(children)
    }
  }

  private func other(_ value: Any, _ depth: Int) throws(SerializationError) -> ParameterTree {
    if keepsData, let data = value as? Data { return .bytes([UInt8](data)) }
    guard let encodable = value as? any Encodable, !(value is Data) else {
      return .value(try Self.described(value, else: "make it Encodable, or give it a description"))
    }
    guard value is any CustomStringConvertible else {
      return try tree(JSONTreeBuilder.tree(encoding: encodable, with: encoder()), depth)
    }
    // A description is for people. What has members is a model nevertheless, and means these.
    switch Self.isOneValue(value) ? nil : try JSONTreeBuilder.tree(encoding: encodable, with: encoder()) {
    case .array(let elements)?: return try tree(.array(elements), depth)
    case .object(let members)?: return try tree(.object(members), depth)
    default: return .value(String(describing: value))
    }
  }

  /// What need not be encoded to know that.
  private static func isOneValue(_ value: Any) -> Bool {
    value is Date || value is URL || value is UUID || value is Duration || value is any BinaryInteger
      || value is any BinaryFloatingPoint
  }

  private func text(_ flag: Bool) -> String {
    switch booleans {
    case .numeric: flag ? "1" : "0"
    case .literal: flag ? "true" : "false"
    }
  }

  /// As `NSNumber` describes it on Apple's systems: without a fraction of nothing.
  static func text(_ number: Double) -> String { withoutEmptyFraction(number.description) }

  private static func withoutEmptyFraction(_ text: String) -> String {
    text.hasSuffix(".0") ? String(text.dropLast(2)) : text
  }

  /// What keys and elements of sets are sorted by, and keys written as.
  private static func description(_ value: Any) throws(SerializationError) -> String {
    switch ParameterShape(value) {
    case .text(let text): return text
    case .boolean(let flag): return flag ? "1" : "0"
    case .number(let number): return text(number)
    case .integer(let number): return String(number)
    case .other(let value): return try described(value, else: "as a key it needs a description")
    default: return String(describing: value)
    }
  }

  /// Swift describes everything, but only what says how is meant to be read by others.
  private static func described(_ value: Any, else advice: String) throws(SerializationError) -> String {
    guard !(value is Data) else { throw refusal("Data", "send it in a form with files, or encode it") }
    guard !(value is any Sequence) else { throw refusal("A \(type(of: value))", "make an array or a dictionary of it") }
    guard value is any CustomStringConvertible else { throw refusal("A \(type(of: value))", advice) }
    return String(describing: value)
  }
}
