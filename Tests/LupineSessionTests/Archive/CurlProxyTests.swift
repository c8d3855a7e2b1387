import HTTPTypes
import LupineSession
import LupineTesting
import Testing

/// The part of a command that is about proxies.
@Suite(.timeLimit(.minutes(5))) struct CurlProxyTests {
  /// How a proxy is written, by what the configuration says, and what is not written then.
  @Test(arguments: [
    (
      "http://u:s3cret@p.example:3128",
      "--proxy http://p.example:3128 --noproxy '' --proxy-anyauth --proxy-user '[redacted]'"
    ),
    ("https://p.example", "--proxy https://p.example:443 --noproxy '' --proxy-cacert /ca.pem"),
    ("socks5://p.example", "--proxy socks5://p.example:1080 --noproxy '' "),
    ("socks5h://u:s3cret@[::1]:9", "--proxy 'socks5h://[::1]:9' --noproxy '' --proxy-user '[redacted]'"),
    ("http://[fe80::1%25eth0]:9", "--proxy 'http://[fe80::1%25eth0]:9' --noproxy '' "),
    ("socks5h+unix:///run/s", "--proxy socks5h://localhost/run/s --noproxy '' "),
    ("socks5h+unix:///run/a%20b%25%3Fc%09", "--proxy socks5h://localhost/run/a%20b%25%3Fc%09 --noproxy '' "),
    ("http+unix:///run/s", "--noproxy '*' "),
  ]) func proxies(_ url: String, _ options: String) throws {
    var configuration = SessionConfiguration()
    configuration.tls.roots = .file("/ca.pem")
    configuration.tls.verifiesServer = false
    configuration.proxy = .proxy(try Proxy(url))
    let request = try Request("https://a.example/")
    let command = request.curlCommand(configuration: configuration)
    #expect(command.contains(options), "\(command)")
    #expect(!command.contains("s3cret") && !command.contains("--proxy-insecure"))
    let shown = request.curlCommand(redactingSecrets: false, configuration: configuration)
    #expect(shown.contains("--proxy-user u:s3cret") == url.contains("s3cret"))
    #expect(shown.contains("curl cannot") == url.hasPrefix("http+unix"))
  }

  @Test func whatElseIsSaidOfProxies() throws {
    var proxy = try Proxy("https://u:p@p.example")
    proxy.tunnelsPlaintext = true
    proxy.credential?.isPreemptive = true
    proxy.connectFields = [.userAgent: "us", .proxyAuthorization: "X s3cret"]
    proxy.tls = TLSConfiguration()
    proxy.tls?.verifiesServer = false
    proxy.tls?.clientIdentity = .init(certificatePath: "c.pem", privateKeyPath: "k.pem", passphrase: "s3cret")
    var request = try Request("http://a.example/")
    request.proxy = .proxy(proxy, except: "*.b.example 10.0.0.0/8,c.example\r\nd.example:80 e.example:81")
    let command = request.curlCommand(configuration: .ephemeral)
    for part in [
      "--noproxy b.example,10.0.0.0/8,c.example,d.example", "--proxy-basic", "--proxytunnel",
      "--proxy-header 'User-Agent: us'", "--proxy-insecure", "--proxy-cert c.pem",
      "--proxy-key k.pem", "--proxy-pass '[redacted]'", "\n# curl knows no ports in --noproxy",
    ] {
      #expect(command.contains(part), "\(part) is not in \(command)")
    }
    #expect(!command.contains("s3cret") && !command.contains(" --insecure"))
    let bearer = Credential.bearer("t0ken")
    let open = try Proxy("http://p.example")
    let configurations: [(ProxyConfiguration?, String)] = [
      (nil, "curl --header"), (.environment, "curl --header"), (.environmentExcept("x"), "--noproxy x "),
      (ProxyConfiguration.none, "--noproxy '*' "), (.choose { _ in nil }, "--noproxy '*' "),
      (.choose { $0 == "http://a.example/" ? open : nil }, "--proxy http://p.example:80 --noproxy '' "),
    ]
    for (configuration, part) in configurations {
      request.proxy = configuration
      let command = request.curlCommand(configuration: .ephemeral)
      #expect(command.contains(part), "\(part) is not in \(command)")
      #expect(command.contains("--proxy ") == part.contains("--proxy "))
    }
    proxy.credential = bearer
    request.proxy = .proxy(proxy)
    #expect(
      request.curlCommand(configuration: .ephemeral).contains("--proxy-header 'Proxy-Authorization: Bearer [redacted]'")
    )
    #expect(
      request.curlCommand(redactingSecrets: false, configuration: .ephemeral).contains(
        "--proxy-header 'Proxy-Authorization: Bearer t0ken'"))
    var configuration = SessionConfiguration()
    configuration.unixSocketPath = "/run/s"
    #expect(!request.curlCommand(configuration: configuration).contains("proxy"))
  }

  /// What a proxy is told by the session and by curl is the same, in the clear and about a tunnel.
  @Test(
    .enabled(if: CurlCommandTests.curl != nil, "curl is missing: apt-get install -y curl"), arguments: [false, true])
  func curlAsksTheProxyTheSame(_ tunnels: Bool) async throws {
    let script: [ScriptStep] =
      (tunnels ? [.readHead, .send("HTTP/1.1 200 OK\r\n\r\n")] : []) + [.readHead, .send(reply("hi")), .waitForClose]
    let server = try ScriptedServer([script, script])
    defer { server.shutdown() }
    var proxy = try Proxy("http://127.0.0.1:\(server.port)")
    proxy.tunnelsPlaintext = tunnels
    proxy.credential = .password(user: "u%41", password: "a%41%zz")
    proxy.credential?.isPreemptive = true
    proxy.connectFields = [.init("X-Way") ?? .via: "this"]
    var request = try Request("http://a.example/x")
    request.proxy = .proxy(proxy)
    try await withSession(ports: [server.port]) { session in try await session.expect("hi", from: request) }
    let output = try CurlCommandTests.run(
      "/bin/sh", CurlCommandTests.silent(request.curlCommand(redactingSecrets: false, configuration: .ephemeral)))
    #expect(output.status == 0 && String(decoding: output.bytes, as: UTF8.self) == "hi")
    let heads = server.recordedRequests
    try #require(heads.count == (tunnels ? 4 : 2))
    for (ours, theirs) in zip(heads.prefix(heads.count / 2), heads.suffix(heads.count / 2)) {
      #expect(ours.method == theirs.method && ours.target == theirs.target)
      // What curl adds of its own.
      let theirs = CurlCommandTests.fields(theirs).filter {
        !$0.hasPrefix("proxy-connection:") && !(tunnels && $0.hasPrefix("user-agent: curl"))
      }
      #expect(theirs == CurlCommandTests.fields(ours))
    }
  }

  /// There is no other colon than the one behind the user, and nothing that would be decoded to something else.
  @Test func credentialsAreWrittenAsCurlReadsThem() throws {
    var proxy = try Proxy("socks5h://p.example")
    proxy.credential = .password(user: "a:\u{301}b%", password: "p:%41")
    var request = try Request("http://a.example/")
    request.proxy = .proxy(proxy)
    let command = request.curlCommand(redactingSecrets: false, configuration: .ephemeral)
    #expect(command.contains("--proxy-user 'a%3A\u{301}b%25:p:%2541'"), "\(command)")
  }

  @Test(.enabled(if: CurlCommandTests.curl != nil, "curl is missing: apt-get install -y curl"))
  func curlTellsASOCKSProxyTheSame() async throws {
    try await withTool {
      let program = try ProxyProgram(.microsocks, user: "a:b", password: "a%41%zz")
      defer { program.stop() }
      let server = try LoopbackServer(routes: ServerRoute.standard())
      defer { server.shutdown() }
      var proxy = try Proxy("socks5h://127.0.0.1:\(program.port)")
      proxy.credential = .password(user: "a:b", password: "a%41%zz")
      var request = try Request(server.url("/hello", host: "127.0.0.1"))
      request.proxy = .proxy(proxy)
      try await withSession(ports: [program.port]) { session in
        try await session.expect("Hello, world!", from: request)
      }
      let command = request.curlCommand(redactingSecrets: false, configuration: .ephemeral)
      let output = try CurlCommandTests.run("/bin/sh", CurlCommandTests.silent(command))
      #expect(output.status == 0 && String(decoding: output.bytes, as: UTF8.self) == "Hello, world!", "\(command)")
    }
  }
}
