/// Memory that a loop reads into, and whoever has kept a read instead of copying it reads from, on any thread.
///
/// `@unchecked`: only the loop writes to it, while it is the loop's buffer, and otherwise who gathers bytes there (`KeptRead.append`). Whoever gives it
/// back as a spare one has finished with it.
@safe
package final class ReadBuffer: @unchecked Sendable {
  let memory: UnsafeMutableRawBufferPointer

  /// Makes one of so many bytes, at least one, which take no memory until something is written there. A loop's has `LoopContext.largeReadSize`.
  package init(byteCount: Int = LoopContext.largeReadSize) {
    unsafe memory = .allocate(byteCount: max(byteCount, 1), alignment: 4096)
  }

  deinit { unsafe memory.deallocate() }

  /// Whether a loop may read into it.
  package var isLarge: Bool { unsafe memory.count >= LoopContext.largeReadSize }

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

/// Bytes of a read that stay where they were read to, or that were gathered in memory of the same kind.
package struct KeptRead: Sendable {
  package let buffer: ReadBuffer
  private var range: Range<Int>
  /// Where what may be appended ends.
  private let end: Int

  /// Bytes that are there; nothing can be appended.
  init(_ buffer: ReadBuffer, _ range: Range<Int>) {
    self.buffer = buffer
    self.range = range
    end = range.upperBound
  }

  /// Nothing yet, for bytes that are gathered in `buffer`, which nobody else may have.
  package init(into buffer: ReadBuffer) {
    self.buffer = buffer
    range = 0..<0
    end = unsafe buffer.memory.count
  }

  package var count: Int { range.count }

  /// Whether anything can be appended.
  package var hasRoom: Bool { range.upperBound < end }

  /// Copies as many of `bytes` behind those that are here as there is room for, and says how many. Nobody else may append to the same buffer; to read
  /// what was there before is no conflict.
  package mutating func append(_ bytes: Span<UInt8>) -> Int {
    let count = min(bytes.count, end - range.upperBound)
    let target = range.upperBound..<range.upperBound + count
    unsafe bytes.extracting(first: count).withUnsafeBytes {
      unsafe UnsafeMutableRawBufferPointer(rebasing: buffer.memory[target]).copyMemory(from: $0)
    }
    range = range.lowerBound..<target.upperBound
    return count
  }

  package var bytes: Span<UInt8> {
    @_lifetime(borrow self)
    get {
      let span = unsafe Span<UInt8>(_unsafeBytes: UnsafeRawBufferPointer(rebasing: buffer.memory[range]))
      return unsafe _overrideLifetime(span, borrowing: self)
    }
  }
}
