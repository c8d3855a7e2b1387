/// A running SHA-256 (FIPS 180-4): what resume data says of the bytes that are there already. Hashes a few dozen KiB for each attempt.
package struct ResumeHash: Sendable {
  /// Bytes of a digest.
  package static let count = 32

  private static let constants: [64 of UInt32] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
  ]

  private var state: [8 of UInt32] = [
    0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19,
  ]
  private var schedule = [64 of UInt32](repeating: 0)
  private var block = [64 of UInt8](repeating: 0)
  private var filled = 0
  private var length: UInt64 = 0

  package init() {}

  /// The digest of all of `bytes`.
  package static func digest(_ bytes: Span<UInt8>) -> [UInt8] {
    var hash = ResumeHash()
    hash.add(bytes)
    return hash.finish()
  }

  package mutating func add(_ bytes: Span<UInt8>) {
    length &+= UInt64(bytes.count)
    for index in bytes.indices { push(bytes[index]) }
  }

  /// The digest. The value is used up.
  package mutating func finish() -> [UInt8] {
    let bits = length &* 8
    push(0x80)
    while filled != 56 { push(0) }
    for shift in stride(from: 56, through: 0, by: -8) { push(UInt8(truncatingIfNeeded: bits >> UInt64(shift))) }
    var digest: [UInt8] = []
    digest.reserveCapacity(Self.count)
    for index in 0..<8 {
      for shift in stride(from: 24, through: 0, by: -8) {
        digest.append(UInt8(truncatingIfNeeded: state[index] >> UInt32(shift)))
      }
    }
    return digest
  }

  private mutating func push(_ byte: UInt8) {
    block[filled] = byte
    filled += 1
    if filled == 64 {
      compress()
      filled = 0
    }
  }

  private static func rotate(_ word: UInt32, _ count: UInt32) -> UInt32 { word >> count | word << (32 - count) }

  private mutating func compress() {
    for index in 0..<16 {
      let place = index * 4
      schedule[index] =
        UInt32(block[place]) << 24 | UInt32(block[place + 1]) << 16 | UInt32(block[place + 2]) << 8
        | UInt32(block[place + 3])
    }
    for index in 16..<64 {
      let (second, fifteenth) = (schedule[index - 2], schedule[index - 15])
      let low = Self.rotate(fifteenth, 7) ^ Self.rotate(fifteenth, 18) ^ fifteenth >> 3
      let high = Self.rotate(second, 17) ^ Self.rotate(second, 19) ^ second >> 10
      schedule[index] = schedule[index - 16] &+ low &+ schedule[index - 7] &+ high
    }
    var (a, b, c, d) = (state[0], state[1], state[2], state[3])
    var (e, f, g, h) = (state[4], state[5], state[6], state[7])
    for index in 0..<64 {
      let upper = Self.rotate(e, 6) ^ Self.rotate(e, 11) ^ Self.rotate(e, 25)
      let first = h &+ upper &+ (e & f ^ ~e & g) &+ Self.constants[index] &+ schedule[index]
      let lower = Self.rotate(a, 2) ^ Self.rotate(a, 13) ^ Self.rotate(a, 22)
      let second = lower &+ (a & b ^ a & c ^ b & c)
      (h, g, f, e, d, c, b, a) = (g, f, e, d &+ first, c, b, a, first &+ second)
    }
    state[0] &+= a
    state[1] &+= b
    state[2] &+= c
    state[3] &+= d
    state[4] &+= e
    state[5] &+= f
    state[6] &+= g
    state[7] &+= h
  }
}
