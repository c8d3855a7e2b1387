/// The dates of `Expires` (RFC 6265bis section 5.1.1): whatever has a day, a month, a year and a time in it, in any order.
enum CookieDate {
  static func read(_ bytes: Span<UInt8>, _ range: Range<Int>) -> HTTPDate? {
    var time: Int64?
    var day: Int?
    var month: Int?
    var year: Int?
    var index = range.lowerBound
    while index < range.upperBound {
      guard !isDelimiter(bytes[index]) else {
        index += 1
        continue
      }
      let start = index
      while index < range.upperBound, !isDelimiter(bytes[index]) { index += 1 }
      let token = start..<index
      if time == nil, let found = readTime(bytes, token) {
        guard let found = found.seconds else { return nil }
        time = found
      } else if day == nil, let found = digits(bytes, token, 1...2) {
        day = found
      } else if month == nil, let found = readMonth(bytes, token) {
        month = found
      } else if year == nil, let found = digits(bytes, token, 2...4) {
        year = found
      }
    }
    guard let time, let day, let month, var year else { return nil }
    if (70...99).contains(year) { year += 1900 }
    if (0...69).contains(year) { year += 2000 }
    guard year >= 1601 else { return nil }
    return HTTPDate.date(year: year, month: month, day: day, time: time)
  }

  private static func isDelimiter(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x09, 0x20...0x2F, 0x3B...0x40, 0x5B...0x60, 0x7B...0x7E: true
    default: false
    }
  }

  private static func isDigit(_ byte: UInt8) -> Bool { URLByteClass.of(byte) & URLByteClass.digit != 0 }

  /// A number of so many digits at the front, with no further digit behind.
  private static func digits(_ bytes: Span<UInt8>, _ range: Range<Int>, _ count: ClosedRange<Int>) -> Int? {
    var value = 0
    var index = range.lowerBound
    while index < range.upperBound, isDigit(bytes[index]) {
      guard index - range.lowerBound < count.upperBound else { return nil }
      value = value * 10 + Int(bytes[index] - UInt8(ascii: "0"))
      index += 1
    }
    return index - range.lowerBound >= count.lowerBound ? value : nil
  }

  /// `h:m:s` at the front, one or two digits each. The outer nil: it is no time; the inner one: there is no such time.
  private static func readTime(_ bytes: Span<UInt8>, _ range: Range<Int>) -> (seconds: Int64?, Void)? {
    var fields = InlineArray<3, Int>(repeating: 0)
    var index = range.lowerBound
    for field in 0..<3 {
      if field > 0 {
        guard index < range.upperBound, bytes[index] == UInt8(ascii: ":") else { return nil }
        index += 1
      }
      guard let value = digits(bytes, index..<range.upperBound, 1...2) else { return nil }
      fields[field] = value
      while index < range.upperBound, isDigit(bytes[index]) { index += 1 }
    }
    guard fields[0] <= 23, fields[1] <= 59, fields[2] <= 59 else { return (nil, ()) }
    return (Int64(fields[0] * 3600 + fields[1] * 60 + fields[2]), ())
  }

  private static func readMonth(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Int? {
    guard range.count >= 3 else { return nil }
    let start = range.lowerBound
    return HTTPDate.months.firstIndex { name in
      name.utf8.enumerated().allSatisfy { bytes[start + $0.offset] | 0x20 == $0.element | 0x20 }
    }.map { $0 + 1 }
  }
}
