import LupineRules
import LupineTestSupport
import Testing

/// One case of `Cases/rfc9110-15.4-redirects.md`; the file says how it is written.
struct RedirectCase: Sendable, CustomStringConvertible {
  var name: String
  var lines: [Substring] = []

  var description: String { name }

  /// What is answered, and what comes of it.
  var answers: [Substring] { lines.filter { !$0.hasPrefix("? ") } }

  static func all() throws -> [RedirectCase] {
    try CaseFile.sections("rfc9110-15.4-redirects.md", marks: ["? ", "> ", "+ "]).map { section in
      RedirectCase(name: section.name, lines: section.lines)
    }
  }
}

@Suite struct RedirectRuleTests {
  /// A request that is answered next.
  private struct Asked {
    var method: String
    var url: ParsedURL
    var isBodyReplayable = true
    var chain = RedirectChain()
  }

  private struct Play {
    var policy = RedirectPolicy()
    var first: Asked?
    var asked: Asked?

    mutating func carryOut(_ line: Substring) throws {
      let halves = line.split(separator: " | ")
      let words = halves[0].split(separator: " ").map(String.init)
      try #require(words.count >= 3, "\(line)")
      if words[0] == "?" { return try begin(words) }
      try #require(halves.count == 2, "\(line)")
      if words[0] == ">" { asked = first }
      try answer(words, halves[1].split(separator: " ").map(String.init), line)
    }

    private mutating func begin(_ words: [String]) throws {
      policy = RedirectPolicy()
      var request = Asked(method: words[1], url: try URLReader.read(words[2]))
      for option in words.dropFirst(3) {
        switch option {
        case "off": policy.isEnabled = false
        case "downgrade": policy.allowsDowngrade = true
        case "no-replay": request.isBodyReplayable = false
        default:
          let limit = option.hasPrefix("limit=") ? Int(option.dropFirst(6)) : nil
          policy.limit = try #require(limit, "\(option)")
        }
      }
      first = request
    }

    private mutating func answer(_ words: [String], _ outcome: [String], _ line: Substring) throws {
      let status = Int(words[1])
      let current = asked
      let request = try #require(current, "\(line)")
      let decision = RedirectRule.decide(
        status: try #require(status, "\(line)"), method: request.method,
        locations: words.dropFirst(2).filter { $0 != "-" }.map { $0 == "\"\"" ? [] : Array($0.utf8) },
        current: request.url, chain: request.chain, isBodyReplayable: request.isBodyReplayable, policy: policy)
      asked = nil
      guard case .follow(let step) = decision else {
        let told = RedirectRuleTests.told(decision)
        #expect(told == outcome.joined(separator: " "), "\(line)")
        return
      }
      try #require(outcome.count >= 2, "\(line)")
      let url = try URLReader.read(outcome[1])
      #expect(step.url == url, "\(line)")
      #expect(step.method == outcome[0], "\(line)")
      #expect(RedirectRuleTests.marks(step) == Array(outcome.dropFirst(2)), "\(line)")
      #expect(step.chain.count == request.chain.count + 1, "\(line)")
      asked = Asked(
        method: step.method, url: step.url, isBodyReplayable: request.isBodyReplayable || step.dropsBody,
        chain: step.chain)
    }
  }

  private static func told(_ decision: RedirectDecision) -> String {
    switch decision {
    case .follow(let step): "\(step.method) \(step.url.identity)"
    case .deliver(let reason): "deliver \(reason)"
    case .refuse(.tooManyRedirects(let limit)): "refuse tooManyRedirects \(limit)"
    case .refuse(.downgrade): "refuse downgrade"
    case .refuse(.ambiguousLocation): "refuse ambiguousLocation"
    case .refuse(.invalidLocation(let refusal)): "refuse invalidLocation \(refusal)"
    }
  }

  private static func marks(_ step: RedirectStep) -> [String] {
    var marks: [String] = []
    if step.crossesOrigin { marks.append("new-origin") }
    if step.dropsBody { marks.append("no-body") }
    if step.chain.strip.contains(.sensitive) { marks.append("-credentials") }
    if step.chain.strip.contains(.target) { marks.append("-host") }
    if step.chain.strip.contains(.content) { marks.append("-content") }
    return marks
  }

  @Test(arguments: try RedirectCase.all()) func plays(_ one: RedirectCase) throws {
    var play = Play()
    for line in one.lines { try play.carryOut(line) }
  }

  @Test func thereAreEnoughCases() throws {
    let cases = try RedirectCase.all()
    #expect(cases.count >= 40)
    #expect(Set(cases.map(\.name)).count == cases.count)
    #expect(cases.allSatisfy { !$0.answers.isEmpty })
    #expect(cases.reduce(0) { $0 + $1.answers.count } >= 250)
  }

  private func decide(
    _ status: Int, _ method: String = "GET", _ location: String = "/next", from current: String = "https://a/b",
    chain: RedirectChain = RedirectChain()
  ) throws -> RedirectDecision {
    RedirectRule.decide(
      status: status, method: method, locations: [Array(location.utf8)], current: try URLReader.read(current),
      chain: chain, isBodyReplayable: true)
  }

  private func step(_ decision: RedirectDecision) throws -> RedirectStep {
    guard case .follow(let step) = decision else {
      Issue.record("not followed: \(decision)")
      throw RedirectRefusal.ambiguousLocation
    }
    return step
  }

  /// urllib3 CVE-2023-45803: the body's fields go with it, for the rest of the chain.
  @Test func contentFieldsGoWithTheBody() throws {
    let first = try step(decide(303, "POST"))
    let second = try step(decide(307, first.method, chain: first.chain))
    #expect(second.method == "GET")
    for name in [
      "Content-Type", "content-length", "Content-Encoding", "Content-Language", "Content-Location",
      "Content-Disposition", "Transfer-Encoding", "Trailer", "Expect", "Digest", "Repr-Digest", "Last-Modified",
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

  /// A value of the caller's; what goes to the target that the caller named; what goes to https://a/ and to http://b/ behind a redirect to another origin.
  static let referrers: [(String, String, String?, String?)] = [
    ("https://a/x?y", "https://a/x?y", "https://a/x?y", nil),
    ("https://u:p@a/x?y#z", "https://a/x?y", "https://a/x?y", nil),
    ("https://u@p@c/x@y#z@w", "https://c/x@y", nil, nil),
    ("https://u:p@c/x@y#z@w", "https://c/x@y", "https://c/", nil),
    ("http://u:p@b?q@r/s", "http://b?q@r/s", "http://b/", "http://b/?q@r/s"),
    ("http://u:p@c", "http://c", "http://c/", "http://c/"),
    ("//u:p@c/x#y", "//c/x", nil, nil),
    ("/x//u@y#z", "/x//u@y", nil, nil),
    ("x?//u@y#z", "x?//u@y", nil, nil),
    ("android-app://u@c/#z", "android-app://c/", nil, nil),
    ("about:blank#@", "about:blank", nil, nil),
    ("#", "", nil, nil),
    ("", "", nil, nil),
  ]

  @Test(arguments: referrers) func referrerOfTheCaller(_ row: (String, String, String?, String?)) throws {
    let (same, plain) = (try URLReader.read("https://a/"), try URLReader.read("http://b/"))
    for url in [same, plain] {
      #expect(OriginRule.referrer(given: row.0, entering: url, crossed: false) == row.1)
    }
    #expect(OriginRule.referrer(given: row.0, entering: same, crossed: true) == row.2)
    #expect(OriginRule.referrer(given: row.0, entering: plain, crossed: true) == row.3)
  }
}
