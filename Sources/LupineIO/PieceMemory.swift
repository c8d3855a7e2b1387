/// Memory in which bytes of a body are gathered for a file, and which serves again once they are in it.
///
/// `@unchecked`: only who gathers bytes there writes to it (`GatheredBytes.append`), and only behind those that others read.
@safe
package final class PieceMemory: @unchecked Sendable {
  /// Bytes of one, but for bodies that are shorter: those of a read.
  package static let size = LoopContext.readBufferSize

  let memory: UnsafeMutableRawBufferPointer

  /// Makes one of so many bytes, at least one, which take no memory until something is written there.
  package init(byteCount: Int = size) {
    unsafe memory = .allocate(byteCount: max(byteCount, 1), alignment: 4096)
  }

  deinit { unsafe memory.deallocate() }

  /// Whether it has the size of all others.
  package var isWhole: Bool { unsafe memory.count >= Self.size }
}

/// Bytes that were gathered.
package struct GatheredBytes: Sendable {
  package let memory: PieceMemory
  package private(set) var count = 0

  /// Nothing yet; nobody else may have `memory`.
  package init(in memory: PieceMemory) { self.memory = memory }

  /// Whether anything can be appended.
  package var hasRoom: Bool { unsafe count < memory.memory.count }

  /// Copies as many of `bytes` behind those that are here as there is room for, and says how many. Nobody else may append to the same memory; to read
  /// what was there before is no conflict.
  package mutating func append(_ bytes: Span<UInt8>) -> Int {
    let fitting = unsafe min(bytes.count, memory.memory.count - count)
    unsafe bytes.extracting(first: fitting).withUnsafeBytes {
      unsafe UnsafeMutableRawBufferPointer(rebasing: memory.memory[count..<count + fitting]).copyMemory(from: $0)
    }
    count += fitting
    return fitting
  }

  package var bytes: Span<UInt8> {
    @_lifetime(borrow self)
    get {
      let span = unsafe Span<UInt8>(_unsafeBytes: UnsafeRawBufferPointer(rebasing: memory.memory[..<count]))
      return unsafe _overrideLifetime(span, borrowing: self)
    }
  }
}
