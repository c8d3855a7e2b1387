internal import LupineBase

/// A file of the disk cache, version 1; see `Docs/Caching.md`.
///
/// Numbers are little-endian. 56 bytes of header, then the key, the head (or the names) and the body:
///
///      0  "LUPCACH1"
///      8  XXH64 of everything from byte 16 on, seed 0
///     16  length of the file
///     24  when the response was asked for, seconds since 1970; with names, the generation
///     32  when its head arrived; with names, 0
///     40  kind: 0 a response, 1 the names of fields that responses vary by
///     44  length of the key
///     48  length of the head, without its empty line; or of the names, separated by commas
///     52  0
package enum CacheRecord: Sendable {
  case response(StoredResponse)
  /// The names of the request fields that responses vary by, and what they are found under together with the fields' values.
  case variants(key: String, names: [String], generation: UInt64)

  package static let headerLength = 56
  private static let latestTime: Int64 = 1 << 40
  private static let magic = Array("LUPCACH1".utf8)

  package var key: String {
    switch self {
    case .response(let response): response.key
    case .variants(let key, _, _): key
    }
  }

  /// What it takes, roughly: bytes.
  package var cost: Int {
    switch self {
    case .response(let response): response.cost
    case .variants(let key, let names, _): 2 * key.utf8.count + names.reduce(256) { $0 + $1.utf8.count }
    }
  }

  /// Nil for a response that must not be written down.
  package var encoded: [UInt8]? {
    switch self {
    case .response(let response):
      guard response.authorization == nil else { return nil }
      return Self.encode(
        kind: 0, (response.requestTime, response.responseTime), response.key, response.headBytes, response.body)
    case .variants(let key, let names, let generation):
      return Self.encode(kind: 1, (Int64(bitPattern: generation), 0), key, Array(names.joined(separator: ",").utf8), [])
    }
  }

  private static func encode(
    kind: UInt32, _ times: (Int64, Int64), _ key: String, _ head: [UInt8], _ body: [UInt8]
  ) -> [UInt8] {
    let key = Array(key.utf8)
    let length = headerLength + key.count + head.count + body.count
    var bytes: [UInt8] = []
    bytes.reserveCapacity(length)
    bytes += magic
    append(UInt64(0), to: &bytes)
    append(UInt64(length), to: &bytes)
    append(UInt64(bitPattern: times.0), to: &bytes)
    append(UInt64(bitPattern: times.1), to: &bytes)
    append(kind, to: &bytes)
    append(UInt32(clamping: key.count), to: &bytes)
    append(UInt32(clamping: head.count), to: &bytes)
    append(UInt32(0), to: &bytes)
    bytes += key
    bytes += head
    bytes += body
    var checksum: [UInt8] = []
    append(XXHash64.hash(bytes.span.extracting(droppingFirst: 16)), to: &checksum)
    bytes.replaceSubrange(8..<16, with: checksum)
    return bytes
  }

  private static func append(_ value: some FixedWidthInteger, to bytes: inout [UInt8]) {
    var rest = value.littleEndian
    for _ in 0..<(value.bitWidth / 8) {
      bytes.append(UInt8(truncatingIfNeeded: rest))
      rest >>= 8
    }
  }

  /// Reads a file. Nil for anything that was not written whole by this version: no byte of it is believed then.
  ///
  /// - Parameter key: what must be in it; nil takes any.
  package init?(decoding bytes: [UInt8], key wanted: String?) {
    let span = bytes.span
    guard bytes.count >= Self.headerLength, bytes.starts(with: Self.magic),
      UInt64(littleEndian: span.load(at: 16, as: UInt64.self)) == UInt64(bytes.count),
      UInt64(littleEndian: span.load(at: 8, as: UInt64.self))
        == XXHash64.hash(span.extracting(droppingFirst: 16)),
      span.load(at: 52, as: UInt32.self) == 0
    else { return nil }
    let keyLength = Int(UInt32(littleEndian: span.load(at: 44, as: UInt32.self)))
    let headLength = Int(UInt32(littleEndian: span.load(at: 48, as: UInt32.self)))
    guard keyLength + headLength <= bytes.count - Self.headerLength else { return nil }
    let headStart = Self.headerLength + keyLength
    let bodyStart = headStart + headLength
    guard let key = Self.text(bytes[Self.headerLength..<headStart]),
      wanted.map({ $0.hasBytes(of: key) }) ?? true
    else { return nil }
    switch UInt32(littleEndian: span.load(at: 40, as: UInt32.self)) {
    case 0:
      let headBytes = Array(bytes[headStart..<bodyStart])
      let requestTime = Int64(littleEndian: span.load(at: 24, as: Int64.self))
      let responseTime = Int64(littleEndian: span.load(at: 32, as: Int64.self))
      // Far from where sums overflow.
      guard (0...Self.latestTime).contains(requestTime), (0...Self.latestTime).contains(responseTime) else {
        return nil
      }
      guard let head = HeadWriter.read(headBytes) else { return nil }
      self = .response(
        StoredResponse(
          key: key, headBytes: headBytes, head: head, body: Array(bytes[bodyStart...]),
          requestTime: requestTime, responseTime: responseTime, authorization: nil))
    case 1:
      guard bodyStart == bytes.count, span.load(at: 32, as: Int64.self) == 0,
        let names = Self.text(bytes[headStart..<bodyStart]), !names.isEmpty
      else {
        return nil
      }
      self = .variants(
        key: key, names: names.split(separator: ",", omittingEmptySubsequences: false).map(String.init),
        generation: UInt64(littleEndian: span.load(at: 24, as: UInt64.self)))
    default: return nil
    }
  }

  private static func text(_ bytes: ArraySlice<UInt8>) -> String? { String(validating: bytes, as: UTF8.self) }
}
