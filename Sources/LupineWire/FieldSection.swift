import LupineBase

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

/// The fields of one head or trailer section, in wire order and case: one flat buffer that ends with an index into it.
///
/// A value type; copies share their storage. Strings are made when asked for: UTF-8 if the bytes are valid UTF-8, ISO-8859-1
/// otherwise. Safe to use from any thread.
public struct FieldSection: Sendable {
  /// Bytes of the section, then its index, in one array: one reference to count. Empty if nothing was read.
  let storage: [UInt8]
  /// Where the index starts: a header and the fields.
  let indexStart: Int

  /// How many fields there are; fields of the same name count each.
  public var count: Int { storage.isEmpty ? 0 : Int(header.nameStart) }

  /// The first entry of the index.
  var header: FieldEntry { storage.span.load(at: indexStart, as: FieldEntry.self) }

  /// An empty section.
  public init() {
    storage = []
    indexStart = 0
  }

  init(storage: [UInt8], indexStart: Int) {
    self.storage = storage
    self.indexStart = indexStart
  }

  func entry(at index: Int) -> FieldEntry {
    precondition(index >= 0 && index < count, "field \(index) of \(count)")
    return storage.span.load(at: IndexHeader.place(index, indexStart), as: FieldEntry.self)
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
    storage.span.extracting(entry(at: index).name)
  }

  /// The bytes of the value at `index`, without the white space around it.
  @_lifetime(borrow self)
  public func valueBytes(at index: Int) -> Span<UInt8> {
    storage.span.extracting(entry(at: index).value)
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

  /// The bytes of every value of the fields of this name, in any case, in wire order. The text of what is no UTF-8 has others.
  package func rawValues(named name: String) -> [[UInt8]] {
    var result: [[UInt8]] = []
    var index = firstIndex(named: name)
    while let found = index {
      result.append([UInt8](valueBytes(at: found)))
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
    storage.isEmpty ? nil : IndexHeader.firstIndex(storage.span, indexStart, field)
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
    guard !storage.isEmpty, IndexHeader.isRepeated(header, field) else { return nil }
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
        left.nameBytes(at: index).hasBytes(of: right.nameBytes(at: index)),
        left.valueBytes(at: index).hasBytes(of: right.valueBytes(at: index))
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
