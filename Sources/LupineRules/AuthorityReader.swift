// `userinfo @ host : port` (RFC 3986 section 3.2): nothing is repaired here, because every known confusion of hosts begins with a repair.
extension URLReader {
  static func readAuthority(
    _ bytes: Span<UInt8>, _ range: Range<Int>, _ scheme: URLScheme
  ) throws(URLRefusal) -> (Origin, userinfo: String?) {
    var hostStart = range.lowerBound
    var userinfo: String?
    if let at = bytes.firstIndex(of: UInt8(ascii: "@"), in: range) {
      userinfo = try readUserinfo(bytes, range.lowerBound..<at)
      hostStart = at + 1
    }
    let hostEnd = try endOfHost(bytes, hostStart..<range.upperBound)
    let host: URLHost
    do {
      host = try HostReader.read(bytes, hostStart..<hostEnd)
    } catch {
      throw URLRefusal.invalidHost(error)
    }
    let port = try readPort(bytes, hostEnd..<range.upperBound) ?? scheme.defaultPort
    return (Origin(scheme: scheme, host: host, port: port), userinfo)
  }

  /// Reads "host:port" as it stands in the authority of a URL, by the same rules. Both have to be there.
  package static func readEndpoint(_ text: String) throws(URLRefusal) -> (host: URLHost, port: UInt16) {
    let bytes = text.utf8.span
    try checkLength(bytes.count)
    let whole = 0..<bytes.count
    let hostEnd = try endOfHost(bytes, whole)
    guard let port = try readPort(bytes, hostEnd..<bytes.count) else { throw URLRefusal.invalidPort }
    return (try readAuthority(bytes, whole, .http).0.host, port)
  }

  private static func readUserinfo(_ bytes: Span<UInt8>, _ range: Range<Int>) throws(URLRefusal) -> String? {
    for index in range {
      let kind = URLByteClass.of(bytes[index])
      if kind & URLByteClass.control != 0 { throw URLRefusal.control(bytes[index], offset: index) }
      guard kind & URLByteClass.userinfo != 0 else {
        throw URLRefusal.invalidAuthorityByte(bytes[index], offset: index)
      }
    }
    return range.isEmpty ? nil : bytes.text(range)
  }

  /// The end of the host: its closing bracket, or the first colon. Refuses what may stand in no host at all.
  private static func endOfHost(_ bytes: Span<UInt8>, _ range: Range<Int>) throws(URLRefusal) -> Int {
    let bracketed = !range.isEmpty && bytes[range.lowerBound] == UInt8(ascii: "[")
    var index = range.lowerBound
    while index < range.upperBound {
      let byte = bytes[index]
      if bracketed {
        if byte == UInt8(ascii: "]") { return index + 1 }
      } else if byte == UInt8(ascii: ":") {
        return index
      }
      let kind = URLByteClass.of(byte)
      if kind & URLByteClass.control != 0 { throw URLRefusal.control(byte, offset: index) }
      if byte == UInt8(ascii: "@") { throw URLRefusal.invalidAuthorityByte(byte, offset: index) }
      index += 1
    }
    return index
  }

  /// The port of `:port`; `nil` if it is missing or empty (RFC 3986 section 3.2.3 allows both).
  private static func readPort(_ bytes: Span<UInt8>, _ range: Range<Int>) throws(URLRefusal) -> UInt16? {
    guard !range.isEmpty else { return nil }
    guard bytes[range.lowerBound] == UInt8(ascii: ":") else {
      throw URLRefusal.invalidAuthorityByte(bytes[range.lowerBound], offset: range.lowerBound)
    }
    guard range.count > 1 else { return nil }
    guard range.count <= 6 else { throw URLRefusal.invalidPort }
    var value = 0
    for index in range.dropFirst() {
      guard URLByteClass.of(bytes[index]) & URLByteClass.digit != 0 else { throw URLRefusal.invalidPort }
      value = value * 10 + Int(bytes[index] - UInt8(ascii: "0"))
    }
    guard value > 0, let port = UInt16(exactly: value) else { throw URLRefusal.invalidPort }
    return port
  }
}
