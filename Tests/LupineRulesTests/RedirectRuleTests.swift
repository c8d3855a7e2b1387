import LupineRules
import Testing

@Suite struct RedirectRuleTests {
  private func decide(
    _ status: Int, _ method: String = "GET", _ location: String? = "/next", from current: String = "https://a/b",
    chain: RedirectChain = RedirectChain(), replayable: Bool = true, policy: RedirectPolicy = RedirectPolicy()
  ) throws -> RedirectDecision {
    RedirectRule.decide(
      status: status, method: method, locations: location.map { [Array($0.utf8)] } ?? [],
      current: try URLReader.read(current), chain: chain, isBodyReplayable: replayable, policy: policy)
  }

  private func step(_ decision: RedirectDecision) throws -> RedirectStep {
    guard case .follow(let step) = decision else {
      Issue.record("not followed: \(decision)")
      throw RedirectRefusal.ambiguousLocation
    }
    return step
  }

  /// RFC 9110 section 15.4: status, method, next method, body dropped.
  static let methods: [(Int, String, String, Bool)] = [
    (301, "GET", "GET", false), (301, "HEAD", "HEAD", false), (301, "POST", "GET", true), (301, "PUT", "PUT", false),
    (301, "DELETE", "DELETE", false), (302, "GET", "GET", false), (302, "HEAD", "HEAD", false),
    (302, "POST", "GET", true), (302, "PATCH", "PATCH", false), (303, "GET", "GET", false),
    (303, "HEAD", "HEAD", false), (303, "POST", "GET", true), (303, "PUT", "GET", true), (303, "DELETE", "GET", true),
    (303, "OPTIONS", "GET", true), (307, "GET", "GET", false), (307, "POST", "POST", false),
    (307, "PUT", "PUT", false), (308, "POST", "POST", false), (308, "HEAD", "HEAD", false),
    (302, "post", "post", false),
  ]

  @Test(arguments: methods) func methodTable(_ row: (Int, String, String, Bool)) throws {
    let step = try step(decide(row.0, row.1))
    #expect(step.method == row.2)
    #expect(step.dropsBody == row.3)
    #expect(step.chain.strip.contains(.content) == row.3)
  }

  @Test(arguments: [200, 204, 300, 304, 305, 306, 309, 399, 404, 100]) func otherStatusesAreAnswers(_ status: Int)
    throws
  {
    #expect(try decide(status) == .deliver(.notRedirect))
  }

  @Test func answersThatAreNotFollowed() throws {
    #expect(try decide(302, "GET", nil) == .deliver(.noLocation))
    #expect(try decide(302, "GET", "") == .deliver(.noLocation))
    #expect(try decide(302, "CONNECT") == .deliver(.notRedirect))
    #expect(try decide(307, "POST", replayable: false) == .deliver(.bodyNotReplayable))
    #expect(try decide(308, "PUT", replayable: false) == .deliver(.bodyNotReplayable))
    #expect(try decide(301, "PUT", replayable: false) == .deliver(.bodyNotReplayable))
    #expect(try step(decide(303, "POST", replayable: false)).dropsBody)
  }

  /// urllib3 CVE-2025-50181 and CVE-2025-50182: off is off, whatever the status.
  @Test(arguments: [301, 302, 303, 307, 308]) func offIsOff(_ status: Int) throws {
    #expect(try decide(status, policy: RedirectPolicy(isEnabled: false)) == .deliver(.disabled))
  }

  @Test func targetsAreResolvedFromTheCurrentURL() throws {
    // What URLSession on Linux resolves to /target.
    #expect(try step(decide(302, "GET", "target", from: "https://h/a/b/rel")).url.target == "/a/b/target")
  }

  @Test func fragmentsAreInherited() throws {
    #expect(try step(decide(302, "GET", "/x", from: "https://h/a#f")).url.fragment == "f")
    #expect(try step(decide(302, "GET", "/x#g", from: "https://h/a#f")).url.fragment == "g")
    #expect(try step(decide(302, "GET", "/x#", from: "https://h/a#f")).url.fragment == "")
    #expect(try step(decide(302, "GET", "/x", from: "https://h/a")).url.fragment == nil)
  }

