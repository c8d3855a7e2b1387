import LupineBase

/// Reads the field lines of a head or of trailers: a machine over storage, resumable at any byte.
///
/// - States (`Phase`): `lineStart` → `name` | `endLineFeed`; `name` → `beforeColon` | `leadingSpace`; `beforeColon` →
///   `leadingSpace`; `leadingSpace` → `value`; `value` → `lineFeed` | `lineStart`; `lineFeed` → `lineStart`;
///   `endLineFeed` → ended. A fold leads from `lineStart` back to `leadingSpace` or `value`.
/// - Invariants: `position` only grows, bytes before it are never looked at again (except the white space that a value ends with);
///   everything thrown depends on the bytes up to the offset thrown alone, so splits of the input cannot matter.
struct FieldScanner {
  enum Phase: UInt8 { case lineStart, name, beforeColon, leadingSpace, value, lineFeed, endLineFeed }

  enum Outcome { case needMore, ended, growIndex, fold }

  /// Whose limits are meant in an error.
  enum Section { case head, trailers }

  var phase = Phase.lineStart
  /// Why no response may follow on the connection: a leniency let a line pass that others read differently, so that for them the message may
  /// end elsewhere. Nothing here takes it back.
  var spoiled: CloseReason? = nil
  /// The next byte to look at.
  var position = 0
  var lineStart = 0
  var nameEnd = 0
  var valueStart = 0
  /// Where the last line of this section that was folded into a value begins, 0 without one, and where the value ended before it.
  var foldStart = 0
  private var foldedEnd = 0
  /// Fields indexed so far.
  var count = 0

  var lineLimit: Int
  var fieldLimit: Int
  /// The limit that an error names: `fieldLimit` before informational heads took their share.
  var statedFieldLimit: Int
  var section: Section
  var leniency: WireLeniency

  init(lineLimit: Int, fieldLimit: Int, section: Section, leniency: WireLeniency) {
    self.lineLimit = lineLimit
    self.fieldLimit = fieldLimit
    self.statedFieldLimit = fieldLimit
    self.section = section
    self.leniency = leniency
  }

  /// Scans `bytes` up to `filled` (padding follows) and adds to the index, which lies behind them from `indexStart` on.
  @inline(__always)
  mutating func scan(
    _ bytes: inout MutableSpan<UInt8>, filled: Int, indexStart: Int
  ) throws(WireError) -> Outcome {
    while true {
      if phase == .lineStart { scanLines(&bytes, indexStart) }
      if phase == .lineStart {
        guard position < filled else { return .needMore }
        let byte = bytes[position]
        if byte == .carriageReturn {
          position &+= 1
          phase = .endLineFeed
        } else {
          if let outcome = try beginLine(byte) { return outcome }
          guard IndexHeader.place(count, indexStart) &+ FieldEntry.size <= bytes.count else { return .growIndex }
          lineStart = position
          phase = .name
        }
      }
      if phase == .name {
        let stop = ByteScan.firstNonToken(bytes.span, from: position)
        guard stop < filled else { return try outOfBytes(filled) }
        position = stop
        nameEnd = stop
        if bytes[stop] == .colon, stop > lineStart {
          position &+= 1
          phase = .leadingSpace
        } else {
          try endName(bytes[stop])
        }
      }
      if phase == .beforeColon {
        while position < filled, bytes[position].isWhitespace { position &+= 1 }
        guard position < filled else { return try outOfBytes(filled) }
        guard bytes[position] == .colon else { throw failure(.invalidFieldNameByte(bytes[position]), at: position) }
        position &+= 1
        phase = .leadingSpace
      }
      if phase == .leadingSpace {
        while position < filled, bytes[position].isWhitespace { position &+= 1 }
        guard position < filled else { return try outOfBytes(filled) }
        valueStart = position
        phase = .value
      }
      if phase == .value {
        let stop = ByteScan.firstControl(bytes.span, from: position)
        guard stop < filled else { return try outOfBytes(filled) }
        position = stop &+ 1
        if bytes[stop] == .carriageReturn {
          if stop &- lineStart > lineLimit { throw failure(.bareCarriageReturn, at: stop) }
          endValue(&bytes, at: stop, indexStart)
          phase = .lineFeed
        } else if try endValueUncommonly(bytes[stop], at: stop) {
          endValue(&bytes, at: stop, indexStart)
          phase = .lineStart
        }
      }
      if phase == .lineFeed {
        guard position < filled else { return .needMore }
        guard bytes[position] == .lineFeed else { throw WireError(.bareCarriageReturn, at: position &- 1) }
        position &+= 1
        phase = .lineStart
      }
      if phase == .endLineFeed {
        guard position < filled else { return .needMore }
        guard bytes[position] == .lineFeed else { throw WireError(.bareCarriageReturn, at: position &- 1) }
        position &+= 1
        return .ended
      }
    }
  }

