/// Quantities as people read them.
enum Units {
  static func bytes(_ count: Int64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    var value = Double(count)
    var index = 0
    while value >= 1024, index < units.count - 1 {
      value /= 1024
      index += 1
    }
    return index == 0
      ? "\(count) B" : Decimal.fixed(value, digits: value < 10 ? 2 : value < 100 ? 1 : 0) + " " + units[index]
  }

  static func nanoseconds(_ nanoseconds: Int64) -> String {
    let value = Double(nanoseconds)
    switch nanoseconds {
    case ..<1_000: return "\(nanoseconds) ns"
    case ..<1_000_000: return significant(value / 1e3) + " µs"
    case ..<1_000_000_000: return significant(value / 1e6) + " ms"
    default: return significant(value / 1e9) + " s"
    }
  }

  /// About three digits.
  static func significant(_ value: Double) -> String {
    Decimal.fixed(value, digits: value < 10 ? 2 : value < 100 ? 1 : 0)
  }

  /// With commas between thousands.
  static func count(_ value: Int) -> String {
    var result = ""
    for (index, character) in String(value.magnitude).reversed().enumerated() {
      if index > 0, index % 3 == 0 { result = "," + result }
      result = String(character) + result
    }
    return value < 0 ? "-" + result : result
  }

  /// As wide as wanted, text at the left.
  static func left(_ text: String, _ width: Int) -> String {
    text + String(repeating: " ", count: max(0, width - text.count))
  }

  /// As wide as wanted, text at the right.
  static func right(_ text: String, _ width: Int) -> String {
    String(repeating: " ", count: max(0, width - text.count)) + text
  }
}
