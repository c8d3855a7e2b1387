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
    (position..<(position + count)).map { byte(at: $0) }
  }

  /// Whether `bytes` are the body's from `position` on.
  public static func matches(_ bytes: some Sequence<UInt8>, from position: Int) -> Bool {
    var position = position
    for value in bytes {
      guard value == byte(at: position) else { return false }
      position += 1
    }
    return true
  }

  /// Hands out `count` bytes from `position` on in slices of at most `slice` bytes, without copying.
  static func send(
    _ count: Int, from position: Int, slice: Int = sliceSize,
    _ body: (ArraySlice<UInt8>) throws(LoopbackError) -> Void
  ) throws(LoopbackError) {
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
