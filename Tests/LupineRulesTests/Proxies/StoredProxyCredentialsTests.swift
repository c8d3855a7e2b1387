import LupineRules
import Testing

/// What of a storage a proxy is told, which is decided before it has named its realm.
@Suite struct StoredProxyCredentialsTests {
  private static let alice = CredentialSecret.password(user: "alice", password: "a")
  private static let bob = CredentialSecret.password(user: "bob", password: "b")
  private static let token = CredentialSecret.token("t")

  private static func entry(
    _ secret: CredentialSecret, _ realm: String? = nil, _ scheme: AnswerableChallenge.Scheme? = nil,
    allowsBasic: Bool = true
  ) -> StoredProxyCredentials {
    var credentials = ProxyCredentials(secret)
    credentials.allowsBasic = allowsBasic
    return StoredProxyCredentials(realm: realm, scheme: scheme, credentials: credentials)
  }

  struct Row: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var entries: [StoredProxyCredentials]
    /// Nil: nothing is chosen.
    var secret: CredentialSecret?
    var realm: String?
    /// Of a password: what it may answer.
    var answers: Set<AnswerableChallenge.Scheme> = [.basic, .digest]
  }

  static let rows: [Row] = [
    Row(testDescription: "nothing", entries: []),
    Row(testDescription: "one for all", entries: [entry(alice)], secret: alice),
    Row(testDescription: "one for a realm", entries: [entry(alice, "r")], secret: alice, realm: "r"),
    Row(testDescription: "the empty realm is one", entries: [entry(alice, "")], secret: alice, realm: ""),
    Row(testDescription: "for all, then for a realm", entries: [entry(alice), entry(bob, "r")], secret: alice),
    Row(testDescription: "for a realm, then for all", entries: [entry(bob, "r"), entry(alice)], secret: alice),
    Row(testDescription: "two realms", entries: [entry(alice, "r"), entry(bob, "s")]),
    Row(testDescription: "two realms, one secret", entries: [entry(alice, "r"), entry(alice, "s")]),
    Row(
      testDescription: "for all of a scheme before a realm", entries: [entry(bob, "r"), entry(alice, nil, .basic)],
      secret: alice, answers: [.basic]),
    Row(
      testDescription: "every scheme before one", entries: [entry(bob, nil, .digest), entry(alice)], secret: alice),
    Row(
      testDescription: "Digest before Basic", entries: [entry(bob, nil, .basic), entry(alice, nil, .digest)],
      secret: alice, answers: [.digest]),
    Row(
      testDescription: "Basic before a token", entries: [entry(token, nil, .bearer), entry(alice, nil, .basic)],
      secret: alice, answers: [.basic]),
    Row(
      testDescription: "one secret for two schemes", entries: [entry(alice, "r", .basic), entry(alice, "r", .digest)],
      secret: alice, realm: "r"),
    Row(
      testDescription: "not for Basic", entries: [entry(alice, allowsBasic: false)], secret: alice, answers: [.digest]),
    Row(testDescription: "not for Basic, and for that alone", entries: [entry(alice, nil, .basic, allowsBasic: false)]),
    Row(testDescription: "a token", entries: [entry(token)], secret: token, answers: []),
    Row(testDescription: "a token for Basic", entries: [entry(token, nil, .basic)]),
    Row(
      testDescription: "a password for Bearer hides nothing", entries: [entry(bob, nil, .bearer), entry(alice, "r")],
      secret: alice, realm: "r"),
  ]

  @Test(arguments: rows) func choice(_ row: Row) {
    for entries in [row.entries, Array(row.entries.reversed())] {
      let chosen = StoredProxyCredentials.choose(among: entries)
      #expect(chosen?.secret == row.secret)
      guard let chosen else { continue }
      #expect(chosen.realm == row.realm)
      #expect(chosen.allowsBasic == row.answers.contains(.basic))
      #expect(chosen.allowsDigest == row.answers.contains(.digest))
    }
  }

  /// What is for one realm is told to no other.
  @Test func aRealmIsKept() throws {
    let tools = ProxyAuthenticationTools(hash: { _, _ in nil }, clientNonce: { nil })
    let cases: [(realm: String?, asked: String, isTold: Bool)] = [
      ("r", "Basic realm=r", true), ("r", "Basic realm=s", false), ("r", "Basic", false), ("", "Basic", true),
      (nil, "Basic realm=s", true), ("s", "Basic realm=r, Basic realm=s", true),
    ]
    for (realm, asked, isTold) in cases {
      var credentials = ProxyCredentials(Self.alice)
      credentials.realm = realm
      var authentication = ProxyAuthentication(credentials, isSecure: false, remembered: nil, tools: tools)
      let silent = try authentication.field(method: "GET", target: "http://h/")
      #expect(silent == nil)
      let isAnswered = authentication.challenged(by: [Array(asked.utf8)])
      #expect(isAnswered == isTold, "\(realm ?? "every realm"): \(asked)")
    }
  }
}
