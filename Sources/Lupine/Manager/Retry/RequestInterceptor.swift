public import Foundation
public import LupineSession

/// An attempt that failed: with an error, or with a status of 400 and above.
public struct RequestFailure: Sendable {
  /// The request as it was sent.
  public let request: Request
  /// How many attempts have failed, from 1.
  public let attempt: Int
  /// The response, if one came.
  public let response: Response?
  /// Its body; empty if none came.
  public let data: Data
  /// The error; nil: the response is complete.
  public let error: SessionError?
}

/// What follows an attempt that failed.
public enum RetryDecision: Sendable {
  /// Ask the next interceptor, and at last the retry policy.
  case undecided
  /// Send the request again after a while.
  case retry(after: Duration)
  /// Let it be the result.
  case doNotRetry
  /// Let this error be the result, in the place of the response or the error that there is. Source: `doNotRetryWithError` of Alamofire.
  case fail(any Error)
}

/// Changes the requests of a manager, for example to sign them, and decides whether they are sent again, for example after a token was renewed: see
/// `TokenInterceptor` for that.
///
/// `Request.setURL(_:)`, `appendQuery(_:)`, `setJSON(_:encoder:)` and `setForm(_:)` change a request that is made already, and leave the rest of it as it is.
///
/// Of an `async` call every attempt is adapted, as of a task with handlers: when it begins, and before it is sent again; its `originalRequest` stays what it
/// was made with, its `currentRequest` is what was sent. A task that is sent again is the same task, with one completion; hooks see the bytes of every
/// attempt, and progress begins anew. Its attempts and the waits between them have the time of one task, `Request.totalTimeout`: no wait goes beyond it, and
/// an interceptor that has not answered by then is not waited for. Of an `async` call each attempt has that time anew. An awaited download is as an `async`
/// call, with a task for each attempt, and goes on where it stopped; a download task with handlers is adapted, and not sent again. Of an operation, every exchange is as a task: one that was resumed begins with attempt 1.
public protocol RequestInterceptor: Sendable {
  /// The request to send. Called before each attempt with the request of the call; what it throws, the call throws. Default: as it is.
  func adapt(_ request: Request, attempt: Int) async throws -> Request

  /// Whether to send it again. An interceptor that always says yes goes on for ever: count. Default `.undecided`.
  func decision(on failure: RequestFailure) async -> RetryDecision
}

extension RequestInterceptor {
  /// As it is.
  public func adapt(_ request: Request, attempt: Int) async throws -> Request { request }

  /// Undecided.
  public func decision(on failure: RequestFailure) async -> RetryDecision { .undecided }
}

/// An interceptor of closures.
public struct ClosureInterceptor: RequestInterceptor {
  private let adaptRequest: (@Sendable (Request, Int) async throws -> Request)?
  private let decide: (@Sendable (RequestFailure) async -> RetryDecision)?

  /// Makes one; what is nil is left to the defaults.
  public init(
    adapt: (@Sendable (_ request: Request, _ attempt: Int) async throws -> Request)? = nil,
    decide: (@Sendable (RequestFailure) async -> RetryDecision)? = nil
  ) {
    adaptRequest = adapt
    self.decide = decide
  }

  /// What the closure gives.
  public func adapt(_ request: Request, attempt: Int) async throws -> Request {
    try await adaptRequest?(request, attempt) ?? request
  }

  /// What the closure says.
  public func decision(on failure: RequestFailure) async -> RetryDecision { await decide?(failure) ?? .undecided }
}
