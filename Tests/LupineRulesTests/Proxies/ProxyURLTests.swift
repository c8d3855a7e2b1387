import LupineRules
import Testing

/// How the URLs of proxies are read.
@Suite struct ProxyURLTests {
  struct Case: Sendable, CustomTestStringConvertible {
    var text: String
    /// The URL for people; nil: it is refused.
    var reads: String?
    var user: String?
    var password: String?
    var testDescription: String { text }
  }

  static let cases: [Case] = [
    Case(text: "http://proxy.example:3128", reads: "http://proxy.example:3128"),
    Case(text: "proxy.example:3128", reads: "http://proxy.example:3128"),
    Case(text: "PROXY.example", reads: "http://proxy.example:80"),
    Case(text: "HTTPS://proxy.example/", reads: "https://proxy.example:443"),
    Case(text: "https://proxy.example:80", reads: "https://proxy.example:80"),
    Case(text: "socks5://[2001:db8::1]", reads: "socks5://[2001:db8::1]:1080"),
    Case(text: "http://u:p@[fe80::1%25eth0]", reads: "http://[fe80::1%25eth0]:80", user: "u", password: "p"),
    Case(text: "socks5h://127.0.0.1:9050", reads: "socks5h://127.0.0.1:9050"),
    Case(text: "http://u:p@h", reads: "http://h:80", user: "u", password: "p"),
    Case(text: "http://us%65r%3A:p%40w:x@h:1", reads: "http://h:1", user: "user:", password: "p@w:x"),
    Case(text: "socks5h://user@h", reads: "socks5h://h:1080", user: "user", password: ""),
    Case(text: "unix:///run/p.sock", reads: "http+unix:///run/p.sock"),
    Case(text: "socks5+unix://u:p@/run/%70.sock", reads: "socks5+unix:///run/p.sock", user: "u", password: "p"),
    Case(text: "socks5h://localhost/run/p.sock", reads: "socks5h+unix:///run/p.sock"),
    Case(text: ""), Case(text: "ftp://h"), Case(text: "socks4://h"), Case(text: "https+unix:///s"),
    Case(text: "http://h/path"), Case(text: "http://h?q"), Case(text: "http://h:99999"), Case(text: "http://"),
    Case(text: "http://:p@h"), Case(text: "http://a b"), Case(text: "http://h\r\nX: y"), Case(text: "http://%FF:p@h"),
    Case(text: "unix://relative"), Case(text: "unix:///"), Case(text: "unix:///a%00b"),
    Case(text: "unix:///" + String(repeating: "a", count: 107)), Case(text: "http://0x7f.1"),
    Case(text: "http://" + String(repeating: "a", count: 5000)),
  ]

  @Test(arguments: cases) func reads(_ one: Case) throws {
    guard let reads = one.reads else {
      let refusal = #expect(throws: ProxyRefusal.self) { try ProxyURLReader.read(one.text) }
      // A sentence for people, and not the name of a case.
      #expect(refusal?.description.contains(" ") == true)
      return
    }
    let server = try ProxyURLReader.read(one.text)
    #expect(server.text == reads)
    let secret = one.user.map { CredentialSecret.password(user: $0, password: one.password ?? "") }
    #expect(server.secret == secret)
    #expect(!"\(server)".contains("p@w"))
    // A socket's path is written as it is, and would be decoded.
    if case .host = server.endpoint {
      let again = try ProxyURLReader.read(server.text)
      #expect(again.kind == server.kind && again.endpoint == server.endpoint)
    }
  }

