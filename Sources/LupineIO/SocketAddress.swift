/// An IPv4 address, in network byte order as a number: 127.0.0.1 is 0x7F00_0001.
package struct IPv4Address: Hashable, Sendable {
  package var bits: UInt32

  package init(bits: UInt32) {
    self.bits = bits
  }

  package init(_ first: UInt8, _ second: UInt8, _ third: UInt8, _ fourth: UInt8) {
    bits = UInt32(first) << 24 | UInt32(second) << 16 | UInt32(third) << 8 | UInt32(fourth)
  }

  package static let loopback = IPv4Address(127, 0, 0, 1)

  /// Reads four decimal numbers without leading zeros, and nothing else: no `127.1`, no hexadecimal, no octal.
  package init?(_ text: some StringProtocol) {
    var bits: UInt32 = 0
    var parts = 0
    var value: UInt32 = 0
    var digits = 0
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "0")...UInt8(ascii: "9"):
        guard !(digits > 0 && value == 0) else { return nil }
        value = value * 10 + UInt32(byte - UInt8(ascii: "0"))
        digits += 1
        guard value <= 255 else { return nil }
      case UInt8(ascii: "."):
        guard digits > 0, parts < 3 else { return nil }
        bits = bits << 8 | value
        (parts, value, digits) = (parts + 1, 0, 0)
      default: return nil
      }
    }
    guard digits > 0, parts == 3 else { return nil }
    self.bits = bits << 8 | value
  }
}

extension IPv4Address: CustomStringConvertible {
  package var description: String {
    "\(bits >> 24).\(bits >> 16 & 255).\(bits >> 8 & 255).\(bits & 255)"
  }
}

/// An IPv6 address: the first and the last eight bytes as big-endian numbers.
package struct IPv6Address: Hashable, Sendable {
  package var high: UInt64
  package var low: UInt64

  package init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }

  package static let loopback = IPv6Address(high: 0, low: 1)

  /// Whether the address means something on one link only (fe80::/10).
  package var isLinkLocal: Bool { high >> 54 == 0xFE80 >> 6 }

  private subscript(group index: Int) -> UInt16 {
    UInt16(truncatingIfNeeded: index < 4 ? high >> (48 - 16 * index) : low >> (48 - 16 * (index - 4)))
  }

  /// Reads the text forms of RFC 4291 section 2.2, without brackets and without a zone.
  package init?(_ text: some StringProtocol) {
    var groups: [UInt16] = []
    var gap: Int?
    var rest = Substring(text)
    if rest.hasPrefix("::") {
      gap = 0
      rest = rest.dropFirst(2)
    }
    while !rest.isEmpty {
      guard groups.count < 8 else { return nil }
      let part = rest.prefix { $0 != ":" }
      if part.contains(".") {
        guard part.endIndex == rest.endIndex, groups.count <= 6, let tail = IPv4Address(part) else { return nil }
        groups += [UInt16(tail.bits >> 16), UInt16(tail.bits & 0xFFFF)]
        break
      }
      guard (1...4).contains(part.utf8.count), part.utf8.allSatisfy({ Self.isHexadecimal($0) }),
        let group = UInt16(part, radix: 16)
      else { return nil }
      groups.append(group)
      rest = rest[part.endIndex...]
      guard !rest.isEmpty else { break }
      rest = rest.dropFirst()
      if rest.first == ":" {
        guard gap == nil else { return nil }
        gap = groups.count
        rest = rest.dropFirst()
      } else if rest.isEmpty {
        return nil
      }
    }
    if let gap {
      guard groups.count < 8 else { return nil }
      groups.insert(contentsOf: Array(repeating: 0, count: 8 - groups.count), at: gap)
    }
    guard groups.count == 8 else { return nil }
    high = groups[..<4].reduce(0) { $0 << 16 | UInt64($1) }
    low = groups[4...].reduce(0) { $0 << 16 | UInt64($1) }
  }

  private static func isHexadecimal(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
      UInt8(ascii: "A")...UInt8(ascii: "F"):
      true
    default: false
    }
  }
}

