import FoundationEssentials
import HTTPTypes
import LupineSession
import LupineTesting
import Testing

/// What went wrong in other clients between a proxy's TLS, the origin's, and what each of them is shown. By name; the table is in Docs/Proxies.md.
@Suite(.timeLimit(.minutes(2))) struct ProxyTLSAdvisoryTests {
  private static let established = ScriptBytes("HTTP/1.1 200 Connection established\r\n\r\n")

  /// curl CVE-2021-22890: a ticket that an HTTPS proxy had given was offered to the origin, so that the proxy could be the origin without a
  /// certificate. Here the proxy is its own origin, by the same name, port and keys: it would take its ticket back.
  @Test func cve202122890() async throws {
    try await withTool {
      let program = try ProxyProgram(.squid)
      let front = try ProxyProgram(.stunnel(try TestIdentity.server(), to: program.port))
      defer { for each in [program, front] { each.stop() } }
      let proxy = try Proxy("https://localhost:\(front.port)")
      let url = "https://localhost:\(front.port)/"
      try await withSession {
        $0.proxy = .proxy(proxy)
        $0.maximumUsesPerConnection = 1
      } _: { session in
        var resumed: [Bool?] = []
        for _ in 0..<3 {
          // squid has nothing of its own to show.
          let response = try await session.text(url).1
          #expect(response.statusCode >= 400)
          resumed.append(response.metrics.transactions.last?.isTLSResumed)
        }
        // At first there are tickets of the proxy's only, which must not serve; then there are the origin's own.
        #expect(resumed == [false, true, true])
      }
      // Trusted as a proxy, it has more tickets with each request, and is no origin by any of them.
      var trusted = proxy
      trusted.tls = TLSConfiguration()
      trusted.tls?.roots = .certificates([try TestIdentity.authority.get().rootDER])
      let chosen = trusted
      let stranger = try CertificateAuthority().rootDER
      try await withSession {
        $0.proxy = .proxy(chosen)
        $0.tls.roots = .certificates([stranger])
      } _: { session in
        for _ in 0..<3 {
          try await expectFailure(.serverCertificateUntrusted) { try await session.text(url) }
        }
      }
    }
  }

  /// curl CVE-2021-22901: a ticket that came late, on a connection that was in other hands by then, was put where the ended transfer had been. The
  /// tickets of the second answer come when the first task is gone; they serve, and the sanitizers look on.
  @Test func cve202122901() async throws {
    let server = try ScriptedServer(
      [
        [.readHead, .send(reply("one")), .readHead, .sendTicket, .send(reply("two", "Connection: close\r\n"))],
        [.readHead, .send(reply("three")), .waitForClose],
      ], tls: try TestIdentity.server())
    defer { server.shutdown() }
    try await withSession(ports: [server.port]) { session in
      for text in ["one", "two", "three"] { try await session.expect(text, from: server.url()) }
    }
    server.shutdown()
    #expect(server.tlsSummaries.mapValues(\.resumed) == [1: false, 2: true])
    #expect(server.problems == [])
  }

  /// curl CVE-2016-5420, CVE-2016-7141, CVE-2026-8932: what is shown to one was taken to be shown to the other. A certificate for the origin is not
  /// shown to the proxy, and a connection that has shown one is not used without.
  @Test func cve20165420() async throws {
    let authority = try TestIdentity.authority.get()
    let refusal: [ScriptStep] = [
      .readHead, .send("HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"), .waitForClose,
    ]
    let server = try ScriptedServer([refusal], surplus: .repeatLast, tls: try TestIdentity.asking())
    defer { server.shutdown() }
    let files = try authority.issue(CertificateOrder(commonName: "origin-only", usage: .client)).write()
    defer { files.remove() }
    let identity = TLSConfiguration.ClientIdentity(
      certificatePath: files.chainPath, privateKeyPath: files.privateKeyPath)
    var proxy = try Proxy("https://localhost:\(server.port)")
    let plain = proxy
    proxy.tls = TLSConfiguration()
    proxy.tls?.roots = .certificates([authority.rootDER])
    proxy.tls?.clientIdentity = identity
    let showing = proxy
    try await withSession(ports: [server.port]) {
      $0.tls.clientIdentity = identity
    } _: { session in
      for proxy in [plain, showing, plain] {
        var request = try Request("https://a.example/")
        request.proxy = .proxy(proxy)
        try await expectFailure(.proxyRefused) { [request] in try await session.text(request) }
      }
    }
    let subjects = (1...3).map { server.tlsSummaries[$0]?.clientSubject?.contains("origin-only") ?? false }
    #expect(subjects == [false, true, false])
  }

  /// curl CVE-2026-8286, CVE-2026-4873: a connection with less TLS than was asked for was used, as it was there already. The server has TLS 1.2 alone.
  @Test func cve20268286() async throws {
    var tls = try TestIdentity.server()
    tls.maximumVersion = .tls12
    let answer: [ScriptStep] = [.readHead, .send(reply("hi"))]
    let server = try ScriptedServer([answer + answer + [.waitForClose]], surplus: .repeatLast, tls: tls)
    defer { server.shutdown() }
    let lenient = try TestIdentity.proxy(server.port)
    var strict = lenient
    strict.tls?.minimumVersion = .tls13
    let demanding = strict
    try await withSession(ports: [server.port]) { session in
      var request = try Request("http://a.example/")
      request.proxy = .proxy(lenient)
      #expect(try await !session.text(request).1.wasReused)
      request.proxy = .proxy(demanding)
      try await expectFailure(.proxyFailed) { [request] in try await session.text(request) }
      request.proxy = .proxy(lenient)
      #expect(try await session.text(request).1.wasReused)
    }
    #expect(server.recordedRequests.count == 2)
  }

  /// curl CVE-2025-5025, CVE-2025-4947: pins and names were not checked on one of the ways to the origin. Each way that a proxy opens.
  @Test(arguments: ["http", "socks5", "socks5h"], ["pin", "name", "neither"])
  func cve20255025(_ scheme: String, _ fault: String) async throws {
    let order = fault == "name" ? CertificateOrder(dnsNames: ["other.example"]) : .loopback
    let script: [ScriptStep] =
      switch scheme {
      case "http": [.readHead, .send(Self.established)]
      case "socks5":
        [.read(3), .send(ScriptBytes([5, 0])), .read(10), .send(ScriptBytes([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]))]
      default:
        [.read(3), .send(ScriptBytes([5, 0])), .read(16), .send(ScriptBytes([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]))]
      }
    let server = try ScriptedServer([
      script + [.startTLS(try TestIdentity.server(order)), .readHead, .send(reply("hi")), .waitForClose]
    ])
    defer { server.shutdown() }
    let proxy = try Proxy("\(scheme)://127.0.0.1:\(server.port)")
    try await withSession(ports: [server.port]) {
      $0.proxy = .proxy(proxy)
      $0.nameOverrides = ["localhost:443": "127.0.0.1:443"]
      if fault == "pin" { $0.tls.publicKeyPins = [[UInt8](repeating: 7, count: 32)] }
    } _: { session in
      if fault == "neither" {
        try await session.expect("hi", from: "https://localhost/")
      } else {
        try await expectFailure(.serverCertificateUntrusted) { try await session.text("https://localhost/") }
        #expect(server.recordedRequests.count == (scheme == "http" ? 1 : 0))
      }
    }
  }

  /// curl CVE-2022-27782, CVE-2023-27535, CVE-2023-27536, CVE-2023-27538, CVE-2022-22576, CVE-2026-1965, CVE-2026-5545, CVE-2026-8458: what was not
  /// looked at when a connection was chosen. One thing differs each time.
  @Test func cve202227782() async throws {
    let done: [ScriptStep] = [.readHead, .send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")]
    let server = try ScriptedServer([done + done + done + [.waitForClose]], surplus: .repeatLast)
    defer { server.shutdown() }
    var base = try Proxy("http://127.0.0.1:\(server.port)")
    base.tunnelsPlaintext = true
    let changes: [(inout Proxy) throws -> Void] = [
      { $0.credential = .password(user: "u", password: "p") },
      { $0.credential = .password(user: "u", password: "q") },
      { $0.connectFields[.userAgent] = "me" },
      { $0.tunnelsPlaintext = false },
      { $0 = try Proxy("http://127.0.0.2:\(server.port)") },
    ]
    // Who goes straight there finds nobody, whatever name servers say of it.
    try await withSession(ports: [server.port], configure: { $0.nameOverrides = ["a.example:80": "127.0.0.1:1"] }) {
      session in
      var request = try Request("http://a.example/")
      request.proxy = .proxy(base)
      #expect(try await !session.text(request).1.wasReused)
      #expect(try await session.text(request).1.wasReused)
      for change in changes.dropLast() {
        var proxy = base
        try change(&proxy)
        request.proxy = .proxy(proxy)
        #expect(try await !session.text(request).1.wasReused)
      }
      // Somebody else answers there, or nobody.
      var other = base
      try changes.last?(&other)
      request.proxy = .proxy(other)
      try await expectFailure(.proxyFailed) { [request] in try await session.text(request) }
      request.proxy = ProxyConfiguration.none
      // Nor does it go straight to whom a proxy was asked for.
      let straight = try await failure { [request] in try await session.text(request) }
      #expect(straight.code == .cannotConnect)
    }
  }
}
