/// Dates as RFC 3339 writes them: `2026-11-21T12:00:00.123Z`. Pure, without a calendar of anybody else.
package enum InternetDate {
  /// The years 0 to 9999, in milliseconds since 1970.
  package static let range: ClosedRange<Int64> = -62_167_219_200_000...253_402_300_799_999

  /// Milliseconds since 1970 as text, in UTC. Outside `range` it is the nearest date inside.
  package static func text(milliseconds: Int64) -> String {
    let clamped = min(max(milliseconds, range.lowerBound), range.upperBound)
    let days = floorDivide(clamped, 86_400_000)
    let rest = clamped - days * 86_400_000
    let (year, month, day) = civil(days)
    let (seconds, fraction) = (rest / 1_000, rest % 1_000)
    return pad(year, 4) + "-" + pad(month, 2) + "-" + pad(day, 2) + "T" + pad(seconds / 3_600, 2) + ":"
      + pad(seconds / 60 % 60, 2) + ":" + pad(seconds % 60, 2) + "." + pad(fraction, 3) + "Z"
  }

  /// Reads a date; nil if it is none. A missing zone is UTC; digits past the millisecond are dropped.
  package static func milliseconds(_ text: String) -> Int64? {
    var reader = Reader(bytes: Array(text.utf8))
    guard let year = reader.number(4), reader.take("-"), let month = reader.number(2), reader.take("-"),
      let day = reader.number(2), reader.take("T") || reader.take("t") || reader.take(" "),
      let hour = reader.number(2), reader.take(":"), let minute = reader.number(2), reader.take(":"),
      let second = reader.number(2)
    else { return nil }
    guard (1...12).contains(month), (1...length(of: month, year)).contains(day), hour < 24, minute < 60, second <= 60
    else { return nil }
    var milliseconds = (daysFromCivil(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second) * 1_000
    if reader.take(".") {
      guard let fraction = reader.fraction() else { return nil }
      milliseconds += fraction
    }
    guard let offset = reader.offset(), reader.isAtEnd else { return nil }
    return milliseconds - offset * 60_000
  }

  private struct Reader {
    let bytes: [UInt8]
    var index = 0

    init(bytes: [UInt8]) {
      self.bytes = bytes
    }

    var isAtEnd: Bool { index == bytes.count }

    mutating func digit() -> Int64? {
      guard index < bytes.count, case UInt8(ascii: "0")...UInt8(ascii: "9") = bytes[index] else { return nil }
      defer { index += 1 }
      return Int64(bytes[index] - UInt8(ascii: "0"))
    }

    mutating func number(_ count: Int) -> Int64? {
      var value: Int64 = 0
      for _ in 0..<count {
        guard let digit = digit() else { return nil }
        value = value * 10 + digit
      }
      return value
    }

    /// Milliseconds of a fraction of a second; at least one digit.
    mutating func fraction() -> Int64? {
      var value: Int64 = 0
      var scale: Int64 = 100
      guard let first = digit() else { return nil }
      value = first * scale
      while let digit = digit() {
        scale /= 10
        value += digit * scale
      }
      return value
    }

    mutating func take(_ scalar: Unicode.Scalar) -> Bool {
      guard index < bytes.count, bytes[index] == UInt8(ascii: scalar) else { return false }
      index += 1
      return true
    }

    /// Minutes east of UTC.
    mutating func offset() -> Int64? {
      if isAtEnd || take("Z") || take("z") { return 0 }
      let sign: Int64
      if take("+") { sign = 1 } else if take("-") { sign = -1 } else { return nil }
      guard let hours = number(2), hours < 24 else { return nil }
      _ = take(":")
      guard let minutes = number(2), minutes < 60 else { return nil }
      return sign * (hours * 60 + minutes)
    }
  }

  // MARK: The Gregorian calendar, as H. Hinnant's "chrono-compatible low-level date algorithms" have it

  private static func floorDivide(_ value: Int64, _ by: Int64) -> Int64 {
    value >= 0 ? value / by : (value - by + 1) / by
  }

  private static func civil(_ days: Int64) -> (year: Int64, month: Int64, day: Int64) {
    let shifted = days + 719_468
    let era = floorDivide(shifted, 146_097)
    let dayOfEra = shifted - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let part = (5 * dayOfYear + 2) / 153
    let month = part < 10 ? part + 3 : part - 9
    return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * part + 2) / 5 + 1)
  }

  private static func daysFromCivil(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
    let shifted = month <= 2 ? year - 1 : year
    let era = floorDivide(shifted, 400)
    let yearOfEra = shifted - era * 400
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
  }

  private static func length(of month: Int64, _ year: Int64) -> Int64 {
    switch month {
    case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
    case 4, 6, 9, 11: 30
    default: 31
    }
  }

  private static func pad(_ value: Int64, _ digits: Int) -> String {
    let text = String(value)
    return String(repeating: "0", count: max(0, digits - text.count)) + text
  }
}
