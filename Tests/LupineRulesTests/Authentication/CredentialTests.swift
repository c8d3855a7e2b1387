import LupineRules
import Testing

@Suite struct CredentialTests {
  @Test(arguments: [
    ("Aladdin", "open sesame", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),  // RFC 7617 section 2
    ("test", "123\u{a3}", "Basic dGVzdDoxMjPCow=="),  // section 2.1
    ("", "", "Basic Og=="), ("u", "", "Basic dTo="), ("", "p", "Basic OnA="), ("u", "a:b", "Basic dTphOmI="),
    ("Jäsøn", "p", "Basic SsOkc8O4bjpw"),
  ]) func basic(_ row: (String, String, String)) throws {
    #expect(try BasicRule.credentials(user: row.0, password: row.1) == row.2)
  }

  @Test(arguments: [
    ("a:b", "p", CredentialsRefusal.colonInUser), (":", "", .colonInUser), ("a\nb", "p", .controlInUser),
    ("a", "p\u{0}", .controlInPassword), ("a", "p\u{7f}", .controlInPassword), ("a\u{85}", "p", .controlInUser),
    ("a", "\r\nX: y", .controlInPassword), ("\t", "p", .controlInUser),
  ]) func basicRefuses(_ row: (String, String, CredentialsRefusal)) {
    #expect(throws: row.2) { try BasicRule.credentials(user: row.0, password: row.1) }
  }

  @Test(arguments: [
    ("mF_9.B5f-4.1JqM", true), ("a", true), ("a=", true), ("a==", true), ("A.b-_~+/z", true), ("", false),
    ("=", false), ("a=b", false), ("a b", false), ("a\n", false), ("a,b", false), ("ä", false), ("\"a\"", false),
    ("a\r\nX: y", false),
  ]) func bearer(_ row: (String, Bool)) {
    #expect(BearerRule.isToken68(row.0) == row.1)
    if row.1 {
      #expect((try? BearerRule.credentials(token: row.0)) == "Bearer " + row.0)
    } else {
      #expect(throws: CredentialsRefusal.invalidToken) { try BearerRule.credentials(token: row.0) }
    }
  }

  @Test(
    arguments: [
      ([], ""), ([0], "AA=="), ([0, 1], "AAE="), ([0, 1, 2], "AAEC"), ([255, 254, 253, 252], "//79/A=="),
      (Array("foobar".utf8), "Zm9vYmFy"), (Array("fooba".utf8), "Zm9vYmE="),
    ] as [([UInt8], String)]) func base64(_ row: ([UInt8], String))
  {
    #expect(AuthenticationText.base64(row.0) == row.1)
  }

  @Test func secretsAreNotPrinted() {
    for secret in [CredentialSecret.password(user: "Mufasa", password: "Circle"), .token("Circle")] {
      var dumped = ""
      dump(secret, to: &dumped)
      dump(ChallengeAnswer(challenge: .basic(realm: "r"), secret: secret), to: &dumped)
      for text in ["\(secret)", String(reflecting: secret), String(describing: [secret]), dumped] {
        #expect(!text.contains("Circle") && !text.contains("Mufasa"))
      }
    }
  }

  struct Preference: Sendable, CustomTestStringConvertible {
    var fields: [String]
    var isSecure = true
    var policy = AuthenticationPolicy()
    /// Hash functions that the machine does not have.
    var lacks: [DigestHash] = []
    /// Scheme, and of Digest the hash.
    var expected: [String]
    var testDescription: String { fields.joined(separator: " | ") }
  }

  private static let sha = "Digest realm=r, nonce=n, algorithm=SHA-256"
  private static let long = "Digest realm=r, nonce=n, algorithm=SHA-512-256"
  private static let md5 = "Digest realm=r, nonce=n, algorithm=MD5"
  private static let basic = "Basic realm=r"

