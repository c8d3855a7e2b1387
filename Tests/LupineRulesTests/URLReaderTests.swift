import LupineRules
import Testing

@Suite struct URLReaderTests {
  struct Accepted: Sendable, CustomTestStringConvertible {
    let text: String
    let authority: String
    let target: String
    var testDescription: String { text }

    init(_ text: String, _ authority: String, _ target: String) {
      self.text = text
      self.authority = authority
      self.target = target
    }
  }

  static let accepted: [Accepted] = [
    .init("http://example.com", "example.com", "/"),
    .init("HTTP://EXAMPLE.com/A%2fb", "example.com", "/A%2fb"),
    .init("HtTpS://Example.COM:8443/x?y=Z#f", "example.com:8443", "/x?y=Z"),
    .init("http://example.com:80/", "example.com", "/"),
    .init("https://example.com:443?q", "example.com", "/?q"),
    .init("https://example.com:80/", "example.com:80", "/"),
    .init("http://example.com:/a", "example.com", "/a"),
    .init("http://example.com#f", "example.com", "/"),
    .init("http://example.com?", "example.com", "/?"),
    .init("http://example.com./", "example.com.", "/"),
    .init("http://my_service-1:8080/", "my_service-1:8080", "/"),
    .init("http://user:p%40ss@example.com/", "example.com", "/"),
    .init("http://127.0.0.1:8080/a/../b", "127.0.0.1:8080", "/a/../b"),
    .init("http://255.255.255.255", "255.255.255.255", "/"),
    .init("http://1.2.3.4.example/", "1.2.3.4.example", "/"),
    .init("http://0x7f.example/", "0x7f.example", "/"),
    .init("http://3com/", "3com", "/"),
    .init("http://[::1]/", "[::1]", "/"),
    .init("http://[2001:DB8:0:0:1:0:0:1]:81/", "[2001:db8::1:0:0:1]:81", "/"),
    .init("http://[0:0:0:0:0:0:0:0]/", "[::]", "/"),
    .init("http://[1:2:3:4:5:6:7::]/", "[1:2:3:4:5:6:7:0]", "/"),
    .init("http://[::ffff:192.0.2.1]/", "[::ffff:192.0.2.1]", "/"),
    .init("http://[64:ff9b::192.0.2.33]/", "[64:ff9b::c000:221]", "/"),
    .init("http://[fe80::1%25eth0]:1/", "[fe80::1]:1", "/"),
    .init("http://h/a b\"<>\\^`{|}c", "h", "/a%20b%22%3C%3E%5C%5E%60%7B%7C%7Dc"),
    .init("http://h/%zz%", "h", "/%zz%"),
    .init("http://h/a[]?b[]=1&c='x'", "h", "/a[]?b[]=1&c='x'"),
    .init("http://h/é?ü", "h", "/%C3%A9?%C3%BC"),
    .init("http://h//a//b", "h", "//a//b"),
    .init("http://h/?a?b/c@d:e", "h", "/?a?b/c@d:e"),
    .init("http://bücher.de/", "xn--bcher-kva.de", "/"),
    .init("http://BÜCHER.DE/", "xn--bcher-kva.de", "/"),
    .init("http://b%C3%BCcher.de/", "xn--bcher-kva.de", "/"),
    .init("http://xn--bcher-kva.de/", "xn--bcher-kva.de", "/"),
    .init("http://XN--BCHER-KVA.de/", "xn--bcher-kva.de", "/"),
    .init("http://straße.de/", "xn--strae-oqa.de", "/"),
    .init("http://日本語.jp/", "xn--wgv71a119e.jp", "/"),
    .init("http://пример.испытание/", "xn--e1afmkfd.xn--80akhbyknj4f", "/"),
    .init("http://εξετάσεισ.gr/", "xn--hxarabu0a1bce.gr", "/"),
    .init("http://مثال.إختبار/", "xn--mgbh0fb.xn--kgbechtv", "/"),
    .init("http://דוגמה.example/", "xn--6dbbec0c.example", "/"),
    .init("http://paral·lel.cat/", "xn--parallel-koa.cat", "/"),
    .init("http://xn--ls8h.la/", "xn--ls8h.la", "/"),
    .init("http://ᏣᎳᎩ.EXAMPLE/", "xn--f9dt7l.example", "/"),
    .init("http://xn--f9dt7l.example/", "xn--f9dt7l.example", "/"),
    // Persian, Arabic with marks, and Mongolian letters that ZERO WIDTH NON-JOINER keeps apart; Sinhala that a joiner joins.
    .init("http://xn--mgba3gch31f060k.com/", "xn--mgba3gch31f060k.com", "/"),
    .init("http://xn--mgbn2ecje63gr19l.com/", "xn--mgbn2ecje63gr19l.com", "/"),
    .init("http://xn--hhba0aa3604a.com/", "xn--hhba0aa3604a.com", "/"),
    .init("http://xn--26ea791d.com/", "xn--26ea791d.com", "/"),
    .init("http://xn--10cl1a0b660p.com/", "xn--10cl1a0b660p.com", "/"),
  ]