  /// Takes ordinary lines that are all there, with everything in registers, and stops at whatever is not ordinary, in the phase and
  /// at the byte where the machine goes on.
  ///
  /// Where lines end is read from masks of 64 bytes, which do not depend on where lines start: the next line waits for a few
  /// operations upon a register only, and names, white space and entries follow beside it.
  @inline(__always)
  private mutating func scanLines(_ storage: inout MutableSpan<UInt8>, _ indexStart: Int) {
    let longest = lineLimit
    // Where the next entry goes, and where none goes any more.
    let firstPlace = IndexHeader.place(count, indexStart)
    var place = firstPlace
    let room = (storage.count &- indexStart) / FieldEntry.size &- IndexHeader.size
    let lastPlace = IndexHeader.place(min(fieldLimit, room), indexStart)
    var start = position
    var next = start
    var stopped = Phase.lineStart
    var colon = nameEnd
    var value = valueStart
    guard place < lastPlace, Self.beginsOrdinarily(storage[next]) else { return }
    // Invariant: `controls` has a bit for every control in `block..<block + 64` that is not behind us.
    var block = next
    var controls = ByteScan.controls(storage.span, block)
    while true {
      start = next
      stopped = .name
      var stop: Int
      // The byte before `stop`, the two of the line's end, and the first one of the next line. There is a byte before: the first of a
      // line that begins ordinarily is no control.
      var edge: UInt32
      while true {
        while controls == 0 {
          block &+= 64
          controls = ByteScan.controls(storage.span, block)
          // The LF of the line before: its CR was the last byte of the block before.
          if start > block { controls &= ~1 }
        }
        stop = block &+ controls.trailingZeroBitCount
        controls &= controls &- 1
        edge = ByteScan.four(storage.span, stop &- 1)
        let byte = UInt8(truncatingIfNeeded: edge &>> 8)
        if byte == .carriageReturn { break }
        if byte >= 0x80 {
          controls &= ByteScan.onlyControls(storage.span, block)
        } else if byte != .horizontalTab {
          break
        }
      }
      colon = start &+ ByteScan.nameLength(storage.span, start)
      var after = ByteScan.four(storage.span, colon)
      if UInt8(truncatingIfNeeded: after) != .colon {
        colon = Self.nameEnd(storage.span, from: colon)
        after = ByteScan.four(storage.span, colon)
        next = colon
        // It is not the first byte of the line, which begins ordinarily.
        guard UInt8(truncatingIfNeeded: after) == .colon else { break }
      }
      stopped = .leadingSpace
      next = colon &+ 1
      guard edge & 0xFFFF00 == Self.lineEnd, stop &- start <= longest else {
        (value, _) = Self.trimmed(storage.span, next, stop)
        if value < stop { stopped = .value }
        next = stop
        break
      }
      // The LF behind CR: the lowest bit that is left, unless it stands in the next block.
      controls &= controls &- 1
      // No control but HTAB stands before `stop`, and CR at `stop`: what is not above the space is white space or the end.
      // Almost always one space stands before the value and none behind it.
      value = next &+ 1
      var end = stop
      if UInt16(truncatingIfNeeded: after) != 0x203A || UInt8(truncatingIfNeeded: after &>> 16) <= .space
        || UInt8(truncatingIfNeeded: edge) <= .space
      {
        (value, end) = Self.trimmed(storage.span, next, stop)
      }
      storage.store(FieldEntry(start, colon, value, end), at: place)
      place &+= FieldEntry.size
      next = stop &+ 2
      stopped = .lineStart
      // Behind the last byte stands the sentinel, with which no line begins.
      guard place < lastPlace, Self.beginsOrdinarily(UInt8(truncatingIfNeeded: edge &>> 24)) else { break }
    }
    phase = stopped
    count &+= (place &- firstPlace) / FieldEntry.size
    position = next
    lineStart = start
    nameEnd = colon
    valueStart = value
  }

