import LupineRules
import Testing

/// Lines whose length has a limit, the same whatever the pieces in which they come.
@Suite struct LineScannerTests {
  struct Case: Sendable, CustomTestStringConvertible {
    var text: String
    var lines: [String]
    /// The line after those is too long.
    var isTooLong = false
    var testDescription: String { String(reflecting: text) }
  }

  /// With a limit of four bytes.
  static let cases = [
    Case(text: "", lines: []),
    Case(text: "\n", lines: [""]),
    Case(text: "\r\n\r\n", lines: ["", ""]),
    Case(text: "ab\ncd", lines: ["ab", "cd"]),
    Case(text: "ab\r\ncd\r\n", lines: ["ab", "cd"]),
    Case(text: "a\rb\n", lines: ["a\rb"]),
    Case(text: "ab\r\r\n", lines: ["ab\r"]),
    Case(text: "ab\r", lines: ["ab\r"]),
    Case(text: "abcd\nabcd\r\nabcd", lines: ["abcd", "abcd", "abcd"]),
    Case(text: "ab\nabcde\n", lines: ["ab"], isTooLong: true),
    Case(text: "abcde\r\n", lines: [], isTooLong: true),
    Case(text: "abcde", lines: [], isTooLong: true),
    Case(text: "abcd\r", lines: [], isTooLong: true),
    Case(text: "abcd\r\r\n", lines: [], isTooLong: true),
    Case(text: "abcd\rx\n", lines: [], isTooLong: true),
    Case(text: "abcdefgh\n", lines: [], isTooLong: true),
  ]

  @Test(arguments: cases) func linesAreFound(_ one: Case) {
    for pieces in Pieces.all(of: Array(one.text.utf8)) {
      #expect(Self.scan(pieces) == (one.lines, one.isTooLong), "\(pieces)")
    }
  }

  /// A limit below zero is none, and the largest does not overflow.
  @Test func extremeLimits() throws {
    var index = 0
    var scanner = LineScanner(limit: -1)
    #expect(try scanner.next(in: [13, 10], from: &index) == [])
    index = 0
    #expect(throws: StreamLimitExceeded(limit: 0)) { try scanner.next(in: [0x61], from: &index) }
    index = 0
    scanner = LineScanner(limit: .max)
    #expect(try scanner.next(in: [0x61, 10], from: &index) == [0x61])
  }

  private static func scan(_ pieces: [[UInt8]]) -> ([String], Bool) {
    var scanner = LineScanner(limit: 4)
    var lines: [String] = []
    do {
      for piece in pieces {
        var index = 0
        while let line = try scanner.next(in: piece, from: &index) {
          lines.append(String(decoding: line, as: UTF8.self))
        }
      }
      if let line = try scanner.rest() { lines.append(String(decoding: line, as: UTF8.self)) }
      return (lines, false)
    } catch {
      return (lines, true)
    }
  }
}

/// Bytes in the pieces in which they may come: whole, one by one, and in two at every place, with an empty piece between.
enum Pieces {
  static func all(of bytes: [UInt8]) -> [[[UInt8]]] {
    [[bytes], bytes.map { [$0] }]
      + (0...bytes.count).map { [Array(bytes[..<$0]), [], Array(bytes[$0...])] }
  }
}
