import LupineSession
import Testing

/// What remains when the news of a reader that stops and goes on overtake each other.
@Suite struct PauseStateTests {
  @Test func aChangeIsNewsOnce() {
    var state = PauseState()
    #expect(state.change(to: false) == nil)
    let paused = state.change(to: true)
    #expect(paused == state && state.isPaused)
    #expect(state.change(to: true) == nil)
    #expect(state.change(to: false)?.isPaused == false)
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
    let paused = try #require(reader.change(to: true))
    let resumed = try #require(reader.change(to: false))
    var socket = PauseState()
    #expect(socket.update(to: resumed) == true)
    #expect(socket.update(to: paused) == false)
    #expect(socket.update(to: resumed) == false)
    #expect(!socket.isPaused)
  }

  private func permutations(of values: [Int]) -> [[Int]] {
    guard let first = values.first else { return [[]] }
    return permutations(of: Array(values.dropFirst())).flatMap { rest in
      (0...rest.count).map { Array(rest[..<$0]) + [first] + Array(rest[$0...]) }
    }
  }
}
