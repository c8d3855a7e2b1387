import CLupineZlib

/// A compressor of a hundred lines that shares nothing but the checksum with zlib, so that a decoder on zlib has an independent judge, and so
/// that bombs of any size can be written down in a few bytes.
struct DeflateWriter {
  private(set) var bytes: [UInt8] = []
  private var pending: UInt32 = 0
  private var pendingCount: UInt32 = 0

  /// Begins a block with the fixed codes of RFC 1951 section 3.2.6.
  mutating func beginFixedBlock(isLast: Bool) {
    put(isLast ? 1 : 0, 1)
    put(1, 2)
  }

  mutating func literal(_ byte: UInt8) {
    if byte < 144 { code(0x30 + UInt32(byte), 8) } else { code(0x190 + UInt32(byte) - 144, 9) }
  }

  /// Repeats the byte before 258 times.
  mutating func repeatLast258() {
    code(0xC5, 8)
    code(0, 5)
  }

  mutating func endBlock() {
    code(0, 7)
  }

  /// Fills the last byte up.
  mutating func finish() -> [UInt8] {
    if pendingCount > 0 { put(0, 8 - pendingCount) }
    return bytes
  }

  private mutating func put(_ value: UInt32, _ count: UInt32) {
    pending |= value << pendingCount
    pendingCount += count
    while pendingCount >= 8 {
      bytes.append(UInt8(pending & 0xFF))
      pending >>= 8
      pendingCount -= 8
    }
  }

  /// Codes are sent from their highest bit on.
  private mutating func code(_ value: UInt32, _ count: UInt32) {
    var reversed: UInt32 = 0
    var bit: UInt32 = 0
    while bit < count {
      reversed = reversed << 1 | value >> bit & 1
      bit += 1
    }
    put(reversed, count)
  }

  /// `1 + 258 * repeats` bytes of zero, raw; about 158 times smaller than that.
  static func zeros(repeats: Int) -> [UInt8] {
    var writer = DeflateWriter()
    writer.beginFixedBlock(isLast: true)
    writer.literal(0)
    for _ in 0..<repeats { writer.repeatLast258() }
    writer.endBlock()
    return writer.finish()
  }

  /// Literals and repetitions in a random order: the raw stream and what it stands for.
  static func random(count: Int, seed: UInt64) -> (raw: [UInt8], plain: [UInt8]) {
    var state = seed
    func next() -> UInt64 {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return state >> 33
    }
    var writer = DeflateWriter()
    var plain: [UInt8] = []
    writer.beginFixedBlock(isLast: false)
    while plain.count < count {
      let byte = UInt8(truncatingIfNeeded: next())
      writer.literal(byte)
      plain.append(byte)
      if next() % 4 == 0 {
        writer.repeatLast258()
        plain.append(contentsOf: repeatElement(byte, count: 258))
      }
      if next() % 64 == 0 {
        writer.endBlock()
        writer.beginFixedBlock(isLast: false)
      }
    }
    writer.endBlock()
    writer.beginFixedBlock(isLast: true)
    writer.endBlock()
    return (writer.finish(), plain)
  }

  /// One gzip member around a raw stream.
  static func gzip(raw: [UInt8], plain: [UInt8]) -> [UInt8] {
    [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255] + raw + littleEndian(checksum(plain)) + littleEndian(UInt32(plain.count))
  }

  /// One gzip member of stored blocks.
  static func gzip(stored plain: [UInt8]) -> [UInt8] {
    var raw: [UInt8] = []
    var rest = plain[...]
    repeat {
      let block = rest.prefix(65_535)
      rest = rest.dropFirst(block.count)
      let length = UInt16(block.count)
      raw.append(rest.isEmpty ? 1 : 0)
      for value in [length, ~length] { raw += [UInt8(value & 0xFF), UInt8(value >> 8)] }
      raw += block
    } while !rest.isEmpty
    return gzip(raw: raw, plain: plain)
  }

  private static func littleEndian(_ value: UInt32) -> [UInt8] {
    [0, 8, 16, 24].map { UInt8(value >> $0 & 0xFF) }
  }

  /// zlib's: a loop takes seconds where nothing is optimised.
  private static func checksum(_ bytes: [UInt8]) -> UInt32 {
    unsafe UInt32(truncatingIfNeeded: crc32(0, bytes, UInt32(bytes.count)))
  }
}
