import LupineRules
import LupineTestSupport
import Testing

/// One case of `Cases/retries.md`; the file says how it is written.
struct RetryCase: Sendable, CustomStringConvertible {
  var name: String
  var rows: [Substring] = []

  var description: String { name }

  static func all() throws -> [RetryCase] {
    try CaseFile.sections("retries.md", marks: ["> "]).map { section in
      RetryCase(name: section.name, rows: section.lines.map { $0.dropFirst(2) })
    }
  }
}

@Suite struct RetryRuleTests {
  private static func facts(_ words: ArraySlice<Substring>) throws -> AttemptFacts {
    var facts = AttemptFacts(connectionWasReused: false, wroteAnything: false, receivedAnything: false)
    for word in words {
      switch word {
      case "fresh", "unsent": break
      case "reused": facts.connectionWasReused = true
      case "sent": facts.wroteAnything = true
      case "begun": (facts.wroteAnything, facts.receivedAnything) = (true, true)
      case "early": facts.receivedAnything = true
      case "keyed": facts.hasIdempotencyKey = true
      case "once": facts.isBodyReplayable = false
      default:
        let attempts = word.hasPrefix("attempt=") ? Int(word.dropFirst(8)) : nil
        facts.attempts = try #require(attempts, "\(word)")
      }
    }
    return facts
  }

  private static func told(_ decision: RetryDecision) -> String {
    switch decision {
    case .retry(let reason): "retry \(reason)"
    case .fail(.tooManyAttempts(let limit)): "fail tooManyAttempts \(limit)"
    case .fail(let reason): "fail \(reason)"
    }
  }

  @Test(arguments: try RetryCase.all()) func decides(_ one: RetryCase) throws {
    for row in one.rows {
      let halves = row.split(separator: " | ")
      let words = halves[0].split(separator: " ")
      try #require(halves.count == 2 && words.count >= 3, "\(row)")
      let decision = RetryRule.decide(method: String(words[0]), try Self.facts(words.dropFirst()))
      let told = Self.told(decision)
      #expect(told == String(halves[1]), "\(row)")
    }
  }

  @Test func thereAreEnoughCases() throws {
    let cases = try RetryCase.all()
    #expect(cases.count >= 14)
    #expect(Set(cases.map(\.name)).count == cases.count)
    #expect(cases.allSatisfy { !$0.rows.isEmpty })
    #expect(cases.reduce(0) { $0 + $1.rows.count } >= 170)
  }

  @Test func keys() {
    #expect(RetryRule.isIdempotencyKey("idempotency-KEY"))
    #expect(RetryRule.isIdempotencyKey("X-Idempotency-Key"))
    #expect(!RetryRule.isIdempotencyKey("Idempotency"))
  }
}
