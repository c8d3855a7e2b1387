internal import Glibc

/// A name out of a certificate's subject alternative name extension.
package enum PresentedName: Hashable, Sendable {
  /// `dNSName`, as in the certificate: any bytes.
  case dns([UInt8])
  /// `iPAddress`, as in the certificate: 4 or 16 bytes if well-formed.
  case address([UInt8])
}

/// Who a client wants to talk to: the reference identity of RFC 9525.
package struct ServerName: Hashable, Sendable {
  private enum Identity: Hashable {
    /// Lower case, without a trailing dot.
    case dns([UInt8])
    /// 4 or 16 bytes.
    case address([UInt8])
  }

  private let identity: Identity

  /// The host in canonical spelling: lower case, no trailing dot, no brackets or zone.
  package let host: String

  /// What goes into the server name indication (RFC 6066, 3): nil for an IP address.
  package var indication: String? {
    if case .dns = identity { host } else { nil }
  }

  /// Reads a host as it stands in a URL: a DNS name in A-labels, or an IP literal, with or without brackets.
  package init(_ text: String) throws(TLSError) {
    var bytes = Array(text.utf8)
    if bytes.count >= 2, bytes.first == UInt8(ascii: "["), bytes.last == UInt8(ascii: "]") {
      bytes = Array(bytes.dropFirst().dropLast())
      guard let address = Self.address(bytes), address.count == 16 else { throw .invalidServerName(text) }
    }
    if let address = Self.address(bytes) {
      identity = .address(address)
      host = String(decoding: Self.withoutZone(bytes), as: UTF8.self).lowercased()
      return
    }
    if bytes.last == UInt8(ascii: ".") { bytes.removeLast() }
    let name = bytes.map(Self.lowercase)
    guard Self.isReference(name[...]), !Self.endsInNumber(name) else { throw .invalidServerName(text) }
    identity = .dns(name)
    host = String(decoding: name, as: UTF8.self)
  }

  /// Whether a presented name is this host: RFC 9525, 6.3 and 6.5.
  ///
  /// - DNS names are compared label by label, ASCII letters without case.
  /// - A wildcard counts only as the whole left-most label, stands for exactly one label, and needs two labels after it, so
  ///   `*.com` is nobody. `f*.example.com` and `xn--*.example.com` match nothing.
  /// - An IP address matches the same address only, and never a DNS name that spells it.
  package func matches(_ presented: PresentedName) -> Bool {
    switch (identity, presented) {
    case (.address(let own), .address(let other)):
      return own == other
    case (.dns(let own), .dns(let pattern)):
      // A certificate may have thousands of names: each is compared where it stands, and looked at no further where it is not this host's.
      guard pattern.starts(with: [UInt8(ascii: "*"), UInt8(ascii: ".")]) else {
        return pattern.count == own.count && pattern.lazy.map(Self.lowercase).elementsEqual(own)
      }
      guard let dot = own.firstIndex(of: UInt8(ascii: ".")), pattern.count - 2 == own.count - (dot + 1),
        pattern.dropFirst(2).lazy.map(Self.lowercase).elementsEqual(own[(dot + 1)...])
      else { return false }
      let parent = own[(dot + 1)...]
      return Self.isHostName(parent) && parent.contains(UInt8(ascii: ".")) && !Self.endsInNumber(Array(parent))
    case (.address, .dns), (.dns, .address):
      return false
    }
  }

  /// Letters, digits, hyphens and underscores in labels of 1 to 63 bytes, 253 in all: every name that a URL may have, though hyphens at the ends of a
  /// label are not host-name syntax (RFC 1123). What http reaches, https shall reach too.
  static func isReference(_ name: ArraySlice<UInt8>) -> Bool {
    guard (1...253).contains(name.count) else { return false }
    return labels(name).allSatisfy { (1...63).contains($0.count) && $0.allSatisfy(isHostByte) }
  }

  /// The same for what stands behind a wildcard, where no label starts or ends with a hyphen.
  private static func isHostName(_ name: ArraySlice<UInt8>) -> Bool {
    isReference(name)
      && labels(name).allSatisfy { $0.first != UInt8(ascii: "-") && $0.last != UInt8(ascii: "-") }
  }

  private static func labels(_ name: ArraySlice<UInt8>) -> [ArraySlice<UInt8>] {
    name.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
  }

  private static func isHostByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"),
      UInt8(ascii: "_"):
      true
    default: false
    }
  }

  /// No top-level domain is a number: such a host is a misspelt address (`127.1`), never a name.
  private static func endsInNumber(_ name: [UInt8]) -> Bool {
    let last = name.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).last ?? []
    let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
    if last.starts(with: Array("0x".utf8)) {
      return last.dropFirst(2).allSatisfy {
        digits.contains($0) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains($0)
      }
    }
    return last.allSatisfy { digits.contains($0) }
  }

  static func lowercase(_ byte: UInt8) -> UInt8 {
    (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte
  }

  private static func withoutZone(_ literal: [UInt8]) -> ArraySlice<UInt8> {
    literal.prefix { $0 != UInt8(ascii: "%") }
  }

  /// The bytes of an IPv4 or IPv6 literal in strict spelling; a zone is left out, for no certificate has one.
  private static func address(_ literal: [UInt8]) -> [UInt8]? {
    let isVersion6 = literal.contains(UInt8(ascii: ":"))
    let text = String(decoding: isVersion6 ? withoutZone(literal) : literal[...], as: UTF8.self)
    var bytes = [UInt8](repeating: 0, count: isVersion6 ? 16 : 4)
    guard !text.utf8.contains(0), unsafe inet_pton(isVersion6 ? AF_INET6 : AF_INET, text, &bytes) == 1 else {
      return nil
    }
    return bytes
  }
}
