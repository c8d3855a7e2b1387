/// A pattern for URLs: text in which `*` stands for any characters, none included.
///
/// A pattern that begins with "/" is compared with path and query of any origin, any other one with the whole URL, without userinfo and
/// fragment. A pattern without "?" leaves the query out of the comparison. Letters are compared as they are.
struct URLPattern: Sendable, Equatable {
  let text: String
  private let bytes: [UInt8]
  private let isPathOnly: Bool
  private let hasQuery: Bool

  init(_ text: String) {
    self.text = text
    bytes = Array(text.utf8)
    isPathOnly = text.hasPrefix("/")
    hasQuery = text.utf8.contains(UInt8(ascii: "?"))
  }

  func matches(url: String, target: String) -> Bool {
    var candidate = Array((isPathOnly ? target : url).utf8)
    if !hasQuery, let mark = candidate.firstIndex(of: UInt8(ascii: "?")) { candidate.removeSubrange(mark...) }
    return Self.matches(candidate, bytes)
  }

  /// Goes back to the last star only: at most one step for each pair of bytes.
  static func matches(_ text: [UInt8], _ pattern: [UInt8]) -> Bool {
    let star = UInt8(ascii: "*")
    var (position, place) = (0, 0)
    var lastStar: (place: Int, position: Int)?
    while position < text.count {
      if place < pattern.count, pattern[place] == star {
        lastStar = (place, position)
        place += 1
      } else if place < pattern.count, pattern[place] == text[position] {
        place += 1
        position += 1
      } else if let known = lastStar {
        lastStar = (known.place, known.position + 1)
        place = known.place + 1
        position = known.position + 1
      } else {
        return false
      }
    }
    return pattern[place...].allSatisfy { $0 == star }
  }
}
