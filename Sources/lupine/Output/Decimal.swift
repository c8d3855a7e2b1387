internal import LupineRules

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

extension JSONValue {
  /// A number with at most `digits` decimal places.
  static func decimal(_ value: Double, digits: Int = 3) -> JSONValue {
    value.isFinite ? .number(Decimal.text(value, digits: digits)) : .null
  }
}
