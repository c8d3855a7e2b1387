import LupineBase

/// Where a field stands in the storage of its section. The first two entries of an index are its header instead.
///
/// An index lies in the bytes of the storage itself: 16 bytes an entry.
struct FieldEntry: Sendable {
  var nameStart: UInt32 = 0
  var nameEnd: UInt32 = 0
  var valueStart: UInt32 = 0
  var valueEnd: UInt32 = 0

  /// Bytes of an entry.
  static let size = 16

  init() {}

  @inline(__always)
  init(_ nameStart: Int, _ nameEnd: Int, _ valueStart: Int, _ valueEnd: Int) {
    self.nameStart = UInt32(truncatingIfNeeded: nameStart)
    self.nameEnd = UInt32(truncatingIfNeeded: nameEnd)
    self.valueStart = UInt32(truncatingIfNeeded: valueStart)
    self.valueEnd = UInt32(truncatingIfNeeded: valueEnd)
  }

  @inline(__always)
  var name: Range<Int> { Int(nameStart)..<Int(nameEnd) }
  @inline(__always)
  var value: Range<Int> { Int(valueStart)..<Int(valueEnd) }
}

/// What the status line said; nothing for trailers. Apart from the scanner of that line, so that few words are copied.
struct SectionLabel {
  var status = 0
  var minor = 0
  var reasonStart = 0
  var reasonEnd = 0
}

/// What the index of a section says beside its fields, kept in the first two entries so that a head is two words to copy:
/// the count; status, minor version and the set of repeated known fields; where the reason phrase stands; and sixteen bits for each
/// known field, the index of its first occurrence.
enum IndexHeader {
  /// Entries that are no fields.
  static let size = 2

  /// In the place of an index: there is no such field.
  private static let none = UInt16.max

  /// Completes the index of `count` entries that starts at `start`. Known fields are looked for here, apart from the scan, whose loop
  /// has no register to spare.
  @inline(__always)
  static func write(
    _ bytes: inout MutableSpan<UInt8>, at start: Int, count: Int, _ label: SectionLabel = SectionLabel()
  ) {
    let places = start &+ FieldEntry.size
    bytes.store(SIMD2<UInt64>(repeating: .max), at: places)
    var flags = UInt32(truncatingIfNeeded: label.status) | UInt32(truncatingIfNeeded: label.minor) &<< 16
    let firstPlace = place(0, start)
    let endPlace = place(count, start)
    var next = firstPlace
    while next < endPlace {
      let entry = bytes.span.load(at: next, as: FieldEntry.self)
      next &+= FieldEntry.size
      guard let kind = FieldScanner.classify(bytes.span, Int(entry.nameStart), Int(entry.nameEnd)) else { continue }
      let first = places &+ kind.rawValue &* 2
      if bytes.span.load(at: first, as: UInt16.self) == none {
        bytes.store(UInt16(truncatingIfNeeded: (next &- firstPlace) / FieldEntry.size &- 1), at: first)
      } else {
        flags |= 1 &<< UInt32(truncatingIfNeeded: 24 &+ kind.rawValue)
      }
    }
    var header = FieldEntry(count, 0, label.reasonStart, label.reasonEnd)
    header.nameEnd = flags
    bytes.store(header, at: start)
  }

  /// Where the entry of the field number `index` lies in storage whose index starts at `start`.
  @inline(__always)
  static func place(_ index: Int, _ start: Int) -> Int {
    start &+ (index &+ size) &* FieldEntry.size
  }

  /// The index of the first field of this kind in the index that starts at `start`.
  @inline(__always)
  static func firstIndex(_ bytes: Span<UInt8>, _ start: Int, _ kind: KnownField) -> Int? {
    let index = bytes.load(at: start &+ FieldEntry.size &+ kind.rawValue &* 2, as: UInt16.self)
    return index == none ? nil : Int(index)
  }

  @inline(__always)
  static func isRepeated(_ entry: FieldEntry, _ kind: KnownField) -> Bool {
    entry.nameEnd & 1 &<< UInt32(truncatingIfNeeded: 24 &+ kind.rawValue) != 0
  }
}
