internal import HTTPTypes
internal import LupineRules
public import LupineSession

/// Sends a bearer token (RFC 6750) with requests, and gets a new one when the server does not accept it any more. For any number of managers.
///
/// - A request to one of the origins gets `Authorization: Bearer …`, and no other does. One that says itself who is asking, by an `Authorization` field, a
///   `Request.credential` or a user in its URL, is left alone.
/// - When the origin answers 401 to the token, a new one is asked for, once for all requests that are refused meanwhile; requests that begin meanwhile wait
///   for it too. Then the request is sent again, once: a second 401 is the result. One that was refused with a token that has been replaced already is sent
///   again at once. A redirect to another origin goes on without the token, and what is answered behind it, by the first origin too, is the result.
/// - What the refresh throws, the calls throw that waited for it.
/// - At most 5 refreshes begin within 30 s. After that the 401 is the result, or what the last refresh threw, if it did.
/// - Cancelling a call ends its waiting, not the refresh, which has no time limit but its own.
/// - As with every interceptor, a body that can be sent only once is not repeated, and a download task with handlers neither: its 401 is the result. The token is
///   refreshed for bodies all the same, for such tasks not.
///
/// A request that is answered with 401 after it was repeated for another reason, by the retry policy for example, is not sent again.
///
/// **The refresh** has to come by its token without this interceptor: a request of it that waited for a token would wait for itself. So give it a manager or
/// a `Session` of its own. The calls that it makes and awaits itself pass unchanged also through a manager that has this interceptor; those of operations,
/// of detached tasks and of other threads wait.
///
/// No token is in any description of it.
///
/// Source: `AuthenticationInterceptor` of Alamofire.
public actor TokenInterceptor: RequestInterceptor {
  /// Lets requests of a refresh pass while it is under way, and not those of a task that outlives it.
  struct Pass: Sendable, Equatable {
    let interceptor: ObjectIdentifier
    let number: UInt64
  }

  /// Those whose refresh the current task is a part of.
  @TaskLocal static var refreshing: [Pass] = []

  private let origins: Set<Origin>
  // Not on the actor, which has others to answer meanwhile.
  private let refresh: @concurrent @Sendable (_ expired: String?) async throws -> String
  private let now: @Sendable () -> Duration
  private var state: TokenState
  private var lastRefresh: UInt64 = 0
  /// The number of the refresh that is under way.
  private var currentRefresh: UInt64?
  /// What the last refresh threw.
  private var failure: (any Error)?
  private var waiting: [UInt64: CheckedContinuation<Void, any Error>] = [:]
  private var lastWaiting: UInt64 = 0

  /// Makes one.
  ///
  /// - Parameters:
  ///   - token: what there is already; nil: the first request asks `refresh` for it.
  ///   - origins: http and https URLs of what the token is for, as `manager.baseURL`: scheme, host and port count. A server at another one never sees it.
  ///   - refresh: gives a new token. `expired` is the one that was refused, nil if there was none. One call at a time, on no particular thread. Kept as
  ///     long as the interceptor is: a manager that has this interceptor is held weakly in it, or neither ever goes.
  /// - Throws: `SessionError`: `.badURL` for an origin that cannot be read; `.badRequest` for a token that is empty or has anything but visible ASCII
  ///   characters, which calls throw too if `refresh` gives one.
  public init(
    token: String?, origins: [String],
    refresh: @escaping @concurrent @Sendable (_ expired: String?) async throws -> String
  ) throws(SessionError) {
    let start = ContinuousClock.now
    try self.init(token: token, origins: origins, now: { ContinuousClock.now - start }, refresh: refresh)
  }

  /// - Parameter now: the time since any fixed moment, for tests to take the place of.
  init(
    token: String?, origins: [String], now: @escaping @Sendable () -> Duration,
    refresh: @escaping @concurrent @Sendable (_ expired: String?) async throws -> String
  ) throws(SessionError) {
    if let token { try Self.check(token) }
    var read: Set<Origin> = []
    for origin in origins { read.insert(try Request(origin).parsedURL.origin) }
    self.origins = read
    self.now = now
    self.refresh = refresh
    state = TokenState(token: token)
  }

  private static func check(_ token: String) throws(SessionError) {
    guard !token.isEmpty, token.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
      throw SessionError(
        .badRequest, phase: .prepare, message: "a bearer token consists of visible ASCII characters (RFC 6750 2.1)")
    }
  }

  // MARK: Requests

  /// The request with the token, if it is meant for the request.
  ///
  /// - Throws: what the refresh that the request waits for throws; `SessionError` with `.cancelled` if the call was cancelled meanwhile.
  public func adapt(_ request: Request, attempt: Int) async throws -> Request {
    guard isMeant(for: request), request.fields[.authorization] == nil, request.credential == nil,
      request.parsedURL.userinfo == nil
    else { return request }
    var step = state.send(at: now())
    // A refresh may be followed by another one before this goes on.
    while true {
      switch step {
      case .send(let token):
        var request = request
        request.fields[.authorization] = Self.scheme + token
        return request
      case .refresh(let expired): try await begin(expired, request)
      case .wait: try await waitForRefresh(request)
      case .giveUp, .ignore:
        throw failure
          ?? SessionError(
            .cannotAuthenticate, phase: .prepare, message: "there is no token", failingURL: request.urlString)
      }
      step = state.send(at: now())
    }
  }

  /// Whether to send it again, once there is another token.
  public func decision(on failure: RequestFailure) async -> RetryDecision {
    guard failure.attempt == 1, let response = failure.response, response.statusCode == 401,
      isMeant(for: failure.request), response.parsedURL.origin == failure.request.parsedURL.origin,
      let field = failure.request.fields[.authorization], field.hasPrefix(Self.scheme),
      Self.isAnswer(response, to: field)
    else { return .undecided }
    do {
      switch state.refuse(String(field.dropFirst(Self.scheme.count)), at: now()) {
      case .send: break
      case .refresh(let expired): try await begin(expired, failure.request)
      case .wait: try await waitForRefresh(failure.request)
      case .giveUp: return self.failure.map { .fail($0) } ?? .undecided
      case .ignore: return .undecided
      }
      return .retry(after: .zero)
    } catch {
      return .fail(error)
    }
  }

  /// Whether the server that answered was shown the field: a redirect to another origin takes it away for the rest of the chain, where that leads back too,
  /// unless somebody sets it again.
  private static func isAnswer(_ response: Response, to field: String) -> Bool {
    let origin = response.parsedURL.origin
    if response.redirects.allSatisfy({ $0.url.origin == origin }) { return true }
    let end = Array((": " + field + "\r").utf8)
    return response.requestHead.split(separator: UInt8(ascii: "\n")).contains {
      $0.suffix(end.count).elementsEqual(end)
    }
  }

  private static let scheme = "Bearer "

  private func isMeant(for request: Request) -> Bool {
    guard origins.contains(request.parsedURL.origin) else { return false }
    return currentRefresh.map { !Self.refreshing.contains(pass($0)) } ?? true
  }

  // MARK: Refreshing

  /// Begins a refresh in a task of its own, which goes on whoever of those that wait for it is cancelled, and waits.
  private func begin(_ expired: String?, _ request: Request) async throws {
    failure = nil
    lastRefresh += 1
    currentRefresh = lastRefresh
    let passing = Self.refreshing + [pass(lastRefresh)]
    Task {
      let result: Result<String, any Error>
      do {
        let token = try await Self.$refreshing.withValue(passing) { try await refresh(expired) }
        try Self.check(token)
        result = .success(token)
      } catch {
        result = .failure(error)
      }
      end(result)
    }
    try await waitForRefresh(request)
  }

  private func pass(_ number: UInt64) -> Pass { Pass(interceptor: ObjectIdentifier(self), number: number) }

  private func end(_ result: Result<String, any Error>) {
    currentRefresh = nil
    state.end(try? result.get())
    if case .failure(let error) = result { failure = error }
    let ended = waiting
    waiting = [:]
    for continuation in ended.values { continuation.resume(with: result.map { _ in }) }
  }

  private func waitForRefresh(_ request: Request) async throws {
    lastWaiting += 1
    let number = lastWaiting
    let cancellation = SessionError(
      .cancelled, phase: .prepare, message: "the call was cancelled while it waited for a token",
      failingURL: request.urlString)
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
        // The handler may have come before there was anybody to give up.
        if Task.isCancelled { continuation.resume(throwing: cancellation) } else { waiting[number] = continuation }
      }
    } onCancel: {
      Task { await giveUp(number, cancellation) }
    }
  }

  private func giveUp(_ number: UInt64, _ error: SessionError) {
    waiting.removeValue(forKey: number)?.resume(throwing: error)
  }
}

extension TokenInterceptor: CustomReflectable {
  /// Nothing: who dumps it sees no token.
  public nonisolated var customMirror: Mirror { Mirror(self, children: []) }
}
