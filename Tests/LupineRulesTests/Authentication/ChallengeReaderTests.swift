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

  /// What is cut off is never read as something else: no prefix of a field makes more challenges than the whole.
  @Test(arguments: try ChallengeCase.all().filter { $0.fields.count == 1 && $0.fields[0].count < 400 })
  func everyPrefix(_ one: ChallengeCase) {
    let field = one.fields[0]
    for length in 0..<field.count {
      let list = ChallengeReader.read([Array(field.prefix(length))])
      #expect(list.challenges.count <= ChallengeReader.maximumChallenges)
      #expect(list.faults.count <= ChallengeReader.maximumFaults)
    }
  }

  private static func show(_ challenge: Challenge) -> String {
    var text = challenge.scheme
    if let token = challenge.token { text += " (\(token))" }
    for parameter in challenge.parameters { text += " \(parameter.name)[\(parameter.text)]" }
    return text
  }
}
