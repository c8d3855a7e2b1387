/// What a `TokenInterceptor` knows, and what follows from it: without a clock and without tasks, which are given.
struct TokenState: Sendable {
  /// How many refreshes may begin in a `window`. Source: `AuthenticationInterceptor.RefreshWindow` of Alamofire.
  static let maximumRefreshes = 5
  /// See `maximumRefreshes`.
  static let window = Duration.seconds(30)
  /// How many of the tokens that were replaced are known as our own, for the requests that are still under way with them.
  static let maximumReplaced = 16

  /// What to do with a request.
  enum Step: Hashable, Sendable {
    /// Send it, or send it again, with this token.
    case send(String)
    /// Wait for the refresh that is under way.
    case wait
    /// Begin a refresh and wait for it.
    case refresh(expired: String?)
    /// A refresh would be needed, and there were too many.
    case giveUp
    /// The token is none of ours, and so is what was said to it.
    case ignore
  }

  /// The token for the next request; nil: there was none so far.
  private(set) var token: String?
  private var replaced: [String] = []
  private var isRefreshing = false
  /// When the refreshes began that count.
  private var begun: [Duration] = []

  init(token: String?) { self.token = token }

  /// A request is about to be sent.
  ///
  /// - Parameter now: the time since any fixed moment.
  mutating func send(at now: Duration) -> Step {
    if isRefreshing { return .wait }
    if let token { return .send(token) }
    return begin(expired: nil, now)
  }

  /// The server does not accept a token. One that was replaced while the request was under way needs no refresh.
  mutating func refuse(_ sent: String, at now: Duration) -> Step {
    guard sent == token || replaced.contains(sent) else { return .ignore }
    if isRefreshing { return .wait }
    if let token, token != sent { return .send(token) }
    return begin(expired: sent, now)
  }

  private mutating func begin(expired: String?, _ now: Duration) -> Step {
    begun.removeAll { now - $0 >= Self.window }
    guard begun.count < Self.maximumRefreshes else { return .giveUp }
    begun.append(now)
    isRefreshing = true
    return .refresh(expired: expired)
  }

  /// The refresh is over: with a token, or nil if it failed.
  mutating func end(_ new: String?) {
    isRefreshing = false
    guard let new, new != token else { return }
    if let token { replaced.append(token) }
    if replaced.count > Self.maximumReplaced { replaced.removeFirst() }
    token = new
  }
}

extension TokenState: CustomStringConvertible, CustomReflectable {
  /// Without the tokens.
  var description: String { "TokenState" }
  /// Nothing of it, for who dumps what holds it.
  var customMirror: Mirror { Mirror(self, children: []) }
}
