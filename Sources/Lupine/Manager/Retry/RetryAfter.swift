internal import LupineRules

/// `Retry-After` (RFC 9110 section 10.2.3): seconds, or a date.
enum RetryAfter {
  /// How many seconds to wait, at least 0; nil: the value is neither.
  static func seconds(_ text: String, now: Int64) -> Int64? {
    if !text.isEmpty, text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) {
      // More digits than a number holds are a long time.
      return Int64(text) ?? .max
    }
    guard let date = HTTPDate(text, now: HTTPDate(seconds: now)) else { return nil }
    return max(0, date.seconds - now)
  }
}
