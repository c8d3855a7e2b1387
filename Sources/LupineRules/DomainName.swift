/// Names of hosts, compared by their bytes.
enum DomainName {
  /// Whether a name ends with a dot and the domain.
  static func name(_ name: String, isBelow domain: String) -> Bool {
    let (name, domain) = (name.utf8, domain.utf8)
    guard !domain.isEmpty, name.count > domain.count else { return false }
    let rest = name.dropLast(domain.count)
    return rest.last == UInt8(ascii: ".") && name.dropFirst(rest.count).elementsEqual(domain)
  }
}