extension IPv6Address: CustomStringConvertible {
  /// The canonical form of RFC 5952.
  package var description: String {
    if high == 0, low >> 32 == 0xFFFF { return "::ffff:\(IPv4Address(bits: UInt32(truncatingIfNeeded: low)))" }
    let groups = (0..<8).map { self[group: $0] }
    var longest = 0..<0
    var index = 0
    while index < 8 {
      let end = groups[index...].firstIndex { $0 != 0 } ?? 8
      if end - index > max(longest.count, 1) { longest = index..<end }
      index = max(end, index + 1)
    }
    func text(_ range: Range<Int>) -> String { groups[range].map { String($0, radix: 16) }.joined(separator: ":") }
    guard !longest.isEmpty else { return text(0..<8) }
    return text(0..<longest.lowerBound) + "::" + text(longest.upperBound..<8)
  }
}

/// Where a socket connects to, or is bound to.
package enum SocketAddress: Hashable, Sendable {
  case v4(IPv4Address, port: UInt16)
  /// `scope` is an interface's index, 0 for none; link-local addresses need one.
  case v6(IPv6Address, port: UInt16, scope: UInt32 = 0)
  /// A socket in the file system.
  case unix(path: String)
  /// A socket in Linux's abstract namespace; `name` without the leading NUL.
  case abstract(name: [UInt8])

  /// Reads an IP literal: dotted IPv4; IPv6 with or without brackets, with or without a zone (`fe80::1%eth0`, `fe80::1%2`).
  ///
  /// - Returns: nil if `literal` is not an address, or names an interface that this machine lacks.
  package init?(literal: some StringProtocol, port: UInt16) {
    if let address = IPv4Address(literal) {
      self = .v4(address, port: port)
      return
    }
    // Names are looked at for every connection, and this is all that most of them need.
    guard literal.utf8.contains(UInt8(ascii: ":")) else { return nil }
    var text = Substring(literal)
    if text.hasPrefix("["), text.hasSuffix("]"), text.utf8.count > 2 { text = text.dropFirst().dropLast() }
    let parts = text.split(separator: "%", maxSplits: 1, omittingEmptySubsequences: false)
    guard let first = parts.first, let address = IPv6Address(first) else { return nil }
    var scope: UInt32 = 0
    if parts.count == 2 {
      guard let index = Self.number(parts[1]) ?? SystemCalls.interfaceIndex(String(parts[1])), index > 0 else {
        return nil
      }
      scope = index
    }
    self = .v6(address, port: port, scope: scope)
  }

  /// The port; nil for Unix-domain sockets.
  package var port: UInt16? {
    switch self {
    case .v4(_, let port), .v6(_, let port, _): port
    case .unix, .abstract: nil
    }
  }

  /// The same address with another port; Unix-domain addresses have none and stay as they are.
  package func withPort(_ port: UInt16) -> SocketAddress {
    switch self {
    case .v4(let address, _): .v4(address, port: port)
    case .v6(let address, _, let scope): .v6(address, port: port, scope: scope)
    case .unix, .abstract: self
    }
  }

  /// The address without its port, and without brackets.
  package var addressText: String {
    switch self {
    case .v4(let address, _): "\(address)"
    case .v6(let address, _, 0): "\(address)"
    case .v6(let address, _, let scope): "\(address)%\(scope)"
    case .unix, .abstract: description
    }
  }

  /// Whether a socket that is bound to this address can connect to another one. One of the file system is not bound to anything.
  package func reaches(_ remote: SocketAddress) -> Bool {
    remote.family == .unix || remote.family == family
  }

  /// Families are alternated when addresses are raced.
  package enum Family: Hashable, Sendable { case v4, v6, unix }

  package var family: Family {
    switch self {
    case .v4: .v4
    case .v6: .v6
    case .unix, .abstract: .unix
    }
  }
}

extension SocketAddress: CustomStringConvertible {
  package var description: String {
    switch self {
    case .v4(let address, let port): "\(address):\(port)"
    case .v6(let address, let port, 0): "[\(address)]:\(port)"
    case .v6(let address, let port, let scope): "[\(address)%\(scope)]:\(port)"
    case .unix(let path): "unix:\(path)"
    case .abstract(let name): "unix:@\(String(decoding: name, as: UTF8.self))"
    }
  }
}

extension SocketAddress {
  /// Reads "address:port", IPv6 in brackets; nil for anything else.
  package init?(endpoint text: String) {
    guard let colon = text.lastIndex(of: ":"), let port: UInt16 = Self.number(text[text.index(after: colon)...]) else {
      return nil
    }
    self.init(literal: text[..<colon], port: port)
    if text.hasPrefix("[") != (family == .v6) { return nil }
  }

  /// Digits and nothing else: the standard library takes a sign too.
  private static func number<Number: FixedWidthInteger>(_ text: Substring) -> Number? {
    text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) } ? Number(text) : nil
  }
}
