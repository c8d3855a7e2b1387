/// To whom a cookie goes (RFC 6265bis sections 5.1.2 to 5.1.4). Hosts are in the one spelling of `HostReader`.
package enum CookieMatch {
  /// Whether `host` is `domain` or within it. An address is within nothing; a name with a final dot is another name.
  package static func domain(_ host: URLHost, isWithin domain: String) -> Bool {
    if host.text == domain { return true }
    return host.kind == .name && DomainName.name(host.text, isBelow: domain)
  }

  /// Whether a request path is `path` or below it, byte by byte (CVE-2025-9086).
  package static func path(_ requestPath: some Collection<UInt8>, isWithin path: String) -> Bool {
    let path = path.utf8
    guard requestPath.starts(with: path) else { return false }
    guard requestPath.count > path.count else { return true }
    return path.last == UInt8(ascii: "/") || requestPath.dropFirst(path.count).first == UInt8(ascii: "/")
  }

  /// The path of a cookie that names none: that of the URL up to, not including, its last slash.
  package static func defaultPath(of path: String) -> String {
    guard path.utf8.first == UInt8(ascii: "/"), let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")),
      slash > path.startIndex
    else { return "/" }
    return String(path[..<slash])
  }

  /// The one spelling of a `Domain`; the caller has removed a leading dot.
  static func canonicalDomain(_ domain: String) throws(CookieRefusal) -> URLHost {
    // Percent-encoding means something in a URL only.
    guard !domain.utf8.contains(UInt8(ascii: "%")), let host = try? HostReader.read(domain) else {
      throw CookieRefusal.invalidDomain
    }
    return host
  }
}
