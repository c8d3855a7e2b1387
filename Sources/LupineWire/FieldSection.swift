/// Fields that the parser recognises while it indexes a head, so that asking for them costs no search.
public enum KnownField: Int, Sendable, CaseIterable {
  case contentLength
  case transferEncoding
  case connection
  case contentEncoding
  case contentType
  case location
  case setCookie
  case keepAlive

  /// The name in small letters.
  public var name: String {
    switch self {
    case .contentLength: "content-length"
    case .transferEncoding: "transfer-encoding"
    case .connection: "connection"
    case .contentEncoding: "content-encoding"
    case .contentType: "content-type"
    case .location: "location"
    case .setCookie: "set-cookie"
    case .keepAlive: "keep-alive"
    }
  }
}

/// Where a field stands in the storage of its section. The first two entries of an index are its header instead.
struct FieldEntry: Sendable {
  var nameStart: UInt32 = 0
  var nameEnd: UInt32 = 0
  var valueStart: UInt32 = 0
  var valueEnd: UInt32 = 0

  init() {}

  /// The second entry of a header that knows no field.
  static let noKnown = FieldEntry(0xFFFF_FFFF, 0xFFFF_FFFF, 0xFFFF_FFFF, 0xFFFF_FFFF)

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

/// What the index of a section says beside its fields, kept in the first two entries so that a head is three words to copy:
/// the count; status, minor version and the set of repeated known fields; where the reason phrase stands; and eight indices of
/// known fields.
enum IndexHeader {
  /// Entries that are no fields.
  static let size = 2

  @inline(__always)
  static func write(
    _ entries: inout [FieldEntry], count: Int, known: KnownFields, status: Int, minor: Int, reason: Range<Int>
  ) {
    let flags =
      UInt32(truncatingIfNeeded: status) | UInt32(truncatingIfNeeded: minor) &<< 16 | UInt32(known.repeated) &<< 24
    var header = FieldEntry(count, 0, reason.lowerBound, reason.upperBound)
    header.nameEnd = flags
    entries[0] = header
    entries[1] = FieldEntry(
      Int(truncatingIfNeeded: known.low), Int(truncatingIfNeeded: known.low &>> 32),
      Int(truncatingIfNeeded: known.high), Int(truncatingIfNeeded: known.high &>> 32))
  }

  @inline(__always)
  static func firstIndex(_ entry: FieldEntry, _ kind: KnownField) -> Int? {
    let pair =
      switch kind.rawValue &>> 1 {
      case 0: entry.nameStart
      case 1: entry.nameEnd
      case 2: entry.valueStart
      default: entry.valueEnd
      }
    let index = UInt16(truncatingIfNeeded: pair &>> UInt32(truncatingIfNeeded: (kind.rawValue & 1) &* 16))
    return index == KnownFields.none ? nil : Int(index)
  }

  @inline(__always)
  static func isRepeated(_ entry: FieldEntry, _ kind: KnownField) -> Bool {
    entry.nameEnd & 1 &<< UInt32(truncatingIfNeeded: 24 &+ kind.rawValue) != 0
  }
}

/// The first occurrence of each known field, while a section is scanned.
struct KnownFields: Sendable {
  static let none = UInt16.max

  /// Sixteen bits for each kind, the first four kinds in `low`.
  private(set) var low = UInt64.max
  private(set) var high = UInt64.max
  /// One bit for each kind of which there are several.
  private(set) var repeated: UInt8 = 0

  @inline(__always)
  mutating func note(_ kind: KnownField, at index: Int) {
    let number = UInt64(truncatingIfNeeded: kind.rawValue)
    let shift = (number & 3) &* 16
    // Differs from all ones only where the index goes: a kind that is there already is found by its bits not being all ones.
    let place = (UInt64(truncatingIfNeeded: index) ^ 0xFFFF) &<< shift
    let now = number < 4 ? low : high
    if now &>> shift & 0xFFFF != 0xFFFF {
      repeated |= 1 &<< UInt8(truncatingIfNeeded: number)
    } else if number < 4 {
      low = now ^ place
    } else {
      high = now ^ place
    }
  }
}

/// Held by a parser and by every section made from its storage: while the parser is the only holder, it may write over the storage.
/// A wrong guess could cost a copy, never correctness: arrays copy on write.
final class StorageToken: Sendable {
}

/// The fields of one head or trailer section, in wire order and case: one flat buffer and an index into it.
///
/// A value type; copies share their storage. Strings are made when asked for: UTF-8 if the bytes are valid UTF-8, ISO-8859-1
/// otherwise. Safe to use from any thread.
public struct FieldSection: Sendable {
  let bytes: [UInt8]
  /// Empty, or a header and the fields.
  let entries: [FieldEntry]
  private let token: StorageToken?

  /// How many fields there are; fields of the same name count each.
  public var count: Int { entries.isEmpty ? 0 : Int(entries[0].nameStart) }

