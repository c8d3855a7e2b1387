import LupineRules
import Testing

@Suite struct ResumeRuleTests {
  @Test func thereAreEnoughCases() throws {
    let cases = try ResumeCase.all()
    #expect(cases.count >= 80)
    #expect(Set(cases.map(\.name)).count == cases.count)
  }

  @Test(arguments: try ResumeCase.all()) func decides(_ row: ResumeCase) {
    #expect(ResumeRule.decide(row.answer, to: row.offer).text == row.expected)
  }

  /// Entity tags, dates of last change, dates of the response; and what of them is strong.
  static let validators: [([String], [String], [String], String?)] = [
    (["\"a\""], [], [], "\"a\""),
    (["\"\""], [], [], "\"\""),
    (["\"a b\""], [], [], nil),
    (["\"a\"b\""], [], [], nil),
    (["W/\"a\""], [], [], nil),
    (["w/\"a\""], [], [], nil),
    (["a"], [], [], nil),
    (["\""], [], [], nil),
    ([""], [], [], nil),
    (["\"ä\""], [], [], nil),
    (["\"a\u{7F}\""], [], [], nil),
    (["\"" + String(repeating: "x", count: 4094) + "\""], [], [], "\"" + String(repeating: "x", count: 4094) + "\""),
    (["\"" + String(repeating: "x", count: 4095) + "\""], [], [], nil),
    (["\"a\"", "\"a\""], [], [], nil),
    (["\"a\""], [changed], [later], "\"a\""),
    // A weak tag beside a date: the server says that the version may differ in bytes.
    (["W/\"a\""], [changed], [later], nil),
    ([], [changed], [later], changed),
    ([], [changed], ["Sun, 06 Nov 1994 08:50:37 GMT"], changed),
    ([], [changed], ["Sun, 06 Nov 1994 08:50:36 GMT"], nil),
    ([], [changed], [changed], nil),
    ([], [changed], ["Sat, 05 Nov 1994 08:49:37 GMT"], nil),
    ([], [changed], [], nil),
    ([], [changed, changed], [later], nil),
    ([], [changed], [later, later], nil),
    ([], ["yesterday"], [later], nil),
    ([], [changed], ["now"], nil),
    ([], [], [later], nil),
    ([], ["Sunday, 06-Nov-94 08:49:37 GMT"], [later], "Sunday, 06-Nov-94 08:49:37 GMT"),
  ]
  private static let changed = "Sun, 06 Nov 1994 08:49:37 GMT"
  private static let later = "Tue, 15 Nov 1994 08:12:31 GMT"

  @Test(arguments: validators) func strongValidators(_ row: ([String], [String], [String], String?)) {
    let now = HTTPDate(seconds: 784_887_151)
    #expect(ResumeValidator(entityTags: row.0, lastModified: row.1, dates: row.2, now: now)?.text == row.3)
  }
}
