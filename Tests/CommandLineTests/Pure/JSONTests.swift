import LupineCommandLine
import LupineRules
import Testing

@testable import lupine

@Suite struct JSONTests {
  @Test(arguments: [
    (#"{"b":1,"a":[true,false,null]}"#, #"{"b":1,"a":[true,false,null]}"#),
    (" [ 1 , 2.50 , -0 , 1e3 , 1E+3 ] ", "[1,2.50,-0,1e3,1E+3]"), (#""""#, #""""#), ("{}", "{}"), ("[]", "[]"),
    (#""\u00e9\ud83d\ude00\n\/""#, #""é😀\n/""#), (#""\ud800x""#, "\"\u{FFFD}x\""),
    (#"{"a":1,"a":2}"#, #"{"a":1,"a":2}"#),
    (#""\u0000\u001f\u007f""#, #""\u0000\u001f\u007f""#),
    ("123456789012345678901234567890", "123456789012345678901234567890"),
  ]) func keepsOrderAndSpelling(_ text: String, _ line: String) throws {
    let value = try JSONReader.read(text)
    #expect(String(decoding: JSONWriter.line(value), as: UTF8.self) == line)
    #expect(try JSONReader.read(JSONWriter.pretty(value)) == value)
  }

  @Test(arguments: [
    ("", 0), ("{", 1), ("[1,]", 3), ("{\"a\"}", 4), ("{a:1}", 1), ("01", 1), ("1.", 2), ("-", 1), ("1e", 2), ("tru", 3),
    ("\"a", 2), ("\"\n\"", 1), (#""\x""#, 2), (#""\u12g4""#, 5), ("1 2", 2), ("[1", 2), ("nul", 3), ("{\"a\":1,}", 7),
  ]) func refusesWithOffset(_ text: String, _ offset: Int) {
    #expect { try JSONReader.read(text) } throws: { ($0 as? JSONError)?.offset == offset }
  }

  @Test func everyEscapeIsItsCharacter() throws {
    let value = try JSONReader.read(#""\"\\\/\b\f\n\r\t\u0041\uFFFF""#)
    let scalars = try #require(value.string).unicodeScalars.map(\.value)
    #expect(scalars == [0x22, 0x5C, 0x2F, 0x08, 0x0C, 0x0A, 0x0D, 0x09, 0x41, 0xFFFF])
  }

  @Test func refusesDeepNestingAndInvalidUTF8() {
    let deep = String(repeating: "[", count: 100_000)
    #expect(throws: JSONError.self) { try JSONReader.read(deep) }
    #expect(throws: JSONError.self) { try JSONReader.read([0x22, 0xFF, 0x22]) }
    #expect(throws: Never.self) {
      try JSONReader.read(String(repeating: "[", count: 256) + String(repeating: "]", count: 256))
    }
  }

  @Test func lastMemberWins() throws {
    #expect(try JSONReader.read(#"{"a":1,"a":2}"#)["a"] == .number("2"))
  }

  @Test func prettyEscapesWhatTerminalsActOn() throws {
    let text = JSONWriter.pretty(.string("a\u{9b}2J\u{202e}b"))
    #expect(text == #""a\u009b2J\u202eb""#)
    // Beyond U+FFFF an escape is two.
    let hidden = JSONWriter.pretty(.string("a\u{61c}\u{e0041}\u{1f600}"))
    #expect(hidden == "\"a\\u061c\\udb40\\udc41\u{1f600}\"")
    let value = try JSONReader.read(hidden)
    #expect(value.string?.unicodeScalars.elementsEqual("a\u{61c}\u{e0041}\u{1f600}".unicodeScalars) == true)
  }

  /// Characters of one byte to four, of both kinds, in each order: what stands as it is, and what is escaped beside it.
  @Test func eachCharacterStandsForItself() throws {
    let plain = ["a", "\u{e9}", "\u{4e00}", "\u{1f600}"]
    let escaped = [
      ("\"", #"\""#), ("\\", #"\\"#), ("\n", #"\n"#), ("\u{7}", #"\u0007"#), ("\u{7f}", #"\u007f"#),
      ("\u{85}", #"\u0085"#), ("\u{2028}", #"\u2028"#),
      ("\u{e0041}", #"\udb40\udc41"#),
    ]
    let all = plain.map { ($0, $0) } + escaped
    for first in all {
      for second in all {
        for third in all {
          let text = first.0 + second.0 + third.0
          #expect(JSONWriter.quoted(text, escapingC1: true) == "\"\(first.1)\(second.1)\(third.1)\"")
          let spare = JSONWriter.quoted(text)
          #expect(try JSONReader.read(spare).string?.utf8.elementsEqual(text.utf8) == true)
          #expect(spare.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F })
        }
      }
    }
  }

  /// Deep in arrays two bytes of a body become hundreds.
  @Test func prettyHasALimit() throws {
    let open = String(repeating: "[", count: 200)
    let close = String(repeating: "]", count: 200)
    let value = try JSONReader.read(open + Array(repeating: "1", count: 10_000).joined(separator: ",") + close)
    let whole = JSONWriter.pretty(value)
    #expect(whole.utf8.count > 4_000_000)
    #expect(JSONWriter.pretty(value, limit: whole.utf8.count) == whole)
    for limit in [0, 1_000, 1 << 20, whole.utf8.count - 1] { #expect(JSONWriter.pretty(value, limit: limit) == nil) }
    #expect(JSONWriter.pretty(.string("abc"), limit: 5) == #""abc""#)
    #expect(JSONWriter.pretty(.string("abc"), limit: 4) == nil)
  }

  /// Nothing is laid out beyond the limit: the whole, half a gigabyte, takes seconds.
  @Test func prettyEndsAtItsLimit() {
    var value = JSONValue.array(Array(repeating: .null, count: 1_000_000))
    for _ in 1..<JSONReader.depthLimit { value = .array([value]) }
    var text: String?
    var time = Duration.seconds(1)
    // Once is enough, as a busy machine may take long over anything.
    for _ in 0..<3 where time >= .seconds(1) {
      time = ContinuousClock().measure { text = JSONWriter.pretty(value, limit: 1 << 20) }
    }
    #expect(text == nil && time < .seconds(1))
  }

  @Test(arguments: [(1.0, "1"), (0.125, "0.125"), (0.0004, "0"), (-2.5, "-2.5"), (1234.5678, "1234.568"), (0, "0")])
  func decimals(_ value: Double, _ text: String) {
    #expect(Decimal.text(value, digits: 3) == text)
  }
}
