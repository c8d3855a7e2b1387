internal import LupineBase

/// The schemes that are fetched.
package enum URLScheme: UInt8, Hashable, Sendable {
  case http
  case https

  package var defaultPort: UInt16 { self == .http ? 80 : 443 }

  /// As it stands in a URL, without the colon.
  package var text: String { self == .http ? "http" : "https" }
}

/// Scheme, host and port: what decides whether two requests are addressed to the same party (RFC 9110 section 4.3.1).
package struct Origin: Hashable, Sendable {
  package let scheme: URLScheme
  package let host: URLHost
  /// The port that is connected to, default or not.
  package let port: UInt16

  package init(scheme: URLScheme, host: URLHost, port: UInt16) {
    self.scheme = scheme
    self.host = host
    self.port = port
  }

  /// What stands in `Host` (RFC 9110 section 7.2): no userinfo, no zone, no default port.
  package var authority: String {
    port == scheme.defaultPort ? host.bracketed : "\(host.bracketed):\(port)"
  }

  /// `https://host:port`, the default port left out: the value of an `Origin` field.
  package var serialized: String { "\(scheme.text)://\(authority)" }

  /// `authority` with the zone of an address (RFC 6874), which is never sent, but is part of who the host is: for what is kept, and read again.
  package var authorityWithZone: String {
    guard let zone = host.zone else { return authority }
    let address = "[\(host.text)%25\(zone)]"
    return port == scheme.defaultPort ? address : "\(address):\(port)"
  }

  /// `serialized` with the zone of an address.
  package var serializedWithZone: String { "\(scheme.text)://\(authorityWithZone)" }
}

