internal import LupineBase

extension Span<UInt8> {
  /// The position of the first `byte` in `range`.
  func firstIndex(of byte: UInt8, in range: Range<Int>) -> Int? {
    // Words pay from here on; the parts of most URLs are shorter, and this is small enough to be inlined for them, as that is not.
    guard range.count < 32 else { return firstIndex(of: byte, or: byte, in: range) }
    var index = range.lowerBound
    while index < range.upperBound {
      if self[index] == byte { return index }
      index += 1
    }
    return nil
  }

  /// The position of the first byte in `range` that is one of these.
  @inline(never)
  func firstIndex(of byte: UInt8, or other: UInt8, in range: Range<Int>) -> Int? {
    let (words, otherWords) = (UInt64(byte) &* Self.ones, UInt64(other) &* Self.ones)
    var index = range.lowerBound
    while index <= range.upperBound - 8 {
      let word = UInt64(littleEndian: load(at: index, as: UInt64.self))
      let found = Self.zeros(word ^ words) | Self.zeros(word ^ otherWords)
      if found != 0 { return index + found.trailingZeroBitCount / 8 }
      index += 8
    }
    while index < range.upperBound {
      if self[index] == byte || self[index] == other { return index }
      index += 1
    }
    return nil
  }

  private static var ones: UInt64 { 0x0101_0101_0101_0101 }

  /// The highest bit of each byte that is zero. A byte of 1 above such a one may be marked too, as it has been borrowed from; the lowest mark is right.
  private static func zeros(_ word: UInt64) -> UInt64 { (word &- ones) & ~word & (ones &* 0x80) }
}
