/// The name constraints of an authority's certificate (RFC 5280, 4.2.1.10), as far as they are about DNS names.
///
/// OpenSSL holds them against the names of a certificate. A wildcard is none of the names that it stands for, so that one beside an excluded
/// name passes there (Go CVE-2025-61727): here they are held against the host that is meant.
package struct NameConstraints: Hashable, Sendable {
  /// Subtrees of one certificate that are looked at, of all forms of names: as many as fit into the longest chain of a handshake, four bytes
  /// each. An anchor, or a chain outside of a connection, may have more.
  package static let limit = TLSContext.maximumChainBytes / 4

  /// What may be vouched for, as in the certificate: any bytes. Empty: whatever is not excluded.
  package var permitted: [[UInt8]]
  /// What may not be vouched for, as in the certificate: any bytes.
  package var excluded: [[UInt8]]

  package init(permitted: [[UInt8]] = [], excluded: [[UInt8]] = []) {
    self.permitted = permitted
    self.excluded = excluded
  }

  /// Those of a certificate whose constraints cannot be read.
  static let excludingAll = NameConstraints(excluded: [[]])

  /// Whether the authority may vouch for a host: one of the permitted subtrees holds it, if there are any, and none of the excluded ones does.
  ///
  /// - A subtree holds its own name and all names below it, label by label, ASCII letters without case; an empty one holds every name.
  /// - A leading dot, which RFC 5280 has for other forms of names only, leaves out the name itself, as OpenSSL reads it. A final dot means nothing.
  /// - What is no name in A-labels, such as a wildcard, holds nothing where it permits and everything where it excludes: nobody can tell what
  ///   was meant, and a constraint that cannot be processed refuses the chain.
  /// - Of addresses nothing is said: a certificate names them one by one, and OpenSSL holds their own subtrees against them.
  package func allows(_ host: ServerName) -> Bool {
    guard let indication = host.indication else { return true }
    let name = Array(indication.utf8)
    if excluded.contains(where: { Self.holds($0, name) ?? true }) { return false }
    return permitted.isEmpty || permitted.contains { Self.holds($0, name) ?? false }
  }

  /// Whether a subtree holds a name; nil: it is none itself.
  private static func holds(_ subtree: [UInt8], _ name: [UInt8]) -> Bool? {
    let dot = UInt8(ascii: ".")
    var base = subtree.map(ServerName.lowercase)[...]
    if base.last == dot { base.removeLast() }
    guard !base.isEmpty else { return true }
    let isWithoutItself = base.first == dot
    if isWithoutItself { base.removeFirst() }
    guard ServerName.isReference(base) else { return nil }
    guard name.suffix(base.count) == base else { return false }
    guard name.count > base.count else { return !isWithoutItself }
    return name[name.count - base.count - 1] == dot
  }
}