  /// From, to, and the userinfo that goes along: that of the request, never one that the server names (RFC 9110 section
  /// 4.2.4).
  static let users: [(String, String, String?)] = [
    ("http://host/x", "http://evil:pw@host/y", nil), ("http://host/x", "//evil@host/y", nil),
    ("http://u:p@host/x", "http://evil:pw@host/y", nil), ("http://u:p@host/x", "http://u:p@host/y", "u:p"),
    ("http://u:p@host/x", "/y", "u:p"), ("http://u:p@host/x", "http://host/y", nil),
  ]

  @Test func usersOfLocations() throws {
    for (from, location, userinfo) in Self.users {
      let step = try step(decide(302, "GET", location, from: from))
      #expect(step.url.userinfo == userinfo, "\(location) from \(from)")
      #expect(step.url.target == "/y" && !step.crossesOrigin)
    }
  }

  @Test func limit() throws {
    var chain = RedirectChain()
    for hop in 1...20 {
      chain = try step(decide(302, chain: chain)).chain
      #expect(chain.count == hop)
    }
    #expect(try decide(302, chain: chain) == .refuse(.tooManyRedirects(limit: 20)))
    #expect(try decide(302, policy: RedirectPolicy(limit: 0)) == .refuse(.tooManyRedirects(limit: 0)))
  }

  @Test func downgrade() throws {
    #expect(try decide(302, "GET", "http://a/") == .refuse(.downgrade))
    #expect(try decide(302, "GET", "http://a/", from: "http://b/").isFollowed)
    #expect(try decide(302, "GET", "http://a/", policy: RedirectPolicy(allowsDowngrade: true)).isFollowed)
    #expect(try decide(302, "GET", "//a/x").isFollowed)
  }

  static let badLocations: [(String, URLRefusal)] = [
    ("file:///etc/passwd", .unsupportedScheme("file")), ("ftp://h/", .unsupportedScheme("ftp")),
    ("gopher://h/", .unsupportedScheme("gopher")), ("javascript:x", .unsupportedScheme("javascript")),
    ("https://", .invalidHost(.empty)), ("https:x", .missingAuthority),
    ("https://a%2fb/", .invalidHost(.invalidByte(0x25))), ("//0x7f.1/", .invalidHost(.ambiguousIPv4)),
    ("https://h:0/", .invalidPort),
  ]

  @Test(arguments: badLocations) func badTargets(_ location: String, _ refusal: URLRefusal) throws {
    #expect(try decide(302, "GET", location) == .refuse(.invalidLocation(refusal)))
  }

  @Test func severalLocationsMustAgree() throws {
    let current = try URLReader.read("https://a/")
    func decide(_ locations: [String]) -> RedirectDecision {
      RedirectRule.decide(
        status: 302, method: "GET", locations: locations.map { Array($0.utf8) }, current: current,
        chain: RedirectChain(), isBodyReplayable: true)
    }
    #expect(decide(["/x", "/x"]).isFollowed)
    #expect(decide(["/x", "/y"]) == .refuse(.ambiguousLocation))
  }

  /// What counts as another origin: curl CVE-2022-27774 and CVE-2022-27776 (port, scheme), reqwest 0.13.4 (scheme alone).
  static let origins: [(String, String, Bool)] = [
    ("https://a/", "https://a/x", false), ("https://a/", "https://a:443/x", false),
    ("https://a/", "https://A/x", false), ("https://a/", "/x", false), ("https://a/", "https://a:444/", true),
    ("http://a/", "https://a/", true), ("http://a:443/", "https://a/", true), ("https://a/", "https://b.a/", true),
    ("https://b.a/", "https://a/", true), ("https://a/", "https://a./", true),
    ("https://bücher.de/", "https://xn--bcher-kva.de/", false), ("https://[::1]/", "https://[0::1]/", false),
    ("https://u:p@a/", "https://a/", false), ("https://a/", "https://a@b/", true),
    ("https://[fe80::1%25a]/", "https://[fe80::1%25b]/", true),
  ]

  @Test(arguments: origins) func originChanges(_ row: (String, String, Bool)) throws {
    let step = try step(decide(302, "GET", row.1, from: row.0))
    #expect(step.crossesOrigin == row.2)
    #expect(step.chain.strip.contains(.sensitive) == row.2)
  }

