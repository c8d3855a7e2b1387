import LupineSession
import Testing

/// What remains when the news of a reader that stops and goes on overtake each other.
@Suite struct PauseStateTests {
  @Test func aChangeIsNewsOnce() {
    var state = PauseState()
    let changes = [false, true, true, false].map { state.change(to: $0)?.isPaused }
    #expect(changes == [nil, true, nil, false])
    #expect(state.number == 2)
  }

  /// Every order in which the news of five changes may arrive ends with the last.
  @Test func theLatestCountsInEveryOrder() {
    var reader = PauseState()
    let news = (0..<5).compactMap { reader.change(to: $0.isMultiple(of: 2)) }
    #expect(news.count == 5)
    for order in permutations(of: Array(news.indices)) {
      var socket = PauseState()
      for index in order { _ = socket.update(to: news[index]) }
      #expect(socket == reader, "\(order)")
    }
  }

  @Test func anOlderStateIsRefused() throws {
    var reader = PauseState()
    let (first, second) = (reader.change(to: true), reader.change(to: false))
    let (paused, resumed) = (try #require(first), try #require(second))
    var socket = PauseState()
    let taken = [resumed, paused, resumed].map { socket.update(to: $0) }
    #expect(taken == [true, false, false])
    #expect(!socket.isPaused)
  }

  private func permutations(of values: [Int]) -> [[Int]] {
    guard let first = values.first else { return [[]] }
    return permutations(of: Array(values.dropFirst())).flatMap { rest in
      (0...rest.count).map { Array(rest[..<$0]) + [first] + Array(rest[$0...]) }
    }
  }
}
