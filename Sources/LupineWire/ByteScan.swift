/// Word-at-a-time scanning of padded storage, without unsafe code.
///
/// Eight constant subscripts of a span that is known to hold eight bytes become one load (look at the assembly when you touch
/// this). Storage ends with at least ``padding`` bytes that are no input, so that a word may reach past the last byte.
enum ByteScan {
  /// Bytes that storage holds behind the last byte of input.
  static let padding = 16

  static let ones: UInt64 = 0x0101_0101_0101_0101
  static let highs: UInt64 = 0x8080_8080_8080_8080
  static let lows: UInt64 = 0x7F7F_7F7F_7F7F_7F7F

  /// The eight bytes from `index` on, the first one lowest.
  @inline(__always)
  static func word(_ bytes: Span<UInt8>, _ index: Int) -> UInt64 {
    let eight = bytes.extracting(index..<(index &+ 8))
    let low =
      UInt32(truncatingIfNeeded: eight[0]) | UInt32(truncatingIfNeeded: eight[1]) &<< 8
      | UInt32(truncatingIfNeeded: eight[2]) &<< 16 | UInt32(truncatingIfNeeded: eight[3]) &<< 24
    let high =
      UInt32(truncatingIfNeeded: eight[4]) | UInt32(truncatingIfNeeded: eight[5]) &<< 8
      | UInt32(truncatingIfNeeded: eight[6]) &<< 16 | UInt32(truncatingIfNeeded: eight[7]) &<< 24
    return UInt64(truncatingIfNeeded: low) | UInt64(truncatingIfNeeded: high) &<< 32
  }

  /// The high bit of every byte that is a control (below 0x20, or 0x7F). HTAB counts as one.
  @inline(__always)
  static func controls(_ word: UInt64) -> UInt64 {
    let seven = word & lows
    return (~(seven &+ 0x60 &* ones) | (seven &+ ones)) & ~word & highs
  }

  /// The high bit of every byte that is neither a letter nor `-`: almost every field name has no other.
  @inline(__always)
  static func notNameCommon(_ word: UInt64) -> UInt64 {
    let seven = word & lows
    let small = seven | 0x20 &* ones
    let fromA = small &+ (0x80 - 0x61) &* ones
    let pastZ = small &+ (0x80 - 0x7B) &* ones
    let notDash = (seven ^ 0x2D &* ones) &+ lows
    return (~(fromA & ~pastZ) & notDash | word) & highs
  }

  /// The first index from `start` on whose byte is a control other than HTAB; at least `end` if there is none before it.
  @inline(__always)
  static func firstControl(_ bytes: Span<UInt8>, from start: Int, to end: Int) -> Int {
    var index = start
    while index < end {
      let found = controls(word(bytes, index))
      if found != 0 {
        index &+= found.trailingZeroBitCount &>> 3
        if bytes[index] != .horizontalTab { return index }
        index &+= 1
      } else {
        index &+= 8
      }
    }
    return index
  }

  /// The first index from `start` on whose byte may not stand in a token; at least `end` if there is none before it.
  @inline(__always)
  static func firstNonToken(_ bytes: Span<UInt8>, from start: Int, to end: Int) -> Int {
    var index = start
    while index < end {
      let found = notNameCommon(word(bytes, index))
      if found != 0 {
        index &+= found.trailingZeroBitCount &>> 3
        if !ByteClass.has(bytes[index], ByteClass.token) { return index }
        index &+= 1
      } else {
        index &+= 8
      }
    }
    return index
  }
}
