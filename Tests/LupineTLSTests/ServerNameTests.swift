import LupineTLS
import Testing

@Suite("Host check, RFC 9525")
struct ServerNameTests {
  struct Case: Sendable, CustomTestStringConvertible {
    var host: String
    var presented: String
    var matches: Bool

    init(_ host: String, _ presented: String, _ matches: Bool) {
      self.host = host
      self.presented = presented
      self.matches = matches
    }

    var testDescription: String { "\(host) against \(presented.debugDescription)" }
  }

  static let names: [Case] = [
    Case("example.com", "example.com", true),
    Case("EXAMPLE.com", "example.COM", true),
    Case("example.com.", "example.com", true),
    Case("example.com", "example.com.", false),
    Case("example.com", "www.example.com", false),
    Case("www.example.com", "example.com", false),
    Case("localhost", "localhost", true),
    Case("under_score.example.com", "under_score.example.com", true),
    // Hosts that the DNS has, and http reaches; no public authority names them, but a private one or a wildcard may.
    Case("a-.example.com", "*.example.com", true),
    Case("-a.example.com", "*.example.com", true),
    Case("a-.example.com", "a.example.com", false),
    Case("a-.example.com", "a-.example.com", true),
    Case("-a.example.com", "-a.example.com", true),
    Case("www.a-.example.com", "*.a-.example.com", false),
    // 6.3: a wildcard is the whole left-most label and stands for one label (curl CVE-2023-28321, swift-nio-ssl #580: a part of an A-label).
    Case("www.example.com", "*.example.com", true),
    Case("WWW.example.com", "*.EXAMPLE.com", true),
    Case("www.example.com.", "*.example.com", true),
    Case("example.com", "*.example.com", false),
    Case("a.b.example.com", "*.example.com", false),
    Case("xn--bcher-kva.example.com", "*.example.com", true),
    Case("www.example.com", "w*.example.com", false),
    Case("www.example.com", "*w.example.com", false),
    Case("www.example.com", "w*w.example.com", false),
    Case("xn--bcher-kva.example.com", "xn--*.example.com", false),
    Case("xn--bcher-kva.example.com", "x*.example.com", false),
    Case("xn--bcher-kva.example.com", "xn--b*.example.com", false),
    Case("xn--bcher-kva.example.com", "*-kva.example.com", false),
    Case("www.example.com", "www.*.com", false),
    Case("www.example.com", "*.*.com", false),
    Case("www.example.com", "*.*.example.com", false),
    Case("www.example.com", "**.example.com", false),
    // Public one-label names.
    Case("example.com", "*.com", false),
    Case("localhost", "*", false),
    Case("example.com", "*.", false),
    Case("example.com", "*.com.", false),
    Case("example.com", "*", false),
    // Malformed names.
    Case("example.com", "", false),
    Case("example.com", "example.com\0.evil.test", false),
    Case("example.com", "example..com", false),
    Case("example.com", " example.com", false),
    Case("www.example.com", "*..example.com", false),
    Case("bücher.example.com", "*.example.com", false),
    // OkHttp CVE-2021-0341: letters outside ASCII that are the same without case, the Kelvin sign and the long s.
    Case("k.example.com", "\u{212A}.example.com", false),
    Case("www.kit.com", "*.\u{212A}it.com", false),
    Case("s.example.com", "\u{17F}.example.com", false),
    // A DNS name never vouches for an address.
    Case("127.0.0.1", "127.0.0.1", false),
    Case("127.0.0.1", "*.0.0.1", false),
    Case("::1", "::1", false),
  ]

  @Test("DNS names", arguments: names)
  func dns(example: Case) throws {
    guard example.host.utf8.allSatisfy({ $0 < 0x80 }) else {
      #expect(throws: TLSError.invalidServerName(example.host)) { try ServerName(example.host) }
      return
    }
    #expect(try ServerName(example.host).matches(.dns(Array(example.presented.utf8))) == example.matches)
  }

  /// An address of another length is none, and not read beyond its end (swift-nio-ssl d930168).
  static let addresses: [(String, [UInt8], Bool)] = [
    ("127.0.0.1", [127, 0, 0, 1], true),
    ("127.0.0.1", [127, 0, 0, 2], false),
    ("127.0.0.1", [127, 0, 0, 1, 255, 255, 255, 255], false),
    ("127.0.0.1", [], false),
    ("::1", [0, 0, 0, 1], false),
    ("::1", [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], false),
    ("::1", [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], true),
    ("[::1]", [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], true),
    ("0:0:0:0:0:0:0:1", [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], true),
    ("fe80::1%eth0", [0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], true),
    // An IPv4-mapped address is another address.
    ("::ffff:127.0.0.1", [127, 0, 0, 1], false),
    ("127.0.0.1", [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 127, 0, 0, 1], false),
    ("localhost", [127, 0, 0, 1], false),
  ]

  @Test("Addresses match exactly", arguments: addresses)
  func address(host: String, presented: [UInt8], matches: Bool) throws {
    #expect(try ServerName(host).matches(.address(presented)) == matches)
  }

  @Test(
    "What is sent as SNI, RFC 6066, 3",
    arguments: [
      ("Example.COM", "example.com"), ("example.com.", "example.com"), ("127.0.0.1", nil), ("::1", nil), ("[::1]", nil),
      ("fe80::1%lo", nil), ("xn--bcher-kva.example", "xn--bcher-kva.example"),
      ("A-.example", "a-.example"), ("-a.example", "-a.example"), ("0xbox", "0xbox"), ("a.0xg1", "a.0xg1"),
    ] as [(String, String?)])
  func indication(host: String, expected: String?) throws {
    #expect(try ServerName(host).indication == expected)
  }

  @Test(
    "Neither a name nor an address",
    arguments: [
      "", ".", "..", "a..b", "bücher.example", "a b", "a\0b", "127.1", "1.2.3.4.5", "0x7f.0x1", "a.0x", "a.0XfF",
      "256.1.1.1", "[::1",
      "[127.0.0.1]", "[example.com]", "*.example.com", String(repeating: "a", count: 64),
      String(repeating: "a.", count: 127) + "aa", "exa/mple", "host:443", "user@host", "::1\0",
    ])
  func invalid(host: String) {
    #expect(throws: TLSError.invalidServerName(host)) { try ServerName(host) }
  }
}
