/// `Retry-After` (RFC 9110 section 10.2.3).
package enum RetryAfter: Hashable, Sendable {
  case seconds(Int64)
  case date(HTTPDate)

  package init?(_ text: String, now: HTTPDate) {
    let value = FieldScanner.trimmed(text[...].utf8)
    if let seconds = Self.seconds(value) {
      self = .seconds(seconds)
    } else if let date = HTTPDate(lenient: String(decoding: value, as: UTF8.self), now: now) {
      self = .date(date)
    } else {
      return nil
    }
  }

  /// Digits, and behind a point more of them, as some servers have it: rounded up, so that nobody comes early. More than a number holds is a long
  /// time.
  private static func seconds(_ value: Substring.UTF8View) -> Int64? {
    let parts = value.split(separator: UInt8(ascii: "."), maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.allSatisfy({ !$0.isEmpty && $0.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains) }) else {
      return nil
    }
    let whole = FieldScanner.number(parts[0]) ?? .max
    let isMore = parts.count > 1 && parts[1].contains { $0 != UInt8(ascii: "0") }
    return isMore && whole < .max ? whole + 1 : whole
  }

  /// Seconds to wait from `now` on; never negative.
  package func delay(from now: HTTPDate) -> Int64 {
    switch self {
    case .seconds(let seconds): return seconds
    case .date(let date):
      let (difference, overflow) = date.seconds.subtractingReportingOverflow(now.seconds)
      return overflow ? (date < now ? 0 : .max) : max(0, difference)
    }
  }
}

/// `Content-Range` in bytes (RFC 9110 section 14.4).
package enum ContentRange: Hashable, Sendable {
  /// The part from the first to the last byte, of a whole that may be of unknown length.
  case part(ClosedRange<Int64>, total: Int64?)
  /// No part could be given (416); the whole has this length.
  case unsatisfied(total: Int64)

  package init?(_ text: String) {
    let value = FieldScanner.trimmed(text[...].utf8)
    let unit = value.prefix(while: FieldScanner.isToken)
    let rest = value.dropFirst(unit.count)
    guard String(decoding: unit, as: UTF8.self).lowercased() == "bytes", rest.first == UInt8(ascii: " ") else {
      return nil
    }
    let halves = rest.dropFirst().split(
      separator: UInt8(ascii: "/"), maxSplits: 1, omittingEmptySubsequences: false)
    guard halves.count == 2 else { return nil }
    let isUnknown = halves[1].elementsEqual([UInt8(ascii: "*")])
    let total = FieldScanner.number(halves[1])
    guard isUnknown || total != nil else { return nil }
    if halves[0].elementsEqual([UInt8(ascii: "*")]) {
      guard let total else { return nil }
      self = .unsatisfied(total: total)
      return
    }
    let bounds = halves[0].split(separator: UInt8(ascii: "-"), maxSplits: 1, omittingEmptySubsequences: false)
    guard bounds.count == 2, let first = FieldScanner.number(bounds[0]), let last = FieldScanner.number(bounds[1]),
      first <= last, total.map({ last < $0 }) ?? true
    else { return nil }
    self = .part(first...last, total: total)
  }
}
