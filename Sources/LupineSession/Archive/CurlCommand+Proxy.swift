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
      let location = PercentCoding.encoded(path) { $0 == UInt8(ascii: "?") || !QueryEscaping.isPlain($0) }
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
    let user = PercentCoding.encoded(credential.user ?? "") { $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: "%") }
    let password = PercentCoding.encoded(credential.password ?? "") { $0 == UInt8(ascii: "%") }
    add("--proxy-user", redacts ? SecretText.mark : "\(user):\(password)")
  }
}