  @Test(arguments: accepted) func reads(_ expected: Accepted) throws {
    let url = try URLReader.read(expected.text)
    #expect(url.authority == expected.authority)
    #expect(url.target == expected.target)
    let again = try URLReader.read(url.absoluteString)
    #expect(again.absoluteString == url.absoluteString)
    if url.userinfo == nil, url.host.zone == nil { #expect(again == url) }
  }

  struct Refused: Sendable, CustomTestStringConvertible {
    let text: String
    let refusal: URLRefusal
    var testDescription: String { text.debugDescription }

    init(_ text: String, _ refusal: URLRefusal) {
      self.text = text
      self.refusal = refusal
    }

    init(_ text: String, host refusal: HostRefusal) {
      self.text = text
      self.refusal = .invalidHost(refusal)
    }
  }

  static let refused: [Refused] = [
    .init("", .missingScheme),
    .init("example.com/", .missingScheme),
    .init("//example.com/", .missingScheme),
    .init(" http://example.com/", .missingScheme),
    .init("1http://example.com/", .missingScheme),
    .init("://h", .missingScheme),
    .init("ftp://example.com/", .unsupportedScheme("ftp")),
    .init("FILE:///etc/passwd", .unsupportedScheme("file")),
    .init("javascript:alert(1)", .unsupportedScheme("javascript")),
    .init("httpx://h/", .unsupportedScheme("httpx")),
    .init("localhost:8080/", .unsupportedScheme("localhost")),
    .init("http:", .missingAuthority),
    .init("http:/example.com", .missingAuthority),
    .init("http:example.com", .missingAuthority),
    .init("http:\\\\example.com", .missingAuthority),
    .init("http://", host: .empty),
    .init("http:///path", host: .empty),
    .init("http://:80/", host: .empty),
    .init("http://user@/", host: .empty),
    .init("http://a b/", host: .invalidByte(0x20)),
    .init("http://good.example\\@evil.example/", .invalidAuthorityByte(0x5C, offset: 19)),
    .init("http://good.example\\.evil.example/", host: .invalidByte(0x5C)),
    .init("http://a@b@c/", .invalidAuthorityByte(0x40, offset: 10)),
    .init("http://u[@h/", .invalidAuthorityByte(0x5B, offset: 8)),
    .init("http://h/\r\nX: y", .control(0x0D, offset: 9)),
    .init("http://h/a\tb", .control(0x09, offset: 10)),
    .init("http://h/?\u{0}", .control(0, offset: 10)),
    .init("http://h/#\n", .control(0x0A, offset: 10)),
    .init("http://h/\u{7F}", .control(0x7F, offset: 9)),
    .init("http://h\n/", .control(0x0A, offset: 8)),
    .init("http://u\r@h/", .control(0x0D, offset: 8)),
    .init("http://h:0/", .invalidPort),
    .init("http://h:65536/", .invalidPort),
    .init("http://h:99999999999999999999/", .invalidPort),
    .init("http://h:+80/", .invalidPort),
    .init("http://h:8a/", .invalidPort),
    .init("http://h:80:81/", .invalidPort),
    .init("http://h: 80/", .invalidPort),
    .init("http://.a/", host: .emptyLabel),
    .init("http://a..b/", host: .emptyLabel),
    .init("http://./", host: .emptyLabel),
    .init("http://a../", host: .emptyLabel),
    .init("http://\(String(repeating: "a", count: 64)).b/", host: .labelTooLong(64)),
    .init("http://\(String(repeating: "ab.", count: 85))c/", host: .nameTooLong(256)),
    // curl CVE-2022-27780: a host that is another one once it is decoded.
    .init("http://a%2Fb/", host: .invalidByte(0x25)),
    .init("http://a%00b/", host: .invalidByte(0x25)),
    .init("http://%61/", host: .invalidByte(0x25)),
    .init("http://a%/", host: .invalidByte(0x25)),
    .init("http://a*b/", host: .invalidByte(0x2A)),
    .init("http://%FF/", host: .notUTF8),
    // What inet_aton reads as an address and a list of blocked hosts does not.
    .init("http://127.1/", host: .ambiguousIPv4),
    .init("http://0x7f.1/", host: .ambiguousIPv4),
    .init("http://0x7F000001/", host: .ambiguousIPv4),
    .init("http://2130706433/", host: .ambiguousIPv4),
    .init("http://0177.0.0.1/", host: .ambiguousIPv4),
    .init("http://127.0.0.01/", host: .ambiguousIPv4),
    .init("http://256.0.0.1/", host: .ambiguousIPv4),
    .init("http://1.2.3.4.5/", host: .ambiguousIPv4),
    .init("http://1.2.3.4./", host: .ambiguousIPv4),
    .init("http://a.0x/", host: .ambiguousIPv4),
    .init("http://a.123/", host: .ambiguousIPv4),
    // Go CVE-2025-47912 and CVE-2026-25679: brackets around or beside anything.
    .init("http://[example.com]/", host: .invalidIPv6),
    .init("http://[127.0.0.1]/", host: .invalidIPv6),
    .init("http://[::1]]/", .invalidAuthorityByte(0x5D, offset: 12)),
    .init("http://[[::1]]/", host: .invalidIPv6),
    .init("http://[::1/", host: .invalidIPv6),
    .init("http://::1/", host: .empty),
    .init("http://[]/", host: .invalidIPv6),
    .init("http://[", host: .invalidIPv6),
    .init("http://]/", host: .invalidByte(0x5D)),
    .init("http://[::1]x/", .invalidAuthorityByte(0x78, offset: 12)),
    .init("http://[::1].evil.example/", .invalidAuthorityByte(0x2E, offset: 12)),
    .init("http://a[::1]/", host: .invalidByte(0x5B)),
    .init("http://[:1]/", host: .invalidIPv6),
    .init("http://[1:]/", host: .invalidIPv6),
    .init("http://[1:2:3:4:5:6:7]/", host: .invalidIPv6),
    .init("http://[1:2:3:4:5:6:7:8:9]/", host: .invalidIPv6),
    .init("http://[1:2:3:4:5:6:7:8::]/", host: .invalidIPv6),
    .init("http://[1::2::3]/", host: .invalidIPv6),
    .init("http://[:::]/", host: .invalidIPv6),
    .init("http://[12345::]/", host: .invalidIPv6),
    .init("http://[::1.2.3]/", host: .invalidIPv6),
    .init("http://[::1.2.3.04]/", host: .invalidIPv6),
    .init("http://[1:2:3:4:5:6:7:1.2.3.4]/", host: .invalidIPv6),
    .init("http://[1.2.3.4]/", host: .invalidIPv6),
    .init("http://[v1.fe80::a+en1]/", host: .invalidIPv6),
    // Go CVE-2025-22870: a zone that looks like a name of the exceptions' list.
    .init("http://[::1%25.example.com]/", host: .invalidZone),
    .init("http://[::1%25lo]/", host: .invalidZone),
    .init("http://[fe80::1%25]/", host: .invalidZone),
    .init("http://[fe80::1%1]/", host: .invalidZone),
    .init("http://[fe80::1%]/", host: .invalidZone),
    .init("http://[fe80::1%eth0]/", host: .invalidZone),
    .init("http://[fe80::1%25a%2F]/", host: .invalidZone),
    .init("http://[fe80::1%25aaaaaaaaaaaaaaaa]/", host: .invalidZone),
    .init("http://bu\u{308}cher.de/", host: .notNormalised),
    .init("http://a\u{200D}b.de/", host: .disallowedScalar(0x200D)),
    .init("http://نامه\u{200C}ای.com/", host: .disallowedScalar(0x200C)),
    // ZERO WIDTH NON-JOINER at an end, before a Latin letter, and between letters that never join; a joiner between those that do.
    .init("http://xn--hhb213k.com/", host: .disallowedScalar(0x200C)),
    .init("http://xn--s-ooc119q.com/", host: .disallowedScalar(0x200C)),
    .init("http://xn--4dbc852r.com/", host: .disallowedScalar(0x200C)),
    .init("http://xn--hhb113k.com/", host: .disallowedScalar(0x200C)),
    .init("http://xn--hhba019qa.com/", host: .disallowedScalar(0x200C)),
    .init("http://xn--hhba319q.com/", host: .disallowedScalar(0x200D)),
    .init("http://a\u{202E}b.de/", host: .disallowedScalar(0x202E)),
    .init("http://a\u{AD}b.de/", host: .disallowedScalar(0xAD)),
    .init("http://a。b/", host: .disallowedScalar(0x3002)),
    .init("http://a．b/", host: .disallowedScalar(0xFF0E)),
    .init("http://ａ.de/", host: .disallowedScalar(0xFF41)),
    .init("http://evil.c℀.example/", host: .disallowedScalar(0x2100)),
    .init("http://①.de/", host: .disallowedScalar(0x2460)),
    .init("http://a⁄b.de/", host: .disallowedScalar(0x2044)),
    .init("http://ﬁ.de/", host: .disallowedScalar(0xFB01)),
    .init("http://💩.la/", host: .disallowedScalar(0x1F4A9)),
    .init("http://GROẞ.de/", host: .disallowedScalar(0x1E9E)),
    .init("http://\u{AB70}.de/", host: .disallowedScalar(0xAB70)),
    .init("http://a·b.de/", host: .disallowedScalar(0xB7)),
    .init("http://a\u{20D0}.de/", host: .disallowedScalar(0x20D0)),
    .init("http://a\u{20F0}.de/", host: .disallowedScalar(0x20F0)),
    .init("http://a\u{1D165}.de/", host: .disallowedScalar(0x1D165)),
    .init("http://a\u{1D242}.de/", host: .disallowedScalar(0x1D242)),
    .init("http://-ü.de/", host: .invalidLabelForm),
    .init("http://ab--ü.de/", host: .invalidLabelForm),
    .init("http://\u{301}a.de/", host: .invalidLabelForm),
    .init("http://דa.de/", host: .mixedDirections),
    .init("http://aד.de/", host: .mixedDirections),
    .init("http://م٠۰.de/", host: .mixedDirections),
    .init("http://א1٢.de/", host: .mixedDirections),
    // Rust idna CVE-2024-12224, Go CVE-2026-39821: a second spelling of `example`.
    .init("http://xn--.de/", host: .invalidPunycode),
    .init("http://xn--a.de/", host: .disallowedScalar(0x80)),
    .init("http://xn--example-.com/", host: .invalidPunycode),
    .init("http://xn--bcher-KVA9.de/", host: .invalidPunycode),
    .init("http://xn--99999999.de/", host: .invalidPunycode),
    .init("http://xn--bcher-kva_.de/", host: .invalidPunycode),
  ]

  @Test(arguments: refused) func refuses(_ expected: Refused) {
    #expect(throws: expected.refusal) { try URLReader.read(expected.text) }
  }

  @Test func parts() throws {
    let url = try URLReader.read("https://us%65r:p%3Aw@Example.com:8443/a/b?c=d?e#f/g?h")
    #expect(url.scheme == .https)
    #expect(url.userinfo == "us%65r:p%3Aw")
    #expect(url.credentials?.user == "user")
    #expect(url.credentials?.password == "p:w")
    #expect(url.host.text == "example.com")
    #expect(url.host.kind == .name)
    #expect(url.port == 8443)
    #expect(url.explicitPort == 8443)
    #expect(url.path == "/a/b")
    #expect(url.query == "c=d?e")
    #expect(url.fragment == "f/g?h")
    #expect(url.absoluteString == "https://example.com:8443/a/b?c=d?e#f/g?h")
    #expect(url.requestString == "https://example.com:8443/a/b?c=d?e")
    #expect(url.origin.serialized == "https://example.com:8443")
  }

  @Test func missingAndEmptyPartsDiffer() throws {
    #expect(try URLReader.read("http://h").query == nil)
    #expect(try URLReader.read("http://h?").query == "")
    #expect(try URLReader.read("http://h").fragment == nil)
    #expect(try URLReader.read("http://h#").fragment == "")
    #expect(try URLReader.read("http://@h").userinfo == nil)
    #expect(try URLReader.read("http://h") == URLReader.read("http://h:80/"))
    #expect(try URLReader.read("http://h/?") != URLReader.read("http://h/"))
  }

  /// curl CVE-2022-27775: the zone is part of the host; curl CVE-2022-27779: so is the final dot, though no certificate has it.
  @Test func serverNameHasNoDotBracketsOrZone() throws {
    #expect(try URLReader.read("https://Example.com./").serverName == "example.com")
    let scoped = try URLReader.read("https://[fe80::1%25eth0]/")
    #expect(scoped.serverName == "fe80::1")
    #expect(scoped.host.connectionText == "fe80::1%eth0")
    #expect(try scoped.origin != URLReader.read("https://[fe80::1%25eth1]/").origin)
  }

  @Test func bytesThatAreNotUTF8AreEncodedInTheTargetOnly() throws {
    let bytes: [UInt8] = Array("http://h/".utf8) + [0xFF, 0xC3]
    #expect(try URLReader.read(bytes.span).target == "/%FF%C3")
    let host: [UInt8] = Array("http://".utf8) + [0xFF] + Array("/".utf8)
    #expect(throws: URLRefusal.invalidHost(.notUTF8)) { try URLReader.read(host.span) }
  }

  /// urllib3 CVE-2021-33503: an authority with many of one byte was matched in a time that grew without bounds. Quadratic work on these lengths would take
  /// minutes.
  @Test(.timeLimit(.minutes(1)), arguments: ["@", ":", "[", "]", "%", "%40", ".", "a.", "-", "xn--", "@:", "\u{E9}"])
  func authoritiesAreReadInLinearTime(_ piece: String) {
    let long = String(repeating: piece, count: 60_000 / piece.utf8.count)
    for url in ["http://" + long, "http://" + long + "@h/", "http://h:" + long + "/", "http://[" + long + "]/"] {
      for _ in 0..<10 { _ = try? URLReader.read(url) }
    }
  }

  @Test func lengthIsBounded() throws {
    let prefix = "http://h/"
    let longest = prefix + String(repeating: "a", count: URLReader.maximumLength - prefix.utf8.count)
    #expect(try URLReader.read(longest).target.utf8.count == longest.utf8.count - 8)
    #expect(throws: URLRefusal.tooLong(count: URLReader.maximumLength + 1, limit: URLReader.maximumLength)) {
      try URLReader.read(longest + "a")
    }
  }

