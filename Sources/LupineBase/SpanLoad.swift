/// Loads and stores of several bytes at once. These are the one exception to "hot loops never cross a module": each is a few
/// instructions that are always inlined into the loop of the caller, which itself stays in one module.
extension Span where Element == UInt8 {
  /// The bytes from `offset` on as one value, at any alignment. Traps unless the span holds all of them, and at least `room` bytes.
  ///
  /// - Parameters:
  ///   - type: an integer, or integers side by side: every pattern of bits must be a value of it.
  ///   - room: loads of different types that ask for the same room share one check.
  @inlinable
  @inline(__always)
  package func load<Value: BitwiseCopyable>(at offset: Int, as type: Value.Type, room: Int = 0) -> Value {
    precondition(offset >= 0 && offset <= count &- max(room, MemoryLayout<Value>.size))
    // Safe: the precondition has checked both ends, and the load asks for no alignment.
    return unsafe bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: offset, as: type)
  }
}

extension MutableSpan where Element == UInt8 {
  /// Puts the bytes of `value` at `offset` and behind it, at any alignment. Traps unless the span holds all of them.
  @inlinable
  @inline(__always)
  @_lifetime(self: copy self)
  package mutating func store<Value: BitwiseCopyable>(_ value: Value, at offset: Int) {
    precondition(offset >= 0 && offset <= count &- MemoryLayout<Value>.size)
    // Safe: the precondition has checked both ends, and the store asks for no alignment. The span holds bytes, so it has an address.
    unsafe withUnsafeMutableBufferPointer { buffer in
      unsafe UnsafeMutableRawPointer(buffer.baseAddress.unsafelyUnwrapped).storeBytes(
        of: value, toByteOffset: offset, as: Value.self)
    }
  }

  /// Puts `source` at `offset` and behind it. Traps unless all of it fits in.
  @inlinable
  @inline(__always)
  @_lifetime(self: copy self)
  package mutating func copy(_ source: Span<UInt8>, at offset: Int) {
    precondition(offset >= 0 && offset <= count &- source.count)
    guard !source.isEmpty else { return }
    // Safe: the precondition has checked both ends; both spans hold bytes, so they have addresses, and while one is written no other
    // refers to it.
    unsafe source.withUnsafeBufferPointer { from in
      unsafe withUnsafeMutableBufferPointer { to in
        unsafe (to.baseAddress.unsafelyUnwrapped + offset).update(
          from: from.baseAddress.unsafelyUnwrapped, count: from.count)
      }
    }
  }
}
