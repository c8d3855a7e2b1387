/// Word-at-a-time scanning of padded storage, without unsafe code.
///
/// Eight constant subscripts of a span that is known to hold eight bytes become one load (look at the assembly when you touch
/// this). Behind the last byte of input stands a NUL, which stops every scan, and enough padding for a word to reach past it.
enum ByteScan {
  /// Bytes that storage holds behind the last byte of input.
  static let padding = 32

  static let ones: UInt64 = 0x0101_0101_0101_0101
  static let highs: UInt64 = 0x8080_8080_8080_8080
  static let lows: UInt64 = 0x7F7F_7F7F_7F7F_7F7F

  /// The eight bytes from `index` on, the first one lowest.
  @inline(__always)
  static func word(_ bytes: Span<UInt8>, _ index: Int) -> UInt64 {
    // Clearing the high bits changes nothing (storage is at most 1 GiB and a little), but with them gone this one check implies all
    // that follow, and they are optimised away.
    let start = index & 0x7FFF_FFFF
    precondition(start &+ 8 <= bytes.count)
    let eight = bytes.extracting(start..<(start &+ 8))
    return combine(eight[0], eight[1], eight[2], eight[3], eight[4], eight[5], eight[6], eight[7])
  }

  @inline(__always)
  private static func combine(
    _ a: UInt8, _ b: UInt8, _ c: UInt8, _ d: UInt8, _ e: UInt8, _ f: UInt8, _ g: UInt8, _ h: UInt8
  ) -> UInt64 {
    let low =
      UInt32(truncatingIfNeeded: a) | UInt32(truncatingIfNeeded: b) &<< 8 | UInt32(truncatingIfNeeded: c) &<< 16
      | UInt32(truncatingIfNeeded: d) &<< 24
    let high =
      UInt32(truncatingIfNeeded: e) | UInt32(truncatingIfNeeded: f) &<< 8 | UInt32(truncatingIfNeeded: g) &<< 16
      | UInt32(truncatingIfNeeded: h) &<< 24
    return UInt64(truncatingIfNeeded: low) | UInt64(truncatingIfNeeded: high) &<< 32
  }

  /// The high bit of every byte that is a control (below 0x20, or 0x7F). HTAB counts as one.
  @inline(__always)
  static func controls(_ word: UInt64) -> UInt64 {
    // 0x7F becomes 0; every other byte moves up by one, so that 0x21 and more carry into the high bit.
    let moved = ((word & lows) &+ ones) & lows
    return ~((moved &+ 0x5F &* ones) | word) & highs
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

  /// Sixteen bytes from `index` on, as two words: one bounds check, two loads.
  @inline(__always)
  static func words(_ bytes: Span<UInt8>, _ index: Int) -> SIMD2<UInt64> {
    let start = index & 0x7FFF_FFFF
    precondition(start &+ 16 <= bytes.count)
    let sixteen = bytes.extracting(start..<(start &+ 16))
    return SIMD2(
      combine(
        sixteen[0], sixteen[1], sixteen[2], sixteen[3], sixteen[4], sixteen[5], sixteen[6], sixteen[7]),
      combine(
        sixteen[8], sixteen[9], sixteen[10], sixteen[11], sixteen[12], sixteen[13], sixteen[14], sixteen[15]))
  }

  /// The first index from `start` on whose byte is a control other than HTAB. There is one: the sentinel.
  ///
  /// Two words at a time while there is nothing to find, then one: where the next line starts hangs on the last step alone, and a
  /// word in a general register says it some ten cycles earlier than one in a vector register.
  @inline(__always)
  static func firstControl(_ bytes: Span<UInt8>, from start: Int) -> Int {
    var index = start
    while true {
      let pair = words(bytes, index)
      if controls(pair[0]) | controls(pair[1]) != 0 { break }
      index &+= 16
    }
    while true {
      let found = controls(word(bytes, index))
      if found != 0 {
        index &+= found.trailingZeroBitCount &>> 3
        if bytes[index] != .horizontalTab { return index }
        index &+= 1
      } else {
        index &+= 8
      }
    }
  }

  /// The first index from `start` on whose byte may not stand in a token. There is one: the sentinel.
  @inline(__always)
  static func firstNonToken(_ bytes: Span<UInt8>, from start: Int) -> Int {
    var index = start
    while true {
      let found = notNameCommon(word(bytes, index))
      if found != 0 {
        index &+= found.trailingZeroBitCount &>> 3
        if !ByteClass.has(bytes[index], ByteClass.token) { return index }
        index &+= 1
      } else {
        index &+= 8
      }
    }
  }
}