  /// What was read is read again as it is written, and resolved against.
  @Test func theEncodedFormIsBounded() throws {
    let letters = (URLReader.maximumLength - 9) / 6
    let longest = try URLReader.read("http://h/" + String(repeating: "\u{E9}", count: letters))
    #expect(longest.target.utf8.count == 1 + 6 * letters)
    #expect(try URLReader.read(longest.requestString) == longest)
    let long = try URLReader.read("http://h/" + String(repeating: "\u{E9}", count: letters - 1))
    #expect(try URLReader.resolve("?a", against: long).target.hasSuffix("?a"))
    #expect(throws: URLRefusal.self) { try URLReader.resolve("?a", against: longest) }
    #expect(throws: URLRefusal.self) { try longest.appendingQuery(String(repeating: "\u{E9}", count: 2)) }
    #expect(throws: URLRefusal.tooLong(count: 15 + 6 * letters, limit: URLReader.maximumLength)) {
      try URLReader.read("http://h/" + String(repeating: "\u{E9}", count: letters + 1))
    }
  }

  @Test(arguments: [
    ("example.com", "example.com"), ("::1", "::1"), ("[::1]", "::1"), ("127.0.0.1", "127.0.0.1"),
    ("fe80::2%25lo", "fe80::2"),
  ])
  func readsHostsAlone(_ text: String, _ expected: String) throws {
    #expect(try HostReader.read(text).text == expected)
  }
}
