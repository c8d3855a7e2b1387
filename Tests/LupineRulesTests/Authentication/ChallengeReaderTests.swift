import LupineRules
import Testing

@Suite struct ChallengeReaderTests {
  @Test(arguments: try ChallengeCase.all()) func reads(_ one: ChallengeCase) {
    let list = ChallengeReader.read(one.fields)
    #expect(list.challenges.map(Self.show) == one.expected)
    #expect(list.faults.map { "\($0)" } == one.faults)
  }

  @Test func thereAreEnoughCases() throws {
    #expect(try ChallengeCase.all().count >= 60)
  }

  /// Where a field is cut off, its last word may be read as something else: the name of a parameter as a scheme. What stands before it is read as in the whole,
  /// if nothing is wrong with that: of a challenge that is malformed further on, the beginning is one.
  @Test(arguments: try ChallengeCase.all().filter { $0.fields.count == 1 && $0.fields[0].count < 400 })
  func everyPrefix(_ one: ChallengeCase) {
    let field = one.fields[0]
    let whole = ChallengeReader.read([field])
    for length in 0..<field.count {
      let list = ChallengeReader.read([Array(field.prefix(length))])
      #expect(list.challenges.count <= ChallengeReader.maximumChallenges)
      #expect(list.faults.count <= ChallengeReader.maximumFaults)
      guard whole.faults.isEmpty else { continue }
      let challenges = list.challenges
      #expect(challenges.count <= whole.challenges.count + 1, "\(length)")
      // Only the last one may be no scheme at all, and the one before it lack parameters.
      let schemes = whole.challenges.prefix(max(0, challenges.count - 1)).map(\.scheme)
      #expect(challenges.dropLast().map(\.scheme) == schemes, "\(length)")
      let complete = whole.challenges.prefix(max(0, challenges.count - 2))
      #expect(challenges.dropLast(2) == complete, "\(length)")
    }
  }

  private static func show(_ challenge: Challenge) -> String {
    var text = challenge.scheme
    if let token = challenge.token { text += " (\(token))" }
    for parameter in challenge.parameters { text += " \(parameter.name)[\(parameter.text)]" }
    return text
  }
}
