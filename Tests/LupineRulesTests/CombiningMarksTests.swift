import LupineRules
import Testing

@Suite struct CombiningMarksTests {
  struct Case: Sendable, CustomTestStringConvertible {
    var text: String
    var notation = CombiningMarks.Notation.plain
    var isRefused: Bool
    var testDescription: String { "\(text.prefix(20)) \(notation)" }
  }

  private static func marks(_ count: Int, _ mark: String = "\u{301}") -> String {
    "a" + String(repeating: mark, count: count)
  }

  static let cases: [Case] = [
    Case(text: marks(256), isRefused: false),
    Case(text: marks(257), isRefused: true),
    Case(text: marks(256) + marks(256), isRefused: false),
    Case(text: marks(1000, "é"), isRefused: false),
    Case(text: marks(1000, "京"), isRefused: false),
    Case(text: marks(257, "\u{1D165}"), isRefused: true),
    Case(text: marks(257, #"\u0301"#), isRefused: false),
    Case(text: marks(256, #"\u0301"#), notation: .json, isRefused: false),
    Case(text: marks(257, #"\u0301"#), notation: .json, isRefused: true),
    Case(text: marks(257, #"\uD834\uDD65"#), notation: .json, isRefused: true),
    Case(text: marks(300, #"\uD834\u0041"#), notation: .json, isRefused: false),
    Case(text: marks(300, #"\\u0301"#), notation: .json, isRefused: false),
    Case(text: marks(300, #"\u030"#), notation: .json, isRefused: false),
    Case(text: marks(257, "&#769;"), notation: .xml, isRefused: true),
    Case(text: marks(257, "&#x301;"), notation: .xml, isRefused: true),
    Case(text: marks(300, "&#x301"), notation: .xml, isRefused: false),
    Case(text: marks(300, "&#99999999999999999999;"), notation: .xml, isRefused: false),
    Case(text: marks(300, "&amp;"), notation: .xml, isRefused: false),
    Case(text: marks(257, "<![CDATA[\u{301}]]>"), notation: .xml, isRefused: true),
    Case(text: marks(257, "<!-- x -->\u{301}"), notation: .xml, isRefused: true),
    Case(text: marks(300, "<b/>\u{301}"), notation: .xml, isRefused: false),
    Case(text: marks(300, "\u{301}]"), notation: .xml, isRefused: false),
  ]

  @Test(arguments: cases) func runs(_ one: Case) {
    #expect((CombiningMarks.excess(in: one.text.utf8.span, one.notation) != nil) == one.isRefused)
    if one.notation == .plain { #expect(CombiningMarks.areTooMany(in: one.text) == one.isRefused) }
  }

  /// Wherever a text ends, nothing beyond it is looked at; and what is no UTF-8 counts from 0xC0 on.
  @Test func anyBytes() {
    for notation in [CombiningMarks.Notation.json, .xml] {
      let text = Array((Self.marks(600, #"\uD834\uDD65&#x301;<![CDATA[\#u{1D165}<!--"#)).utf8)
      for count in 500..<1200 { #expect(CombiningMarks.excess(in: Array(text[..<count]).span, notation) == nil) }
    }
    #expect(CombiningMarks.excess(in: [UInt8](repeating: 0xC0, count: 600).span, .xml) == 257)
    #expect(CombiningMarks.excess(in: [UInt8](repeating: 0xBF, count: 600).span, .xml) == nil)
  }
}
