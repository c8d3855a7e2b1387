internal import LupineBase

/// How the body of a request is framed.
public enum RequestFraming: Equatable, Hashable, Sendable {
  /// No body and no framing field.
  case none
  /// `Content-Length` of so many bytes, 0 included.
  case length(Int64)
  /// `Transfer-Encoding: chunked`; the body goes through ``ChunkEncoder``.
  case chunked

  /// Of a request without a body: a method that gives one a meaning announces an empty one, and others say nothing (RFC 9110 section 8.6).
  package static func withoutBody(_ method: String) -> RequestFraming {
    method == "POST" || method == "PUT" || method == "PATCH" ? .length(0) : .none
  }
}

/// Writes request heads (RFC 9112 section 3), and refuses at that moment whatever would break the framing.
public enum RequestEncoder {
  /// Appends one head, its empty line included, to `output`. Appends nothing if it throws.
  ///
  /// The framing field is written last, by the encoder. A Content-Length or Transfer-Encoding among `fields` is accepted only if it
  /// says what `framing` says, and is then left out. A Content-Length of 0 is what no body has: beside `none` it is written.
  ///
  /// - Parameters:
  ///   - method: a token, case kept.
  ///   - target: visible ASCII: a path with query, an absolute URL, an authority or `*`.
  ///   - fields: names must be tokens; values hold no control byte but HTAB and no white space at their ends. Exactly one Host.
  ///   - framing: how the body is framed.
  ///   - output: what the head is appended to.
  /// - Throws: ``WireError``: `invalidMethod`, `invalidTarget`, `invalidFieldName`, `invalidFieldValue`, `invalidHost`,
  ///   `contradictoryFraming`, `lengthMismatch` (a negative length); the offset counts inside the part named.
  public static func head(
    method: String, target: String, fields: some Sequence<(name: String, value: String)>,
    framing: RequestFraming = .none,
    into output: inout [UInt8]
  ) throws(WireError) {
    var builder = try RequestHeadBuilder(method: method, target: target, framing: framing)
    for (name, value) in fields { try builder.append(name, value) }
    let head = try builder.finish()
    output.append(head.span)
  }

  /// How many bytes the head of `head(method:target:host:fields:into:)` has.
  public static func headSize(method: String, target: String, host: String, fields: PreparedFields) -> Int {
    let afterTarget = method.utf8.count + 1 + target.utf8.count
    return afterTarget + versionAndHost.count + host.utf8.count + 2 + fields.bytes.count + 2
  }

  /// A head without framing field whose fields, `Host` excepted, were checked before: what most requests are. Written into memory of the
  /// caller's, without an allocation and without a byte moved twice.
  ///
  /// - Parameters:
  ///   - method: a token, case kept.
  ///   - target: visible ASCII.
  ///   - host: the value of `Host`: visible ASCII.
  ///   - output: has `headSize` bytes, else the program traps; all of them are written, or none if something is refused.
  /// - Throws: ``WireError``: `invalidMethod`, `invalidTarget`, `invalidHost`.
  public static func head(
    method: String, target: String, host: String, fields: PreparedFields, into output: inout MutableSpan<UInt8>
  ) throws(WireError) {
    let (methodText, targetText, hostText) = (method.utf8, target.utf8, host.utf8)
    let (methodBytes, targetBytes, hostBytes) = (methodText.span, targetText.span, hostText.span)
    try check(methodBytes, ByteClass.token, .invalidMethod)
    try check(targetBytes, ByteClass.target, .invalidTarget)
    try check(hostBytes, ByteClass.target, .invalidHost)
    let afterTarget = methodBytes.count + 1 + targetBytes.count
    let afterHost = afterTarget + versionAndHost.count + hostBytes.count
    let end = afterHost + 2 + fields.bytes.count
    precondition(output.count == end + 2, "the output of a head has the size that headSize says")
    output.copy(methodBytes, at: 0)
    output.store(UInt8.space, at: methodBytes.count)
    output.copy(targetBytes, at: methodBytes.count + 1)
    output.copy(versionAndHost.span, at: afterTarget)
    output.copy(hostBytes, at: afterTarget + versionAndHost.count)
    output.store(lineEnd, at: afterHost)
    output.copy(fields.bytes.span, at: afterHost + 2)
    output.store(lineEnd, at: end)
  }

