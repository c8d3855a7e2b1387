internal import LupineBase

/// Field lines that were checked once and can be put into many heads.
///
/// They name neither `Host` nor a framing field: those belong to one request.
public struct PreparedFields: Sendable {
  let bytes: [UInt8]

  /// Checks and encodes fields.
  ///
  /// - Throws: ``WireError``: `invalidFieldName`, `invalidFieldValue`, `invalidHost` for a Host, `contradictoryFraming` for a framing
  ///   field.
  public init(_ fields: some Sequence<(name: String, value: String)>) throws(WireError) {
    var bytes: [UInt8] = []
    for (name, value) in fields {
      if RequestEncoder.equalsIgnoringCase(name, "host") { throw WireError(.invalidHost, at: 0) }
      guard try !RequestEncoder.isFraming(name, value, .none) else { throw WireError(.contradictoryFraming, at: 0) }
      try RequestEncoder.field(name, value, &bytes)
    }
    self.bytes = bytes
  }
}

/// Builds one request head line by line, and refuses at that moment whatever would break the framing; ``RequestEncoder`` is the short
/// way to it.
public struct RequestHeadBuilder: ~Copyable {
  private var bytes: [UInt8] = []
  private var framing: RequestFraming
  private var hosts = 0

  /// Begins with the request line.
  ///
  /// - Parameters:
  ///   - method: a token, case kept.
  ///   - target: visible ASCII.
  ///   - framing: how the body is framed; the field for it is written at the end.
  /// - Throws: ``WireError``: `invalidMethod`, `invalidTarget`.
  public init(method: String, target: String, framing: RequestFraming) throws(WireError) {
    self.framing = framing
    bytes.reserveCapacity(256 + target.utf8.count)
    try RequestEncoder.append(method, ByteClass.token, .invalidMethod, &bytes)
    bytes.append(.space)
    try RequestEncoder.append(target, ByteClass.target, .invalidTarget, &bytes)
    bytes.append(Self.versionLine.span)
  }

  private static let versionLine: [UInt8] = Array(" HTTP/1.1\r\n".utf8)

  /// Adds a field. A framing field must say what `framing` says, and is left out; a Content-Length of 0 where there is no body is written at the end.
  ///
  /// - Throws: ``WireError``: `invalidFieldName`, `invalidFieldValue`, `contradictoryFraming`.
  public mutating func append(_ name: String, _ value: String) throws(WireError) {
    if try RequestEncoder.isFraming(name, value, framing) {
      if framing == .none { framing = .length(0) }
      return
    }
    if RequestEncoder.equalsIgnoringCase(name, "host") { hosts += 1 }
    try RequestEncoder.field(name, value, &bytes)
  }

  /// Adds fields that were checked before.
  public mutating func append(_ fields: PreparedFields) {
    bytes.append(fields.bytes.span)
  }

  /// Adds the framing field and the empty line.
  ///
  /// - Throws: ``WireError``: `invalidHost` unless there is exactly one Host; `lengthMismatch` for a negative length.
  public consuming func finish() throws(WireError) -> [UInt8] {
    if hosts != 1 { throw WireError(.invalidHost, at: 0) }
    switch framing {
    case .none: break
    case .length(let length):
      if length < 0 { throw WireError(.lengthMismatch, at: 0) }
      RequestEncoder.append("Content-Length: \(length)\r\n", &bytes)
    case .chunked: RequestEncoder.append("Transfer-Encoding: chunked\r\n", &bytes)
    }
    bytes.append(.carriageReturn)
    bytes.append(.lineFeed)
    return bytes
  }
}
