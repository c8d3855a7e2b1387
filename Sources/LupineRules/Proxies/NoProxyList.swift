/// The places that are reached without a proxy, as `no_proxy` lists them: separated by commas, blanks or line ends.
///
/// - `*`: every place.
/// - `example.com`, `.example.com`, `*.example.com`: the name and every name below it (as curl and Python have it). Never an address.
/// - `192.0.2.1`, `2001:db8::1`, `[2001:db8::1]`: the address; with a zone (`fe80::1%eth0`) only in that zone.
/// - `192.0.2.0/24`, `2001:db8::/32`: every address of the network. IPv4-mapped addresses count as IPv4.
/// - Any of the names and addresses with `:port` (an IPv6 address in brackets then): that port alone.
///
/// What cannot be read exempts nothing: who cannot be understood does not get past the proxy. The zone of a host is compared as a whole
/// and is never taken for part of a name (Go CVE-2025-22870).
package struct NoProxyList: Hashable, Sendable {
  private enum Pattern: Hashable, Sendable {
    case everything
    /// Lower case, without a final dot.
    case name(String)
    case address(InternetAddress, zone: String?)
    case network(InternetAddress, length: Int)
  }

  private struct Entry: Hashable, Sendable {
    var pattern: Pattern
    var port: UInt16?
  }

  private var entries: [Entry] = []

  /// Exempts nothing.
  package init() {}

  package init(_ text: String) {
    // By bytes: the line end of two bytes is one character, and so is a comma with a mark behind it.
    for word in text.utf8.split(whereSeparator: Self.isSeparator) {
      if let entry = Self.entry(Substring(word)) { entries.append(entry) }
    }
  }

  private static func isSeparator(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: ","), UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\n"), UInt8(ascii: "\r"): true
    default: false
    }
  }

  package var isEmpty: Bool { entries.isEmpty }

  /// Whether the place is reached without a proxy.
  package func exempts(_ origin: Origin) -> Bool {
    guard !entries.isEmpty else { return false }
    let host = origin.host
    let address = host.internetAddress
    let name = host.serverName
    return entries.contains { entry in
      if let port = entry.port, port != origin.port { return false }
      switch entry.pattern {
      case .everything: return true
      case .name(let wanted): return host.kind == .name && (name == wanted || DomainName.name(name, isBelow: wanted))
      case .address(let wanted, let zone): return address == wanted && (zone == nil || zone == host.zone)
      case .network(let prefix, let length): return address?.hasPrefix(prefix, length: length) ?? false
      }
    }
  }

  /// A list as curl reads it: with commas alone, without `*.` and brackets, and without ports, so that it is right for one port only. What cannot be
  /// read is left out, for curl not to read it in its own way.
  ///
  /// - Returns: also whether the list names ports.
  package static func forCurl(_ text: String, port: UInt16) -> (text: String, hasPorts: Bool) {
    var words: [String] = []
    var hasPorts = false
    for word in text.utf8.split(whereSeparator: Self.isSeparator) {
      let word = Substring(word)
      guard let entry = Self.entry(word) else { continue }
      if entry.port != nil { hasPorts = true }
      guard entry.port == nil || entry.port == port else { continue }
      switch entry.pattern {
      // Among others it is no sign to curl.
      case .everything: return ("*", false)
      case .name(let name): words.append(name)
      case .network, .address:
        // A network has no port, and colons of its own.
        let host = word.contains("/") ? word : Self.splitPort(word)?.0 ?? word
        words.append(host.filter { $0 != "[" && $0 != "]" })
      }
    }
    return (words.joined(separator: ","), hasPorts)
  }

  private static func entry(_ word: Substring) -> Entry? {
    if word == "*" { return Entry(pattern: .everything) }
    if word.contains("/") { return network(word) }
    guard let (text, port) = splitPort(word) else { return nil }
    var host = text
    if host.hasPrefix("*.") { host = host.dropFirst(2) } else if host.hasPrefix(".") { host = host.dropFirst() }
    guard let read = self.host(host) else { return nil }
    if let address = read.internetAddress {
      // A name below an address is nothing.
      return host.count == text.count ? Entry(pattern: .address(address, zone: read.zone), port: port) : nil
    }
    return Entry(pattern: .name(read.serverName), port: port)
  }

  private static func network(_ word: Substring) -> Entry? {
    let parts = word.split(separator: "/", omittingEmptySubsequences: false)
    guard parts.count == 2, let length = FieldScanner.number(parts[1].utf8), parts[1].utf8.count <= 3,
      let host = host(parts[0]), host.zone == nil, let address = host.internetAddress
    else { return nil }
    // `::ffff:0:0/96` and longer are networks of IPv4.
    let isMapped = host.kind == .ipv6 && address.family == .v4
    let bits = isMapped ? length - 96 : length
    guard bits >= 0, bits <= Int64(address.family.width) else { return nil }
    return Entry(pattern: .network(address, length: Int(bits)))
  }

  /// The host, brackets included, and the port behind it.
  private static func splitPort(_ word: Substring) -> (Substring, UInt16?)? {
    let colons = word.utf8.count { $0 == UInt8(ascii: ":") }
    let isBracketed = word.hasPrefix("[")
    guard let colon = word.lastIndex(of: ":"), isBracketed ? !word.hasSuffix("]") : colons == 1 else {
      return (word, nil)
    }
    let digits = word[word.index(after: colon)...].utf8
    guard digits.count <= 5, let number = FieldScanner.number(digits), let port = UInt16(exactly: number), port > 0
    else { return nil }
    return (word[..<colon], port)
  }

  private static func host(_ text: Substring) -> URLHost? {
    var text = String(text)
    if let percent = text.firstIndex(of: "%"), !text[percent...].hasPrefix("%25") {
      text.replaceSubrange(percent...percent, with: "%25")
    }
    return try? HostReader.read(text)
  }
}

extension URLHost {
  /// The address that the host is; nil for a name. An IPv4-mapped IPv6 address is the IPv4 address.
  package var internetAddress: InternetAddress? {
    let bytes = text.utf8.span
    switch kind {
    case .name: return nil
    case .ipv4:
      guard let bits = IPv6Literal.readIPv4(bytes, 0..<bytes.count) else { return nil }
      return InternetAddress((0..<4).map { UInt8(truncatingIfNeeded: bits >> (24 - 8 * $0)) }, family: .v4)
    case .ipv6:
      guard let groups = IPv6Literal.readGroups(bytes, 0..<bytes.count) else { return nil }
      let octets = (0..<16).map { UInt8(truncatingIfNeeded: groups[$0 / 2] >> ($0 % 2 == 0 ? 8 : 0)) }
      let isMapped = octets[..<10].allSatisfy { $0 == 0 } && octets[10] == 0xFF && octets[11] == 0xFF
      return isMapped
        ? InternetAddress(octets[12...], family: .v4) : InternetAddress(octets, family: .v6)
    }
  }
}
