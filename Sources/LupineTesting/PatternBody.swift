internal import Glibc

/// A body of any size whose every byte is known from its position: what `/bytes` sends and what tests compare with.
///
/// The pattern repeats after 65,521 bytes, a prime, so that a part lost or doubled at a power of two does not go unseen.
public enum PatternBody {
  static let period = 65_521
  private static let sliceSize = 256 * 1024

  /// One period and a slice more: a slice from any offset is contiguous.
  static let table: [UInt8] = {
    var state: UInt32 = 1
    let first = (0..<period).map { _ in
      state = state &* 1_664_525 &+ 1_013_904_223
      return UInt8(state >> 24)
    }
    return (0..<(period + sliceSize)).map { first[$0 % period] }
  }()

  /// The byte at a position of the body.
  public static func byte(at position: Int) -> UInt8 { table[position % period] }

  /// `count` bytes from a position on.
  public static func bytes(_ count: Int, from position: Int = 0) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(count)
    each(count, from: position, slice: sliceSize) { bytes += $0 }
    return bytes
  }

  /// Whether `bytes` are the body's from `position` on.
  public static func matches(_ bytes: some Sequence<UInt8>, from position: Int) -> Bool {
    let isSame = bytes.withContiguousStorageIfAvailable { unsafe matches(UnsafeRawBufferPointer($0), position) }
    return isSame ?? matches(Array(bytes), from: position)
  }

  /// By the C library, because comparing byte by byte takes seconds where nothing is optimised.
  private static func matches(_ bytes: UnsafeRawBufferPointer, _ position: Int) -> Bool {
    var offset = 0
    var isSame = true
    each(bytes.count, from: position, slice: sliceSize) { slice in
      unsafe slice.withUnsafeBytes { expected in
        let piece = unsafe UnsafeRawBufferPointer(rebasing: bytes[offset..<(offset + expected.count)])
        guard let left = expected.baseAddress, let right = piece.baseAddress else { return }
        if unsafe memcmp(left, right, expected.count) != 0 { isSame = false }
        offset += expected.count
      }
    }
    return isSame
  }

  /// Hands out `count` bytes from `position` on in slices of at most `slice` bytes, without copying.
  static func send(
    _ count: Int, from position: Int, slice: Int = sliceSize,
    _ body: (ArraySlice<UInt8>) throws(LoopbackError) -> Void
  ) throws(LoopbackError) {
    try each(count, from: position, slice: slice, body)
  }

  private static func each<Failure: Error>(
    _ count: Int, from position: Int, slice: Int, _ body: (ArraySlice<UInt8>) throws(Failure) -> Void
  ) throws(Failure) {
    var position = position
    let end = position + count
    while position < end {
      let size = min(end - position, min(slice, sliceSize))
      let start = position % period
      try body(table[start..<(start + size)])
      position += size
    }
  }
}