  static let preferences: [Preference] = [
    Preference(fields: [], expected: []),
    Preference(fields: ["Negotiate"], expected: []),
    Preference(fields: [basic], expected: ["basic"]),
    Preference(fields: [basic, md5], expected: ["digest MD5", "basic"]),
    Preference(fields: [md5, basic], expected: ["digest MD5", "basic"]),
    Preference(fields: [basic + ", " + md5 + ", " + sha], expected: ["digest SHA-256", "digest MD5", "basic"]),
    Preference(fields: [md5, sha], expected: ["digest SHA-256", "digest MD5"]),
    Preference(fields: [sha, md5], expected: ["digest SHA-256", "digest MD5"]),
    Preference(fields: [sha, long], expected: ["digest SHA-256", "digest SHA-512-256"]),
    Preference(fields: [long, sha], expected: ["digest SHA-512-256", "digest SHA-256"]),
    Preference(fields: ["Digest realm=r, nonce=n"], expected: ["digest MD5"]),
    Preference(fields: ["Digest realm=r, nonce=n, algorithm=SHA-1", basic], expected: ["basic"]),
    Preference(fields: ["Digest realm=r", basic], expected: ["basic"]),
    Preference(fields: ["Basic"], expected: ["basic"]),
    Preference(fields: ["Basic charset=utf-8"], expected: ["basic"]),
    Preference(fields: ["Bearer", basic], expected: ["bearer", "basic"]),
    Preference(fields: [basic, "Bearer realm=r"], expected: ["bearer", "basic"]),
    Preference(fields: [basic, "Basic realm=s"], expected: ["basic", "basic"]),
    Preference(fields: [basic, md5], isSecure: false, expected: ["digest MD5", "basic"]),
    Preference(
      fields: [basic, md5], isSecure: false, policy: AuthenticationPolicy(allowsBasicOverPlaintext: false),
      expected: ["digest MD5"]),
    Preference(
      fields: [basic], isSecure: false, policy: AuthenticationPolicy(allowsBasicOverPlaintext: false), expected: []),
    Preference(
      fields: [basic], isSecure: true, policy: AuthenticationPolicy(allowsBasicOverPlaintext: false),
      expected: ["basic"]),
    Preference(fields: [md5, sha], policy: AuthenticationPolicy(allowsMD5: false), expected: ["digest SHA-256"]),
    Preference(fields: [md5], lacks: [.md5], expected: []),
    Preference(fields: [md5, basic], lacks: [.md5], expected: ["basic"]),
    Preference(fields: [md5, sha, basic], lacks: [.md5], expected: ["digest SHA-256", "basic"]),
    Preference(fields: [sha, long], lacks: [.sha256], expected: ["digest SHA-512-256"]),
    Preference(fields: [md5, sha, long], lacks: [.md5, .sha256, .sha512Truncated], expected: []),
    Preference(fields: ["Digest realm=r, nonce=n, algorithm=MD5-sess", "Bearer"], lacks: [.md5], expected: ["bearer"]),
    Preference(fields: ["Negotiate, NTLM abc=, " + basic], expected: ["basic"]),
  ]

  @Test(arguments: preferences) func strongestFirst(_ row: Preference) {
    let list = ChallengeReader.read(row.fields.map { Array($0.utf8) })
    let order = ChallengePreference.order(
      list.challenges, isSecure: row.isSecure, policy: row.policy, has: { !row.lacks.contains($0) })
    let shown = order.map { challenge in
      if case .digest(let digest) = challenge { "digest \(digest.hash.name)" } else { challenge.scheme.rawValue }
    }
    #expect(shown == row.expected)
  }

  struct Given: Sendable, CustomTestStringConvertible {
    var offers: String
    var isToken = false
    var allowsBasic = true
    var allowsDigest = true
    /// The scheme that is answered.
    var expected: AnswerableChallenge.Scheme?
    var testDescription: String {
      "\(isToken ? "token" : "password") \(allowsBasic) \(allowsDigest) for \(offers)"
    }
  }

  static let given: [Given] = [
    Given(offers: basic, expected: .basic),
    Given(offers: "Bearer, " + basic, expected: .basic),
    Given(offers: "Bearer, " + md5 + ", " + basic, expected: .digest),
    Given(offers: "Bearer, " + md5 + ", " + basic, allowsDigest: false, expected: .basic),
    Given(offers: md5 + ", " + basic, expected: .digest),
    Given(offers: md5 + ", " + basic, allowsDigest: false, expected: .basic),
    Given(offers: md5 + ", " + basic, allowsBasic: false, expected: .digest),
    Given(offers: md5 + ", " + basic, allowsBasic: false, allowsDigest: false, expected: nil),
    Given(offers: md5, allowsDigest: false, expected: nil),
    Given(offers: "Bearer", expected: nil),
    Given(offers: "Bearer, " + basic, isToken: true, expected: .bearer),
    Given(offers: "Bearer, " + basic, isToken: true, allowsBasic: false, allowsDigest: false, expected: .bearer),
    Given(offers: md5 + ", " + basic, isToken: true, expected: nil),
    Given(offers: "Negotiate", expected: nil),
  ]

  /// What somebody answers who was asked about the first of several offers.
  @Test(arguments: given) func theFirstThatItFits(_ row: Given) {
    let order = ChallengePreference.order(
      ChallengeReader.read([Array(row.offers.utf8)]).challenges, isSecure: true, has: { _ in true })
    let secret = row.isToken ? CredentialSecret.token("t") : .password(user: "u", password: "p")
    let chosen = ChallengePreference.first(
      of: order, for: secret, allowsBasic: row.allowsBasic, allowsDigest: row.allowsDigest)
    #expect(chosen?.scheme == row.expected)
  }
}
