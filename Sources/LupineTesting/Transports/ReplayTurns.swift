internal import LupineBase

/// Whose turn it is to be matched: requests that may want the same exchange take turns in the order in which they began, whenever what they
/// are matched by is known.
struct ReplayTurns<Arrival: Sendable>: Sendable {
  private struct Turn: Sendable {
    let line: String
    var arrival: Arrival?
  }

  /// By their numbers, until they are over.
  private var turns: [Int: Turn] = [:]
  /// Numbers in the order in which they were given; turns that are over may be among them.
  private var lines: [String: RingBuffer<Int>] = [:]
  /// Lines in which somebody may have nobody before him any more.
  private var changed: [String] = []
  private var count = 0

  /// A request begins; the number names its turn.
  ///
  /// - Parameter line: only requests with the same one wait for each other.
  mutating func enter(_ line: String) -> Int {
    count += 1
    turns[count] = Turn(line: line)
    lines[line, default: RingBuffer()].append(count)
    return count
  }

  /// All is known of a request, unless its turn is over.
  mutating func arrive(_ number: Int, _ arrival: Arrival) {
    guard let line = turns[number]?.line else { return }
    turns[number]?.arrival = arrival
    changed.append(line)
  }

  /// Nobody waits for a request any more.
  mutating func leave(_ number: Int) {
    if let turn = turns.removeValue(forKey: number) { changed.append(turn.line) }
  }

  /// One that has arrived and has nobody before it; its turn is over.
  mutating func next() -> Arrival? {
    while let line = changed.last {
      if let arrival = takeFirst(of: line) { return arrival }
      changed.removeLast()
    }
    return nil
  }

  private mutating func takeFirst(of line: String) -> Arrival? {
    while let number = lines[line]?.first {
      guard let turn = turns[number] else {
        _ = lines[line]?.popFirst()
        continue
      }
      guard let arrival = turn.arrival else { return nil }
      turns[number] = nil
      _ = lines[line]?.popFirst()
      return arrival
    }
    lines[line] = nil
    return nil
  }
}
