public import HTTPTypes
package import LupineRules

/// A proxy: where it is, how it is spoken to, and who is asking.
///
/// http URLs go to an HTTP proxy in absolute form (RFC 9112 section 3.2.2), https URLs through a tunnel (CONNECT); through a SOCKS proxy everything
/// goes through a tunnel. Inside a tunnel the proxy sees host and port, and nothing of an https exchange.
public struct Proxy: Hashable, Sendable {
  package var server: ProxyServer
  /// Who is asking, told when the proxy wants to know: by Digest if it offers that, else by Basic; to SOCKS proxies by user and password
  /// (RFC 1929). Never sent to anybody else. Default: the userinfo of the URL, if there is one. Without one an HTTP proxy is told what the session's
  /// `CredentialStorage` has for it, when it asks.
  ///
  /// With `Credential.isPreemptive` Basic goes out before the proxy has asked, which a body that can be sent only once needs.
  public var credential: Credential?
  /// Open a tunnel for http URLs too, so that the proxy sees requests only if it looks into the tunnel. Default false.
  public var tunnelsPlaintext = false
  /// Fields for CONNECT. They go to the proxy alone. Default none.
  public var connectFields = HTTPFields()
  /// Trust in an `https` proxy, and what is shown to it. Default nil: the roots and versions of the session, the server always verified,
  /// nothing of what it forwards cut short (`allowsTruncation`), and neither the session's client identity nor its pins, which are meant for
  /// origins. Delegates are not asked about proxies.
  public var tls: TLSConfiguration?

  /// Reads the URL of a proxy: `http://`, `https://` (the proxy itself is spoken to over TLS), `socks5://` (names are resolved here), `socks5h://`
  /// (by the proxy), with userinfo and port at will (80, 443 and 1080); without a scheme it is `http`. Unix-domain sockets: `http+unix:///path`,
  /// `socks5+unix:///path`, `socks5h+unix:///path`.
  ///
  /// - Throws: `SessionError` with `.badProxy`, whose message never holds the userinfo.
  public init(_ url: String) throws(SessionError) {
    do throws(LupineRules.ProxyRefusal) {
      self.init(try ProxyURLReader.read(url))
    } catch {
      throw SessionError(.badProxy, phase: .prepare, message: "this names no proxy: \(error)", underlying: error)
    }
  }

  init(_ server: ProxyServer) {
    self.server = server
    credential = server.secret.map { Credential(secret: $0, persistence: .none) }
    self.server.secret = nil
  }

  /// Scheme, host (a link-local address with its zone) and port; never credentials.
  public var urlString: String { server.text }
}

extension Proxy: CustomStringConvertible {
  /// The same as `urlString`.
  public var description: String { urlString }
}

/// Which requests go through which proxy.
///
/// Loopback addresses are places like any other: what must not go through a proxy has to be excepted.
public enum ProxyConfiguration: Sendable {
  /// None: every request goes to its origin.
  case none
  /// What `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy` say when the session is made, in small letters or in capitals; only `HTTP_PROXY` is
  /// never read, as in curl, because under CGI it is a field of whoever asks (CVE-2016-5385). A URL whose variable names no proxy fails with
  /// `.badProxy`.
  case environment
  /// The same with this list in the place of what `no_proxy` says.
  case environmentExcept(String)
  /// Everything through this one, but for what `except` lists in the form of `no_proxy`: names with those below them, addresses, networks
  /// (`10.0.0.0/8`), each with `:port` at will, or `*`.
  case proxy(Proxy, except: String = "")
  /// The closure decides for each exchange, redirects included; nil is none. Called on the thread that begins the exchange, the engine's too: it
  /// must not wait. The URL has no userinfo.
  case choose(@Sendable (_ url: String) -> Proxy?)
}

/// What a proxy answered when it opened no tunnel: the `underlying` error of `.proxyRefused` and `.proxyAuthenticationRequired`. It is never taken for an
/// answer of the origin.
public struct ProxyRefusal: Error, Sendable {
  /// The status of the answer to CONNECT.
  public let statusCode: Int
  /// Its reason phrase, as the proxy wrote it: text of a stranger.
  public let reason: String
  /// Its fields.
  public let fields: HTTPFields
}

extension SessionError {
  /// What the proxy answered to CONNECT; nil unless it is why the request failed.
  public var proxyRefusal: ProxyRefusal? { underlying as? ProxyRefusal }
}
