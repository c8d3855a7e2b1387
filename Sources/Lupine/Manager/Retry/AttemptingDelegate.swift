internal import Foundation
internal import LupineBase
internal import LupineSession
internal import Synchronization

/// The attempts of one task.
struct Attempts {
  var count = 0
  /// What every attempt is made from.
  var original: Request?
  /// What the latest one was made to.
  var sent: Request?
  /// The question under way.
  var work: Task<Void, Never>?
  /// The task is over: what is asked from now on is cancelled.
  private(set) var isOver = false
  /// What an interceptor has the task end with.
  var verdict: (any Error)?
  /// Whether the task ends with an interceptor's error, whose response and metrics may be those of another request, such as one for a token.
  var isGivenUp = false
  /// `TokenInterceptor.refreshing` where the task was made: its questions are asked elsewhere.
  var refreshing: [TokenInterceptor.Pass] = []

  /// - Returns: what is to be cancelled, which runs handlers of somebody else's: not under the lock.
  mutating func end() -> Task<Void, Never>? {
    isOver = true
    return work.take()
  }
}

/// Interceptors and retry policy for a task with handlers, or of an operation: the task asks, and this answers when the interceptors have.
protocol AttemptingDelegate: RepeatingTaskDelegate {
  var attempts: LockedStorage<Attempts> { get }
  /// Whom to ask.
  var retrying: RetryLoop { get }
  /// What an attempt has brought so far.
  var dataSoFar: Data { get }
}

extension AttemptingDelegate {
  var takesTimeToPrepare: Bool { !retrying.interceptors.isEmpty }

  func session(
    _ session: Session, task: SessionTask, prepare request: Request,
    completionHandler: @escaping @Sendable (Result<Request, SessionError>) -> Void
  ) {
    let retrying = retrying
    let (original, attempt, verdict) = attempts.withLock { attempts in
      attempts.count += 1
      attempts.original = attempts.original ?? request
      return (attempts.original ?? request, attempts.count, attempts.verdict)
    }
    if let verdict { return completionHandler(.failure(givenUp(original, verdict))) }
    answer { [self] in
      do {
        let adapted = try await retrying.adapted(original, attempt)
        attempts.withLock { $0.sent = adapted }
        completionHandler(.success(adapted))
      } catch {
        completionHandler(.failure(givenUp(original, error)))
      }
    }
  }

  private func givenUp(_ request: Request, _ error: any Error) -> SessionError {
    attempts.withLock { $0.isGivenUp = true }
    return error as? SessionError
      ?? SessionError(
        .cancelled, phase: .prepare, message: "an interceptor gave the request up: \(error)",
        failingURL: request.urlString, underlying: ChallengeRefusal(error: error))
  }

  func session(
    _ session: Session, task: SessionTask, mayRepeatAfter error: SessionError?,
    completionHandler: @escaping @Sendable (Bool) -> Void
  ) {
    let retrying = retrying
    let (request, attempt) = attempts.withLock { ($0.sent ?? task.originalRequest, $0.count) }
    let response = error?.response ?? task.response
    // Without a response there is no body: what there is came before.
    let failure = RequestFailure(
      request: request, attempt: attempt, response: response, data: response == nil ? Data() : dataSoFar, error: error)
    answer { [self] in
      let delay: Duration?
      do {
        delay = try await retrying.delay(after: failure)
      } catch {
        // The next attempt ends where it is prepared, before anything of this one is forgotten.
        attempts.withLock { $0.verdict = error }
        return completionHandler(true)
      }
      // What would begin after the task's time is over is not waited for: what there is would be lost for it.
      guard let delay, delay < task.timeLeft else { return completionHandler(false) }
      do {
        try await retrying.sleep(delay)
        completionHandler(true)
      } catch {
        completionHandler(false)
      }
    }
  }

  /// Does it outside the delegate queue, until the task is over.
  private func answer(_ body: @escaping @Sendable () async -> Void) {
    let refreshing = attempts.withLock { $0.refreshing }
    let work = Task { await TokenInterceptor.$refreshing.withValue(refreshing) { await body() } }
    let isOver = attempts.withLock { attempts in
      attempts.work = work
      return attempts.isOver
    }
    if isOver { work.cancel() }
  }
}
