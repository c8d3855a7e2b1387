import Testing

@testable import LupineRules

@Suite struct ByteSearchTests {
  /// What a borrow of a word may take for the byte that is looked for: neighbours by one bit, on both sides, at each place of a word.
  @Test(arguments: [UInt8(ascii: "\n"), 0, 1, 0x7F, 0x80, 0xFF])
  func isWhatByteByByteFinds(_ byte: UInt8) {
    let others = [byte ^ 1, byte ^ 0x80, byte ^ 0x81, byte &- 1, byte &+ 1]
    var failures: [[UInt8]] = []
    for count in [0, 1, 7, 8, 9, 31, 32, 33, 40] {
      for place in 0..<count {
        for other in others {
          var bytes = [UInt8](repeating: other, count: count)
          bytes[place] = byte
          if place + 3 < count { bytes[place + 3] = byte }
          if place + 2 < count { bytes[place + 2] = other ^ 2 }
          if !Self.isFound(byte, other ^ 2, in: bytes) { failures.append(bytes) }
        }
      }
    }
    #expect(failures == [])
  }

  @Test func nothingIsFoundOutsideOfTheRange() {
    let bytes = [UInt8](repeating: 7, count: 80)
    for start in 0..<20 {
      for end in start..<80 {
        var inside = bytes
        for index in start..<end { inside[index] = 6 }
        let found = [
          inside.span.firstIndex(of: 7, in: start..<end), inside.span.firstIndex(of: 7, or: 5, in: start..<end),
        ]
        #expect(found == [nil, nil])
      }
    }
  }

  private static func isFound(_ byte: UInt8, _ other: UInt8, in bytes: [UInt8]) -> Bool {
    [0, 1, 3].filter { $0 <= bytes.count }.allSatisfy { start in
      let range = start..<bytes.count
      let either = bytes[range].firstIndex { $0 == byte || $0 == other }
      return bytes.span.firstIndex(of: byte, in: range) == bytes[range].firstIndex(of: byte)
        && bytes.span.firstIndex(of: byte, or: other, in: range) == either
        && bytes.span.firstIndex(of: other, or: byte, in: range) == either
    }
  }
}
