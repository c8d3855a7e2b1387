/// What the environment says of proxies: `http_proxy`, `https_proxy`, `all_proxy` for what has none of its own, and `no_proxy`.
///
/// Each may be written in capitals, except one: `HTTP_PROXY` is never read, as curl has it, under CGI or not. A server passes the field
/// `Proxy` of whoever asks it to its CGI programs under that very name (httpoxy, CVE-2016-5385). The small letters go first; an empty
/// variable is none.
package struct ProxyEnvironment: Hashable, Sendable {
  /// What holds for the URLs of one scheme.
  package enum Setting: Hashable, Sendable {
    case none
    case proxy(ProxyServer)
    /// Nothing may pass by a proxy that somebody wanted and misspelt.
    case malformed(variable: String, ProxyRefusal)
  }

  package var http: Setting
  package var https: Setting
  package var exceptions: NoProxyList

  /// - Parameter variable: the value of a variable of the environment.
  package init(_ variable: (String) -> String?) {
    func value(_ names: String...) -> (name: String, value: String)? {
      for name in names {
        if let value = variable(name), !value.isEmpty { return (name, value) }
      }
      return nil
    }
    func setting(_ found: (name: String, value: String)?) -> Setting {
      guard let found else { return .none }
      do throws(ProxyRefusal) {
        return .proxy(try ProxyURLReader.read(found.value))
      } catch {
        return .malformed(variable: found.name, error)
      }
    }
    let everything = value("all_proxy", "ALL_PROXY")
    http = setting(value("http_proxy") ?? everything)
    https = setting(value("https_proxy", "HTTPS_PROXY") ?? everything)
    exceptions = NoProxyList(value("no_proxy", "NO_PROXY")?.value ?? "")
  }

  /// Whether it names no proxy at all.
  package var isEmpty: Bool { http == .none && https == .none }

  /// What holds for a place.
  package func setting(for origin: Origin) -> Setting {
    let setting = origin.scheme == .http ? http : https
    guard setting != .none, !exceptions.exempts(origin) else { return .none }
    return setting
  }
}
