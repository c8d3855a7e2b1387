internal import ArgumentParser
internal import LupineCommandLine
internal import LupineRules
internal import LupineSession

/// The way past whom.
struct ProxyOptions: ParsableArguments {
  @Option(
    name: .customLong("proxy"),
    help: ArgumentHelp(
      """
      Go through this proxy: http://, https://, socks5:// or socks5h:// (which looks names up itself), host and port; unix:///path. \
      Default: http_proxy, https_proxy and all_proxy of the environment.
      """,
      valueName: "url"))
  var url: String?

  @Option(
    name: .customLong("proxy-auth"),
    help: ArgumentHelp(
      "Who is asking the proxy, told when it wants to know. @FILE reads it from a file, @- from standard input.",
      valueName: "user:password"))
  var auth: String?

  @Flag(name: .customLong("proxy-tunnel"), help: "Open a tunnel (CONNECT) for http URLs too.")
  var tunnel = false

  @Option(
    name: .customLong("no-proxy"),
    help: ArgumentHelp(
      "Hosts, networks and ports that are reached without a proxy, instead of those in no_proxy; '*' is all, '' none.",
      valueName: "list"))
  var exceptions: String?

  func validate() throws {
    if tunnel || auth != nil, url == nil { throw ValidationError("--proxy-auth and --proxy-tunnel need --proxy.") }
  }

  /// Nil: what is the default.
  ///
  /// - Throws: `CommandFailure`; no message repeats credentials.
  func configuration() throws(CommandFailure) -> ProxyConfiguration? {
    guard let url else { return exceptions.map { .environmentExcept($0) } }
    do throws(SessionError) {
      var proxy = try Proxy(url)
      proxy.tunnelsPlaintext = tunnel
      if let credential = try credential() { proxy.credential = credential }
      return .proxy(proxy, except: exceptions ?? Self.inheritedExceptions)
    } catch {
      throw .misuse(Self.message(error))
    }
  }

  private static func message(_ error: SessionError) -> String {
    switch error.underlying as? LupineRules.ProxyRefusal {
    case .empty: "--proxy is empty; --no-proxy '*' goes without a proxy"
    default: "--proxy: \(error.message)"
    }
  }

  /// What the environment excepts, as with curl: also from a proxy that is given in another way.
  static var inheritedExceptions: String {
    ["no_proxy", "NO_PROXY"].lazy.compactMap(System.environment).first { !$0.isEmpty } ?? ""
  }

  private func credential() throws(SessionError) -> Credential? {
    guard let auth else { return nil }
    do throws(CommandFailure) {
      return try CredentialText.credential(try CredentialText.read(auth), .any)
    } catch {
      throw SessionError(.badProxy, phase: .prepare, message: "--proxy-auth: \(error.message)")
    }
  }
}
