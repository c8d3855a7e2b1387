/// How much of the ciphertext at hand OpenSSL gets when it asks for as much as its buffer holds: up to the end of a record, so that one
/// question answers for header and body, and nothing that comes behind a record is taken before that record was looked at.
///
/// It reads of a record's header (RFC 8446, 5.1) no more than the length. Whatever it answers is right for OpenSSL, which asks again.
struct RecordGrant {
  private static let headerSize = 5

  /// Bytes of the record under way that have not been given out.
  private var left = 0
  /// Of a header that came in pieces: bytes given out, and the length's first.
  private var headerBytes = 0
  private var lengthHigh = 0

  /// Whether no record has begun that has not been given out to its end.
  var isBetweenRecords: Bool { left == 0 && headerBytes == 0 }

  /// Says how many bytes at the front of `input`, which is not empty, to give to who asks for `limit`; they are taken as given.
  mutating func take(from input: Span<UInt8>, limit: Int) -> Int {
    if left == 0 {
      guard headerBytes == 0, input.count >= Self.headerSize else { return takeHeaderByte(input[0]) }
      left = Self.headerSize + Int(input[3]) << 8 + Int(input[4])
    }
    let count = min(left, min(input.count, limit))
    left -= count
    return count
  }

  private mutating func takeHeaderByte(_ byte: UInt8) -> Int {
    headerBytes += 1
    if headerBytes == 4 { lengthHigh = Int(byte) }
    if headerBytes == Self.headerSize {
      left = lengthHigh << 8 + Int(byte)
      headerBytes = 0
    }
    return 1
  }
}
