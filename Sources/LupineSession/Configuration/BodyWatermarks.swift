/// How far the two sides of a body that is streamed may be apart, in both directions: bytes that wait in memory for the slower one.
///
/// Of responses they are those that `bytes(for:)` and the delegates of data tasks have not taken yet, of requests those that a stream has given and the
/// socket has not taken. What is under way comes on top: one read of at most 256 KiB, one chunk of the stream. Downloads to files have numbers of their
/// own, which follow the pieces that are written.
public struct BodyWatermarks: Hashable, Sendable {
  /// A side that was stopped goes on when no more wait than these. Default 64 KiB. Below 0 counts as 0. A delegate takes all that waits at once, and needs none.
  public var low: Int
  /// The faster side is stopped when so many wait. Default 256 KiB. Below 1 counts as 1.
  public var high: Int

  /// As given, or the defaults.
  public init(low: Int = 64 * 1024, high: Int = 256 * 1024) {
    self.low = low
    self.high = high
  }

  /// The same within their ranges.
  func checked() throws(SessionError) -> BodyWatermarks {
    let marks = BodyWatermarks(low: max(0, low), high: max(1, high))
    guard marks.low <= marks.high else {
      throw SessionError(
        .badRequest, phase: .prepare,
        message: "the low one of SessionConfiguration.bodyWatermarks is above the high one")
    }
    return marks
  }
}
