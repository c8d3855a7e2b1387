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

/// Where a field stands in the storage of its section.
struct FieldEntry: Sendable {
  var nameStart: UInt32 = 0
  var nameEnd: UInt32 = 0
  var valueStart: UInt32 = 0
  var valueEnd: UInt32 = 0

  @inline(__always)
  var name: Range<Int> { Int(nameStart)..<Int(nameEnd) }
  @inline(__always)
  var value: Range<Int> { Int(valueStart)..<Int(valueEnd) }
}

/// The first occurrence of each known field; `none` where there is none.
struct KnownFields: Sendable {
  static let none = UInt16.max

  var first = SIMD8<UInt16>(repeating: none)

  /// The index of the first field of this kind, or nil.
  subscript(kind: KnownField) -> Int? {
    let index = first[kind.rawValue]
    return index == Self.none ? nil : Int(index)
  }

  mutating func note(_ kind: KnownField, at index: Int) {
    if first[kind.rawValue] == Self.none { first[kind.rawValue] = UInt16(truncatingIfNeeded: index) }
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
  var bytes: [UInt8]
  var entries: [FieldEntry]
  var token: StorageToken?
  var known: KnownFields

  /// How many fields there are; fields of the same name count each.
  public var count: Int

  /// An empty section.
  public init() {
    bytes = []
    entries = []
    token = nil
    known = KnownFields()
    count = 0
  }

  init(bytes: [UInt8], entries: [FieldEntry], token: StorageToken?, known: KnownFields, count: Int) {
    self.bytes = bytes
    self.entries = entries
    self.token = token
    self.known = known
    self.count = count
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
    precondition(index >= 0 && index < count, "field \(index) of \(count)")
    return bytes.span.extracting(entries[index].name)
  }

  /// The bytes of the value at `index`, without the white space around it.
  @_lifetime(borrow self)
  public func valueBytes(at index: Int) -> Span<UInt8> {
    precondition(index >= 0 && index < count, "field \(index) of \(count)")
    return bytes.span.extracting(entries[index].value)
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
      if Self.equal(bytes.span.extracting(entries[index].name), name) { return index }
      index += 1
    }
    return nil
  }

  /// Whether there is such a field; costs no search.
  public func has(_ field: KnownField) -> Bool {
    known[field] != nil
  }

  /// The index of the first such field; costs no search.
  public func firstIndex(_ field: KnownField) -> Int? {
    known[field]
  }

  /// The value of the first such field; costs no search.
  public func first(_ field: KnownField) -> String? {
    known[field].map { value(at: $0) }
  }

  /// Every value of such fields in wire order.
  public func values(_ field: KnownField) -> [String] {
    var result: [String] = []
    var index = known[field]
    while let found = index {
      result.append(value(at: found))
      index = nextIndex(field, after: found)
    }
    return result
  }

  /// The index of the next such field after `index`.
  public func nextIndex(_ field: KnownField, after index: Int) -> Int? {
    firstIndex(named: field.name, from: index + 1)
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
