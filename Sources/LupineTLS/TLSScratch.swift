/// Buffers that decrypted bytes pass through on their way to a sink: one per loop serves all its connections, so an idle
/// connection holds none. Lives on one thread.
package final class TLSScratch {
  /// The largest plaintext of one record (RFC 8446, 5.1): OpenSSL hands out one record at a time.
  static let recordSize = 16 * 1024
  /// As much as a loop reads at once.
  static let size = 256 * 1024

  @safe
  final class Buffer {
    let start: UnsafeMutableRawPointer

    init() {
      unsafe start = .allocate(byteCount: TLSScratch.size, alignment: 16)
    }

    deinit {
      unsafe start.deallocate()
    }
  }

  /// The one that nearly every connection gets, if nobody has it; and those that nested ones got.
  private var first: Buffer?
  private var others: [Buffer] = []

  package init() {}

  /// A buffer nobody else has: a sink may feed another connection (TLS within TLS) that shares this object.
  func take() -> Buffer {
    first.take() ?? others.popLast() ?? Buffer()
  }

  func give(_ buffer: Buffer) {
    if first == nil {
      first = buffer
    } else if others.count < 3 {
      others.append(buffer)
    }
  }
}