  /// Go CVE-2023-45289, CVE-2024-45336, CVE-2025-4673: what a hop took away does not come back, not even at home.
  @Test func strippingIsSticky() throws {
    let away = try step(decide(302, "GET", "https://evil/", from: "https://a/"))
    let back = try step(decide(302, "GET", "https://a/x", from: "https://evil/", chain: away.chain))
    let home = try step(decide(302, "GET", "/y", from: "https://a/x", chain: back.chain))
    #expect(home.crossesOrigin == false)
    #expect(home.chain.strip.contains(.sensitive))
    #expect(home.chain.count == 3)
  }

  /// urllib3 CVE-2023-45803: the body's fields go with it, for the rest of the chain.
  @Test func contentFieldsGoWithTheBody() throws {
    let first = try step(decide(303, "POST"))
    let second = try step(decide(307, first.method, chain: first.chain))
    #expect(second.method == "GET")
    for name in [
      "Content-Type", "content-length", "Content-Encoding", "Content-Language", "Content-Location",
      "Content-Disposition", "Transfer-Encoding", "Trailer", "Expect", "Digest",
    ] {
      #expect(OriginRule.strips(name, second.chain.strip), "\(name)")
    }
    #expect(!OriginRule.strips("Accept", second.chain.strip))
    #expect(!OriginRule.strips("Authorization", second.chain.strip))
  }

  /// curl CVE-2025-14524 and CVE-2026-3783 (bearer token), urllib3 CVE-2023-43804 (Cookie), CVE-2024-37891 and GHSA-qccp-gfcp-xxvc (Proxy-Authorization), Go CVE-2025-4673 (Proxy-*).
  @Test(arguments: [
    "Authorization", "authorization", "COOKIE", "Cookie2", "Proxy-Authorization", "Proxy-Authenticate",
    "proxy-anything", "WWW-Authenticate", "Origin", "X-Api-Key", "x-api-key", "API-KEY", "X-Auth-Token",
    "X-Access-Token", "X-Amz-Security-Token", "X-Goog-Api-Key", "PRIVATE-TOKEN",
  ])
  func credentialsGoWithTheOrigin(_ name: String) {
    #expect(OriginRule.strips(name, .sensitive))
    #expect(!OriginRule.strips(name, [.content, .target]))
  }

  @Test func markedFieldsGoWithTheOrigin() {
    #expect(OriginRule.strips("X-Own-Key", .sensitive, isMarkedSensitive: true))
    for name in ["X-Own-Key", "X-CSRF-Token", "X-Api-Keys", "X-Requested-With"] {
      #expect(!OriginRule.strips(name, .sensitive), "\(name)")
    }
    #expect(!OriginRule.strips("X-Own-Key", [.content, .target], isMarkedSensitive: true))
    #expect(!OriginRule.strips("Authorization", []))
  }

  /// curl CVE-2026-6276: a `Host` of the caller's names a server of the first origin, and no other (Go 22233).
  @Test func hostStaysWithinTheOrigin() throws {
    let near = try step(decide(302, "GET", "/y", from: "https://a/x"))
    #expect(!OriginRule.strips("Host", near.chain.strip))
    let away = try step(decide(302, "GET", "https://b/", from: "https://a/x", chain: near.chain))
    #expect(OriginRule.strips("host", away.chain.strip))
    let back = try step(decide(302, "GET", "https://a/x", from: "https://b/", chain: away.chain))
    #expect(OriginRule.strips("host", back.chain.strip))
  }

  /// curl CVE-2021-22876 and CVE-2026-9546.
  @Test func referrer() throws {
    let from = try URLReader.read("https://u:p@a/x?y#z")
    #expect(OriginRule.referrer(leaving: from, entering: try URLReader.read("https://a/q")) == "https://a/x?y")
    #expect(OriginRule.referrer(leaving: from, entering: try URLReader.read("https://b/q")) == "https://a/")
    #expect(OriginRule.referrer(leaving: from, entering: try URLReader.read("http://a/q")) == nil)
    let plain = try URLReader.read("http://u:p@[fe80::1%25eth0]:81/x")
    #expect(
      OriginRule.referrer(leaving: plain, entering: try URLReader.read("https://a/")) == "http://[fe80::1]:81/")
  }
}

extension RedirectDecision {
  fileprivate var isFollowed: Bool {
    if case .follow = self { true } else { false }
  }
}