  /// The same in an array.
  ///
  /// - Throws: as `head(method:target:host:fields:into:)`.
  public static func head(
    method: String, target: String, host: String, fields: PreparedFields
  ) throws(WireError) -> [UInt8] {
    let size = headSize(method: method, target: target, host: host, fields: fields)
    var head = [UInt8](repeating: .space, count: size)
    var output = head.mutableSpan
    try self.head(method: method, target: target, host: host, fields: fields, into: &output)
    return head
  }

  private static let versionAndHost: InlineArray<17, UInt8> = [
    0x20, 0x48, 0x54, 0x54, 0x50, 0x2F, 0x31, 0x2E, 0x31, 0x0D, 0x0A, 0x48, 0x6F, 0x73, 0x74, 0x3A, 0x20,
  ]
  /// CR LF, whatever the order of bytes of the processor.
  private static let lineEnd = UInt16(littleEndian: 0x0A0D)

  @inline(__always)
  private static func check(_ bytes: Span<UInt8>, _ property: UInt8, _ reason: WireError.Reason) throws(WireError) {
    if bytes.isEmpty { throw WireError(reason, at: 0) }
    for index in bytes.indices where !ByteClass.has(bytes[index], property) { throw WireError(reason, at: index) }
  }

  /// Appends one field line after checking it.
  static func field(_ name: String, _ value: String, _ output: inout [UInt8]) throws(WireError) {
    try append(name, ByteClass.token, .invalidFieldName, &output)
    output.append(.colon)
    output.append(.space)
    if !value.isEmpty {
      let start = output.count
      try append(value, ByteClass.fieldValue, .invalidFieldValue, &output)
      if output[start].isWhitespace { throw WireError(.invalidFieldValue, at: 0) }
      if output[output.count - 1].isWhitespace { throw WireError(.invalidFieldValue, at: output.count - start - 1) }
    }
    output.append(.carriageReturn)
    output.append(.lineFeed)
  }

  /// Whether the field frames the body; then it must say what `framing` says.
  static func isFraming(_ name: String, _ value: String, _ framing: RequestFraming) throws(WireError) -> Bool {
    if equalsIgnoringCase(name, "content-length") {
      switch framing {
      // `Int64` alone would also read a sign.
      case .length(let length) where value == String(length): return true
      case .none where value == "0": return true
      default: throw WireError(.contradictoryFraming, at: 0)
      }
    }
    if equalsIgnoringCase(name, "transfer-encoding") {
      guard framing == .chunked, equalsIgnoringCase(value, "chunked") else {
        throw WireError(.contradictoryFraming, at: 0)
      }
      return true
    }
    return false
  }

  static func append(
    _ text: String, _ property: UInt8, _ reason: WireError.Reason, _ output: inout [UInt8]
  ) throws(WireError) {
    let utf8 = text.utf8
    let bytes = utf8.span
    if bytes.isEmpty { throw WireError(reason, at: 0) }
    for index in bytes.indices where !ByteClass.has(bytes[index], property) { throw WireError(reason, at: index) }
    output.append(bytes)
  }

  static func append(_ text: String, _ output: inout [UInt8]) {
    output.append(text.utf8.span)
  }

  package static func equalsIgnoringCase(_ text: String, _ lowercase: String) -> Bool {
    guard text.utf8.count == lowercase.utf8.count else { return false }
    let (left, right) = (text.utf8.span, lowercase.utf8.span)
    for index in left.indices where left[index].lowercased != right[index] { return false }
    return true
  }
}
