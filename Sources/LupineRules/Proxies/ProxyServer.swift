internal import LupineBase

/// How a proxy is spoken to. The raw value is the scheme of its URL.
package enum ProxyKind: String, Hashable, Sendable, CaseIterable {
  /// HTTP, in the clear.
  case http
  /// HTTP over TLS.
  case https
  /// RFC 1928; names are resolved here.
  case socks5
  /// RFC 1928; names are resolved by the proxy.
  case socks5h

  /// Where a URL names no port.
  package var defaultPort: UInt16 {
    switch self {
    case .http: 80
    case .https: 443
    case .socks5, .socks5h: 1080
    }
  }

  /// Whether it speaks SOCKS: a tunnel always.
  package var isSOCKS: Bool { self == .socks5 || self == .socks5h }
}

/// Where a proxy listens.
package enum ProxyEndpoint: Hashable, Sendable {
  case host(URLHost, port: UInt16)
  case unixSocket(path: String)

  /// Paths byte by byte, as the system tells files apart.
  package static func == (left: ProxyEndpoint, right: ProxyEndpoint) -> Bool {
    switch (left, right) {
    case (.host(let host, let port), .host(let other, let otherPort)): host == other && port == otherPort
    case (.unixSocket(let path), .unixSocket(let other)): path.hasBytes(of: other)
    case (.host, .unixSocket), (.unixSocket, .host): false
    }
  }
}

/// A proxy as its URL names it.
package struct ProxyServer: Hashable, Sendable {
  package var kind: ProxyKind
  package var endpoint: ProxyEndpoint
  /// From the userinfo, percent-decoded.
  package var secret: CredentialSecret?

  package init(kind: ProxyKind, endpoint: ProxyEndpoint, secret: CredentialSecret? = nil) {
    self.kind = kind
    self.endpoint = endpoint
    self.secret = secret
  }

  /// For people, errors and logs: without credentials.
  package var text: String {
    switch endpoint {
    case .host(let host, let port): "\(kind.rawValue)://\(host.bracketedWithZone):\(port)"
    case .unixSocket(let path): "\(kind.rawValue)+unix://\(path)"
    }
  }
}

/// Why a text names no proxy. Never holds credentials.
package enum ProxyRefusal: Error, Hashable, Sendable {
  case empty
  case tooLong(limit: Int)
  case unsupportedScheme(String)
  /// Host or port.
  case authority(URLRefusal)
  /// User or password are no UTF-8, or there is a password without a user.
  case userinfo
  /// A proxy's URL has no path, query or fragment.
  case path
  /// No absolute path, or too long for a socket.
  case socketPath
}

