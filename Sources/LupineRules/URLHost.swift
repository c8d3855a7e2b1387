/// The host of a URL in its one spelling.
package struct URLHost: Hashable, Sendable {
  package enum Kind: UInt8, Hashable, Sendable {
    /// A DNS name: lower-case ASCII, A-labels for Unicode.
    case name
    /// Four decimal octets.
    case ipv4
    /// An IPv6 address as RFC 5952 writes it.
    case ipv6
  }

  package let kind: Kind
  /// The name or address, without brackets and zone. A final dot of a name is kept: it is a different host to a resolver.
  package let text: String
  /// The zone of a link-local address (RFC 6874): identity of the host, but never sent.
  package let zone: String?

  init(kind: Kind, text: String, zone: String? = nil) {
    self.kind = kind
    self.text = text
    self.zone = zone
  }

  package var isAddress: Bool { kind != .name }

  /// As it stands in an authority: IPv6 in brackets, no zone.
  package var bracketed: String { kind == .ipv6 ? "[\(text)]" : text }

  /// The same with the zone (RFC 6874), which is never sent, but is part of who the host is: for what is read again.
  package var bracketedWithZone: String { zone.map { "[\(text)%25\($0)]" } ?? bracketed }

  /// For SNI and certificates: no brackets, no zone, no final dot (RFC 6066 section 3).
  package var serverName: String {
    guard kind == .name, text.utf8.last == UInt8(ascii: ".") else { return text }
    return String(text.dropLast())
  }

  /// For connecting: the name as it is, or the address with its zone.
  package var connectionText: String {
    guard let zone else { return text }
    return "\(text)%\(zone)"
  }
}
