internal import Foundation
internal import HTTPTypes
internal import LupineRules
internal import LupineSession
internal import LupineWire

/// The attempts of one call: each request is adapted and sent; what fails is sent again as long as somebody says so. Of an `async` call this is the loop; a
/// task is the loop itself, and takes its rules from here (`AttemptingDelegate`).
struct RetryLoop: Sendable {
  var interceptors: [any RequestInterceptor] = []
  var policy: RetryPolicy?
  /// Time and chance, for tests to take the place of.
  var sleep: @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
  var now: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970) }
  var random: @Sendable () -> Double = { .random(in: 0...1) }

  /// Whether there is nothing to do but to send.
  var isTrivial: Bool { interceptors.isEmpty && policy == nil }

  /// - Parameter send: one attempt.
  func run(
    _ original: Request, _ send: (Request) async throws(SessionError) -> (Data, Response)
  ) async throws -> (Data, Response) {
    var attempt = 0
    while true {
      attempt += 1
      let request = try await adapted(original, attempt)
      do throws(SessionError) {
        let (data, response) = try await send(request)
        guard response.statusCode >= 400 else { return (data, response) }
        let failure = RequestFailure(
          request: request, attempt: attempt, response: response, data: data, error: nil)
        guard let delay = await delay(after: failure) else { return (data, response) }
        try await wait(delay, request)
      } catch {
        guard error.code != .cancelled else { throw error }
        let failure = RequestFailure(
          request: request, attempt: attempt, response: error.response, data: Data(error.partialBody ?? []),
          error: error)
        guard let delay = await delay(after: failure) else { throw error }
        try await wait(delay, request)
      }
    }
  }

  private func wait(_ delay: Duration, _ request: Request) async throws(SessionError) {
    do {
      try await sleep(delay)
    } catch {
      throw SessionError(
        .cancelled, phase: .prepare, message: "the call was cancelled while it waited for its next attempt",
        failingURL: request.urlString)
    }
  }

  /// The request of an attempt.
  func adapted(_ original: Request, _ attempt: Int) async throws -> Request {
    var request = original
    for interceptor in interceptors { request = try await interceptor.adapt(request, attempt: attempt) }
    return request
  }

  /// How long to wait before the next attempt; nil: there is none.
  func delay(after failure: RequestFailure) async -> Duration? {
    for interceptor in interceptors {
      switch await interceptor.decision(on: failure) {
      case .undecided: continue
      case .retry(let delay): return failure.request.body.isReplayable ? delay : nil
      case .doNotRetry: return nil
      }
    }
    return policy?.delay(
      after: FailedAttempt(failure), attempt: failure.attempt, now: now(), random: random())
  }
}

extension FailedAttempt {
  init(_ failure: RequestFailure) {
    method = failure.request.method
    isReplayable = failure.request.body.isReplayable
    status = failure.response?.statusCode
    retryAfter = failure.response?.head.fields.first(named: "retry-after")
    error = failure.error?.code
    requestBytesSent = failure.error?.requestBytesSent ?? true
    hasIdempotencyKey = failure.request.fields.contains { RetryRule.isIdempotencyKey($0.name.rawName) }
  }
}
