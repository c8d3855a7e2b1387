internal import CLupineZlib
internal import LupineRules

/// Undoes one coding of a chain, in pieces of any size.
///
/// States: `start` → (`undecided` → ) `inflating` → `ended` → `padding`; from `ended`, gzip goes back to `inflating` with the next member;
/// `inflating` → `failed`.
/// Invariants: the output buffer is filled up to multiples of its size and nowhere beyond, so that limits are checked at the same places
/// however the input was split; `consumed` never counts a byte that zlib has not taken.
@safe
final class Inflater {
  private enum State {
    /// No byte has come.
    case start
    /// The first byte of `deflate` may begin a zlib header; the second one tells.
    case undecided(UInt8)
    case inflating
    /// A gzip member or the whole stream is complete.
    case ended
    /// Zero bytes after the last gzip member: tapes and some servers pad with them.
    case padding
    /// A fault was found behind output that is still to be taken.
    case failed(DecodeError)
  }

  enum Step {
    /// Everything given was consumed.
    case needsInput
    /// There is output to take.
    case output
  }

  static let bufferSize = 32 * 1024

  let coding: ContentCoding
  /// Encoded bytes taken.
  private(set) var consumed: UInt64 = 0
  /// Decoded bytes given.
  private(set) var produced: UInt64 = 0
  private var state = State.start
  /// On the heap, because zlib's state points back at it.
  private let stream: UnsafeMutablePointer<z_stream>
  private var isOpen = false
  private let buffer: UnsafeMutablePointer<UInt8>
  /// The part of the buffer that the last call filled.
  private var filled = 0..<0

  init(_ coding: ContentCoding) {
    self.coding = coding
    unsafe stream = .allocate(capacity: 1)
    unsafe stream.initialize(to: z_stream())
    unsafe buffer = .allocate(capacity: Self.bufferSize)
  }

  deinit {
    if isOpen { unsafe inflateEnd(stream) }
    unsafe stream.deallocate()
    unsafe buffer.deallocate()
  }

  /// What the last `step` produced; valid until the next one.
  var output: Span<UInt8> {
    @_lifetime(borrow self)
    get {
      let bytes = unsafe UnsafeBufferPointer(start: buffer, count: Self.bufferSize)
      let span = unsafe Span(_unsafeElements: bytes).extracting(filled)
      return unsafe _overrideLifetime(span, borrowing: self)
    }
  }

  /// Takes input from `offset` on until there is output or no more input. Call it with the rest until it needs input.
  func step(_ input: Span<UInt8>, _ offset: inout Int) throws(DecodeError) -> Step {
    while true {
      switch state {
      case .start:
        guard offset < input.count else { return .needsInput }
        try begin(input[offset])
        if case .undecided = state {
          offset += 1
          consumed += 1
        }
      case .undecided(let first):
        guard offset < input.count else { return .needsInput }
        try open(windowBits: Self.isZlibHeader(first, input[offset]) ? MAX_WBITS : -MAX_WBITS)
        // The first byte is of an earlier span, perhaps: given by itself it can yield no output.
        consumed -= 1
        var start = 0
        _ = try inflateOnce([first].span, &start)
      case .inflating:
        // zlib may hold output back when the buffer was full, so it is asked even without input.
        if try inflateOnce(input, &offset) { return .output }
        if case .inflating = state, offset == input.count { return .needsInput }
      case .ended:
        guard offset < input.count else { return .needsInput }
        try continueAfterEnd(input[offset])
      case .padding:
        guard offset < input.count else { return .needsInput }
        guard input[offset] == 0 else { throw DecodeError.trailingGarbage(coding, offset: consumed) }
        offset += 1
        consumed += 1
      case .failed(let error):
        throw error
      }
    }
  }

  /// The input is over.
  func finish() throws(DecodeError) {
    switch state {
    case .start, .ended, .padding: return  // An empty body is an empty body, whatever its codings.
    case .failed(let error): throw error
    case .undecided, .inflating: throw DecodeError.truncated(coding, offset: consumed)
    }
  }

  private func begin(_ first: UInt8) throws(DecodeError) {
    switch coding {
    case .gzip: try open(windowBits: MAX_WBITS + 16)
    case .deflate where Self.mayBeginZlib(first): state = .undecided(first)
    case .deflate: try open(windowBits: -MAX_WBITS)
    }
  }

  private func open(windowBits: Int32) throws(DecodeError) {
    guard unsafe CLupineZlib_inflateInit2(stream, windowBits) == Z_OK else { throw DecodeError.outOfMemory }
    isOpen = true
    state = .inflating
  }

  private func continueAfterEnd(_ byte: UInt8) throws(DecodeError) {
    switch (coding, byte) {
    case (.gzip, 0x1F):
      guard unsafe inflateReset(stream) == Z_OK else { throw DecodeError.corrupt(coding, offset: consumed) }
      state = .inflating
    case (.gzip, 0):
      state = .padding
    default:
      throw DecodeError.trailingGarbage(coding, offset: consumed)
    }
  }

  /// One call of zlib. Returns whether it produced anything.
  private func inflateOnce(_ input: Span<UInt8>, _ offset: inout Int) throws(DecodeError) -> Bool {
    let start = Int(produced % UInt64(Self.bufferSize))
    let available = min(input.count - offset, Int(UInt32.max))
    unsafe stream.pointee.next_out = buffer + start
    unsafe stream.pointee.avail_out = UInt32(Self.bufferSize - start)
    let rest = input.extracting(offset..<offset + available)
    let code = unsafe rest.withUnsafeBufferPointer { bytes in
      unsafe stream.pointee.next_in = UnsafeMutablePointer(mutating: bytes.baseAddress)
      unsafe stream.pointee.avail_in = UInt32(available)
      return unsafe inflate(stream, Z_NO_FLUSH)
    }
    let taken = available - Int(unsafe stream.pointee.avail_in)
    let count = Self.bufferSize - start - Int(unsafe stream.pointee.avail_out)
    unsafe stream.pointee.next_in = nil
    unsafe stream.pointee.next_out = nil
    offset += taken
    consumed += UInt64(taken)
    produced += UInt64(count)
    filled = start..<start + count
    switch code {
    case Z_OK, Z_BUF_ERROR: break  // The latter says only that nothing could be done.
    case Z_STREAM_END: state = .ended
    case Z_NEED_DICT: throw DecodeError.dictionaryNeeded(offset: consumed)
    case Z_MEM_ERROR: throw DecodeError.outOfMemory
    default:
      // What came before the fault is handed out first, however large the piece was that it came in.
      let error = DecodeError.corrupt(coding, offset: consumed)
      guard count > 0 else { throw error }
      state = .failed(error)
    }
    return count > 0
  }

  private static func mayBeginZlib(_ first: UInt8) -> Bool {
    first & 0x0F == 8 && first >> 4 <= 7
  }

  /// RFC 1950 section 2.2. No compressor begins raw deflate with such a pair: it would be a stored block with bits set in its padding.
  private static func isZlibHeader(_ first: UInt8, _ second: UInt8) -> Bool {
    mayBeginZlib(first) && (Int(first) << 8 | Int(second)) % 31 == 0
  }
}