  /// What is left of `start..<stop`, which holds no control but HTAB, without the white space around it. Apart, as what follows is: the
  /// loop has no register to spare.
  @inline(never)
  private static func trimmed(_ bytes: Span<UInt8>, _ start: Int, _ stop: Int) -> (Int, Int) {
    var (first, end) = (start, stop)
    while first < end, bytes[first] <= .space { first &+= 1 }
    while end > first, bytes[end &- 1] <= .space { end &-= 1 }
    return (first, end)
  }

  @inline(never)
  private static func nameEnd(_ bytes: Span<UInt8>, from start: Int) -> Int {
    ByteScan.firstNonToken(bytes, from: start)
  }

  /// CR LF behind another byte, as ``ByteScan/four(_:_:)`` reads it.
  private static let lineEnd: UInt32 = 0x0A_0D00

  /// Whether a line that begins so is worth a try: letters among others, and neither a control nor the colon.
  @inline(__always)
  private static func beginsOrdinarily(_ byte: UInt8) -> Bool { byte &- 0x3B < 0x44 }

  /// What to do with a line that starts with `byte`, which is not CR: nil for an ordinary field line.
  @inline(__always)
  private mutating func beginLine(_ byte: UInt8) throws(WireError) -> Outcome? {
    if byte <= .space { return try beginUncommonLine(byte) }
    if count >= fieldLimit { throw tooManyFields }
    return nil
  }

  @inline(never)
  private mutating func beginUncommonLine(_ byte: UInt8) throws(WireError) -> Outcome? {
    if byte == .lineFeed {
      guard leniency.contains(.bareLineFeed) else { throw WireError(.bareLineFeed, at: position) }
      spoiled = .ambiguousFraming
      position += 1
      return .ended
    }
    if byte.isWhitespace {
      guard count > 0 else { throw WireError(.whitespaceBeforeFirstField, at: position) }
      guard leniency.contains(.obsoleteLineFolding) else { throw WireError(.obsoleteLineFolding, at: position) }
      // Others take the line for a field of its own, or for the empty line if nothing else is in it.
      spoiled = .ambiguousFraming
      return .fold
    }
    if count >= fieldLimit { throw tooManyFields }
    return nil
  }

  private var tooManyFields: WireError {
    switch section {
    case .head: WireError(.tooManyFields(limit: statedFieldLimit), at: position)
    case .trailers: WireError(.tooManyTrailerFields(limit: statedFieldLimit), at: position)
    }
  }

  /// A name that ends with anything but a colon, or before it began.
  @inline(never)
  private mutating func endName(_ byte: UInt8) throws(WireError) {
    switch byte {
    case .colon: throw failure(.emptyFieldName, at: position)
    case .space, .horizontalTab:
      guard leniency.contains(.spaceBeforeColon) else { throw failure(.spaceBeforeColon, at: position) }
      // Others take it for a field of another name, which frames nothing, or end the head before it.
      spoiled = .ambiguousFraming
      phase = .beforeColon
    case .carriageReturn, .lineFeed: throw failure(.missingColon, at: position)
    default: throw failure(.invalidFieldNameByte(byte), at: position)
    }
  }

  /// A control byte in a value that is neither CR nor HTAB. Returns whether the line ends here.
  @inline(never)
  private mutating func endValueUncommonly(_ byte: UInt8, at stop: Int) throws(WireError) -> Bool {
    if byte == .lineFeed {
      guard leniency.contains(.bareLineFeed) else { throw failure(.bareLineFeed, at: stop) }
      if stop - lineStart > lineLimit { throw failure(.bareLineFeed, at: stop) }
      spoiled = .ambiguousFraming
      return true
    }
    guard byte != 0, leniency.contains(.controlBytesInValues) else {
      throw failure(.invalidFieldValueByte(byte), at: stop)
    }
    return false
  }

