import LupineRules
import Testing

@Suite struct RetryRuleTests {
  private static func facts(
    reused: Bool = true, wrote: Bool = true, received: Bool = false, keyed: Bool = false, replayable: Bool = true,
    attempts: Int = 1
  ) -> AttemptFacts {
    AttemptFacts(
      connectionWasReused: reused, wroteAnything: wrote, receivedAnything: received, hasIdempotencyKey: keyed,
      isBodyReplayable: replayable, attempts: attempts)
  }

  static let rows: [(String, AttemptFacts, RetryDecision)] = [
    ("GET", facts(), .retry(.idempotent)),
    ("HEAD", facts(), .retry(.idempotent)),
    ("PUT", facts(), .retry(.idempotent)),
    ("DELETE", facts(), .retry(.idempotent)),
    ("OPTIONS", facts(), .retry(.idempotent)),
    ("POST", facts(), .fail(.notIdempotent)),
    ("PATCH", facts(), .fail(.notIdempotent)),
    ("get", facts(), .fail(.notIdempotent)),
    ("POST", facts(keyed: true), .retry(.idempotent)),
    ("POST", facts(wrote: false), .retry(.nothingWritten)),
    ("POST", facts(wrote: false, replayable: false), .fail(.bodyNotReplayable)),
    ("PUT", facts(replayable: false), .fail(.bodyNotReplayable)),
    ("GET", facts(reused: false), .fail(.freshConnection)),
    ("GET", facts(reused: false, wrote: false), .fail(.freshConnection)),
    ("GET", facts(received: true), .fail(.responseBegun)),
    ("POST", facts(received: true, keyed: true), .fail(.responseBegun)),
    ("GET", facts(attempts: RetryRule.maximumAttempts - 1), .retry(.idempotent)),
    ("GET", facts(attempts: RetryRule.maximumAttempts), .fail(.tooManyAttempts(limit: RetryRule.maximumAttempts))),
  ]

  @Test(arguments: rows) func decides(_ row: (String, AttemptFacts, RetryDecision)) {
    #expect(RetryRule.decide(method: row.0, row.1) == row.2)
  }

  @Test func keys() {
    #expect(RetryRule.isIdempotencyKey("idempotency-KEY"))
    #expect(RetryRule.isIdempotencyKey("X-Idempotency-Key"))
    #expect(!RetryRule.isIdempotencyKey("Idempotency"))
  }
}
