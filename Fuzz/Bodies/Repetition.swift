/// Tells a text that a message repeats from one that is the same as words of the message's own.
enum Repetition {
  /// Whether `message` has `text` from what it is about: about something else with other text in its place, it has that.
  ///
  /// - Parameter again: the message about what has the given text in the place of `text`; nil if there is none.
  static func isThere(_ text: String, in message: String, again: (String) -> String?) -> Bool {
    guard message.contains(text) else { return false }
    let other = changed(text)
    guard let answer = again(other) else { return false }
    return answer != message && answer.contains(other)
  }

  /// Other letters and digits, and all else as it is: as long, and taken or refused for the same reason.
  private static func changed(_ text: String) -> String {
    let bytes = text.utf8.map { byte -> UInt8 in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "m"), UInt8(ascii: "A")...UInt8(ascii: "M"): byte + 13
      case UInt8(ascii: "n")...UInt8(ascii: "z"), UInt8(ascii: "N")...UInt8(ascii: "Z"): byte - 13
      case UInt8(ascii: "0")...UInt8(ascii: "4"): byte + 5
      case UInt8(ascii: "5")...UInt8(ascii: "9"): byte - 5
      default: byte
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}