  @Test func theEnvironmentNamesProxies() throws {
    func read(_ variables: [String: String]) -> ProxyEnvironment { ProxyEnvironment { variables[$0] } }
    let first = ProxyEnvironment.Setting.proxy(try ProxyURLReader.read("http://one:1"))
    let second = ProxyEnvironment.Setting.proxy(try ProxyURLReader.read("http://two:2"))
    #expect(read([:]).isEmpty)
    #expect(read(["http_proxy": ""]).isEmpty)
    #expect(read(["http_proxy": "one:1"]).http == first)
    #expect(read(["http_proxy": "one:1"]).https == .none)
    #expect(read(["https_proxy": "one:1", "HTTPS_PROXY": "two:2"]).https == first)
    #expect(read(["HTTPS_PROXY": "two:2"]).https == second)
    #expect(read(["all_proxy": "one:1"]).http == first)
    #expect(read(["ALL_PROXY": "one:1", "http_proxy": "two:2"]).http == second)
    let exempt = read(["all_proxy": "one:1", "NO_PROXY": "a.example"])
    #expect(exempt.setting(for: try URLReader.read("http://b.a.example/").origin) == .none)
    #expect(exempt.setting(for: try URLReader.read("http://a.example.org/").origin) == first)
    // What comes before `://` may be a password.
    for text in ["alice:s3cret://x@proxy:3128", "s3cret/://x@proxy:3128", "1s3cret://proxy"] {
      let refusal = #expect(throws: ProxyRefusal.self) { try ProxyURLReader.read(text) }
      #expect(!"\(String(describing: refusal))".contains("s3cret"))
    }
    // A misspelt proxy is no leave to go without.
    guard case .malformed("http_proxy", .unsupportedScheme("ftp")) = read(["http_proxy": "ftp://x"]).http else {
      Issue.record("a misspelt proxy was not noticed")
      return
    }
  }

  @Test func refusalsAreSentences() throws {
    let refusal = try #require(throws: ProxyRefusal.self) { try ProxyURLReader.read("ftp://user:s3cret@proxy") }
    #expect("\(refusal)" == "ftp:// is no proxy's; there are http, https, socks5 and socks5h, and unix for a socket")
  }

  /// CVE-2016-5385: a CGI program's `HTTP_PROXY` is the field `Proxy` of whoever asks it.
  @Test func httpoxyHasNoEffect() {
    let environment = ProxyEnvironment { ["HTTP_PROXY": "http://evil.example", "REQUEST_METHOD": "GET"][$0] }
    #expect(environment.isEmpty)
    #expect(ProxyEnvironment { ["HTTP_PROXY": "http://evil.example"][$0] }.isEmpty)
  }
}

