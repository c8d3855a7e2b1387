internal import Foundation
internal import HTTPTypes
internal import LupineBase
internal import LupineRules
internal import LupineSession
internal import LupineWire

/// The attempts of one call: each request is adapted and sent; what fails is sent again as long as somebody says so. Of an `async` call this is the loop; a
/// task is the loop itself, and takes its rules from here (`AttemptingDelegate`).
struct RetryLoop: Sendable {
  var interceptors: [any RequestInterceptor] = []
  var policy: RetryPolicy?
  /// Time and chance, for tests to take the place of.
  var sleep: @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0.saturated) }
  var now: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970) }
  var random: @Sendable () -> Double = { .random(in: 0...1) }

  /// Whether there is nothing to do but to send.
  var isTrivial: Bool { interceptors.isEmpty && policy == nil }

  /// The answer to a request, whatever its status.
  ///
  /// - Parameter send: one attempt.
  func run(
    _ original: Request, _ send: (Request) async throws(SessionError) -> (Data, Response)
  ) async throws -> (Data, Response) {
    try await run(original, send) { data, response in response.statusCode >= 400 ? (data, response) : nil }
  }

  /// The answer to a request in the form in which attempts give it.
  ///
  /// - Parameters:
  ///   - send: one attempt.
  ///   - refusal: body and response of an answer that another attempt may take the place of; nil: it is what was wanted.
  func run<Answer>(
    _ original: Request, _ send: (Request) async throws(SessionError) -> Answer,
    refusal: (Answer) -> (Data, Response)?
  ) async throws -> Answer {
    var (attempt, hasLeft) = (0, false)
    while true {
      attempt += 1
      let request = try await Self.noting(hasLeft) { try await adapted(original, attempt) }
      let pause: Duration
      // Apart, so that nothing of an answer is held while the next attempt is waited for.
      do {
        let result = await sent(request, &hasLeft, send)
        guard let failure = Self.failure(result, request, attempt, refusal),
          let delay = try await Self.noting(hasLeft, { try await delay(after: failure) })
        else { return try result.get() }
        pause = delay
      }
      try await wait(pause, request, hasLeft)
    }
  }

  /// What is thrown instead of an attempt says of those before whether any has left.
  private static func noting<Value>(_ hasLeft: Bool, _ body: () async throws -> Value) async throws -> Value {
    do {
      return try await body()
    } catch var error as SessionError {
      error.requestBytesSent = error.requestBytesSent || hasLeft
      throw error
    }
  }

  /// One attempt; an error of it says whether any has left: that the last one did not get away makes none of them undone.
  private func sent<Answer>(
    _ request: Request, _ hasLeft: inout Bool, _ send: (Request) async throws(SessionError) -> Answer
  ) async -> Result<Answer, SessionError> {
    do throws(SessionError) {
      let answer = try await send(request)
      hasLeft = true
      return .success(answer)
    } catch {
      var error = error
      hasLeft = hasLeft || error.requestBytesSent
      error.requestBytesSent = hasLeft
      return .failure(error)
    }
  }

  /// What may be asked about; nil: there is nothing to ask.
  private static func failure<Answer>(
    _ result: Result<Answer, SessionError>, _ request: Request, _ attempt: Int, _ refusal: (Answer) -> (Data, Response)?
  ) -> RequestFailure? {
    switch result {
    case .success(let answer):
      guard let (data, response) = refusal(answer) else { return nil }
      return RequestFailure(request: request, attempt: attempt, response: response, data: data, error: nil)
    case .failure(let error):
      guard error.code != .cancelled else { return nil }
      return RequestFailure(
        request: request, attempt: attempt, response: error.response, data: Data(error.partialBody ?? []),
        error: error)
    }
  }

  private func wait(_ delay: Duration, _ request: Request, _ hasLeft: Bool) async throws(SessionError) {
    do {
      try await sleep(delay)
    } catch {
      throw SessionError(
        .cancelled, phase: .prepare, message: "the call was cancelled while it waited for its next attempt",
        failingURL: request.urlString, requestBytesSent: hasLeft)
    }
  }

  /// The request of an attempt.
  func adapted(_ original: Request, _ attempt: Int) async throws -> Request {
    var request = original
    for interceptor in interceptors { request = try await interceptor.adapt(request, attempt: attempt) }
    return request
  }

  /// How long to wait before the next attempt; nil: there is none.
  ///
  /// - Throws: the error that an interceptor makes the result.
  func delay(after failure: RequestFailure) async throws -> Duration? {
    for interceptor in interceptors {
      switch await interceptor.decision(on: failure) {
      case .undecided: continue
      case .retry(let delay): return failure.request.body.isReplayable ? delay : nil
      case .doNotRetry: return nil
      case .fail(let error): throw error
      }
    }
    return policy?.delay(
      after: FailedAttempt(failure.request, response: failure.response, error: failure.error), attempt: failure.attempt,
      now: now(), random: random())
  }
}
