/// Reads a status line: a machine over storage, resumable at any byte (RFC 9112 section 4).
///
/// - States (`Phase`): `emptyLines` → `emptyLineFeed` → `emptyLines`; `emptyLines` → `version` → `reason` | `lineFeed`;
///   `reason` → `lineFeed` | ended; `lineFeed` → ended. Only leniency leaves `emptyLines` by an empty line.
/// - Invariant: `position` only grows; what is thrown depends on the bytes up to the offset thrown alone.
struct StatusLineScanner {
  enum Phase: UInt8 { case emptyLines, emptyLineFeed, version, reason, lineFeed }

  var phase = Phase.emptyLines
  /// The next byte to look at.
  var position = 0
  var lineStart = 0
  var status = 0
  var minor = 0
  var reasonStart = 0
  var reasonEnd = 0

  /// Scans `bytes` up to `filled` (padding follows); true once the line has ended, with `position` behind it. What a leniency lets pass that
  /// others read differently is noted in `spoiled`, as ``FieldScanner/spoiled`` says.
  @inline(__always)
  mutating func scan(
    _ bytes: Span<UInt8>, filled: Int, limit: Int, _ leniency: WireLeniency, _ spoiled: inout CloseReason?
  ) throws(WireError) -> Bool {
    if position == 0, filled >= 16, limit >= 13 { startQuickly(bytes) }
    if phase != .reason, phase != .lineFeed, try !scanVersion(bytes, filled, limit, leniency, &spoiled) { return false }
    while phase == .reason {
      let stop = ByteScan.firstControl(bytes, from: position)
      guard stop < filled else {
        position = filled
        if filled &- lineStart > limit { throw failure(.bareLineFeed, at: filled, limit) }
        return false
      }
      reasonEnd = stop
      position = stop &+ 1
      if bytes[stop] == .carriageReturn, stop &- lineStart <= limit {
        phase = .lineFeed
      } else if try endReasonUncommonly(bytes[stop], at: stop, limit, leniency, &spoiled) {
        return true
      }
    }
    guard position < filled else { return false }
    guard bytes[position] == .lineFeed else { throw WireError(.bareCarriageReturn, at: position &- 1) }
    position &+= 1
    return true
  }

  /// The usual `HTTP/1.1 200 ` in two words; anything else is left to the byte by byte machine.
  @inline(__always)
  private mutating func startQuickly(_ bytes: Span<UInt8>) {
    let version = ByteScan.word(bytes, 0)
    guard version & 0xFEFF_FFFF_FFFF_FFFF == 0x302E_312F_5054_5448 else { return }
    let code = ByteScan.word(bytes, 8)
    guard code & 0xFF_0000_00FF == 0x20_0000_0020 else { return }
    let first = Int(code &>> 8 & 0xFF) &- 0x30
    let second = Int(code &>> 16 & 0xFF) &- 0x30
    let third = Int(code &>> 24 & 0xFF) &- 0x30
    guard first >= 1, first <= 5, second >= 0, second <= 9, third >= 0, third <= 9 else { return }
    minor = Int(version &>> 56 & 1)
    status = first &* 100 &+ second &* 10 &+ third
    position = 13
    reasonStart = 13
    phase = .reason
  }

  /// Everything up to the reason phrase, byte by byte; false if bytes ran out.
  @inline(never)
  private mutating func scanVersion(
    _ bytes: Span<UInt8>, _ filled: Int, _ limit: Int, _ leniency: WireLeniency, _ spoiled: inout CloseReason?
  ) throws(WireError) -> Bool {
    while position < filled {
      let byte = bytes[position]
      if phase == .emptyLineFeed {
        guard byte == .lineFeed else { throw WireError(.bareCarriageReturn, at: position - 1) }
        phase = .emptyLines
        position += 1
        continue
      }
      if position - lineStart >= limit, byte != .carriageReturn, byte != .lineFeed || position - lineStart > limit {
        throw failure(.invalidStatusLine, at: position, limit)
      }
      if phase == .emptyLines {
        if byte == .carriageReturn || byte == .lineFeed {
          try skipEmptyLine(byte, limit, leniency, &spoiled)
          continue
        }
        // The limit counts the empty lines too: a peer must not send them for ever.
        phase = .version
        versionStart = position
      }
      switch try versionByte(byte, position - versionStart, leniency) {
      case .more: position += 1
      case .reason:
        position += 1
        reasonStart = position
        reasonEnd = position
        phase = .reason
        return true
      case .noReason:
        reasonStart = position
        reasonEnd = position
        phase = .reason
        return true
      }
    }
    if position - lineStart > limit { throw failure(.invalidStatusLine, at: position, limit) }
    return false
  }

