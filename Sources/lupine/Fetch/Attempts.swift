internal import Lupine
internal import LupineRules
internal import LupineSession

/// Sends a request again, as `--retry` allows, until its head is none that time may heal. Behind the head nothing is repeated: what was written stays.
struct Attempts {
  /// Nil: one attempt.
  var policy: RetryPolicy?
  /// Whether somebody wants to read why.
  var isVerbose = false
  /// Whether an archive has every attempt, and what it was answered with.
  var isRecorded = false
  /// What was noted of the attempt that failed.
  var transcript: Transcript?

  static func policy(retries: Int) -> RetryPolicy? {
    guard retries > 0 else { return nil }
    var policy = RetryPolicy()
    policy.maximumAttempts = retries + 1
    return policy
  }

  func bytes(for request: Request, _ session: Session) async throws -> (ResponseBytes, Response) {
    var attempt = 0
    while true {
      attempt += 1
      let due: ContinuousClock.Instant
      do {
        let answer = try await session.bytes(for: request)
        guard let wait = self.delay(FailedAttempt(request, response: answer.1), attempt) else { return answer }
        due = .now + wait
        tell("\(answer.1.statusCode)", attempt, wait)
        if isRecorded { await answer.0.drain(for: max(wait, .seconds(1))) }
      } catch let error as SessionError where error.code != .cancelled {
        guard let wait = self.delay(FailedAttempt(request, error: error), attempt) else { throw error }
        due = .now + wait
        tell(error.code.rawValue, attempt, wait)
      }
      try await Task.sleep(until: due, clock: .continuous)
    }
  }

  private func delay(_ failure: FailedAttempt, _ attempt: Int) -> Duration? {
    policy?.delay(after: failure, attempt: attempt, now: System.secondsSince1970(), random: .random(in: 0...1))
  }

  private func tell(_ reason: String, _ attempt: Int, _ delay: Duration) {
    guard isVerbose else { return }
    transcript?.tell()
    let seconds = Units.significant(delay / .seconds(1))
    System.tell("lupine: \(reason); attempt \(attempt + 1) of \(policy?.maximumAttempts ?? 1) in \(seconds) s\n\n")
  }
}
