/// What a peer says in `Keep-Alive` of a connection that it keeps (RFC 2068 section 19.7.1.1): `timeout=5, max=100`.
///
/// Of several of one name the smallest counts, and what is no number is none: whoever gives a connection up early loses a handshake, whoever sends a
/// request over one that the peer is closing loses the request.
struct KeepAlive {
  /// Seconds that the peer waits for the next request.
  private(set) var timeout: Int?
  /// Requests that the peer still takes.
  private(set) var requests: Int?

  /// Nothing that the peer would wait for, or take.
  var isOver: Bool { timeout == 0 || requests == 0 }

  init(_ fields: borrowing IndexedBytes) {
    var index = fields.firstIndex(.keepAlive)
    while let field = index {
      take(fields.value(field))
      index = fields.nextIndex(.keepAlive, after: field)
    }
  }

  private mutating func take(_ value: Span<UInt8>) {
    var start = 0
    while start < value.count {
      var end = start
      while end < value.count, value[end] != .comma { end += 1 }
      takeParameter(value.extracting(start..<end))
      start = end + 1
    }
  }

  private mutating func takeParameter(_ parameter: Span<UInt8>) {
    var equals = 0
    while equals < parameter.count, parameter[equals] != UInt8(ascii: "=") { equals += 1 }
    guard equals < parameter.count, let number = Self.number(Self.trimmed(parameter.extracting((equals + 1)...))) else {
      return
    }
    let name = Self.trimmed(parameter.extracting(..<equals))
    if Self.isName(name, "timeout") { timeout = min(timeout ?? number, number) }
    if Self.isName(name, "max") { requests = min(requests ?? number, number) }
  }

  private static func isName(_ bytes: Span<UInt8>, _ name: String) -> Bool {
    guard bytes.count == name.utf8.count else { return false }
    var index = 0
    for unit in name.utf8 {
      guard bytes[index].lowercased == unit else { return false }
      index += 1
    }
    return true
  }

  /// Digits only; at most a day, which is as good as any number above it.
  private static func number(_ bytes: Span<UInt8>) -> Int? {
    guard !bytes.isEmpty else { return nil }
    var number = 0
    for index in 0..<bytes.count {
      guard bytes[index].isDigit else { return nil }
      number = min(number * 10 + Int(bytes[index] - 0x30), 86_400)
    }
    return number
  }

  @_lifetime(copy bytes)
  private static func trimmed(_ bytes: Span<UInt8>) -> Span<UInt8> {
    var (start, end) = (0, bytes.count)
    while start < end, bytes[start].isWhitespace { start += 1 }
    while end > start, bytes[end - 1].isWhitespace { end -= 1 }
    return bytes.extracting(start..<end)
  }
}