  /// Where `HTTP/` started: behind the empty lines.
  private var versionStart = 0

  private enum Step { case more, reason, noReason }

  /// The content type of a record (RFC 8446 section 5.1).
  private static let alertOfTLS: UInt8 = 21

  private mutating func versionByte(_ byte: UInt8, _ index: Int, _ leniency: WireLeniency) throws(WireError) -> Step {
    switch index {
    case 0..<5:
      guard byte == Self.name[index] else {
        throw WireError(index == 0 && byte == Self.alertOfTLS ? .alertOfTLS : .invalidStatusLine, at: position)
      }
    case 5:
      guard byte.isDigit else { throw WireError(.invalidStatusLine, at: position) }
      guard byte == 0x31 else { throw WireError(.unsupportedVersion, at: position) }
    case 6:
      guard byte == 0x2E else { throw WireError(.invalidStatusLine, at: position) }
    case 7:
      guard byte.isDigit else { throw WireError(.invalidStatusLine, at: position) }
      minor = Int(byte - 0x30)
    case 8:
      guard byte == .space else { throw WireError(.invalidStatusLine, at: position) }
    case 9:
      let last: UInt8 = leniency.contains(.statusCodesAbove599) ? 0x39 : 0x35
      guard byte >= 0x31, byte <= last else { throw WireError(.invalidStatusCode, at: position) }
      status = Int(byte - 0x30)
    case 10, 11:
      guard byte.isDigit else { throw WireError(.invalidStatusCode, at: position) }
      status = status * 10 + Int(byte - 0x30)
    default:
      if byte == .space { return .reason }
      guard byte == .carriageReturn || byte == .lineFeed else { throw WireError(.invalidStatusCode, at: position) }
      return .noReason
    }
    return .more
  }

  private static let name: InlineArray<5, UInt8> = [0x48, 0x54, 0x54, 0x50, 0x2F]

  private mutating func skipEmptyLine(
    _ byte: UInt8, _ limit: Int, _ leniency: WireLeniency, _ spoiled: inout CloseReason?
  ) throws(WireError) {
    guard leniency.contains(.leadingEmptyLines) else { throw WireError(.leadingEmptyLine, at: position) }
    if position - lineStart >= limit { throw failure(.leadingEmptyLine, at: position, limit) }
    if byte == .carriageReturn {
      phase = .emptyLineFeed
    } else if !leniency.contains(.bareLineFeed) {
      throw WireError(.bareLineFeed, at: position)
    }
    // The peer ends a response elsewhere than we do: its next one may end elsewhere too.
    spoiled = .ambiguousFraming
    position += 1
  }

  /// A control byte in the reason phrase that is no HTAB and no CR in its place. Returns whether the line ends here.
  @inline(never)
  private mutating func endReasonUncommonly(
    _ byte: UInt8, at stop: Int, _ limit: Int, _ leniency: WireLeniency, _ spoiled: inout CloseReason?
  ) throws(WireError) -> Bool {
    if stop - lineStart > limit { throw failure(.bareLineFeed, at: stop, limit) }
    if byte == .lineFeed {
      guard leniency.contains(.bareLineFeed) else { throw failure(.bareLineFeed, at: stop, limit) }
      spoiled = .ambiguousFraming
      return true
    }
    guard byte != 0, leniency.contains(.controlBytesInValues) else {
      throw failure(.invalidReasonByte(byte), at: stop, limit)
    }
    return false
  }

  /// The error for a byte at `offset`, unless the line was too long before it, or with it where it is not the end of the line.
  @inline(never)
  private func failure(_ reason: WireError.Reason, at offset: Int, _ limit: Int) -> WireError {
    offset - lineStart >= limit + (reason == .bareLineFeed ? 1 : 0)
      ? WireError(.statusLineTooLong(limit: limit), at: lineStart + limit) : WireError(reason, at: offset)
  }
}
