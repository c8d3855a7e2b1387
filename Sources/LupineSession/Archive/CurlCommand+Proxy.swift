internal import HTTPTypes
internal import LupineRules

/// Through whom.
extension CurlCommand {
  mutating func addProxy() {
    // Nobody stands between us and a socket.
    guard configuration.unixSocketPath == nil else { return }
    switch request.proxy ?? configuration.proxy {
    // curl reads the same variables.
    case .environment: break
    case .environmentExcept(let list): addExceptions(list)
    case .none: add("--noproxy", "*")
    case .proxy(let proxy, let list): add(proxy, except: list)
    case .choose(let closure):
      if let proxy = closure(request.parsedURL.requestString) { add(proxy, except: "") } else { add("--noproxy", "*") }
      comments.append("a closure chooses the proxy for each URL: this is what it says of this one")
    }
  }

  private mutating func addExceptions(_ list: String) {
    let port = request.parsedURL.port
    let (text, hasPorts) = NoProxyList.forCurl(list, port: port)
    add("--noproxy", text)
    if hasPorts { comments.append("curl knows no ports in --noproxy: these are the exceptions for port \(port)") }
  }

  private mutating func add(_ proxy: Proxy, except list: String) {
    let kind = proxy.server.kind
    switch proxy.server.endpoint {
    case .host: add("--proxy", proxy.server.text)
    case .unixSocket(let path):
      guard kind.isSOCKS else {
        comments.append("goes through an HTTP proxy on the socket \(ShellQuoting.argument(path)), which curl cannot do")
        return add("--noproxy", "*")
      }
      let location = path.percentEncoded { !Self.isPlainInPaths($0) }
      add("--proxy", "\(kind.rawValue)://localhost\(location)")
    }
    // An empty list too: else curl would read that of the environment.
    addExceptions(list)
    if let credential = proxy.credential { add(credential, to: kind) }
    guard !kind.isSOCKS else { return }
    let isTunnelled = proxy.tunnelsPlaintext || request.parsedURL.scheme == .https
    if proxy.tunnelsPlaintext { options.append("--proxytunnel") }
    for field in proxy.connectFields where isTunnelled { add(field, isSensitive: isSensitive(field.name)) }
    if kind == .https { addTrust(proxy.tls ?? configuration.tls.forProxies, "--proxy-") }
  }

  private mutating func add(_ field: HTTPField, isSensitive: Bool) {
    let name = field.name.rawName
    let value = redacts ? SecretText.redacted(field: name, value: field.value, isSensitive: isSensitive) : field.value
    add("--proxy-header", value.isEmpty ? "\(name);" : "\(name): \(value)")
  }

  private mutating func add(_ credential: Credential, to kind: ProxyKind) {
    if let token = credential.token {
      return add("--proxy-header", "Proxy-Authorization: Bearer \(redacts ? SecretText.mark : token)")
    }
    if !kind.isSOCKS {
      let isBasic = credential.isPreemptive || credential.schemes == .basic
      options.append(
        isBasic ? "--proxy-basic" : credential.schemes == .digest ? "--proxy-digest" : "--proxy-anyauth")
    }
    // Unlike those of --user, curl decodes both, and the first colon parts them.
    let user = (credential.user ?? "").percentEncoded { $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: "%") }
    let password = (credential.password ?? "").percentEncoded { $0 == UInt8(ascii: "%") }
    add("--proxy-user", redacts ? SecretText.mark : "\(user):\(password)")
  }

  /// Whether a byte is unreserved in URLs (RFC 3986 section 2.3), or parts a path.
  private static func isPlainInPaths(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
      UInt8(ascii: "~"), UInt8(ascii: "/"):
      true
    default: false
    }
  }
}

extension String {
  /// With each byte that has to be as `%XX`.
  fileprivate func percentEncoded(_ isEncoded: (UInt8) -> Bool) -> String {
    var bytes: [UInt8] = []
    for byte in utf8 {
      if isEncoded(byte) {
        bytes += "%\(byte < 0x10 ? "0" : "")\(String(byte, radix: 16, uppercase: true))".utf8
      } else {
        bytes.append(byte)
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}
