/// Memory that a loop reads into, and whoever has kept a read instead of copying it reads from, on any thread.
///
/// `@unchecked`: only the loop writes to it, while it is the loop's buffer. Whoever gives it back as a spare one has finished with it.
@safe
package final class ReadBuffer: @unchecked Sendable {
  let memory: UnsafeMutableRawBufferPointer

  /// Makes one of `LoopContext.largeReadSize` bytes, which take no memory until something is written there.
  package init() {
    unsafe memory = .allocate(byteCount: LoopContext.largeReadSize, alignment: 4096)
  }

  deinit { unsafe memory.deallocate() }

  /// Where in it `bytes` are, if they are.
  func range(of bytes: Span<UInt8>) -> Range<Int>? {
    let offset = unsafe bytes.withUnsafeBytes { bytes in
      guard let first = bytes.baseAddress, let start = unsafe memory.baseAddress else { return -1 }
      return unsafe first - UnsafeRawPointer(start)
    }
    let count = unsafe memory.count
    return offset >= 0 && offset <= count - bytes.count ? offset..<offset + bytes.count : nil
  }
}

/// Bytes of a read that stay where they were read to.
package struct KeptRead: Sendable {
  package let buffer: ReadBuffer
  private let range: Range<Int>

  init(_ buffer: ReadBuffer, _ range: Range<Int>) {
    self.buffer = buffer
    self.range = range
  }

  /// A copy of `bytes`, of which there must be no more than `LoopContext.largeReadSize`, in `buffer` or in new memory: for tests.
  package init(copying bytes: Span<UInt8>, into buffer: ReadBuffer? = nil) {
    self.buffer = buffer ?? ReadBuffer()
    range = 0..<bytes.count
    let memory = unsafe self.buffer.memory
    unsafe bytes.withUnsafeBytes { unsafe memory.copyMemory(from: $0) }
  }

  package var bytes: Span<UInt8> {
    @_lifetime(borrow self)
    get {
      let span = unsafe Span<UInt8>(_unsafeBytes: UnsafeRawBufferPointer(rebasing: buffer.memory[range]))
      return unsafe _overrideLifetime(span, borrowing: self)
    }
  }
}