  /// An empty section.
  public init() {
    bytes = []
    entries = []
    token = nil
  }

  init(bytes: [UInt8], entries: [FieldEntry], token: StorageToken?) {
    self.bytes = bytes
    self.entries = entries
    self.token = token
  }

  func entry(at index: Int) -> FieldEntry {
    precondition(index >= 0 && index < count, "field \(index) of \(count)")
    return entries[index + IndexHeader.size]
  }

  /// Whether there is no field.
  public var isEmpty: Bool { count == 0 }

  /// The name at `index` (0 up to, not including, ``count``) as it came.
  public func name(at index: Int) -> String {
    String(wire: nameBytes(at: index))
  }

  /// The value at `index` without the white space around it.
  public func value(at index: Int) -> String {
    String(wire: valueBytes(at: index))
  }

  /// The bytes of the name at `index`.
  @_lifetime(borrow self)
  public func nameBytes(at index: Int) -> Span<UInt8> {
    bytes.span.extracting(entry(at: index).name)
  }

  /// The bytes of the value at `index`, without the white space around it.
  @_lifetime(borrow self)
  public func valueBytes(at index: Int) -> Span<UInt8> {
    bytes.span.extracting(entry(at: index).value)
  }

  /// The first value of a field of this name, in any case.
  public func first(named name: String) -> String? {
    firstIndex(named: name).map { value(at: $0) }
  }

  /// Every value of the fields of this name, in any case, in wire order.
  public func values(named name: String) -> [String] {
    var result: [String] = []
    var index = firstIndex(named: name)
    while let found = index {
      result.append(value(at: found))
      index = firstIndex(named: name, from: found + 1)
    }
    return result
  }

  /// The index of the first field of this name, in any case, at or after `start`.
  public func firstIndex(named name: String, from start: Int = 0) -> Int? {
    var index = start
    while index < count {
      if Self.equal(nameBytes(at: index), name) { return index }
      index += 1
    }
    return nil
  }

  /// Whether there is such a field; costs no search.
  public func has(_ field: KnownField) -> Bool {
    firstIndex(field) != nil
  }

  /// The index of the first such field; costs no search.
  public func firstIndex(_ field: KnownField) -> Int? {
    entries.isEmpty ? nil : IndexHeader.firstIndex(entries[1], field)
  }

  /// The value of the first such field; costs no search.
  public func first(_ field: KnownField) -> String? {
    firstIndex(field).map { value(at: $0) }
  }

  /// Every value of such fields in wire order.
  public func values(_ field: KnownField) -> [String] {
    var result: [String] = []
    var index = firstIndex(field)
    while let found = index {
      result.append(value(at: found))
      index = nextIndex(field, after: found)
    }
    return result
  }

  /// The index of the next such field after `index`.
  public func nextIndex(_ field: KnownField, after index: Int) -> Int? {
    guard !entries.isEmpty, IndexHeader.isRepeated(entries[0], field) else { return nil }
    return firstIndex(named: field.name, from: index + 1)
  }

  /// Every field as a pair of strings, in wire order.
  public var pairs: [(name: String, value: String)] {
    (0..<count).map { (name(at: $0), value(at: $0)) }
  }

  private static func equal(_ bytes: Span<UInt8>, _ name: String) -> Bool {
    let units = name.utf8
    guard units.count == bytes.count else { return false }
    var index = 0
    for unit in units {
      if unit.lowercased != bytes[index].lowercased { return false }
      index += 1
    }
    return true
  }
}

extension FieldSection: Equatable {
  /// Same names, byte by byte, and same values in the same order.
  public static func == (left: FieldSection, right: FieldSection) -> Bool {
    guard left.count == right.count else { return false }
    for index in 0..<left.count {
      guard
        left.nameBytes(at: index).hasSameBytes(as: right.nameBytes(at: index)),
        left.valueBytes(at: index).hasSameBytes(as: right.valueBytes(at: index))
      else { return false }
    }
    return true
  }
}

extension FieldSection: CustomStringConvertible {
  /// One line a field, control bytes escaped. Holds whatever the peer sent, secrets too: not for logs.
  public var description: String {
    pairs.map { "\($0.name): \($0.value)".debugDescription }.joined(separator: "\n")
  }
}

extension Span<UInt8> {
  func hasSameBytes(as other: Span<UInt8>) -> Bool {
    guard count == other.count else { return false }
    for index in 0..<count where self[index] != other[index] { return false }
    return true
  }
}

extension String {
  /// UTF-8 if `bytes` are valid UTF-8, otherwise ISO-8859-1.
  init(wire bytes: Span<UInt8>) {
    if let text = try? UTF8Span(validating: bytes) {
      self.init(copying: text)
    } else {
      var scalars = String.UnicodeScalarView()
      for index in 0..<bytes.count { scalars.append(Unicode.Scalar(bytes[index])) }
      self.init(scalars)
    }
  }
}
