/// Why bytes are no binary property list that we read.
package enum BinaryPropertyListError: Error, Equatable, Sendable {
  case notBinary
  case badTrailer
  /// An object that does not lie within the objects, or has a marker or a length that is none. The number of the object.
  case badObject(Int)
  /// Null, sets and the identifiers of archives: no property list of ours has them.
  case unsupported(marker: UInt8)
  case keyIsNoString
  /// A key has more combining marks in a row than `CombiningMarks.limit`. The number of its object.
  case tooManyMarks(Int)
  case tooDeep(limit: Int)
  /// Containers that are shared, or overlap, stand for more values than `valueLimit`.
  case tooManyValues
  /// Strings and data that are shared, or overlap, stand for more bytes than that.
  case tooManyBytes(limit: Int)
}

/// Reads a binary property list ("bplist00", CFBinaryPList.c).
///
/// Objects refer to one another by number, so that a list can contain itself, or stand for many more values than it has bytes: depth and number of
/// values are limited. Few writers share containers (Python's plistlib does), and none makes more values than bytes without. All share strings and data, but
/// what they stand for together is limited too: `contentLimit`.
package struct BinaryPropertyListReader {
  private let bytes: [UInt8]
  private let offsetSize: Int
  private let referenceSize: Int
  private let count: Int
  private let tableStart: Int
  private let depthLimit: Int
  private var valuesLeft: Int
  private var contentLeft: Int

  /// Bytes that the strings, in UTF-8, and the data of a list of `count` bytes may have together, each counted as often as it is referred to.
  package static func contentLimit(_ count: Int) -> Int { max(1 << 20, 16 * count) }

  /// Values that the containers of a list of `count` bytes may have together, each counted as often as it is referred to.
  package static func valueLimit(_ count: Int) -> Int { max(1 << 16, count) }

  /// Whether the bytes begin as a binary property list does.
  package static func recognises(_ bytes: some Collection<UInt8>) -> Bool { bytes.starts(with: "bplist0".utf8) }

  /// Reads the value of a list.
  package static func read(
    _ bytes: [UInt8], depthLimit: Int
  ) throws(BinaryPropertyListError) -> PropertyListContent {
    guard recognises(bytes) else { throw .notBinary }
    guard bytes.count > 40 else { throw .badTrailer }
    let trailer = bytes.count - 32
    guard let count = number(bytes, trailer + 8, 8), let top = number(bytes, trailer + 16, 8),
      let table = number(bytes, trailer + 24, 8)
    else { throw .badTrailer }
    let (offsetSize, referenceSize) = (Int(bytes[trailer + 6]), Int(bytes[trailer + 7]))
    let (length, overflow) = count.multipliedReportingOverflow(by: offsetSize)
    guard (1...8).contains(offsetSize), (1...8).contains(referenceSize), count > 0, top < count, !overflow,
      table > 8, table <= trailer, length == trailer - table
    else { throw .badTrailer }
    var reader = BinaryPropertyListReader(
      bytes: bytes, offsetSize: offsetSize, referenceSize: referenceSize, count: count, tableStart: table,
      depthLimit: depthLimit, valuesLeft: valueLimit(bytes.count), contentLeft: contentLimit(bytes.count))
    return try reader.value(top, depth: 0)
  }

  /// A number of up to eight bytes, most significant first; nil if it is no `Int`.
  private static func number(_ bytes: [UInt8], _ start: Int, _ size: Int) -> Int? {
    var value: UInt64 = 0
    for byte in bytes[start..<start + size] { value = value << 8 | UInt64(byte) }
    return Int(exactly: value)
  }

  /// Where the `size` bytes from `start` on lie, if among the objects.
  private func range(_ start: Int, _ size: Int, _ object: Int) throws(BinaryPropertyListError) -> Range<Int> {
    guard size >= 0, start >= 8, size <= tableStart - start else { throw .badObject(object) }
    return start..<start + size
  }

  private func bits(_ start: Int, _ size: Int, _ object: Int) throws(BinaryPropertyListError) -> UInt64 {
    var value: UInt64 = 0
    for byte in bytes[try range(start, size, object)] { value = value << 8 | UInt64(byte) }
    return value
  }

  private mutating func value(_ object: Int, depth: Int) throws(BinaryPropertyListError) -> PropertyListContent {
    guard depth <= depthLimit else { throw .tooDeep(limit: depthLimit) }
    guard object < count, let start = Self.number(bytes, tableStart + object * offsetSize, offsetSize) else {
      throw .badObject(object)
    }
    let marker = bytes[try range(start, 1, object).lowerBound]
    switch (marker >> 4, marker & 15) {
    case (0, 8): return .boolean(false)
    case (0, 9): return .boolean(true)
    case (1, let power): return try integer(start + 1, Int(power), object)
    case (2, 2): return .real(Double(Float(bitPattern: UInt32(truncatingIfNeeded: try bits(start + 1, 4, object)))))
    case (2, 3): return .real(Double(bitPattern: try bits(start + 1, 8, object)))
    case (3, 3): return .date(Double(bitPattern: try bits(start + 1, 8, object)))
    case (4, let low):
      let (from, length) = try length(low, start + 1, object)
      let content = try range(from, length, object)
      try take(content: length)
      return .data(Array(bytes[content]))
    case (5, _), (6, _): return .string(try string(start, object))
    case (10, let low):
      let (from, length) = try length(low, start + 1, object)
      return .array(try elements(try references(from, length, object), depth))
    case (13, let low):
      let (from, length) = try length(low, start + 1, object)
      let keys = try references(from, length, object)
      let values = try references(from + length * referenceSize, length, object)
      return .dictionary(try members(keys, try elements(values, depth)))
    default: throw .unsupported(marker: marker)
    }
  }

  /// Up to four bytes have no sign, eight have one, and of sixteen the lower eight have none.
  private func integer(
    _ start: Int, _ power: Int, _ object: Int
  ) throws(BinaryPropertyListError) -> PropertyListContent {
    guard power <= 4 else { throw .badObject(object) }
    if power == 4 {
      guard try bits(start, 8, object) == 0 else { throw .badObject(object) }
      let value = try bits(start + 8, 8, object)
      return Int64(exactly: value).map { .integer($0) } ?? .unsigned(value)
    }
    return .integer(Int64(bitPattern: try bits(start, 1 << power, object)))
  }

  /// Where the contents of an object begin, and how many there are: in its marker, or as a number behind it.
  private func length(
    _ low: UInt8, _ start: Int, _ object: Int
  ) throws(BinaryPropertyListError) -> (start: Int, length: Int) {
    guard low == 15 else { return (start, Int(low)) }
    let marker = bytes[try range(start, 1, object).lowerBound]
    guard marker >> 4 == 1, marker & 15 <= 3 else { throw .badObject(object) }
    let size = 1 << Int(marker & 15)
    // A thing takes at least a byte, so that a larger number is none; what follows may then be multiplied by eight.
    guard let length = Int(exactly: try bits(start + 1, size, object)), length <= bytes.count else {
      throw .badObject(object)
    }
    return (start + 1 + size, length)
  }

  /// Counts the bytes of a leaf before they are copied.
  private mutating func take(content count: Int) throws(BinaryPropertyListError) {
    guard count <= contentLeft else { throw .tooManyBytes(limit: Self.contentLimit(bytes.count)) }
    contentLeft -= count
  }

  private mutating func string(_ start: Int, _ object: Int) throws(BinaryPropertyListError) -> String {
    let (from, length) = try length(bytes[start] & 15, start + 1, object)
    if bytes[start] >> 4 == 5 {
      let content = bytes[try range(from, length, object)]
      try take(content: length)
      guard content.allSatisfy({ $0 < 0x80 }) else { throw .badObject(object) }
      return String(decoding: content, as: UTF8.self)
    }
    let first = try range(from, length * 2, object).lowerBound
    // Two bytes are three in UTF-8 at most.
    try take(content: length * 3)
    let units = (0..<length).map { UInt16(bytes[first + 2 * $0]) << 8 | UInt16(bytes[first + 2 * $0 + 1]) }
    guard let text = String(validating: units, as: UTF16.self) else { throw .badObject(object) }
    return text
  }

  /// The numbers of the values in a container. They are counted at once: containers may overlap, and all that are open hold theirs.
  private mutating func references(
    _ start: Int, _ length: Int, _ object: Int
  ) throws(BinaryPropertyListError) -> [Int] {
    let all = try range(start, length * referenceSize, object)
    guard length <= valuesLeft else { throw .tooManyValues }
    valuesLeft -= length
    var references: [Int] = []
    references.reserveCapacity(length)
    for index in 0..<length {
      guard let reference = Self.number(bytes, all.lowerBound + index * referenceSize, referenceSize) else {
        throw .badObject(object)
      }
      references.append(reference)
    }
    return references
  }

  private mutating func elements(
    _ references: [Int], _ depth: Int
  ) throws(BinaryPropertyListError) -> [PropertyListContent] {
    var elements: [PropertyListContent] = []
    for reference in references { elements.append(try value(reference, depth: depth + 1)) }
    return elements
  }

  private mutating func members(
    _ keys: [Int], _ values: [PropertyListContent]
  ) throws(BinaryPropertyListError) -> [PropertyListContent.Member] {
    var members: [PropertyListContent.Member] = []
    for (key, value) in zip(keys, values) {
      guard case .string(let name) = try self.value(key, depth: depthLimit) else { throw .keyIsNoString }
      guard !CombiningMarks.areTooMany(in: name) else { throw .tooManyMarks(key) }
      members.append(.init(name: name, value: value))
    }
    return members
  }
}
