/// Header fields in wire order and case, duplicates kept. Written as a dictionary literal: `["Content-Type": "text/plain"]`.
public struct ServerFields: Sendable, Equatable, ExpressibleByDictionaryLiteral, RandomAccessCollection {
  /// One field.
  public struct Field: Sendable, Equatable {
    /// The name as it is on the wire.
    public var name: String
    /// The value without the white space around it.
    public var value: String

    /// Makes a field.
    public init(_ name: String, _ value: String) {
      self.name = name
      self.value = value
    }
  }

  private var fields: [Field]

  /// Makes fields from a list.
  public init(_ fields: [Field] = []) { self.fields = fields }

  /// Makes fields from a literal, in its order; names may repeat.
  public init(dictionaryLiteral elements: (String, String)...) {
    fields = elements.map { Field($0.0, $0.1) }
  }

  /// Always 0.
  public var startIndex: Int { 0 }
  /// The number of fields.
  public var endIndex: Int { fields.count }
  /// The field at a position on the wire.
  public subscript(position: Int) -> Field { fields[position] }

  /// Adds a field at the end.
  public mutating func append(_ name: String, _ value: String) { fields.append(Field(name, value)) }

  /// The value of the first field of that name in any case.
  public func first(_ name: String) -> String? {
    fields.first { equalIgnoringCase($0.name, name) }?.value
  }

  /// The values of all fields of that name in any case, in wire order.
  public func values(_ name: String) -> [String] {
    fields.filter { equalIgnoringCase($0.name, name) }.map { $0.value }
  }

  /// Whether a field of that name has `token` among its comma-separated members, both in any case.
  public func has(_ name: String, token: String) -> Bool {
    fields.contains { field in
      equalIgnoringCase(field.name, name)
        && field.value.utf8.split(separator: UInt8(ascii: ","))
          .contains { equalIgnoringCase(Substring($0).trimmingSpaces, token) }
    }
  }
}

/// One request as it arrived.
public struct ServerRequest: Sendable, Equatable {
  /// As sent: `GET`.
  public internal(set) var method: String
  /// The request target as sent: `/path?query`, an absolute URL through a proxy, `host:port` of a CONNECT, or `*`.
  public internal(set) var target: String
  /// As sent: `HTTP/1.1`.
  public internal(set) var version: String
  /// In wire order and case.
  public internal(set) var fields: ServerFields
  /// The connection it came on; connections count from 1 in the order of acceptance.
  public let connectionNumber: Int
  /// Its place on that connection; requests count from 1.
  public let requestNumber: Int
  /// The body, chunked coding removed, as far as it was read and kept (see `RequestRecording.bodyLimit`).
  public internal(set) var body: [UInt8] = []
  /// How many bytes of the body were read in all, also of those not kept in `body`.
  public internal(set) var bodyLength = 0
  /// Whether the body was read to its end. True for a request without one.
  public internal(set) var bodyIsComplete = false
  /// The trailer section of a chunked body.
  public internal(set) var trailers = ServerFields()

  /// The target without its query.
  public var path: String {
    target.utf8.firstIndex(of: UInt8(ascii: "?")).map { String(target[..<$0]) } ?? target
  }

  /// The query's parameters in order, percent-decoded (`+` stays); the value is empty without `=`.
  public var queryItems: [(name: String, value: String)] {
    guard let mark = target.utf8.firstIndex(of: UInt8(ascii: "?")) else { return [] }
    return target[target.utf8.index(after: mark)...].split(separator: "&").map { pair in
      let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      return (percentDecoded(parts[0]), parts.count > 1 ? percentDecoded(parts[1]) : "")
    }
  }

  /// The value of the first query parameter of that name; nil when absent.
  public func query(_ name: String) -> String? { queryItems.first { $0.name == name }?.value }

  /// A query parameter as a number.
  public func number(_ name: String) -> Int? { query(name).flatMap { Int($0) } }

  /// The body as text; invalid UTF-8 is replaced.
  public var text: String { String(decoding: body, as: UTF8.self) }
}

/// ASCII case-insensitive comparison.
func equalIgnoringCase(_ left: some StringProtocol, _ right: some StringProtocol) -> Bool {
  let (left, right) = (left.utf8, right.utf8)
  guard left.count == right.count else { return false }
  return zip(left, right).allSatisfy { lowercased($0) == lowercased($1) }
}

private func lowercased(_ byte: UInt8) -> UInt8 {
  byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") ? byte | 0x20 : byte
}

extension Substring {
  /// Without spaces and tabs at both ends.
  var trimmingSpaces: Substring {
    var rest = self
    while let first = rest.utf8.first, first == 0x20 || first == 0x09 { rest = rest.dropFirst() }
    while let last = rest.utf8.last, last == 0x20 || last == 0x09 { rest = rest.dropLast() }
    return rest
  }
}

/// Percent-decoding that leaves malformed escapes as they are.
func percentDecoded(_ text: some StringProtocol) -> String {
  let source = Array(text.utf8)
  var bytes: [UInt8] = []
  var index = 0
  while index < source.count {
    if source[index] == UInt8(ascii: "%"), index + 2 < source.count,
      let high = hexadecimal(source[index + 1]), let low = hexadecimal(source[index + 2])
    {
      bytes.append(high << 4 | low)
      index += 3
    } else {
      bytes.append(source[index])
      index += 1
    }
  }
  return String(decoding: bytes, as: UTF8.self)
}

/// The value of a hexadecimal digit.
func hexadecimal(_ byte: UInt8) -> UInt8? {
  switch byte {
  case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
  case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
  case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
  default: nil
  }
}