  private mutating func endValue(_ bytes: inout MutableSpan<UInt8>, at stop: Int, _ indexStart: Int) {
    var end = stop
    // Not over lines again that were folded before, which may be as many as a line has room for.
    let first = max(valueStart, foldStart)
    while end > first, bytes[end &- 1].isWhitespace { end &-= 1 }
    if end == first, first > valueStart { end = foldedEnd }
    bytes.store(FieldEntry(lineStart, nameEnd, valueStart, end), at: IndexHeader.place(count, indexStart))
    count &+= 1
  }

  /// Makes the last field go on after a fold: the line end before `position` has become two spaces.
  mutating func unfold(_ storage: Span<UInt8>, indexStart: Int) {
    count -= 1
    let last = storage.load(at: IndexHeader.place(count, indexStart), as: FieldEntry.self)
    lineStart = Int(last.nameStart)
    nameEnd = Int(last.nameEnd)
    valueStart = Int(last.valueStart)
    foldStart = position
    foldedEnd = Int(last.valueEnd)
    phase = last.valueStart == last.valueEnd ? .leadingSpace : .value
  }

  @inline(never)
  private mutating func outOfBytes(_ filled: Int) throws(WireError) -> Outcome {
    position = filled
    if filled - lineStart > lineLimit { throw failure(.missingColon, at: filled) }
    return .needMore
  }

  /// The error for a byte at `offset`, unless the line was too long before it, or with it where it is not the end of the line.
  @inline(never)
  private func failure(_ reason: WireError.Reason, at offset: Int) -> WireError {
    offset - lineStart >= lineLimit + (reason == .bareLineFeed || reason == .missingColon ? 1 : 0)
      ? WireError(.fieldLineTooLong(limit: lineLimit), at: lineStart + lineLimit) : WireError(reason, at: offset)
  }

  /// Which known field the name at `start..<end` is: the length lets few through, two overlapping words decide. Setting bit 5 of
  /// every byte makes letters small; no other token byte becomes a letter or `-` by it.
  ///
  /// Word by word, and not by a switch over the length: its table would be jumped by, which some processors pay for with each name.
  @inline(__always)
  static func classify(_ bytes: Span<UInt8>, _ start: Int, _ end: Int) -> KnownField? {
    let length = end &- start
    // A length of 64 more comes as far as the words.
    guard knownLengths &>> UInt64(truncatingIfNeeded: length) & 1 != 0 else { return nil }
    let mask = 0x20 &* ByteScan.ones
    let head = ByteScan.word(bytes, start) | mask
    let tail = ByteScan.word(bytes, end &- 8) | mask
    if head == content {
      if tail == 0x6570_7974_2D74_6E65 { return length == 12 ? .contentType : nil }
      if tail == 0x6874_676E_656C_2D74 { return length == 14 ? .contentLength : nil }
      return tail == 0x676E_6964_6F63_6E65 && length == 16 ? .contentEncoding : nil
    }
    if length == 10 {
      if tail == 0x6569_6B6F_6F63_2D74 { return head == 0x6B6F_6F63_2D74_6573 ? .setCookie : nil }
      if tail == 0x6E6F_6974_6365_6E6E { return head == 0x6974_6365_6E6E_6F63 ? .connection : nil }
      return tail == 0x6576_696C_612D_7065 && head == 0x696C_612D_7065_656B ? .keepAlive : nil
    }
    if head == 0x7265_6673_6E61_7274 {
      return tail == 0x676E_6964_6F63_6E65 && length == 17 && bytes[start &+ 8] == 0x2D ? .transferEncoding : nil
    }
    return head == 0x6E6F_6974_6163_6F6C && length == 8 ? .location : nil
  }

  /// `content-`
  private static let content: UInt64 = 0x2D74_6E65_746E_6F63

  /// One bit for each length that the name of a known field has.
  private static let knownLengths: UInt64 = 0x35500
}
