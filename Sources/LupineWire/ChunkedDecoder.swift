/// Decodes a chunked body (RFC 9112 section 7.1): bytes in, ranges of the same bytes out, then trailers, then the end.
///
/// Resumable at any byte; any split of the input gives the same data, the same trailers and the same error.
/// - States (`Phase`): `size` → `extensions` | `sizeWhitespace` | `sizeLineFeed`; `sizeWhitespace` → `extensions` | `sizeLineFeed`;
///   `extensions` → `quoted` | `sizeLineFeed`; `quoted` → `quotedPair` | `extensions`; `quotedPair` → `quoted`;
///   `sizeLineFeed` → `data` | `trailerStart`; `data` → `dataEnd` → `dataLineFeed` → `size`;
///   `trailerStart` → `trailers` | `lastLineFeed`; both → `ended`. After an error: `failed`, for good.
/// - Invariants: the data handed out is exactly the chunks' data; at most one line of sizes and the trailer section are counted,
///   only the trailer section is kept.
public struct ChunkedDecoder: Sendable {
  /// What the next bytes mean.
  public enum Event: Sendable, Equatable {
    /// Everything given was taken.
    case needMore
    /// Body bytes: a range of the input.
    case data(Range<Int>)
    /// The trailer section, if any field of it is kept.
    case trailers(FieldSection)
    /// The body has ended; bytes from the offset on are not part of it.
    case end
  }

  private enum Phase: Equatable {
    case size, sizeWhitespace, extensions, quoted, quotedPair, sizeLineFeed, data, dataEnd, dataLineFeed
    case trailerStart, lastLineFeed, trailers, ended
    case failed(WireError)
  }

  private var phase = Phase.size
  private var remaining: Int64 = 0
  private var digits = 0
  private var lineBytes = 0
  private var extensionBytes = 0
  /// Bytes of the response taken before the input of the current call.
  private var base: Int
  private var trailers: TrailerReader? = nil

  private let limits: WireLimits
  private let leniency: WireLeniency

  /// Whether a leniency has let a line of the chunks or of the trailers pass that others read differently. For them the body may end
  /// elsewhere: no other response may follow on the connection.
  public private(set) var hasAmbiguousFraming = false

  /// Trailer fields that were dropped because they must not be trailers: see ``ForbiddenTrailers``.
  public private(set) var droppedTrailerFields = 0

  /// - Parameter origin: bytes of the response before the body, for offsets in errors.
  public init(limits: WireLimits = WireLimits(), leniency: WireLeniency = [], origin: Int = 0) {
    self.limits = limits.clamped
    self.leniency = leniency
    base = origin
  }

  /// Reads `input` from `offset` on and moves `offset` past what it took.
  ///
  /// - Throws: ``WireError`` with its offset since the start of the response; the same again at every later call.
  public mutating func next(_ input: Span<UInt8>, _ offset: inout Int) throws(WireError) -> Event {
    if case .failed(let error) = phase { throw error }
    let start = offset
    do throws(WireError) {
      let event = try step(input, &offset, base - start)
      base += offset - start
      return event
    } catch {
      phase = .failed(error)
      throw error
    }
  }

  /// The bytes of the response taken so far, the origin included.
  public var consumed: Int { base }

  /// `shift` turns an index of `input` into an offset of the response.
  private mutating func step(
    _ input: Span<UInt8>, _ offset: inout Int, _ shift: Int
  ) throws(WireError) -> Event {
    while true {
      switch phase {
      case .ended: return .end
      case .data:
        guard offset < input.count else { return .needMore }
        let amount = Int(min(remaining, Int64(input.count - offset)))
        let range = offset..<offset + amount
        offset += amount
        remaining -= Int64(amount)
        if remaining == 0 { phase = .dataEnd }
        return .data(range)
      case .trailers:
        guard let section = try readTrailers(input, &offset) else { return .needMore }
        phase = .ended
        if !section.isEmpty { return .trailers(section) }
      default:
        guard offset < input.count else { return .needMore }
        try take(input[offset], at: offset + shift)
        // The first byte of a trailer section is read again by the reader of sections, which has taken nothing yet.
        if phase != .trailers { offset += 1 }
      }
    }
  }

