/// A JSON value (RFC 8259) that keeps the order of an object's members and the spelling of numbers.
///
/// Foundation's coders lose both, and a tool that shows or passes on what others wrote must not.
package enum JSONValue: Sendable, Equatable {
  case null
  case boolean(Bool)
  /// As it was spelled.
  case number(String)
  case string(String)
  case array([JSONValue])
  case object([Member])

  /// One member of an object.
  package struct Member: Sendable, Equatable {
    package var name: String
    package var value: JSONValue

    package init(_ name: String, _ value: JSONValue) {
      self.name = name
      self.value = value
    }
  }

  package static func integer(_ value: some BinaryInteger) -> JSONValue { .number(String(value)) }

  package static func strings(_ values: [String]) -> JSONValue { .array(values.map { .string($0) }) }

  /// `[[name, value], …]`.
  package static func pairs(_ pairs: [(name: String, value: String)]) -> JSONValue {
    .array(pairs.map { .array([.string($0.name), .string($0.value)]) })
  }

  /// The value of a member; the last one wins, as in most readers. Nil if it is missing or this is no object.
  package subscript(_ name: String) -> JSONValue? {
    guard case .object(let members) = self else { return nil }
    return members.last { $0.name == name }?.value
  }

  package var string: String? {
    if case .string(let text) = self { text } else { nil }
  }

  package var array: [JSONValue]? {
    if case .array(let values) = self { values } else { nil }
  }

  package var boolean: Bool? {
    if case .boolean(let value) = self { value } else { nil }
  }

  package var number: Double? {
    if case .number(let text) = self { Double(text) } else { nil }
  }

  /// In words, for messages.
  package var kind: String {
    switch self {
    case .null: "null"
    case .boolean: "a boolean"
    case .number: "a number"
    case .string: "a string"
    case .array: "an array"
    case .object: "an object"
    }
  }
}
