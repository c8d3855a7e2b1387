import Foundation
import LupineRules
import LupineTLS
import LupineTestSupport
import Testing

extension DigestHash {
  static let hasher: DigestHasher = { hash, bytes in
    switch hash {
    case .md5: MessageDigest.hash(.md5, bytes)
    case .sha256: MessageDigest.hash(.sha256, bytes)
    case .sha512Truncated: MessageDigest.hash(.sha512Truncated, bytes)
    }
  }
}

/// One case of `Cases/digest.md`; the file says how it is written.
struct DigestCase: Sendable, CustomStringConvertible {
  var name: String
  var challenge: [UInt8] = []
  var values: [String: String] = [:]
  var expected: String?
  var refusal: String?

  var description: String { name }

  static func all() throws -> [DigestCase] {
    var cases: [DigestCase] = []
    for line in try CaseFile.lines("digest.md") {
      if line.hasPrefix("### ") {
        cases.append(DigestCase(name: String(line.dropFirst(4))))
        continue
      }
      guard var last = cases.popLast() else { continue }
      let rest = String(decoding: try CaseText.unescape(line.dropFirst(2)), as: UTF8.self)
      if line.hasPrefix("> ") { last.challenge = try CaseText.unescape(line.dropFirst(2)) }
      if line.hasPrefix("= ") { last.expected = rest }
      if line.hasPrefix("! ") { last.refusal = rest }
      if line.hasPrefix("? ") {
        let words = rest.split(separator: " ", maxSplits: 1)
        last.values[String(words[0])] = words.count > 1 ? String(words[1]) : ""
      }
      cases.append(last)
    }
    return cases
  }
}

@Suite struct DigestTests {
  @Test func thereAreEnoughCases() throws {
    let cases = try DigestCase.all()
    #expect(cases.count >= 30)
    #expect(Set(cases.map(\.name)).count == cases.count)
    #expect(cases.allSatisfy { ($0.expected == nil) != ($0.refusal == nil) })
  }

  @Test(arguments: try DigestCase.all()) func credentials(_ one: DigestCase) throws {
    let challenges = ChallengeReader.read([one.challenge]).challenges
    let parsed = try #require(challenges.first)
    do throws(DigestRefusal) {
      let challenge = try DigestChallenge(parsed)
      let body = one.values["body"].flatMap { DigestHash.hasher(challenge.hash, Array($0.utf8)) }
      let request = DigestRequest(
        method: one.values["method"] ?? "GET", target: one.values["target"] ?? "/", user: one.values["user"] ?? "",
        password: one.values["password"] ?? "", clientNonce: one.values["cnonce"] ?? "c",
        count: one.values["count"].flatMap { UInt32($0) } ?? 1, bodyHash: body)
      let result = try DigestRule.credentials(challenge, request, hash: DigestHash.hasher)
      #expect(one.refusal == nil)
      #expect(result == Self.filled(one, challenge, request))
      // What we write can be read, and says the same.
      let again = ChallengeReader.read([Array(result.utf8)])
      #expect(again.faults == [] && again.challenges.count == 1)
      #expect(again.challenges.first?["nonce"] == challenge.nonce)
      #expect(again.challenges.first?["realm"] == challenge.realm)
      #expect(again.challenges.first?["uri"] == request.target)
    } catch {
      #expect(error.description == one.refusal)
    }
  }

  /// `@MD5(auth)` in an expectation: the response as RFC 7616 writes it down, in one formula and without `DigestRule`.
  private static func filled(_ one: DigestCase, _ challenge: DigestChallenge, _ request: DigestRequest) -> String? {
    guard let expected = one.expected, let at = expected.range(of: "@"),
      let open = expected[at.upperBound...].range(of: "("), let close = expected[open.upperBound...].range(of: ")")
    else { return one.expected }
    let hash = DigestHash.allCases.first { $0.name == expected[at.upperBound..<open.lowerBound] }
    let options = expected[open.upperBound..<close.lowerBound].split(separator: ",").map(String.init)
    func h(_ text: String) -> String {
      let bytes = hash.flatMap { DigestHash.hasher($0, Array(text.utf8)) } ?? []
      return bytes.map { String(format: "%02x", $0) }.joined()
    }
    var a1 = "\(request.user):\(challenge.realm):\(request.password)"
    if options.contains("sess") { a1 = "\(h(a1)):\(challenge.nonce):\(request.clientNonce)" }
    var a2 = "\(request.method):\(request.target)"
    if options[0] == "auth-int" { a2 += ":" + h(one.values["body"] ?? "") }
    let count = String(format: "%08x", request.count)
    let response = h("\(h(a1)):\(challenge.nonce):\(count):\(request.clientNonce):\(options[0]):\(h(a2))")
    return expected.replacingCharacters(in: at.lowerBound..<close.upperBound, with: response)
  }

  @Test func sessionKeyIsKept() throws {
    let text = #"Digest realm="r", qop="auth", nonce="n", algorithm=MD5-sess"#
    var challenge = try DigestChallenge(try #require(ChallengeReader.read([Array(text.utf8)]).challenges.first))
    var request = DigestRequest(method: "GET", target: "/", user: "u", password: "p", clientNonce: "c", count: 1)
    let first = try DigestRule.credentials(challenge, request, hash: DigestHash.hasher)
    let key = try DigestRule.sessionKey(challenge, request, hash: DigestHash.hasher)
    request.sessionKey = key
    #expect(try DigestRule.credentials(challenge, request, hash: DigestHash.hasher) == first)
    // With the nonce of `Authentication-Info` the key stays that of the challenge, and no password is needed for it.
    challenge.nonce = "m"
    request.password = "changed"
    let next = try DigestRule.credentials(challenge, request, hash: DigestHash.hasher)
    request.sessionKey = nil
    request.password = "p"
    #expect(try DigestRule.credentials(challenge, request, hash: DigestHash.hasher) != next)
  }

  @Test(arguments: DigestHash.allCases) func withoutTheFunction(_ hash: DigestHash) throws {
    let text = #"Digest realm="r", qop="auth", nonce="n", algorithm=\#(hash.name)"#
    let challenge = try DigestChallenge(try #require(ChallengeReader.read([Array(text.utf8)]).challenges.first))
    let request = DigestRequest(method: "GET", target: "/", user: "u", password: "p", clientNonce: "c", count: 1)
    #expect(throws: DigestRefusal.unavailable(hash)) {
      try DigestRule.credentials(challenge, request, hash: { _, _ in nil })
    }
  }

  @Test(arguments: [
    ("stale=true", true), ("stale=TRUE", true), ("stale=\"true\"", true), ("stale=false", false), ("stale=1", false),
    ("x=true", false),
  ]) func stale(_ row: (String, Bool)) throws {
    let text = "Digest realm=r, nonce=n, \(row.0)"
    let parsed = try #require(ChallengeReader.read([Array(text.utf8)]).challenges.first)
    #expect(try DigestChallenge(parsed).isStale == row.1)
  }

  @Test(arguments: [
    (#"nextnonce="abc""#, "abc"), (#"qop=auth, nextnonce="a\"b", nc=00000001"#, #"a"b"#),
    ("nextnonce=" + String(repeating: "n", count: 1024), String(repeating: "n", count: 1024)),
    ("nextnonce=" + String(repeating: "n", count: 1025), nil), (#"rspauth="x""#, nil), ("", nil), ("nextnonce=", nil),
    (#"nextnonce="a", nextnonce="b""#, nil),
  ]) func nextNonce(_ row: (String, String?)) {
    #expect(AuthenticationInfo.nextNonce([Array(row.0.utf8)]) == row.1)
  }
}