  private mutating func take(_ byte: UInt8, at position: Int) throws(WireError) {
    switch phase {
    case .size: try takeSize(byte, at: position)
    case .sizeWhitespace, .extensions, .quoted, .quotedPair: try takeExtension(byte, at: position)
    case .sizeLineFeed:
      guard byte == .lineFeed else { throw WireError(.bareCarriageReturn, at: position - 1) }
      endSizeLine()
    case .dataEnd:
      if byte == .carriageReturn {
        phase = .dataLineFeed
      } else {
        guard byte == .lineFeed else { throw WireError(.missingChunkEnd(byte), at: position) }
        guard leniency.contains(.bareLineFeedInChunks) else { throw WireError(.bareLineFeed, at: position) }
        hasAmbiguousFraming = true
        phase = .size
      }
    case .dataLineFeed:
      guard byte == .lineFeed else { throw WireError(.bareCarriageReturn, at: position - 1) }
      phase = .size
    case .trailerStart:
      if byte == .carriageReturn, limits.trailers >= 2 {
        phase = .lastLineFeed
      } else {
        trailers = TrailerReader(limits: limits, leniency: leniency, base: position)
        phase = .trailers
      }
    case .lastLineFeed:
      guard byte == .lineFeed else { throw WireError(.bareCarriageReturn, at: position - 1) }
      phase = .ended
    case .data, .trailers, .ended, .failed: break
    }
  }

  private mutating func takeSize(_ byte: UInt8, at position: Int) throws(WireError) {
    let value = ByteClass.hexadecimalValue(byte)
    if value < 16 {
      if lineBytes >= limits.chunkLine { throw WireError(.chunkLineTooLong(limit: limits.chunkLine), at: position) }
      if digits == 16 || remaining >> 59 != 0 { throw WireError(.chunkSizeTooLarge, at: position) }
      remaining = remaining << 4 | Int64(value)
      digits += 1
      lineBytes += 1
    } else {
      guard digits > 0 else { throw WireError(.invalidChunkSizeByte(byte), at: position) }
      switch byte {
      case .carriageReturn: phase = .sizeLineFeed
      case .lineFeed: try endLineBarely(at: position)
      case .semicolon, .space, .horizontalTab:
        try countExtension(at: position)
        phase = byte == .semicolon ? .extensions : .sizeWhitespace
      default: throw WireError(.invalidChunkSizeByte(byte), at: position)
      }
    }
  }

  private mutating func takeExtension(_ byte: UInt8, at position: Int) throws(WireError) {
    if phase == .sizeWhitespace {
      switch byte {
      case .semicolon: phase = .extensions
      case .space, .horizontalTab: break
      case .carriageReturn, .lineFeed:
        guard leniency.contains(.whitespaceAfterChunkSize) else {
          throw WireError(.whitespaceAfterChunkSize, at: position)
        }
      default: throw WireError(.invalidChunkSizeByte(byte), at: position)
      }
    }
    if byte == .carriageReturn {
      try checkUnquoted(byte, at: position)
      phase = .sizeLineFeed
    } else if byte == .lineFeed {
      try endLineBarely(at: position)
    } else {
      try countExtension(at: position)
      guard ByteClass.has(byte, ByteClass.fieldValue) else {
        throw WireError(.invalidChunkExtensionByte(byte), at: position)
      }
      switch phase {
      case .extensions where byte == .quotationMark: phase = .quoted
      case .quoted where byte == .quotationMark: phase = .extensions
      case .quoted where byte == .backslash: phase = .quotedPair
      case .quotedPair: phase = .quoted
      default: break
      }
    }
  }

  /// A line end cannot stand in a quoted string (RFC 9110 section 5.6.4): a reader that takes it for a part of one goes on in the string and
  /// finds other chunks (Netty CVE-2026-33870).
  private func checkUnquoted(_ byte: UInt8, at position: Int) throws(WireError) {
    if phase == .quoted || phase == .quotedPair { throw WireError(.invalidChunkExtensionByte(byte), at: position) }
  }

  private mutating func countExtension(at position: Int) throws(WireError) {
    if lineBytes >= limits.chunkLine { throw WireError(.chunkLineTooLong(limit: limits.chunkLine), at: position) }
    if extensionBytes >= limits.chunkExtensions {
      throw WireError(.chunkExtensionsTooLarge(limit: limits.chunkExtensions), at: position)
    }
    lineBytes += 1
    extensionBytes += 1
  }

  private mutating func endLineBarely(at position: Int) throws(WireError) {
    guard leniency.contains(.bareLineFeedInChunks) else { throw WireError(.bareLineFeed, at: position) }
    try checkUnquoted(.lineFeed, at: position)
    hasAmbiguousFraming = true
    endSizeLine()
  }

  private mutating func endSizeLine() {
    phase = remaining == 0 ? .trailerStart : .data
    digits = 0
    lineBytes = 0
  }

  private mutating func readTrailers(
    _ input: Span<UInt8>, _ offset: inout Int
  ) throws(WireError) -> FieldSection? {
    guard let section = try trailers?.next(input, &offset) else { return nil }
    droppedTrailerFields = trailers?.dropped ?? 0
    if trailers?.hasAmbiguousFraming == true { hasAmbiguousFraming = true }
    trailers = nil
    return section
  }
}
