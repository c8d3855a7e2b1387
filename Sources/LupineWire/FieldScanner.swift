/// Reads the field lines of a head or of trailers: a machine over storage, resumable at any byte.
///
/// - States (`Phase`): `lineStart` → `name` | `endLineFeed`; `name` → `beforeColon` | `leadingSpace`; `beforeColon` →
///   `leadingSpace`; `leadingSpace` → `value`; `value` → `lineFeed` | `lineStart`; `lineFeed` → `lineStart`;
///   `endLineFeed` → ended. A fold leads from `lineStart` back to `leadingSpace` or `value`.
/// - Invariants: `position` only grows, bytes before it are never looked at again (except the white space that a value ends with);
///   everything thrown depends on the bytes up to the offset thrown alone, so splits of the input cannot matter.
struct FieldScanner {
  enum Phase: UInt8 { case lineStart, name, beforeColon, leadingSpace, value, lineFeed, endLineFeed }

  enum Outcome { case needMore, ended, growEntries, fold }

  /// Whose limits are meant in an error.
  enum Section { case head, trailers }

  var phase = Phase.lineStart
  /// The next byte to look at.
  var position = 0
  var lineStart = 0
  var nameEnd = 0
  var valueStart = 0
  /// Fields indexed so far.
  var count = 0
  var known = KnownFields()

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

