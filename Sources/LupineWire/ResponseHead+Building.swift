import LupineBase

extension ResponseHead {
  /// Makes a head from its parts, for transports that do not read one: it is written as bytes and read by the parser, so that nothing is in
  /// it that could not have come over the wire.
  ///
  /// - Parameters:
  ///   - status: 100 to 599.
  ///   - reason: no control characters.
  ///   - version: the version.
  ///   - fields: in this order and case; white space around values is not part of them.
  /// - Throws: ``WireError``: `invalidStatusCode`, `invalidReasonByte`, `invalidFieldName`, `invalidFieldValue`, or the limit of
  ///   ``WireLimits`` that was passed.
  public init(
    status: Int, reason: String = "", version: HTTPVersion = .http11, fields: [(name: String, value: String)] = []
  ) throws(WireError) {
    guard (100...999).contains(status) else { throw WireError(.invalidStatusCode, at: 9) }
    guard (0...9).contains(version.minor) else { throw WireError(.unsupportedVersion, at: 5) }
    for byte in reason.utf8 where byte < 0x20 && byte != 0x09 || byte == 0x7F {
      throw WireError(.invalidReasonByte(byte), at: 13)
    }
    var bytes = Array("HTTP/1.\(version.minor) \(status) \(reason)\r\n".utf8)
    for (name, value) in fields { try RequestEncoder.field(name, value, &bytes) }
    bytes.append(.carriageReturn)
    bytes.append(.lineFeed)
    var parser = HeadParser(limits: WireLimits(), leniency: [])
    parser.begin(continuing: false)
    var offset = 0
    guard try parser.next(bytes.span, &offset) else { throw WireError(.truncatedHead, at: offset) }
    self = parser.head
  }
}

extension FieldSection {
  /// Makes a section from its fields, in this order and case: trailers of a transport that does not read any.
  ///
  /// - Throws: ``WireError``: `invalidFieldName`, `invalidFieldValue`, or the limit of ``WireLimits`` that was passed.
  public init(_ fields: [(name: String, value: String)]) throws(WireError) {
    self = try ResponseHead(status: 200, fields: fields).fields
  }
}

extension ResponseHead {
  /// Reads a head from its bytes: the status line, the fields, the empty line, and nothing behind it.
  ///
  /// - Throws: ``WireError``, as the parser does.
  package init(bytes: Span<UInt8>) throws(WireError) {
    var parser = HeadParser(limits: WireLimits(), leniency: [])
    parser.begin(continuing: false)
    var offset = 0
    guard try parser.next(bytes, &offset), offset == bytes.count else { throw WireError(.truncatedHead, at: offset) }
    self = parser.head
  }
}
