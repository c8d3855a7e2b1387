internal import Glibc
internal import LupineIO
internal import LupineRules

/// Oracle: a text is an IP address if and only if the C library takes it for one (`inet_pton`), and then of the same bits; what is written
/// down reads back, and is what RFC 5952 says; ports and numbered zones are digits and nothing else; no host that passes for a name is an
/// address to anybody who connects; addresses in the system's form are read field by field.
package enum AddressesFuzz {
  package static func run(bytes: [UInt8]) {
    let text = String(decoding: bytes, as: UTF8.self)
    literal(text)
    endpoint(text)
    host(text)
    numbers(bytes)
    system(bytes)
  }

  // MARK: What the C library says

  private static func systemV4(_ text: String) -> UInt32? {
    var address = in_addr()
    guard !text.utf8.contains(0), unsafe inet_pton(AF_INET, text, &address) == 1 else { return nil }
    return UInt32(bigEndian: address.s_addr)
  }

  private static func systemV6(_ text: String) -> [UInt64]? {
    var bytes = [UInt8](repeating: 0, count: 16)
    guard !text.utf8.contains(0), unsafe inet_pton(AF_INET6, text, &bytes) == 1 else { return nil }
    return [number(bytes[..<8]), number(bytes[8...])]
  }

  private static func systemText(_ bytes: [UInt8]) -> String {
    var text = [CChar](repeating: 0, count: 64)
    guard unsafe inet_ntop(AF_INET6, bytes, &text, 64) != nil else { preconditionFailure("an address has no text") }
    return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  private static func number(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) } }

  private static func isNumber(_ bytes: some Collection<UInt8>) -> Bool {
    !bytes.isEmpty && bytes.allSatisfy { (0x30...0x39).contains($0) }
  }

  // MARK: Texts

  private static func literal(_ text: String) {
    let (v4, v6) = (IPv4Address(text), IPv6Address(text))
    precondition(v4?.bits == systemV4(text), "the C library reads another IPv4 address, or none")
    precondition(v6.map { [$0.high, $0.low] } == systemV6(text), "the C library reads another IPv6 address, or none")
    guard let address = SocketAddress(literal: text, port: 80) else {
      return precondition(v4 == nil && v6 == nil, "an address is no literal")
    }
    switch address {
    case .v4(let read, let port): precondition(read == v4 && port == 80)
    case .v6(let read, let port, let scope):
      var inner = Array(text.utf8)
      if inner.first == UInt8(ascii: "[") { inner = Array(inner.dropFirst().dropLast()) }
      let parts = inner.split(separator: UInt8(ascii: "%"), maxSplits: 1, omittingEmptySubsequences: false)
      let isSame = systemV6(String(decoding: parts[0], as: UTF8.self)) == [read.high, read.low]
      precondition(isSame && port == 80, "an address was found in something else")
      checkZone(parts.count == 2 ? String(decoding: parts[1], as: UTF8.self) : nil, scope)
    case .unix, .abstract: preconditionFailure("a path was found in an address")
    }
    precondition(SocketAddress(endpoint: address.description) == address, "it reads differently when written down")
    let other = address.withPort(8080)
    precondition(other.port == 8080 && other.withPort(80) == address && other.family == address.family)
  }

  private static func checkZone(_ zone: String?, _ scope: UInt32) {
    guard let zone else { return precondition(scope == 0, "a scope from nowhere") }
    let expected = isNumber(zone.utf8) ? UInt32(zone) : unsafe if_nametoindex(zone)
    precondition(scope == expected && scope > 0, "a zone that is none")
  }

  private static func endpoint(_ text: String) {
    let bytes = Array(text.utf8)
    var expected: SocketAddress?
    if let colon = bytes.lastIndex(of: UInt8(ascii: ":")), isNumber(bytes[(colon + 1)...]),
      let port = UInt16(String(decoding: bytes[(colon + 1)...], as: UTF8.self))
    {
      let before = bytes[..<colon]
      // Without brackets it would be anybody's guess which colon is the last one of the address.
      if (before.first == UInt8(ascii: "[")) == before.contains(UInt8(ascii: ":")) {
        expected = SocketAddress(literal: String(decoding: before, as: UTF8.self), port: port)
      }
    }
    precondition(SocketAddress(endpoint: text) == expected, "an address with a port is read differently")
  }

  private static func host(_ text: String) {
    guard let host = try? HostReader.read(text) else {
      return precondition(IPv4Address(text) == nil && IPv6Address(text) == nil, "an address is no host")
    }
    let address = SocketAddress(literal: host.connectionText, port: 80)
    switch host.kind {
    case .name:
      var ignored = in_addr()
      let isAddress = unsafe inet_aton(host.text, &ignored) != 0
      precondition(address == nil && !isAddress, "a name that somebody takes for an address")
    case .ipv4: precondition(address?.family == .v4 && IPv4Address(host.text)?.description == host.text)
    case .ipv6:
      precondition(IPv6Address(host.text) != nil, "an address of a URL is none")
      // Whether a zone exists is this machine's affair.
      precondition(host.zone != nil || address?.family == .v6)
    }
  }

  // MARK: Bytes

  private static func numbers(_ bytes: [UInt8]) {
    guard bytes.count >= 16 else { return }
    let (high, low) = (number(bytes[..<8]), number(bytes[8..<16]))
    let address = IPv6Address(high: high, low: low)
    let text = address.description
    precondition(IPv6Address(text) == address, "an IPv6 address reads differently when written down")
    // The C library still writes addresses of RFC 4291's abolished form `::192.0.2.1` so.
    if high != 0 || low >> 32 != 0 { precondition(text == systemText(Array(bytes[..<16])), "not the form of RFC 5952") }
    precondition(address.isLinkLocal == (bytes[0] == 0xFE && bytes[1] & 0xC0 == 0x80))
    let short = IPv4Address(bits: UInt32(truncatingIfNeeded: high))
    precondition(IPv4Address(short.description) == short, "an IPv4 address reads differently when written down")
  }

  private static func system(_ bytes: [UInt8]) {
    let family = bytes.count >= 2 ? Int(bytes[0]) | Int(bytes[1]) << 8 : -1
    switch unsafe bytes.withUnsafeBytes({ unsafe SocketAddress($0) }) {
    case .v4(let address, let port)?:
      precondition(family == Int(AF_INET) && bytes.count >= 16, "an IPv4 address from nowhere")
      precondition(UInt64(port) == number(bytes[2..<4]) && UInt64(address.bits) == number(bytes[4..<8]))
    case .v6(let address, let port, let scope)?:
      precondition(family == Int(AF_INET6) && bytes.count >= 28, "an IPv6 address from nowhere")
      precondition(UInt64(port) == number(bytes[2..<4]) && UInt64(scope.byteSwapped) == number(bytes[24..<28]))
      precondition(address.high == number(bytes[8..<16]) && address.low == number(bytes[16..<24]))
    case .unix(let path)?:
      precondition(family == Int(AF_UNIX) && !path.utf8.contains(0), "a path with a NUL")
      precondition(Array(path.utf8) == Array(String(decoding: bytes[2...].prefix { $0 != 0 }, as: UTF8.self).utf8))
    case .abstract(let name)?:
      precondition(family == Int(AF_UNIX) && bytes[2] == 0 && name == Array(bytes[3...]), "another name")
    case nil:
      precondition(family != Int(AF_UNIX), "a Unix-domain address was not read")
      precondition(family != Int(AF_INET) || bytes.count < 16, "an IPv4 address was not read")
      precondition(family != Int(AF_INET6) || bytes.count < 28, "an IPv6 address was not read")
    }
  }
}