  /// Scans `bytes` up to `filled` (padding follows) and adds to `entries`.
  @inline(__always)
  mutating func scan(
    _ bytes: Span<UInt8>, filled: Int, entries: inout MutableSpan<FieldEntry>
  ) throws(WireError) -> Outcome {
    while true {
      if phase == .lineStart { scanLines(bytes, entries: &entries) }
      if phase == .lineStart {
        guard position < filled else { return .needMore }
        let byte = bytes[position]
        if byte == .carriageReturn {
          position &+= 1
          phase = .endLineFeed
        } else {
          if let outcome = try beginLine(byte) { return outcome }
          guard count < entries.count &- IndexHeader.size else { return .growEntries }
          lineStart = position
          phase = .name
        }
      }
      if phase == .name {
        let stop = ByteScan.firstNonToken(bytes, from: position)
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
        let stop = ByteScan.firstControl(bytes, from: position)
        guard stop < filled else { return try outOfBytes(filled) }
        position = stop &+ 1
        if bytes[stop] == .carriageReturn {
          if stop &- lineStart > lineLimit { throw failure(.bareCarriageReturn, at: stop) }
          endValue(bytes, at: stop, &entries)
          phase = .lineFeed
        } else if try endValueUncommonly(bytes[stop], at: stop) {
          endValue(bytes, at: stop, &entries)
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
  /// at the byte where the machine goes on: nothing is scanned again.
  @inline(__always)
  private mutating func scanLines(_ bytes: Span<UInt8>, entries: inout MutableSpan<FieldEntry>) {
    let most = min(fieldLimit, entries.count &- IndexHeader.size)
    let longest = lineLimit
    var index = count
    var start = position
    var next = start
    var found = known
    var stopped = Phase.lineStart
    var colon = nameEnd
    var value = valueStart
    while index < most, bytes[next] > .space {
      start = next
      stopped = .name
      // The end of the line first, from its start: where the next line starts then hangs on one scan, not on two in a row.
      let stop = ByteScan.firstControl(bytes, from: start)
      colon = ByteScan.firstNonToken(bytes, from: start)
      next = colon
      guard bytes[colon] == .colon, colon > start else { break }
      stopped = .leadingSpace
      next = colon &+ 1
      guard bytes[stop] == .carriageReturn, bytes[stop &+ 1] == .lineFeed, stop &- start <= longest else {
        value = next
        while value < stop, bytes[value] <= .space { value &+= 1 }
        if value < stop { stopped = .value }
        next = stop
        break
      }
      // No control but HTAB stands before `stop`, and CR at `stop`: what is not above the space is white space or the end.
      value = next
      while value < stop, bytes[value] <= .space { value &+= 1 }
      var end = stop
      while end > value, bytes[end &- 1] <= .space { end &-= 1 }
      entries[index &+ IndexHeader.size] = FieldEntry(start, colon, value, end)
      let length = colon &- start
      if length < 64, FieldScanner.knownLengths &>> UInt64(truncatingIfNeeded: length) & 1 != 0,
        let kind = FieldScanner.classify(bytes, start, colon)
      {
        found.note(kind, at: index)
      }
      index &+= 1
      next = stop &+ 2
      stopped = .lineStart
    }
    phase = stopped
    count = index
    known = found
    position = next
    lineStart = start
    nameEnd = colon
    valueStart = value
  }

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
      position += 1
      return .ended
    }
    if byte.isWhitespace {
      guard count > 0 else { throw WireError(.whitespaceBeforeFirstField, at: position) }
      guard leniency.contains(.obsoleteLineFolding) else { throw WireError(.obsoleteLineFolding, at: position) }
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
      return true
    }
    guard byte != 0, leniency.contains(.controlBytesInValues) else {
      throw failure(.invalidFieldValueByte(byte), at: stop)
    }
    return false
  }

  private mutating func endValue(_ bytes: Span<UInt8>, at stop: Int, _ entries: inout MutableSpan<FieldEntry>) {
    var end = stop
    while end > valueStart, bytes[end &- 1].isWhitespace { end &-= 1 }
    entries[count &+ IndexHeader.size] = FieldEntry(lineStart, nameEnd, valueStart, end)
    if let kind = FieldScanner.classify(bytes, lineStart, nameEnd) { known.note(kind, at: count) }
    count &+= 1
  }

  /// Makes the last field go on after a fold: the line end before `position` has become two spaces.
  mutating func unfold(_ entries: Span<FieldEntry>, lineEnd: Int) {
    count -= 1
    let last = entries[count + IndexHeader.size]
    lineStart = Int(last.nameStart)
    nameEnd = Int(last.nameEnd)
    valueStart = Int(last.valueStart)
    phase = last.valueStart == last.valueEnd ? .leadingSpace : .value
  }

  @inline(never)
  private mutating func outOfBytes(_ filled: Int) throws(WireError) -> Outcome {
    position = filled
    if filled - lineStart > lineLimit { throw failure(.missingColon, at: filled) }
    return .needMore
  }

  /// The error for a byte at `offset`, unless the line was too long before it.
  @inline(never)
  private func failure(_ reason: WireError.Reason, at offset: Int) -> WireError {
    offset - lineStart >= lineLimit
      ? WireError(.fieldLineTooLong(limit: lineLimit), at: lineStart + lineLimit) : WireError(reason, at: offset)
  }

  /// Which known field the name at `start..<end` is: the length picks the candidate, two overlapping words decide. Setting bit 5 of
  /// every byte makes letters small; no other token byte becomes a letter or `-` by it.
  @inline(__always)
  static func classify(_ bytes: Span<UInt8>, _ start: Int, _ end: Int) -> KnownField? {
    let length = end &- start
    guard length >= 8, length <= 17 else { return nil }
    let mask = 0x20 &* ByteScan.ones
    let head = ByteScan.word(bytes, start) | mask
    let tail = ByteScan.word(bytes, end &- 8) | mask
    switch head {
    case 0x6E6F_6974_6163_6F6C: return length == 8 ? .location : nil
    case 0x2D74_6E65_746E_6F63:
      switch tail {
      case 0x6874_676E_656C_2D74: return length == 14 ? .contentLength : nil
      case 0x6570_7974_2D74_6E65: return length == 12 ? .contentType : nil
      case 0x676E_6964_6F63_6E65: return length == 16 ? .contentEncoding : nil
      default: return nil
      }
    case 0x6974_6365_6E6E_6F63: return length == 10 && tail == 0x6E6F_6974_6365_6E6E ? .connection : nil
    case 0x6B6F_6F63_2D74_6573: return length == 10 && tail == 0x6569_6B6F_6F63_2D74 ? .setCookie : nil
    case 0x696C_612D_7065_656B: return length == 10 && tail == 0x6576_696C_612D_7065 ? .keepAlive : nil
    case 0x7265_6673_6E61_7274:
      return length == 17 && tail == 0x676E_6964_6F63_6E65 && bytes[start &+ 8] == 0x2D ? .transferEncoding : nil
    default: return nil
    }
  }

  /// One bit for each length that the name of a known field has.
  private static let knownLengths: UInt64 = 0x35500
}
