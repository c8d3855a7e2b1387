internal import LupineBase

/// XXH64 by Yann Collet: finds what a disk or a kill has broken, quickly. It is no protection against anybody who means to deceive.
package enum XXHash64 {
  private static let prime1: UInt64 = 0x9E37_79B1_85EB_CA87
  private static let prime2: UInt64 = 0xC2B2_AE3D_27D4_EB4F
  private static let prime3: UInt64 = 0x1656_67B1_9E37_79F9
  private static let prime4: UInt64 = 0x85EB_CA77_C2B2_AE63
  private static let prime5: UInt64 = 0x27D4_EB2F_1656_67C5

  package static func hash(_ bytes: Span<UInt8>, seed: UInt64 = 0) -> UInt64 {
    var index = 0
    var hash: UInt64
    if bytes.count >= 32 {
      var (a, b, c, d) = (seed &+ prime1 &+ prime2, seed &+ prime2, seed, seed &- prime1)
      while index <= bytes.count - 32 {
        a = round(a, word(bytes, index))
        b = round(b, word(bytes, index + 8))
        c = round(c, word(bytes, index + 16))
        d = round(d, word(bytes, index + 24))
        index += 32
      }
      hash = rotated(a, 1) &+ rotated(b, 7) &+ rotated(c, 12) &+ rotated(d, 18)
      hash = merged(merged(merged(merged(hash, a), b), c), d)
    } else {
      hash = seed &+ prime5
    }
    hash &+= UInt64(bytes.count)
    while index <= bytes.count - 8 {
      hash = rotated(hash ^ round(0, word(bytes, index)), 27) &* prime1 &+ prime4
      index += 8
    }
    if index <= bytes.count - 4 {
      let half = UInt64(UInt32(littleEndian: bytes.load(at: index, as: UInt32.self)))
      hash = rotated(hash ^ half &* prime1, 23) &* prime2 &+ prime3
      index += 4
    }
    while index < bytes.count {
      hash = rotated(hash ^ UInt64(bytes[index]) &* prime5, 11) &* prime1
      index += 1
    }
    hash = (hash ^ hash >> 33) &* prime2
    hash = (hash ^ hash >> 29) &* prime3
    return hash ^ hash >> 32
  }

  @inline(__always)
  private static func word(_ bytes: Span<UInt8>, _ index: Int) -> UInt64 {
    UInt64(littleEndian: bytes.load(at: index, as: UInt64.self))
  }

  @inline(__always)
  private static func rotated(_ value: UInt64, _ count: UInt64) -> UInt64 { value << count | value >> (64 - count) }

  @inline(__always)
  private static func round(_ accumulator: UInt64, _ word: UInt64) -> UInt64 {
    rotated(accumulator &+ word &* prime2, 31) &* prime1
  }

  @inline(__always)
  private static func merged(_ hash: UInt64, _ value: UInt64) -> UInt64 {
    (hash ^ round(0, value)) &* prime1 &+ prime4
  }
}