/// An http or https URL in the form that decides where bytes go (RFC 3986).
///
/// Two values are equal if they have the same parts; the empty path and `/` are one path, a default port written out is no port.
/// Percent-encoding and dot segments are kept as given: they belong to the server.
package struct ParsedURL: Hashable, Sendable {
  /// Whom a URL addresses; URLs that were resolved against one base share it. No secret is in it.
  package final class Site: Sendable {
    package let origin: Origin
    /// Made once: every request asks for it.
    let authority: String

    init(_ origin: Origin) {
      self.origin = origin
      authority = origin.authority
    }
  }

  /// A request head kept with the URL, for all who share the value: written once, and let go with it. It is no part of what a URL is.
  package final class KeptHead: Sendable {
    private let maker: any AnyObject & Sendable
    private let method: String
    private let variant: Bool
    package let bytes: [UInt8]

    /// - Parameters:
    ///   - maker: whose rules made it what it is, which do not change.
    ///   - variant: which of two forms that the maker has.
    package init(_ bytes: [UInt8], by maker: any AnyObject & Sendable, method: String, variant: Bool) {
      self.bytes = bytes
      self.maker = maker
      self.method = method
      self.variant = variant
    }

    /// Whether the same maker would write the same: the URL may be sent by others, and otherwise.
    package func serves(_ maker: AnyObject, method: String, variant: Bool) -> Bool {
      self.maker === maker && self.variant == variant && self.method == method
    }
  }

  /// Behind one reference, because a URL goes with a request through every floor.
  private final class Parts: Sendable {
    let site: Site
    let userinfo: String?
    let target: String
    let pathLength: Int
    let fragment: String?
    let head = OnceReference<KeptHead>()

    init(site: Site, userinfo: String?, target: String, pathLength: Int, fragment: String?) {
      self.site = site
      self.userinfo = userinfo
      self.target = target
      self.pathLength = pathLength
      self.fragment = fragment
    }
  }

  private let parts: Parts

  package var site: Site { parts.site }

  /// Whether this is one of the URLs that share `site`.
  package func isOf(_ site: Site?) -> Bool { parts.site === site }

  /// Nil until one was kept with this value or a copy of it.
  package var keptHead: KeptHead? { parts.head.value }

  /// Whether a head is worth keeping: true from the second time of asking on.
  package func isAskedAgain() -> Bool { parts.head.isAskedAgain() }

  /// The first one that is kept stays.
  package func keep(_ head: KeptHead) { parts.head.set(head) }

  package var origin: Origin { parts.site.origin }
  /// The part before `@`, still percent-encoded; never sent in `Host`, SNI or `Referer`.
  package var userinfo: String? { parts.userinfo }
  /// What stands in the request line (origin form): path and query, at least `/`.
  package var target: String { parts.target }
  /// How many UTF-8 bytes of the target are path.
  var pathLength: Int { parts.pathLength }
  /// The part after `#`, never sent.
  package var fragment: String? { parts.fragment }

  init(origin: Origin, userinfo: String?, target: String, pathLength: Int, fragment: String?) {
    parts = Parts(
      site: Site(origin), userinfo: userinfo, target: target, pathLength: pathLength, fragment: fragment)
  }

  private init(_ parts: Parts) { self.parts = parts }

  package static func == (left: ParsedURL, right: ParsedURL) -> Bool {
    left.parts === right.parts
      || left.origin == right.origin && left.userinfo == right.userinfo && left.target == right.target
        && left.pathLength == right.pathLength && left.fragment == right.fragment
  }

  package func hash(into hasher: inout Hasher) {
    hasher.combine(origin)
    hasher.combine(userinfo)
    hasher.combine(target)
    hasher.combine(fragment)
  }

  package var scheme: URLScheme { origin.scheme }
  package var host: URLHost { origin.host }

  /// The port that is connected to, default or not.
  package var port: UInt16 { origin.port }

  /// The port if it is not the scheme's default.
  package var explicitPort: UInt16? { origin.port == origin.scheme.defaultPort ? nil : origin.port }

  /// What stands in `Host`.
  package var authority: String { parts.site.authority }

  /// What goes into SNI and is compared with the certificate.
  package var serverName: String { origin.host.serverName }

  /// The path, percent-encoded, at least `/`.
  package var path: String {
    String(target.utf8.prefix(pathLength)) ?? "/"
  }

  /// The query without its `?`; an empty query is not a missing one.
  package var query: String? {
    let bytes = target.utf8
    guard bytes.count > pathLength else { return nil }
    return String(bytes.dropFirst(pathLength + 1))
  }

  /// The whole URL for people, errors and logs: without userinfo.
  package var absoluteString: String {
    let location = requestString
    guard let fragment else { return location }
    return "\(location)#\(fragment)"
  }

  /// The URL without userinfo and fragment: the absolute form of a request line, and what may stand in `Referer`.
  package var requestString: String { "\(scheme.text)://\(authority)\(target)" }

  /// The URL for who asks for it again, or keeps something of it: without userinfo and fragment, with the zone of an address, which says whose it is.
  package var identity: String { "\(origin.serializedWithZone)\(target)" }

  /// The user name and password of the userinfo, percent-decoded; `nil` if there is none or it is not UTF-8.
  package var credentials: (user: String, password: String?)? {
    guard let userinfo else { return nil }
    let parts = userinfo.utf8.split(separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
    guard let first = parts.first, let user = PercentCoding.decode(first) else { return nil }
    guard parts.count == 2 else { return (user, nil) }
    guard let password = PercentCoding.decode(parts[1]) else { return nil }
    return (user, password)
  }

  /// Another URL of the same authority.
  func replacing(target: String, pathLength: Int, fragment: String?) -> ParsedURL {
    ParsedURL(
      Parts(site: parts.site, userinfo: userinfo, target: target, pathLength: pathLength, fragment: fragment))
  }

  /// The same URL with another fragment.
  package func replacingFragment(_ fragment: String?) -> ParsedURL {
    replacing(target: target, pathLength: pathLength, fragment: fragment)
  }

  /// The same URL with another userinfo, which is percent-encoded already.
  package func replacingUserinfo(_ userinfo: String?) -> ParsedURL {
    ParsedURL(Parts(site: parts.site, userinfo: userinfo, target: target, pathLength: pathLength, fragment: fragment))
  }

  /// The same URL without userinfo.
  package var withoutUserinfo: ParsedURL { userinfo == nil ? self : replacingUserinfo(nil) }
}

/// Percent-encoding (RFC 3986 section 2.1).
package enum PercentCoding {
  /// Text with each byte as `%XX` that has to be.
  package static func encoded(_ text: String, where isEncoded: (UInt8) -> Bool) -> String {
    var bytes: [UInt8] = []
    for byte in text.utf8 {
      if isEncoded(byte) { append(byte, to: &bytes) } else { bytes.append(byte) }
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// Decodes every `%XX`; anything else stays. `nil` if the result is not UTF-8.
  static func decode(_ bytes: some Collection<UInt8>) -> String? {
    String(validating: decodedBytes(bytes), as: UTF8.self)
  }

  static func decodedBytes(_ bytes: some Collection<UInt8>) -> [UInt8] {
    let source = Array(bytes)
    var result: [UInt8] = []
    result.reserveCapacity(source.count)
    var index = 0
    while index < source.count {
      if source[index] == UInt8(ascii: "%"), index + 2 < source.count,
        let high = URLByteClass.hexValue(source[index + 1]), let low = URLByteClass.hexValue(source[index + 2])
      {
        result.append(high << 4 | low)
        index += 3
      } else {
        result.append(source[index])
        index += 1
      }
    }
    return result
  }

  static func append(_ byte: UInt8, to bytes: inout [UInt8]) {
    bytes.append(UInt8(ascii: "%"))
    bytes.append(URLByteClass.hexDigit(byte >> 4))
    bytes.append(URLByteClass.hexDigit(byte & 15))
  }
}