/// Reads the URL of a proxy, as it stands in a variable of the environment or on a command line.
///
/// `http://`, `https://`, `socks5://` (names are resolved here) and `socks5h://` (by the proxy); without a scheme it is `http`. Unix-domain
/// sockets: `http+unix:///path` or `unix:///path`, `socks5+unix:///path`, `socks5h+unix:///path`, and curl's `socks5h://localhost/path`.
package enum ProxyURLReader {
  /// Bytes of a URL.
  package static let maximumLength = 4_096
  /// Bytes of a path that fit into `sockaddr_un`, with the NUL at the end.
  static let maximumSocketPath = 107

  package static func read(_ text: String) throws(ProxyRefusal) -> ProxyServer {
    let bytes = Array(text.utf8)
    guard !bytes.isEmpty else { throw .empty }
    guard bytes.count <= maximumLength else { throw .tooLong(limit: maximumLength) }
    let (scheme, start) = scheme(bytes)
    var kindName = scheme
    var isSocket = false
    if scheme == "unix" {
      (kindName, isSocket) = ("http", true)
    } else if scheme.hasSuffix("+unix") {
      (kindName, isSocket) = (String(scheme.dropLast(5)), true)
    }
    // A certificate names no socket.
    guard let kind = ProxyKind(rawValue: kindName), !isSocket || kind != .https else {
      throw .unsupportedScheme(String(scheme.prefix(32)))
    }
    let end =
      bytes[start...].firstIndex {
        $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#")
      } ?? bytes.count
    return isSocket
      ? try readSocket(kind, bytes, start..<end) : try readHost(kind, bytes, start..<end)
  }

  private static func scheme(_ bytes: [UInt8]) -> (String, start: Int) {
    guard bytes.count > 3 else { return ("http", 0) }
    let mark = (0..<bytes.count - 2).first {
      bytes[$0] == UInt8(ascii: ":") && bytes[$0 + 1] == UInt8(ascii: "/") && bytes[$0 + 2] == UInt8(ascii: "/")
    }
    // What is no scheme (RFC 3986 section 3.1) may be a user and a password.
    guard let mark, isScheme(bytes[..<mark]) else { return ("http", 0) }
    return (String(decoding: bytes[..<mark], as: UTF8.self).lowercased(), mark + 3)
  }

  private static func isScheme(_ bytes: ArraySlice<UInt8>) -> Bool {
    func isLetter(_ byte: UInt8) -> Bool { (0x61...0x7A).contains(byte | 0x20) }
    guard let first = bytes.first, isLetter(first) else { return false }
    return bytes.allSatisfy { isLetter($0) || (0x30...0x39).contains($0) || "+-.".utf8.contains($0) }
  }

  private static func readSocket(
    _ kind: ProxyKind, _ bytes: [UInt8], _ authority: Range<Int>
  ) throws(ProxyRefusal) -> ProxyServer {
    var secret: CredentialSecret?
    if !authority.isEmpty {
      guard bytes[authority.upperBound - 1] == UInt8(ascii: "@") else { throw .socketPath }
      secret = try self.secret(bytes[authority.dropLast()])
    }
    let path = try socketPath(bytes[authority.upperBound...])
    return ProxyServer(kind: kind, endpoint: .unixSocket(path: path), secret: secret)
  }

  private static func socketPath(_ bytes: ArraySlice<UInt8>) throws(ProxyRefusal) -> String {
    guard bytes.first == UInt8(ascii: "/"), bytes.count > 1, let path = PercentCoding.decode(bytes),
      path.utf8.count <= maximumSocketPath, !path.utf8.contains(0)
    else { throw .socketPath }
    return path
  }

  private static func readHost(
    _ kind: ProxyKind, _ bytes: [UInt8], _ authority: Range<Int>
  ) throws(ProxyRefusal) -> ProxyServer {
    let origin: Origin
    let userinfo: String?
    do throws(URLRefusal) {
      (origin, userinfo) = try URLReader.readAuthority(bytes.span, authority, .http)
    } catch {
      throw .authority(error)
    }
    let secret = try self.secret(Array((userinfo ?? "").utf8)[...])
    let rest = bytes[authority.upperBound...]
    if kind.isSOCKS, origin.host.text == "localhost", rest.count > 1, rest.first == UInt8(ascii: "/") {
      return ProxyServer(kind: kind, endpoint: .unixSocket(path: try socketPath(rest)), secret: secret)
    }
    guard rest.isEmpty || rest.elementsEqual([UInt8(ascii: "/")]) else { throw .path }
    let port = namesPort(bytes[authority]) ? origin.port : kind.defaultPort
    return ProxyServer(kind: kind, endpoint: .host(origin.host, port: port), secret: secret)
  }

  /// Whether an authority, which was read already, ends in a colon and digits.
  private static func namesPort(_ authority: ArraySlice<UInt8>) -> Bool {
    guard let last = authority.last, last >= UInt8(ascii: "0"), last <= UInt8(ascii: "9") else { return false }
    let digits = authority.reversed().prefix { $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }.count
    let rest = authority.dropLast(digits)
    guard rest.last == UInt8(ascii: ":") else { return false }
    // Within brackets it would be part of an address; those end in a bracket.
    return true
  }

  private static func secret(_ bytes: ArraySlice<UInt8>) throws(ProxyRefusal) -> CredentialSecret? {
    guard !bytes.isEmpty else { return nil }
    let parts = bytes.split(separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
    guard let user = PercentCoding.decode(parts[0]), !user.isEmpty,
      let password = PercentCoding.decode(parts.count == 2 ? parts[1] : [])
    else { throw .userinfo }
    return .password(user: user, password: password)
  }
}
