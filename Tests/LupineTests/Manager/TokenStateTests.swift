import Testing

@testable import Lupine

/// What follows for the token from requests, refusals and refreshes, without a clock.
@Suite struct TokenStateTests {
  enum Event: Sendable {
    case send(TokenState.Step, at: Int = 0)
    case refuse(String, TokenState.Step, at: Int = 0)
    case refreshed(String)
    case failed
  }

  struct Case: Sendable, CustomTestStringConvertible {
    var name: String
    var token: String? = "a"
    var events: [Event]
    var testDescription: String { name }
  }

  static let cases = [
    Case(name: "a token is sent", events: [.send(.send("a")), .send(.send("a"))]),
    Case(
      name: "without one, the first request gets one, and others wait", token: nil,
      events: [.send(.refresh(expired: nil)), .send(.wait), .refreshed("a"), .send(.send("a"))]),
    Case(
      name: "one refresh for all refusals",
      events: [
        .refuse("a", .refresh(expired: "a")), .refuse("a", .wait), .send(.wait), .refreshed("b"), .send(.send("b")),
      ]),
    Case(
      name: "a refusal of what was replaced needs none",
      events: [.refuse("a", .refresh(expired: "a")), .refreshed("b"), .refuse("a", .send("b")), .send(.send("b"))]),
    Case(
      name: "a refusal of what was replaced waits for the next",
      events: [
        .refuse("a", .refresh(expired: "a")), .refreshed("b"), .refuse("b", .refresh(expired: "b")),
        .refuse("a", .wait), .refreshed("c"), .refuse("a", .send("c")), .refuse("b", .send("c")),
      ]),
    Case(
      name: "a token of somebody else", events: [.refuse("x", .ignore), .refuse("", .ignore), .send(.send("a"))]),
    Case(name: "somebody else's while there is none", token: nil, events: [.refuse("x", .ignore)]),
    Case(
      name: "a failure leaves the token, and the next refusal tries again",
      events: [
        .refuse("a", .refresh(expired: "a")), .failed, .send(.send("a")), .refuse("a", .refresh(expired: "a")),
      ]),
    Case(
      name: "a failure without a token", token: nil,
      events: [.send(.refresh(expired: nil)), .failed, .send(.refresh(expired: nil))]),
    Case(
      name: "the same token again",
      events: [.refuse("a", .refresh(expired: "a")), .refreshed("a"), .refuse("a", .refresh(expired: "a"))]),
    Case(
      name: "a token that comes back",
      events: [
        .refuse("a", .refresh(expired: "a")), .refreshed("b"), .refuse("b", .refresh(expired: "b")), .refreshed("a"),
        .refuse("a", .refresh(expired: "a")),
      ]),
    Case(
      name: "at most five in 30 seconds",
      events: [
        .refuse("a", .refresh(expired: "a"), at: 0), .failed, .refuse("a", .refresh(expired: "a"), at: 1), .failed,
        .refuse("a", .refresh(expired: "a"), at: 2), .failed, .refuse("a", .refresh(expired: "a"), at: 3), .failed,
        .refuse("a", .refresh(expired: "a"), at: 4), .failed, .refuse("a", .giveUp, at: 5), .send(.send("a"), at: 5),
        .refuse("a", .giveUp, at: 29), .refuse("a", .refresh(expired: "a"), at: 30), .failed,
        .refuse("a", .giveUp, at: 30), .refuse("a", .refresh(expired: "a"), at: 31),
      ]),
    Case(
      name: "those without a token count too", token: nil,
      events: Array(repeating: [.send(.refresh(expired: nil)), .failed], count: 5).flatMap { $0 } + [.send(.giveUp)]),
  ]

  @Test(arguments: cases) func followsFromEvents(_ example: Case) {
    var state = TokenState(token: example.token)
    for event in example.events {
      switch event {
      case .send(let step, let now): #expect(state.send(at: .seconds(now)) == step)
      case .refuse(let token, let step, let now): #expect(state.refuse(token, at: .seconds(now)) == step)
      case .refreshed(let token): state.end(token)
      case .failed: state.end(nil)
      }
    }
  }

  /// The tokens that were replaced are known up to a number; what is older is nobody's.
  @Test func replacedTokensAreForgotten() {
    var state = TokenState(token: "0")
    for number in 1...20 {
      #expect(state.refuse("\(number - 1)", at: .seconds(30 * number)) == .refresh(expired: "\(number - 1)"))
      state.end("\(number)")
    }
    #expect(state.refuse("3", at: .zero) == .ignore)
    #expect(state.refuse("4", at: .zero) == .send("20"))
    #expect(state.refuse("19", at: .zero) == .send("20"))
  }

  /// Whatever shows it shows no token.
  @Test func tokensAreNotShown() {
    var state = TokenState(token: "secret-1")
    _ = state.refuse("secret-1", at: .zero)
    state.end("secret-2")
    var text = "\(state) \(String(reflecting: state))"
    dump(state, to: &text)
    #expect(!text.contains("secret"))
  }
}
