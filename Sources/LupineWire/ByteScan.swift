import CLupineVector
import LupineBase

/// Scanning of padded storage many bytes at a time, without unsafe code.
///
/// Behind the last byte of input stands a NUL, which stops every scan, and enough padding for a block that starts at it.
enum ByteScan {
  /// Bytes that storage holds behind the last byte of input.
  static let padding = 64

  static let ones: UInt64 = 0x0101_0101_0101_0101

  /// The four bytes from `index` on, the first one lowest.
  @inline(__always)
  static func four(_ bytes: Span<UInt8>, _ index: Int) -> UInt32 {
    UInt32(littleEndian: bytes.load(at: index, as: UInt32.self, room: padding))
  }

  /// The eight bytes from `index` on, the first one lowest.
  @inline(__always)
  static func word(_ bytes: Span<UInt8>, _ index: Int) -> UInt64 {
    UInt64(littleEndian: bytes.load(at: index, as: UInt64.self))
  }

  /// One bit for each of the 64 bytes from `index` on that is a control (below 0x20, or 0x7F) or not ASCII, which costs less to know.
  /// HTAB counts as a control.
  @inline(__always)
  static func controls(_ bytes: Span<UInt8>, _ index: Int) -> UInt64 {
    lupine_not_text64(bytes.load(at: index, as: SIMD64<UInt8>.self))
  }

  /// One bit for each of the 64 bytes from `index` on that is a control.
  @inline(never)
  static func onlyControls(_ bytes: Span<UInt8>, _ index: Int) -> UInt64 {
    lupine_controls64(bytes.load(at: index, as: SIMD64<UInt8>.self))
  }

  /// How many of the 16 bytes from `start` on are letters or `-`, up to the first that is not.
  @inline(__always)
  static func nameLength(_ bytes: Span<UInt8>, _ start: Int) -> Int {
    lupine_not_name16(bytes.load(at: start, as: SIMD16<UInt8>.self, room: padding)).trailingZeroBitCount
  }

  /// The first index from `start` on whose byte is a control other than HTAB. There is one: the sentinel.
  @inline(__always)
  static func firstControl(_ bytes: Span<UInt8>, from start: Int) -> Int {
    var index = start
    while true {
      let found = lupine_controls16(bytes.load(at: index, as: SIMD16<UInt8>.self, room: padding))
      if found != 0 {
        index &+= found.trailingZeroBitCount
        if bytes[index] != .horizontalTab { return index }
        index &+= 1
      } else {
        index &+= 16
      }
    }
  }

  /// The first index from `start` on whose byte may not stand in a token. There is one: the sentinel.
  @inline(__always)
  static func firstNonToken(_ bytes: Span<UInt8>, from start: Int) -> Int {
    var index = start
    while true {
      let found = lupine_not_name16(bytes.load(at: index, as: SIMD16<UInt8>.self, room: padding))
      if found != 0 {
        index &+= found.trailingZeroBitCount
        let byte = bytes.load(at: index, as: UInt8.self, room: padding)
        if byte == .colon || !ByteClass.has(byte, ByteClass.token) { return index }
        index &+= 1
      } else {
        index &+= 16
      }
    }
  }
}