/// Which places `no_proxy` exempts.
@Suite struct NoProxyListTests {
  static let cases: [(list: String, url: String, exempt: Bool)] = [
    ("fe80::1%eth0/10", "http://[fe80::1%25eth1]/", false), ("fe80::1%eth0/10", "http://[fe80::1%25eth0]/", false),
    ("a.b:65616", "http://a.b/", false), ("a.b:81", "http://x.a.b:81/", true), ("a.b:81", "http://x.a.b/", false),
    ("", "http://a/", false), ("*", "http://a/", true), ("x,*", "https://[::1]/", true),
    ("example.com", "http://example.com/", true), ("example.com", "http://www.example.com:81/", true),
    ("example.com", "http://notexample.com/", false), ("example.com", "http://example.com.evil.org/", false),
    (".example.com", "http://www.example.com/", true), (".example.com", "http://example.com/", true),
    ("*.example.com", "http://a.b.example.com/", true), ("EXAMPLE.com.", "http://Example.COM/", true),
    ("example.com", "http://example.com./", true), ("bücher.de", "http://xn--bcher-kva.de/", true),
    ("a.b:81", "http://a.b:81/", true), ("a.b:81", "http://a.b/", false), ("a.b:80", "http://a.b/", true),
    ("a.b:443", "https://a.b/", true), ("a.b:x", "http://a.b/", false), ("a.b:0", "http://a.b/", false),
    ("127.0.0.1", "http://127.0.0.1:8080/", true), ("127.0.0.1", "http://127.0.0.11/", false),
    ("0.0.1", "http://127.0.0.1/", false), (".0.0.1", "http://127.0.0.1/", false),
    ("10.0.0.0/8", "http://10.255.1.2/", true), ("10.0.0.0/8", "http://11.0.0.1/", false),
    ("192.0.2.128/25", "http://192.0.2.127/", false), ("0.0.0.0/0", "http://8.8.8.8/", true),
    ("0.0.0.0/0", "http://[2001:db8::1]/", false), ("10.0.0.0/33", "http://10.0.0.1/", false),
    ("10.0.0.0/", "http://10.0.0.0/", false), ("10.0.0.0/8", "http://[::ffff:10.1.1.1]/", true),
    ("::ffff:10.0.0.0/104", "http://10.1.1.1/", true), ("::ffff:10.0.0.0/90", "http://10.1.1.1/", false),
    // axios CVE-2025-62718, CVE-2026-44492: the same host, spelt otherwise.
    ("127.0.0.1", "http://[::ffff:7f00:1]/", true), ("::ffff:127.0.0.1", "http://127.0.0.1/", true),
    ("[::1]", "http://[0:0::1]/", true), ("localhost", "http://LocalHost./", true),
    ("2001:db8::/32", "http://[2001:db8:1::5]/", true), ("[2001:db8::1]", "https://[2001:db8::1]/", true),
    ("[2001:db8::1]:81", "http://[2001:db8::1]:81/", true), ("[2001:db8::1]:81", "http://[2001:db8::1]/", false),
    ("2001:db8::1", "http://[2001:0db8:0::1]/", true), ("::1", "http://127.0.0.1/", false),
    ("fe80::1%eth0", "http://[fe80::1%25eth0]/", true), ("fe80::1%eth0", "http://[fe80::1%25eth1]/", false),
    ("fe80::1", "http://[fe80::1%25eth1]/", true), ("fe80::/10", "http://[fe80::1%25eth1]/", true),
    ("[fe80::1%25eth0]:80", "http://[fe80::1%25eth0]/", true), ("a b\tc", "http://b/", true),
    ("a\r\nb\r\n", "http://a/", true), ("a\r\nb\r\n", "http://b/", true), ("a,\u{301}b", "http://a/", true),
    ("localhost", "http://127.0.0.1/", false), ("%%,[,:,a..b,/8", "http://a/", false),
  ]

  @Test(arguments: cases) func exempts(_ list: String, _ url: String, _ exempt: Bool) throws {
    #expect(NoProxyList(list).exempts(try URLReader.read(url).origin) == exempt)
  }

  /// Go CVE-2025-22870: the zone of an address was compared as if it were the end of a name.
  @Test func aZoneIsNotPartOfAName() throws {
    let origin = try URLReader.read("http://[fe80::1%25x.example.com]/").origin
    #expect(!NoProxyList("example.com,.example.com,*.example.com").exempts(origin))
  }

  @Test(arguments: [
    ("", "", false), ("*", "*", false), ("a.example, *", "*", false), ("*:80", "", false), ("a b;c", "a", false),
    ("*.a.example\r\n.B.example.", "a.example,b.example", false), ("bücher.de", "xn--bcher-kva.de", false),
    ("10.0.0.0/8 2001:db8::/32", "10.0.0.0/8,2001:db8::/32", false),
    ("[2001:db8::]/32", "2001:db8::/32", false),
    ("a.example:80,b.example:81,*.c.example:80", "a.example,c.example", true), ("a.example:81", "", true),
    ("127.0.0.1:80 [::1]:80 [::2] [::3]:81 ::4", "127.0.0.1,::1,::2,::4", true),
    ("a.example:0 .127.0.0.1", "", false),
  ]) func curlReads(_ list: String, _ text: String, _ hasPorts: Bool) {
    let read = NoProxyList.forCurl(list, port: 80)
    #expect(read.text == text && read.hasPorts == hasPorts)
  }
}
