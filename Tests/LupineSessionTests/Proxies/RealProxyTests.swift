import FoundationEssentials
import LupineSession
import LupineTesting
import Testing

/// Proxies that others wrote: tinyproxy, squid, microsocks, and stunnel in front of one.
@Suite(.timeLimit(.minutes(5))) struct RealProxyTests {
  enum Kind: String, CaseIterable, Sendable {
    case tinyproxy, squid, microsocks
    /// TLS in front of tinyproxy.
    case stunnel

    /// A proxy, and what must be kept alive with it.
    func start(_ user: String?) throws -> (programs: [ProxyProgram], url: String) {
      switch self {
      case .tinyproxy, .squid:
        let program = try ProxyProgram(self == .squid ? .squid : .tinyproxy, user: user, password: "secret")
        return ([program], "http://127.0.0.1:\(program.port)")
      case .microsocks:
        let program = try ProxyProgram(.microsocks, user: user, password: "secret")
        return ([program], "socks5h://127.0.0.1:\(program.port)")
      case .stunnel:
        let program = try ProxyProgram(.tinyproxy, user: user, password: "secret")
        let front = try ProxyProgram(.stunnel(try TestIdentity.server(), to: program.port))
        return ([program, front], "https://localhost:\(front.port)")
      }
    }
  }

  /// Plaintext and TLS; GET, an upload in chunks, and connections used again.
  @Test(arguments: Kind.allCases, [false, true]) func everything(_ kind: Kind, _ asks: Bool) async throws {
    try await withTool {
      let (programs, url) = try kind.start(asks ? "user" : nil)
      defer { for program in programs { program.stop() } }
      for isSecure in [false, true] {
        let server = try LoopbackServer(
          routes: ServerRoute.standard(), tls: isSecure ? try TestIdentity.server() : nil)
        defer { server.shutdown() }
        try await fetch(through: url, server, asks: asks)
      }
    }
  }

  private func fetch(through url: String, _ server: LoopbackServer, asks: Bool) async throws {
    var proxy = try Proxy(url)
    if asks { proxy.credential = .password(user: "user", password: "secret") }
    let isForwarded = !url.hasPrefix("socks") && server.url().hasPrefix("http:")
    try await withSession {
      $0.proxy = .proxy(proxy)
    } _: { session in
      for index in 0..<3 {
        let (body, response) = try await session.text(server.url("/hello", host: "127.0.0.1"))
        #expect(response.statusCode == 200)
        #expect(!body.isEmpty)
        // A proxy that forwards decides itself about its connections.
        if !isForwarded, index > 0 { #expect(response.wasReused) }
        #expect(response.metrics.transactions.last?.isProxyConnection == true)
      }
      let bytes = PatternBody.bytes(100_000)
      // tinyproxy ends a connection behind each of its answers, and does not say so: what goes out before that is seen has to go out once more,
      // which a POST must not.
      var upload = try Request(server.url("/upload", host: "127.0.0.1"), method: .put)
      upload.body = .stream(length: nil, isReplayable: true) {
        BodyStream(stride(from: 0, to: bytes.count, by: 10_000).map { Array(bytes[$0..<$0 + 10_000]) })
      }
      #expect(try await session.data(for: upload).1.statusCode == 200)
      let received = server.recordedRequests.last { $0.method == "PUT" }
      #expect(received?.body == bytes)
      // Nothing that was for the proxy came to the origin.
      #expect(server.recordedRequests.allSatisfy { $0.fields.first("proxy-authorization") == nil })
    }
  }

  @Test(arguments: Kind.allCases, ["user:wrong@", ""]) func whoIsNotKnownIsRefused(
    _ kind: Kind, _ userinfo: String
  ) async throws {
    try await withTool {
      let (programs, url) = try kind.start("user")
      defer { for program in programs { program.stop() } }
      let proxy = try Proxy(url.replacing("://", with: "://\(userinfo)"))
      let server = try LoopbackServer(routes: ServerRoute.standard(), tls: try TestIdentity.server())
      defer { server.shutdown() }
      try await withSession {
        $0.proxy = .proxy(proxy)
      } _: { session in
        let error = try await failure { try await session.text(server.url("/hello", host: "127.0.0.1")) }
        // tinyproxy says 401 to a wrong password, which is no challenge of a proxy's.
        let isUnauthorized = error.code == .proxyRefused && error.proxyRefusal?.statusCode == 401
        #expect(error.code == .proxyAuthenticationRequired || isUnauthorized && !userinfo.isEmpty)
        #expect(!error.requestBytesSent)
      }
      #expect(server.recordedRequests.isEmpty)
      guard kind != .microsocks else { return }
      // In absolute form the proxy answers itself.
      try await withSession {
        $0.proxy = .proxy(proxy)
      } _: { session in
        let status = try await session.text("http://127.0.0.1:1/").1.statusCode
        #expect(status == 407 || status == 401)
      }
    }
  }

  /// The proxy's certificate is checked, whatever is forgiven the origin's.
  @Test func aProxyOfAnotherAuthorityIsNotTrusted() async throws {
    try await withTool {
      let program = try ProxyProgram(.tinyproxy)
      let other = try CertificateAuthority()
      let front = try ProxyProgram(.stunnel(try ServerTLS.minted(by: other), to: program.port))
      defer { for each in [program, front] { each.stop() } }
      let proxy = try Proxy("https://localhost:\(front.port)")
      try await withSession { configuration in
        configuration.proxy = .proxy(proxy)
        configuration.tls.verifiesServer = false
      } _: { session in
        let error = try await failure { try await session.text("https://localhost:1/") }
        #expect(error.code == .proxyFailed)
      }
    }
  }
}
