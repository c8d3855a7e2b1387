/// A contiguous, growable queue of bytes: written at the back, read at the front.
///
/// Invariant: `0 <= readIndex <= writeIndex <= capacity`. Reading everything resets both indices, so a queue that is drained
/// regularly never moves bytes.
@safe
public struct ByteQueue: ~Copyable {
  private var storage: UnsafeMutableRawBufferPointer
  @usableFromInline var readIndex = 0
  @usableFromInline var writeIndex = 0

  /// Makes an empty queue; memory is allocated for `capacity` bytes at once, none for 0.
  package init(capacity: Int = 0) {
    unsafe storage =
      capacity == 0
      ? UnsafeMutableRawBufferPointer(start: nil, count: 0) : .allocate(byteCount: capacity, alignment: 16)
  }

  deinit {
    unsafe storage.deallocate()
  }

  /// Bytes that wait to be read.
  @inlinable public var count: Int { writeIndex - readIndex }

  /// Whether none waits.
  @inlinable public var isEmpty: Bool { writeIndex == readIndex }

  package var capacity: Int { unsafe storage.count }

  /// The bytes that wait to be read.
  package var span: Span<UInt8> {
    @_lifetime(borrow self)
    get {
      let readable = unsafe UnsafeRawBufferPointer(storage)[readIndex..<writeIndex]
      let span = unsafe Span<UInt8>(_unsafeBytes: readable)
      return unsafe _overrideLifetime(span, borrowing: self)
    }
  }

  /// Drops `amount` bytes at the front.
  package mutating func consume(_ amount: Int) {
    precondition(amount >= 0 && amount <= count, "cannot consume \(amount) of \(count) bytes")
    readIndex += amount
    if readIndex == writeIndex {
      readIndex = 0
      writeIndex = 0
    }
  }

  package mutating func append(_ bytes: Span<UInt8>) {
    guard bytes.count > 0 else { return }
    reserve(bytes.count)
    unsafe bytes.withUnsafeBytes { source in
      unsafe UnsafeMutableRawBufferPointer(rebasing: storage[writeIndex..<writeIndex + source.count])
        .copyMemory(from: source)
    }
    writeIndex += bytes.count
  }

  package mutating func append(_ bytes: [UInt8]) {
    append(bytes.span)
  }

  /// Makes room for at least `minimum` bytes at the back and lets `body` fill all or part of it.
  ///
  /// - Returns: what `body` returned.
  package mutating func append<Result, Failure: Error>(
    upTo minimum: Int, _ body: (inout OutputSpan<UInt8>) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    reserve(minimum)
    let tail = unsafe UnsafeMutableRawBufferPointer(rebasing: storage[writeIndex..<writeIndex + minimum])
    let typed = unsafe tail.bindMemory(to: UInt8.self)
    var output = unsafe OutputSpan<UInt8>(buffer: typed, initializedCount: 0)
    let result = try body(&output)
    writeIndex += unsafe output.finalize(for: typed)
    return result
  }

  /// Frees the memory if nothing waits to be read.
  package mutating func releaseIfEmpty() {
    guard isEmpty, unsafe storage.count > 0 else { return }
    unsafe storage.deallocate()
    unsafe storage = UnsafeMutableRawBufferPointer(start: nil, count: 0)
  }

  private mutating func reserve(_ amount: Int) {
    guard unsafe writeIndex + amount > storage.count else { return }
    let waiting = unsafe UnsafeRawBufferPointer(storage)[readIndex..<writeIndex]
    if unsafe count + amount <= storage.count {
      unsafe storage.copyMemory(from: UnsafeRawBufferPointer(rebasing: waiting))
    } else {
      let grown = unsafe UnsafeMutableRawBufferPointer.allocate(
        byteCount: max(count + amount, storage.count * 2, 256), alignment: 16)
      unsafe grown.copyMemory(from: UnsafeRawBufferPointer(rebasing: waiting))
      unsafe storage.deallocate()
      unsafe storage = grown
    }
    writeIndex -= readIndex
    readIndex = 0
  }
}

extension [UInt8] {
  /// Appends the bytes of a span with one copy.
  package mutating func append(_ bytes: Span<UInt8>) {
    unsafe bytes.withUnsafeBufferPointer { unsafe append(contentsOf: $0) }
  }

  /// A copy of the bytes of a span.
  package init(_ bytes: Span<UInt8>) {
    self = unsafe bytes.withUnsafeBufferPointer { unsafe Array($0) }
  }
}
