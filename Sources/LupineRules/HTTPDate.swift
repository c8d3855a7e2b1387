/// A date of HTTP (RFC 9110 section 5.6.7), to the second.
package struct HTTPDate: Hashable, Comparable, Sendable {
  /// Seconds since 1970-01-01 00:00:00 UTC, leap seconds not counted.
  package let seconds: Int64

  package init(seconds: Int64) {
    self.seconds = seconds
  }

  package static func < (left: HTTPDate, right: HTTPDate) -> Bool { left.seconds < right.seconds }

  private static let weekdays = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
  private static let longWeekdays = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
  static let months = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
  ]

  /// Reads any of the three forms: IMF-fixdate, RFC 850, asctime. The day's name must be one, but is not compared with the date. Letters may be
  /// of any case: caches should not mind it (RFC 9111 section 4.2), and nobody else is harmed.
  ///
  /// - Parameter now: an RFC 850 date, whose year has two digits, that would lie more than 50 years after it is of the century before.
  package init?(_ text: String, now: HTTPDate) {
    self.init(text, now: now, isLenient: false)
  }

  /// The same, and in the first form what mail has (RFC 5322 section 3.3): a day of one digit, and the zones `UTC` and `+0300`. Not for caches, to
  /// which such a date is none (RFC 9111 section 4.2).
  package init?(lenient text: String, now: HTTPDate) {
    self.init(text, now: now, isLenient: true)
  }

  private init?(_ text: String, now: HTTPDate, isLenient: Bool) {
    var reader = Reader(text.utf8)
    guard let date = Self.read(&reader, now: now, isLenient), reader.isAtEnd else { return nil }
    self = date
  }

  private static func read(_ reader: inout Reader, now: HTTPDate, _ isLenient: Bool) -> HTTPDate? {
    let name = reader.letters()
    if index(of: name, in: longWeekdays) != nil, reader.skip(", ") {
      guard let day = reader.number(2), reader.skip("-"), let month = month(&reader), reader.skip("-"),
        let year = reader.number(2), reader.skip(" "), let time = time(&reader), zone(&reader)
      else { return nil }
      return rfc850(year: year, month: month, day: day, time: time, now: now)
    }
    guard index(of: name, in: weekdays) != nil else { return nil }
    if reader.skip(", ") {
      guard let day = reader.number(2) ?? (isLenient ? reader.number(1) : nil), reader.skip(" "),
        let month = month(&reader), reader.skip(" "), let year = reader.number(4), reader.skip(" "),
        let time = time(&reader), let offset = isLenient ? offset(&reader) : zone(&reader) ? 0 : nil
      else { return nil }
      return date(year: year, month: month, day: day, time: time - offset)
    }
    guard reader.skip(" "), let month = month(&reader), reader.skip(" "),
      let day = reader.skip(" ") ? reader.number(1) : reader.number(2), reader.skip(" "), let time = time(&reader),
      reader.skip(" "), let year = reader.number(4)
    else { return nil }
    return date(year: year, month: month, day: day, time: time)
  }

  private static func month(_ reader: inout Reader) -> Int? {
    index(of: reader.letters(), in: months).map { $0 + 1 }
  }

  private static func zone(_ reader: inout Reader) -> Bool {
    reader.skip(" ") && index(of: reader.letters(), in: ["GMT"]) != nil
  }

  /// Seconds east of Greenwich.
  private static func offset(_ reader: inout Reader) -> Int64? {
    guard reader.skip(" ") else { return nil }
    let isEast = reader.skip("+")
    guard isEast || reader.skip("-") else { return index(of: reader.letters(), in: ["GMT", "UTC"]).map { _ in 0 } }
    guard let hours = reader.number(2), let minutes = reader.number(2), hours <= 23, minutes <= 59 else { return nil }
    let seconds = Int64(hours * 3600 + minutes * 60)
    return isEast ? seconds : -seconds
  }

  private static func index(of word: Substring.UTF8View, in names: [String]) -> Int? {
    names.firstIndex { $0.utf8.elementsEqual(word) { $0 | 0x20 == $1 | 0x20 } }
  }

  /// Seconds since midnight; a leap second is the one after it.
  private static func time(_ reader: inout Reader) -> Int64? {
    guard let hour = reader.number(2), reader.skip(":"), let minute = reader.number(2), reader.skip(":"),
      let second = reader.number(2), hour <= 23, minute <= 59, second <= 60
    else { return nil }
    return Int64(hour * 3600 + minute * 60 + second)
  }

  private static func rfc850(year: Int, month: Int, day: Int, time: Int64, now: HTTPDate) -> HTTPDate? {
    let current = now.civil
    var full = current.year - current.year % 100 + year
    if full > current.year + 50 { full -= 100 }
    if full <= current.year - 50 { full += 100 }
    // The last of these years lies within the 50 until this moment of it, and beyond them from then on.
    let timeOfDay = remainder(now.seconds, 86_400)
    if full == current.year + 50, (month, day, time) > (current.month, current.day, timeOfDay) { full -= 100 }
    return date(year: full, month: month, day: day, time: time)
  }

  /// A day of the calendar and seconds since its midnight; nil if there is no such day.
  static func date(year: Int, month: Int, day: Int, time: Int64) -> HTTPDate? {
    guard (0...9999).contains(year), day >= 1, day <= days(in: month, year) else { return nil }
    return HTTPDate(seconds: daysSinceEpoch(year, month, day) * 86_400 + time)
  }

  private static func days(in month: Int, _ year: Int) -> Int {
    switch month {
    case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
    case 4, 6, 9, 11: 30
    default: 31
    }
  }

  /// IMF-fixdate, the only form that is sent. Dates before year 0 or after 9999 are given as the nearest one that has a form.
  package var text: String {
    let lowest = Self.daysSinceEpoch(0, 1, 1) * 86_400
    let highest = Self.daysSinceEpoch(10_000, 1, 1) * 86_400 - 1
    let date = HTTPDate(seconds: min(max(seconds, lowest), highest))
    let (year, month, day) = date.civil
    let time = Int(Self.remainder(date.seconds, 86_400))
    // 1970-01-01 was a Thursday.
    let weekday = Self.weekdays[Int(Self.remainder(Self.quotient(date.seconds, 86_400) + 3, 7))]
    let clock = "\(Self.padded(time / 3600, 2)):\(Self.padded(time / 60 % 60, 2)):\(Self.padded(time % 60, 2))"
    return "\(weekday), \(Self.padded(day, 2)) \(Self.months[month - 1]) \(Self.padded(year, 4)) \(clock) GMT"
  }

  private static func padded(_ number: Int, _ width: Int) -> String {
    let digits = String(number)
    return String(repeating: "0", count: max(0, width - digits.count)) + digits
  }

  private static func quotient(_ value: Int64, _ divisor: Int64) -> Int64 {
    let quotient = value / divisor
    return value % divisor < 0 ? quotient - 1 : quotient
  }

  private static func remainder(_ value: Int64, _ divisor: Int64) -> Int64 {
    let remainder = value % divisor
    return remainder < 0 ? remainder + divisor : remainder
  }

  // The proleptic Gregorian calendar in eras of 400 years that begin with March (Howard Hinnant's algorithms).
  private static func daysSinceEpoch(_ year: Int, _ month: Int, _ day: Int) -> Int64 {
    let shifted = Int64(month <= 2 ? year - 1 : year)
    let era = quotient(shifted, 400)
    let yearOfEra = shifted - era * 400
    let dayOfYear = Int64((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1)
    return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
  }

  private var civil: (year: Int, month: Int, day: Int) {
    // Far outside what has a form, the year only has to be far outside too; this keeps the arithmetic from overflowing.
    let days = min(max(Self.quotient(seconds, 86_400), -1_000_000_000), 1_000_000_000) + 719_468
    let era = Self.quotient(days, 146_097)
    let dayOfEra = days - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shifted = (5 * dayOfYear + 2) / 153
    let month = Int(shifted < 10 ? shifted + 3 : shifted - 9)
    return (Int(yearOfEra + era * 400) + (month <= 2 ? 1 : 0), month, Int(dayOfYear - (153 * shifted + 2) / 5 + 1))
  }

  private struct Reader {
    private var rest: Substring.UTF8View

    init(_ text: String.UTF8View) { rest = text[...] }

    var isAtEnd: Bool { rest.isEmpty }

    mutating func skip(_ text: String) -> Bool {
      guard rest.starts(with: text.utf8) else { return false }
      rest = rest.dropFirst(text.utf8.count)
      return true
    }

    mutating func letters() -> Substring.UTF8View {
      let word = rest.prefix { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0 | 0x20) }
      rest = rest.dropFirst(word.count)
      return word
    }

    /// Exactly `count` digits.
    mutating func number(_ count: Int) -> Int? {
      let digits = rest.prefix(count)
      guard digits.count == count, let value = FieldScanner.number(digits) else { return nil }
      rest = rest.dropFirst(count)
      return Int(value)
    }
  }
}
