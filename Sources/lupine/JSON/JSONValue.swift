/// A JSON value (RFC 8259) that keeps the order of an object's members and the spelling of numbers.
///
/// Foundation's coders lose both, and a tool that shows or passes on what others wrote must not.
enum JSONValue: Sendable, Equatable {
  case null
  case boolean(Bool)
  /// As it was spelled.
  case number(String)
  case string(String)
  case array([JSONValue])
  case object([Member])

  /// One member of an object.
  struct Member: Sendable, Equatable {
    var name: String
    var value: JSONValue

    init(_ name: String, _ value: JSONValue) {
      self.name = name
      self.value = value
    }
  }

  static func integer(_ value: some BinaryInteger) -> JSONValue { .number(String(value)) }

  /// A number with at most `digits` decimal places.
  static func decimal(_ value: Double, digits: Int = 3) -> JSONValue {
    value.isFinite ? .number(Decimal.text(value, digits: digits)) : .null
  }

  static func strings(_ values: [String]) -> JSONValue { .array(values.map { .string($0) }) }

  /// `[[name, value], …]`.
  static func pairs(_ pairs: [(name: String, value: String)]) -> JSONValue {
    .array(pairs.map { .array([.string($0.name), .string($0.value)]) })
  }

  /// The value of a member; the last one wins, as in most readers. Nil if it is missing or this is no object.
  subscript(_ name: String) -> JSONValue? {
    guard case .object(let members) = self else { return nil }
    return members.last { $0.name == name }?.value
  }

  var string: String? {
    if case .string(let text) = self { text } else { nil }
  }

  var array: [JSONValue]? {
    if case .array(let values) = self { values } else { nil }
  }

  var boolean: Bool? {
    if case .boolean(let value) = self { value } else { nil }
  }

  var number: Double? {
    if case .number(let text) = self { Double(text) } else { nil }
  }

  /// In words, for messages.
  var kind: String {
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

/// Decimal numbers as text, without Foundation's formatters.
enum Decimal {
  /// Rounds to `digits` places and drops zeros at the end.
  static func text(_ value: Double, digits: Int) -> String {
    var text = fixed(value, digits: digits)
    guard text.contains(".") else { return text }
    while text.last == "0" { text.removeLast() }
    if text.last == "." { text.removeLast() }
    return text
  }

  /// Rounds to exactly `digits` places.
  static func fixed(_ value: Double, digits: Int) -> String {
    var scale = 1.0
    for _ in 0..<digits { scale *= 10 }
    let scaled = (value.magnitude * scale).rounded()
    guard scaled < 9e18 else { return "\(value)" }
    var text = String(UInt64(scaled))
    if digits > 0 {
      if text.count <= digits { text = String(repeating: "0", count: digits + 1 - text.count) + text }
      text.insert(".", at: text.index(text.endIndex, offsetBy: -digits))
    }
    return value < 0 && scaled > 0 ? "-" + text : text
  }
}
