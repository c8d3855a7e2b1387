import LupineRules
import Testing

/// What is sent without being asked for: RFC 7617 section 2.2, RFC 7616 section 3.3, and never to another origin.
@Suite struct PreemptiveTests {
  private static let alice = CredentialSecret.password(user: "alice", password: "a")
  private static let bob = CredentialSecret.password(user: "bob", password: "b")

  private static func party(_ url: String, isProxy: Bool = false) throws -> AuthenticationParty {
    AuthenticationParty(origin: try URLReader.read(url).origin, isProxy: isProxy)
  }

  private static func digest(_ nonce: String = "n", domain: [String] = [], realm: String = "r") throws
    -> AnswerableChallenge
  {
    let text = "Digest realm=\(realm), nonce=\(nonce), qop=auth, domain=\"\(domain.joined(separator: " "))\""
    return .digest(try DigestChallenge(try #require(ChallengeReader.read([Array(text.utf8)]).challenges.first)))
  }

  struct Row: Sendable, CustomTestStringConvertible {
    var learned: String
    /// nil is Basic.
    var domain: [String]?
    var asked: String
    var isSent: Bool
    var testDescription: String { "\(learned) \(domain ?? ["basic"]) -> \(asked)" }
  }

  static let rows: [Row] = [
    // RFC 7617 section 2.2.
    Row(learned: "http://a/docs/index.html", asked: "http://a/docs/", isSent: true),
    Row(learned: "http://a/docs/index.html", asked: "http://a/docs/test.doc", isSent: true),
    Row(learned: "http://a/docs/index.html", asked: "http://a/docs/?page=1", isSent: true),
    Row(learned: "http://a/docs/index.html", asked: "http://a/docs/sub/deep", isSent: true),
    Row(learned: "http://a/docs/index.html", asked: "http://a/docs", isSent: false),
    Row(learned: "http://a/docs/index.html", asked: "http://a/other/", isSent: false),
    Row(learned: "http://a/docs/index.html", asked: "http://a/", isSent: false),
    Row(learned: "http://a/docs/index.html", asked: "http://a/docs2/", isSent: false),
    Row(learned: "http://a/docs/index.html", asked: "http://a/DOCS/", isSent: false),
    Row(learned: "http://a/docs/?next=/x/y", asked: "http://a/docs/z", isSent: true),
    Row(learned: "http://a/docs/?next=/x/y", asked: "http://a/x/z", isSent: false),
    Row(learned: "http://a", asked: "http://a/anything/at/all", isSent: true),
    Row(learned: "http://a/docs/x", asked: "http://a/docs/%2e%2e/public", isSent: false),
    Row(learned: "http://a/docs/x", asked: "http://a/docs/%2E./public", isSent: false),
    Row(learned: "http://a/docs/x", asked: "http://a/docs/sub%2f..%2f../public", isSent: false),
    Row(learned: "http://a/docs/x", asked: "http://a/docs/y?path=../z", isSent: true),
    Row(learned: "http://a/docs/x", asked: "http://a/docs/..y", isSent: true),
    // Another origin is another server: scheme, host and port (curl CVE-2022-27774, CVE-2022-27776).
    Row(learned: "http://a/", asked: "https://a/", isSent: false),
    Row(learned: "https://a/", asked: "http://a/", isSent: false),
    Row(learned: "http://a/", asked: "http://a:8080/", isSent: false),
    Row(learned: "http://a/", asked: "http://a:80/", isSent: true),
    Row(learned: "http://a/", asked: "http://A/", isSent: true),
    Row(learned: "http://a/", asked: "http://a./", isSent: false),
    Row(learned: "http://a/", asked: "http://b.a/", isSent: false),
    Row(learned: "http://127.0.0.1/", asked: "http://localhost/", isSent: false),
    // Digest: the whole origin, or what `domain` names of it.
    Row(learned: "http://a/docs/x", domain: [], asked: "http://a/other", isSent: true),
    Row(learned: "http://a/docs/x", domain: ["/secret"], asked: "http://a/secret/x", isSent: true),
    Row(learned: "http://a/docs/x", domain: ["/secret"], asked: "http://a/docs/x", isSent: false),
    Row(learned: "http://a/docs/x", domain: ["/p/", "http://a/q/"], asked: "http://a/q/1", isSent: true),
    Row(learned: "http://a/docs/x", domain: ["sub/"], asked: "http://a/docs/sub/1", isSent: true),
    Row(learned: "http://a/docs/x", domain: ["http://b/"], asked: "http://b/", isSent: false),
    Row(learned: "http://a/docs/x", domain: ["http://b/"], asked: "http://a/docs/x", isSent: false),
    Row(learned: "http://a/docs/x", domain: ["https://a/"], asked: "https://a/", isSent: false),
    Row(learned: "http://a/docs/x", domain: ["//b/", "/y"], asked: "http://a/y", isSent: true),
    Row(learned: "http://a/docs/x", domain: ["ftp://a/"], asked: "http://a/docs/x", isSent: false),
    Row(learned: "http://a/docs/x", domain: [], asked: "http://b/docs/x", isSent: false),
  ]

  @Test(arguments: rows) func paths(_ row: Row) throws {
    var memory = AuthenticationMemory()
    let url = try URLReader.read(row.learned)
    let challenge = try row.domain.map { try Self.digest(domain: $0) } ?? .basic(realm: "r")
    memory.learn(
      ChallengeAnswer(challenge: challenge, secret: Self.alice), party: try Self.party(row.learned), url: url)
    let asked = try URLReader.read(row.asked)
    let answer = memory.use(party: try Self.party(row.asked), target: asked.target) { $0.secret == Self.alice }
    #expect((answer != nil) == row.isSent)
  }

  @Test func countsEveryUseOfANonce() throws {
    var memory = AuthenticationMemory()
    let url = try URLReader.read("http://a/")
    let party = try Self.party("http://a/")
    let answer = ChallengeAnswer(challenge: try Self.digest(), secret: Self.alice, clientNonce: "c", count: 1)
    memory.learn(answer, party: party, url: url)
    let counts = (0..<3).map { _ in memory.use(party: party, target: "/x") { _ in true }?.count }
    #expect(counts == [2, 3, 4])
    // The late success of the request that used count 1 does not turn back the count.
    memory.learn(answer, party: party, url: url)
    let result1 = memory.use(party: party, target: "/x") { _ in true }
    #expect(result1?.count == 5)
    // The server's next nonce starts anew, and an answer to an old one changes nothing.
    memory.replaceNonce(of: answer, by: "m", party: party)
    memory.replaceNonce(of: answer, by: "late", party: party)
    let next = try #require(memory.use(party: party, target: "/x") { _ in true })
    #expect(next.nonce == "m" && next.count == 1 && next.clientNonce == "c")
  }

  /// Two spellings of a letter are two realms, and two nonces.
  @Test func realmsAndNoncesAreBytes() throws {
    var memory = AuthenticationMemory()
    let url = try URLReader.read("http://a/")
    let party = try Self.party("http://a/")
    for realm in ["\u{E9}", "e\u{301}"] {
      let answer = ChallengeAnswer(challenge: try Self.digest(realm: "\"\(realm)\""), secret: Self.alice)
      memory.learn(answer, party: party, url: url)
    }
    #expect(memory.spaceCount == 2)
    let counts = ["\u{E9}", "e\u{301}"].map { memory.nextCount(of: $0, party: party) }
    #expect(counts == [1, 1])
  }

  /// A challenge may name a nonce that was used already, whether it is remembered or not.
  @Test func countsAnswersToChallengesToo() throws {
    var memory = AuthenticationMemory()
    let url = try URLReader.read("http://a/")
    let party = try Self.party("http://a/")
    func count(_ nonce: String) -> UInt32 { memory.nextCount(of: nonce, party: party) }
    #expect([count("n"), count("n"), count("other")] == [1, 2, 1] && memory.isEmpty)
    #expect(memory.nextCount(of: "n", party: try Self.party("http://b/")) == 1)
    #expect(memory.nextCount(of: "n", party: try Self.party("http://a/", isProxy: true)) == 1)
    // The first answer of two is accepted, and what is sent unasked comes after both.
    let answer = ChallengeAnswer(challenge: try Self.digest("n"), secret: Self.alice, count: 1)
    memory.learn(answer, party: party, url: url)
    let used = try #require(memory.use(party: party, target: "/") { _ in true })
    #expect(used.count == 3 && count("n") == 4)
    memory.forget(used, party: party)
    #expect(memory.isEmpty && count("n") == 5)
    memory.learn(answer, party: party, url: url)
    memory.replaceNonce(of: answer, by: "other", party: party)
    let next = try #require(memory.use(party: party, target: "/") { _ in true })
    #expect(next.nonce == "other" && next.count == 2)
    memory.removeAll()
    #expect(memory.isEmpty && count("n") == 6 && count("other") == 3)
  }

  @Test func theNonceThatIsUsedIsCountedLongest() throws {
    var memory = AuthenticationMemory()
    let party = try Self.party("http://a/")
    let used = (0..<2 * AuthenticationMemory.maximumNonces).map { number in
      _ = memory.nextCount(of: "\(number)", party: party)
      return memory.nextCount(of: "used", party: party)
    }
    #expect(used == Array(1...UInt32(used.count)))
    // Of the others only the latest are known.
    #expect(memory.nextCount(of: "\(used.count - 1)", party: party) == 2)
    #expect(memory.nextCount(of: "0", party: party) == 1)
  }

  /// Requests that were challenged apart have nonces of their own, and end in any order.
  @Test func noLateAnswerTurnsBackACount() throws {
    var memory = AuthenticationMemory()
    let url = try URLReader.read("http://a/")
    let party = try Self.party("http://a/")
    func next() throws -> ChallengeAnswer { try #require(memory.use(party: party, target: "/x") { _ in true }) }
    let first = ChallengeAnswer(challenge: try Self.digest("1"), secret: Self.alice)
    let second = ChallengeAnswer(challenge: try Self.digest("2"), secret: Self.alice)
    memory.learn(first, party: party, url: url)
    let (early, late) = (try next(), try next())
    #expect([early.count, late.count] == [2, 3] && early.nonce == "1" && late.nonce == "1")
    memory.learn(second, party: party, url: url)
    memory.learn(early, party: party, url: url)
    let third = try next()
    #expect(third.nonce == "2" && third.count == 2)
    // Nor does one that the server has replaced (RFC 7616 section 3.5).
    memory.replaceNonce(of: third, by: "3", party: party)
    memory.learn(late, party: party, url: url)
    let fourth = try next()
    #expect(fourth.nonce == "3" && fourth.count == 1)
  }

  /// What a refusal took away was used further than any answer that is still under way.
  @Test func whatIsForgottenStaysForgotten() throws {
    var memory = AuthenticationMemory()
    let url = try URLReader.read("http://a/")
    let party = try Self.party("http://a/")
    memory.learn(ChallengeAnswer(challenge: try Self.digest(), secret: Self.alice), party: party, url: url)
    let early = try #require(memory.use(party: party, target: "/") { _ in true })
    let late = try #require(memory.use(party: party, target: "/") { _ in true })
    memory.forget(late, party: party)
    memory.learn(early, party: party, url: url)
    #expect(memory.isEmpty)
  }

  /// Relative URLs of `domain` are those of the request that was challenged.
  @Test func aRememberedAnswerMovesNoPath() throws {
    var memory = AuthenticationMemory()
    let party = try Self.party("http://a/")
    let answer = ChallengeAnswer(challenge: try Self.digest(domain: ["sub/"]), secret: Self.alice)
    memory.learn(answer, party: party, url: try URLReader.read("http://a/docs/x"))
    let used = try #require(memory.use(party: party, target: "/docs/sub/1") { _ in true })
    memory.learn(used, party: party, url: try URLReader.read("http://a/docs/sub/1"))
    let again = memory.use(party: party, target: "/docs/sub/2") { _ in true }
    #expect(again?.count == 3)
  }

  @Test func anExhaustedNonceIsForgotten() throws {
    var memory = AuthenticationMemory()
    let party = try Self.party("http://a/")
    let answer = ChallengeAnswer(challenge: try Self.digest(), secret: Self.alice, count: .max - 1)
    memory.learn(answer, party: party, url: try URLReader.read("http://a/"))
    let result2 = memory.use(party: party, target: "/") { _ in true }
    #expect(result2?.count == .max)
    let result3 = memory.use(party: party, target: "/") { _ in true }
    #expect(result3 == nil)
    #expect(memory.isEmpty)
  }

  /// curl CVE-2026-11856, CVE-2026-8927, CVE-2026-7168: state of one origin or proxy is nobody else's.
  @Test func aProxyIsNotItsOrigin() throws {
    var memory = AuthenticationMemory()
    let url = try URLReader.read("http://a/")
    let answer = ChallengeAnswer(challenge: try Self.digest(), secret: Self.alice)
    memory.learn(answer, party: try Self.party("http://a/", isProxy: true), url: url)
    let result4 = memory.use(party: try Self.party("http://a/"), target: "/") { _ in true }
    #expect(result4 == nil)
    let result5 = memory.use(party: try Self.party("http://a/", isProxy: true), target: "/") { _ in true }
    #expect(result5 != nil)
  }

  @Test func suppliesNoCredentials() throws {
    var memory = AuthenticationMemory()
    let url = try URLReader.read("http://a/")
    let party = try Self.party("http://a/")
    memory.learn(ChallengeAnswer(challenge: .basic(realm: "r"), secret: Self.alice), party: party, url: url)
    let result6 = memory.use(party: party, target: "/") { $0.secret == Self.bob }
    #expect(result6 == nil)
    let result7 = memory.use(party: party, target: "/") { $0.secret == Self.alice }
    #expect(result7 != nil)
  }

  @Test func theDeepestSpaceCounts() throws {
    var memory = AuthenticationMemory()
    let party = try Self.party("http://a/")
    for (realm, url) in [("top", "http://a/x"), ("deep", "http://a/p/q/x"), ("middle", "http://a/p/x")] {
      let answer = ChallengeAnswer(challenge: .basic(realm: realm), secret: Self.alice)
      memory.learn(answer, party: party, url: try URLReader.read(url))
    }
    func realm(_ target: String) -> String? {
      memory.use(party: party, target: target) { _ in true }?.challenge.realm
    }
    #expect(realm("/p/q/r/s") == "deep")
    #expect(realm("/p/r") == "middle")
    #expect(realm("/p") == "top")
  }

  @Test func aRefusedAnswerIsForgotten() throws {
    var memory = AuthenticationMemory()
    let party = try Self.party("http://a/")
    let url = try URLReader.read("http://a/")
    let old = ChallengeAnswer(challenge: try Self.digest("old"), secret: Self.alice)
    let new = ChallengeAnswer(challenge: try Self.digest("new"), secret: Self.alice)
    memory.learn(old, party: party, url: url)
    memory.learn(new, party: party, url: url)
    #expect(memory.spaceCount == 1)
    // A late refusal of the old nonce says nothing of the new one.
    memory.forget(old, party: party)
    #expect(memory.spaceCount == 1)
    memory.forget(new, party: party)
    #expect(memory.isEmpty)
  }

  /// Each directory that credentials went to unasked is below the one that they were asked for, which is not forgotten for them.
  @Test func manyDirectoriesLeaveTheOneAboveThem() throws {
    var memory = AuthenticationMemory()
    let party = try Self.party("http://a/")
    let answer = ChallengeAnswer(challenge: .basic(realm: "r"), secret: Self.alice)
    memory.learn(answer, party: party, url: try URLReader.read("http://a/x"))
    for number in 0...2 * AuthenticationMemory.maximumPrefixes {
      let used = try #require(memory.use(party: party, target: "/d\(number)/x") { _ in true })
      memory.learn(used, party: party, url: try URLReader.read("http://a/d\(number)/x"))
    }
    let last = memory.use(party: party, target: "/x") { _ in true }
    #expect(last != nil)
  }

  /// A server may lead to any number of long paths, and name them.
  @Test(
    arguments: [
      (AuthenticationMemory.maximumPrefixLength, nil, true), (AuthenticationMemory.maximumPrefixLength + 1, nil, false),
      (AuthenticationMemory.maximumPrefixLength, ["."], true),
      (AuthenticationMemory.maximumPrefixLength + 1, ["."], false),
    ] as [(Int, [String]?, Bool)])
  func longPathsAreNotRemembered(_ length: Int, _ domain: [String]?, _ isRemembered: Bool) throws {
    var memory = AuthenticationMemory()
    let party = try Self.party("http://a/")
    let directory = "/" + String(repeating: "d", count: length - 2) + "/"
    let challenge = try domain.map { try Self.digest(domain: $0) } ?? .basic(realm: "r")
    let answer = ChallengeAnswer(challenge: challenge, secret: Self.alice)
    memory.learn(answer, party: party, url: try URLReader.read("http://a\(directory)x"))
    let used = memory.use(party: party, target: directory + "y") { _ in true }
    #expect((used != nil) == isRemembered)
  }

  /// A server calls its realms what it likes, and makes nobody else's be forgotten by that.
  @Test func manyRealmsPushOutTheirOwn() throws {
    var memory = AuthenticationMemory()
    let url = try URLReader.read("http://a/")
    let (party, other) = (try Self.party("http://a/"), try Self.party("http://b/"))
    let answer = ChallengeAnswer(challenge: .basic(realm: "r"), secret: Self.alice)
    memory.learn(answer, party: other, url: try URLReader.read("http://b/"))
    for number in 0...AuthenticationMemory.maximumSpaces {
      let answer = ChallengeAnswer(challenge: .basic(realm: "\(number)"), secret: Self.alice)
      memory.learn(answer, party: party, url: url)
    }
    #expect(memory.spaceCount == AuthenticationMemory.maximumSpacesOfParty + 1)
    let used = memory.use(party: other, target: "/") { _ in true }
    let latest = memory.use(party: party, target: "/") { $0.challenge.realm == "\(AuthenticationMemory.maximumSpaces)" }
    let first = memory.use(party: party, target: "/") { $0.challenge.realm == "0" }
    #expect(used != nil && latest != nil && first == nil)
  }

  @Test func isBounded() throws {
    var memory = AuthenticationMemory()
    for index in 0..<(AuthenticationMemory.maximumSpaces + 50) {
      let url = try URLReader.read("http://h\(index)/")
      let answer = ChallengeAnswer(challenge: .basic(realm: "r"), secret: Self.alice)
      memory.learn(answer, party: AuthenticationParty(origin: url.origin), url: url)
      // The first is in use, and stays.
      _ = memory.use(party: try Self.party("http://h0/"), target: "/") { _ in true }
    }
    #expect(memory.spaceCount == AuthenticationMemory.maximumSpaces)
    let result8 = memory.use(party: try Self.party("http://h0/"), target: "/") { _ in true }
    #expect(result8 != nil)
    let result9 = memory.use(party: try Self.party("http://h1/"), target: "/") { _ in true }
    #expect(result9 == nil)
  }
}
