/// Whose turn it is to be matched: requests that may want the same exchange take turns in the order in which they began, whenever what they
/// are matched by is known.
struct ReplayTurns<Arrival: Sendable>: Sendable {
  private struct Turn {
    let number: Int
    let line: String
    var arrival: Arrival?
  }

  private var turns: [Turn] = []
  private var count = 0

  /// A request begins; the number names its turn.
  ///
  /// - Parameter line: only requests with the same one wait for each other.
  mutating func enter(_ line: String) -> Int {
    count += 1
    turns.append(Turn(number: count, line: line))
    return count
  }

  /// All is known of a request, unless its turn is over.
  mutating func arrive(_ number: Int, _ arrival: Arrival) {
    guard let index = turns.firstIndex(where: { $0.number == number }) else { return }
    turns[index].arrival = arrival
  }

  /// Nobody waits for a request any more.
  mutating func leave(_ number: Int) {
    turns.removeAll { $0.number == number }
  }

  /// The first that has arrived and has nobody before it; its turn is over.
  mutating func next() -> Arrival? {
    var held: Set<String> = []
    for (index, turn) in turns.enumerated() where held.insert(turn.line).inserted {
      guard let arrival = turn.arrival else { continue }
      turns.remove(at: index)
      return arrival
    }
    return nil
  }
}
