internal import HTTPTypes
internal import LupineBase
internal import LupineRules
public import LupineSession
internal import LupineWire

/// When a request that failed is sent again by itself, and how long is waited before. For the `async` calls of a manager, downloads among them, and
/// for its tasks except download tasks with handlers, those of operations among them. A task whose time for all of it is over, or would be after the wait, is not sent again.
///
/// A value without a clock or a source of chance: both are given. The engine repeats by itself, and at once, what a stale connection lost; this is for
/// servers and networks that need time.
public struct RetryPolicy: Sendable, Hashable {
  /// How often a request is sent, the first time included. Default 3; below 2 nothing is repeated.
  public var maximumAttempts = 3
  /// The longest wait before the first repetition. Default 0.5 s. With zero, or less, nothing is waited for but what a server asks for.
  public var baseDelay: Duration = .milliseconds(500)
  /// By how much the wait grows each time. Default 2.
  public var multiplier = 2.0
  /// The longest wait of all. Default 30 s.
  public var maximumDelay: Duration = .seconds(30)
  /// Which part of a wait is left to chance, from 0 to 1, so that clients that failed together do not come back together. Default 0.5: between half of the
  /// wait and all of it.
  public var jitter = 0.5
  /// The longest `Retry-After` that is waited for; a server that asks for more gets no repetition. Default 60 s.
  public var maximumRetryAfter: Duration = .seconds(60)
  /// Methods that may be sent twice. Default the idempotent ones (RFC 9110 9.2.2). Others are repeated only if nothing of the request had left, or if it
  /// has an `Idempotency-Key` or `X-Idempotency-Key`: by that the server notices a repetition.
  public var methods: Set<HTTPRequest.Method> = [.get, .head, .put, .delete, .options, .trace]
  /// Statuses that time may heal. Default 408, 429, 500, 502, 503, 504.
  public var statusCodes: Set<Int> = [408, 429, 500, 502, 503, 504]
  /// Errors that time may heal. Default: deadlines, lost and refused connections, hosts that are not found, no network.
  public var errorCodes: Set<SessionError.Code> = [
    .timedOut, .connectionLost, .truncatedResponse, .cannotConnect, .cannotFindHost, .notConnected,
  ]

  /// The defaults.
  public init() {}
}

/// What an attempt ended with that calls for another one.
package struct FailedAttempt: Sendable {
  var method: HTTPRequest.Method
  /// Whether the body can be sent again.
  var isReplayable: Bool
  /// Nil: no response.
  var status: Int?
  /// The value of `Retry-After`.
  var retryAfter: String?
  /// Nil: there was a response.
  var error: SessionError.Code?
  /// Whether the server may have seen the request.
  var requestBytesSent = true
  /// Whether the server notices a repetition.
  var hasIdempotencyKey = false
}

extension FailedAttempt {
  /// - Parameters:
  ///   - response: nil: none came.
  ///   - error: nil: the response is the end of it.
  package init(_ request: Request, response: Response? = nil, error: SessionError? = nil) {
    method = request.method
    isReplayable = request.body.isReplayable
    status = response?.statusCode
    retryAfter = response?.head.fields.first(named: "retry-after")
    self.error = error?.code
    requestBytesSent = error?.requestBytesSent ?? true
    hasIdempotencyKey = request.fields.contains { RetryRule.isIdempotencyKey($0.name.rawName) }
  }
}

extension RetryPolicy {
  /// How long to wait before the next attempt; nil: there is none.
  ///
  /// - Parameters:
  ///   - attempt: how many have failed, from 1.
  ///   - now: seconds since 1970.
  ///   - random: from 0 to 1, for the jitter.
  package func delay(after failure: FailedAttempt, attempt: Int, now: Int64, random: Double) -> Duration? {
    guard attempt < maximumAttempts, failure.isReplayable,
      methods.contains(failure.method) || !failure.requestBytesSent || failure.hasIdempotencyKey
    else { return nil }
    if let error = failure.error {
      return errorCodes.contains(error) ? backoff(attempt, random) : nil
    }
    guard let status = failure.status, statusCodes.contains(status) else { return nil }
    let instant = HTTPDate(seconds: now)
    let wanted = failure.retryAfter.flatMap { RetryAfter($0, now: instant)?.delay(from: instant) }
    guard let wanted else { return backoff(attempt, random) }
    let asked = Duration.seconds(wanted)
    return asked > maximumRetryAfter ? nil : max(asked, backoff(attempt, random))
  }

  /// `baseDelay * multiplier ^ (attempt - 1)`, capped, less what chance takes off.
  private func backoff(_ attempt: Int, _ random: Double) -> Duration {
    // Nothing times infinity is no number, and less than nothing no wait.
    guard baseDelay > .zero else { return .zero }
    // In floating point, which overflows to infinity, and does not trap. What is made of it is no more than a duration holds.
    let maximum = maximumDelay.saturated / .seconds(1)
    var seconds = baseDelay / .seconds(1)
    for _ in 1..<max(1, attempt) where seconds < maximum { seconds *= max(1, multiplier) }
    let kept = 1 - min(1, max(0, jitter)) * min(1, max(0, random))
    return max(.zero, .seconds(min(seconds, maximum) * kept))
  }
}
