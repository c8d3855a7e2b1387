import LupineRules
import LupineTLS
import LupineWire
import Testing

/// The client's side of CONNECT, fed whole, byte by byte and at every split.
@Suite struct ConnectTunnelTests {
  struct Case: Sendable, CustomTestStringConvertible {
    var name: String
    var secret: CredentialSecret? = .password(user: "u", password: "p")
    var isPreemptive = false
    var answer: String
    /// What comes of it: the scheme of each request, then the end.
    var log: [String]
    var testDescription: String { name }
  }

  private static let basic = "Proxy-Authenticate: Basic realm=\"r\"\r\n"
  private static let digest =
    "Proxy-Authenticate: Digest realm=\"r\", nonce=\"n1\", qop=\"auth\", algorithm=SHA-256\r\n"
  private static let stale =
    "Proxy-Authenticate: Digest realm=\"r\", nonce=\"n2\", qop=\"auth\", algorithm=SHA-256, stale=true\r\n"
  private static let ok = "HTTP/1.1 200 Connection established\r\n\r\n"

  private static func asked(_ challenges: String, _ rest: String = "Content-Length: 2\r\n\r\nno") -> String {
    "HTTP/1.1 407 Who is it\r\n\(challenges)\(rest)"
  }

  static let cases: [Case] = [
    Case(name: "open", answer: ok, log: ["-", "established, 0 left"]),
    Case(name: "HTTP/1.0", answer: "HTTP/1.0 200 OK\r\n\r\n", log: ["-", "established, 0 left"]),
    Case(
      name: "a length means nothing in a 200", answer: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nbytes",
      log: ["-", "established, 5 left"]),
    Case(
      name: "nor do a length and a coding of HTTP/1.0",
      answer: "HTTP/1.0 200 OK\r\nContent-Length: x\r\nTransfer-Encoding: chunked\r\n\r\nbytes",
      log: ["-", "established, 5 left"]),
    Case(name: "interim", answer: "HTTP/1.1 103 Early\r\n\r\n" + ok, log: ["-", "established, 0 left"]),
    Case(name: "Basic", answer: asked(basic) + ok, log: ["-", "Basic", "established, 0 left"]),
    Case(
      name: "chunked 407", answer: asked(basic, "Transfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n") + ok,
      log: ["-", "Basic", "established, 0 left"]),
    Case(name: "the strongest", answer: asked(basic + digest) + ok, log: ["-", "Digest", "established, 0 left"]),
    Case(name: "preemptive", isPreemptive: true, answer: ok, log: ["Basic", "established, 0 left"]),
    Case(name: "preemptive, refused", isPreemptive: true, answer: asked(basic), log: ["Basic", "refused 407"]),
    Case(
      name: "preemptive, but Digest is wanted", isPreemptive: true, answer: asked(digest) + ok,
      log: ["Basic", "Digest", "established, 0 left"]),
    Case(name: "wrong", answer: asked(basic) + asked(basic), log: ["-", "Basic", "refused 407"]),
    Case(name: "wrong by Digest", answer: asked(digest) + asked(digest), log: ["-", "Digest", "refused 407"]),
    Case(
      name: "stale", answer: asked(digest) + asked(stale) + ok, log: ["-", "Digest", "Digest", "established, 0 left"]),
    Case(
      name: "stale for ever",
      answer: asked(digest) + asked(stale) + asked(digest.replacing("256", with: "256,stale=true")) + asked(stale),
      log: ["-", "Digest", "Digest", "Digest", "refused 407"]),
    Case(name: "nothing to answer with", secret: nil, answer: asked(basic), log: ["-", "refused 407"]),
    Case(name: "no scheme of ours", answer: asked("Proxy-Authenticate: Negotiate\r\n"), log: ["-", "refused 407"]),
    Case(name: "a token", secret: .token("t"), answer: ok, log: ["-", "established, 0 left"]),
    Case(
      name: "connection closes", answer: asked(basic, "Connection: close\r\nContent-Length: 0\r\n\r\n"),
      log: ["-", "again", "Basic"]),
    Case(name: "until close", answer: asked(basic, "\r\nsorry"), log: ["-", "again", "Basic"]),
    Case(
      name: "a long body",
      answer: asked(basic, "Content-Length: 70000\r\n\r\n") + String(repeating: "x", count: 66_000),
      log: ["-", "again", "Basic"]),
    Case(name: "forbidden", answer: "HTTP/1.1 403 No\r\nContent-Length: 5\r\n\r\nnever", log: ["-", "refused 403"]),
    Case(name: "redirect", answer: "HTTP/1.1 302 Go\r\nLocation: http://evil/\r\n\r\n", log: ["-", "refused 302"]),
    Case(
      name: "401 is no proxy's", answer: "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=x\r\n\r\n",
      log: ["-", "refused 401"]),
    Case(name: "no HTTP", answer: "SSH-2.0-OpenSSH\r\n", log: ["-", "wire"]),
    Case(name: "cut", answer: "HTTP/1.1 200 OK\r\n", log: ["-"]),
  ]

  @Test(arguments: cases) func everySplitSaysTheSame(_ one: Case) throws {
    let bytes = Array(one.answer.utf8)
    #expect(try Self.feed(one, [bytes[...]]) == one.log)
    #expect(try Self.feed(one, bytes.indices.map { bytes[$0...$0] }) == one.log)
    for cut in stride(from: 1, to: bytes.count, by: bytes.count > 1000 ? 997 : 1) {
      #expect(try Self.feed(one, [bytes[..<cut], bytes[cut...]]) == one.log)
    }
  }

  private static let tools = ProxyAuthenticationTools { hash, bytes in
    MessageDigest.hash(hash == .md5 ? .md5 : .sha256, bytes)
  } clientNonce: {
    "cnonce"
  }

  private static func feed(_ one: Case, _ pieces: [ArraySlice<UInt8>]) throws -> [String] {
    var credentials = one.secret.map { ProxyCredentials($0) }
    credentials?.isPreemptive = one.isPreemptive
    var machine = ConnectTunnel(
      authority: "h:443", fields: [],
      authentication: ProxyAuthentication(credentials, isSecure: false, remembered: nil, tools: tools),
      limits: WireLimits())
    var log = [scheme(try machine.request())]
    var taken = 0
    for piece in pieces {
      let piece = Array(piece)
      var offset = 0
      feeding: while true {
        do {
          switch try machine.receive(piece.span, &offset) {
          case .needMore: break feeding
          case .send(let head): log.append(scheme(head))
          case .reconnect(let head): return log + ["again", scheme(head)]
          case .established: return log + ["established, \(one.answer.utf8.count - taken - offset) left"]
          }
        } catch {
          switch error {
          case .refused(let refusal): return log + ["refused \(refusal.status)"]
          case .wire: return log + ["wire"]
          default: return log + ["\(error)"]
          }
        }
      }
      taken += offset
    }
    return log
  }

  /// One byte more, and the proxy is asked over another connection.
  @Test(arguments: [3, 4]) func howMuchIsReadForAConnectionIsASetting(_ limit: Int) throws {
    let credentials = ProxyCredentials(.password(user: "u", password: "p"))
    var machine = ConnectTunnel(
      authority: "h:443", fields: [],
      authentication: ProxyAuthentication(credentials, isSecure: false, remembered: nil, tools: Self.tools),
      limits: WireLimits(), discardLimit: limit)
    _ = try machine.request()
    let head = "HTTP/1.1 407 Who?\r\nProxy-Authenticate: Basic realm=\"r\"\r\nContent-Length: 4\r\n\r\n"
    let answer = Array((head + "body").utf8)
    var offset = 0
    switch try machine.receive(answer.span, &offset) {
    case .send: #expect(limit == 4)
    case .reconnect: #expect(limit == 3)
    case .needMore, .established: Issue.record("a 407 was not answered")
    }
  }

  @Test func aProxyThatIsGoneBehindItsAnswerIsAskedAnewOnce() throws {
    let credentials = ProxyCredentials(.password(user: "u", password: "p"))
    var machine = ConnectTunnel(
      authority: "h:443", fields: [],
      authentication: ProxyAuthentication(credentials, isSecure: false, remembered: nil, tools: Self.tools),
      limits: WireLimits())
    _ = try machine.request()
    expectMayBeGone(machine, false)
    let answer = Array(Self.asked(Self.digest).utf8)
    var offset = 0
    guard case .send(let second) = try machine.receive(answer.span, &offset) else { throw Unexpected() }
    expectMayBeGone(machine, true)
    guard case .reconnect(let third) = try machine.finish() else { throw Unexpected() }
    // With a count of its own: the proxy may have seen the other.
    #expect(String(decoding: second, as: UTF8.self).contains("nc=00000001"))
    #expect(String(decoding: third, as: UTF8.self).contains("nc=00000002"))
    expectMayBeGone(machine, false)
    let isOver = Self.isOver(&machine)
    #expect(isOver)
  }

  @Test func whatIsAcceptedOfServersIsAcceptedOfProxies() throws {
    let answer = Array("HTTP/1.0 200 Connection established\n\n".utf8)
    for (leniency, expected) in [(WireLeniency(), false), (.bareLineFeed, true)] {
      var machine = ConnectTunnel(
        authority: "h:443", fields: [],
        authentication: ProxyAuthentication(nil, isSecure: false, remembered: nil, tools: Self.tools),
        limits: WireLimits(), leniency: leniency)
      _ = try machine.request()
      var offset = 0
      let step = try? machine.receive(answer.span, &offset)
      #expect((step == .established) == expected)
    }
  }

  @Test func aProxyThatHasBegunToAnswerIsNotAskedAnew() throws {
    let credentials = ProxyCredentials(.password(user: "u", password: "p"))
    var machine = ConnectTunnel(
      authority: "h:443", fields: [],
      authentication: ProxyAuthentication(credentials, isSecure: false, remembered: nil, tools: Self.tools),
      limits: WireLimits())
    _ = try machine.request()
    let answer = Array((Self.asked(Self.basic) + "H").utf8)
    var offset = 0
    guard case .send = try machine.receive(answer.span, &offset) else { throw Unexpected() }
    let step = try machine.receive(answer.span, &offset)
    #expect(step == .needMore)
    expectMayBeGone(machine, false)
    let isOver = Self.isOver(&machine)
    #expect(isOver)
  }

  private struct Unexpected: Error {}

  // A machine that cannot be copied is no operand of an expectation.
  private func expectMayBeGone(
    _ machine: borrowing ConnectTunnel, _ expected: Bool, sourceLocation: SourceLocation = #_sourceLocation
  ) {
    let found = machine.mayBeGone
    #expect(found == expected, sourceLocation: sourceLocation)
  }

  private static func isOver(_ machine: inout ConnectTunnel) -> Bool { (try? machine.finish()) == nil }

  private static func scheme(_ head: [UInt8]) -> String {
    let text = String(decoding: head, as: UTF8.self)
    #expect(text.hasPrefix("CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n"))
    let line = text.split(separator: "\r\n").first { $0.hasPrefix("Proxy-Authorization: ") }
    return line.map { String($0.split(separator: " ")[1]) } ?? "-"
  }

  @Test func aRefusalHasStatusAndFields() throws {
    var machine = ConnectTunnel(
      authority: "h:443", fields: [("X-Trace", "1")],
      authentication: ProxyAuthentication(nil, isSecure: false, remembered: nil, tools: Self.tools),
      limits: WireLimits())
    let head = try machine.request()
    #expect(String(decoding: head, as: UTF8.self) == "CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\nX-Trace: 1\r\n\r\n")
    var offset = 0
    let answer = Array("HTTP/1.1 503 Not today\r\nX-Squid-Error: ERR_DNS 0\r\n\r\n".utf8)
    do {
      _ = try machine.receive(answer.span, &offset)
      Issue.record("a 503 opened a tunnel")
    } catch {
      guard case .refused(let refusal) = error else {
        Issue.record("another error: \(error)")
        return
      }
      #expect(refusal.status == 503)
      #expect(refusal.reason == "Not today")
      #expect(refusal.fields.first(named: "x-squid-error") == "ERR_DNS 0")
    }
  }

  @Test func aFieldThatBreaksTheFramingIsRefused() throws {
    var machine = ConnectTunnel(
      authority: "h:443", fields: [("X", "a\r\nHost: evil")],
      authentication: ProxyAuthentication(nil, isSecure: false, remembered: nil, tools: Self.tools),
      limits: WireLimits())
    do {
      _ = try machine.request()
      Issue.record("CR LF went out")
    } catch {
      guard case .badRequest = error else {
        Issue.record("another error: \(error)")
        return
      }
    }
  }

  /// The key of a `-sess` algorithm is made of the nonce of the challenge, whatever nonce follows that.
  @Test func aSessionKeyOutlivesItsNonce() throws {
    let credentials = ProxyCredentials(.password(user: "u", password: "p"))
    var first = ProxyAuthentication(credentials, isSecure: false, remembered: nil, tools: Self.tools)
    _ = try first.field(method: "GET", target: "http://h/")
    let isAnswered = first.challenged(by: [Array("Digest realm=r, nonce=n1, qop=auth, algorithm=SHA-256-sess".utf8)])
    #expect(isAnswered)
    _ = try first.field(method: "GET", target: "http://h/")
    var answer = try #require(first.sent)
    guard case .digest(var challenge) = answer.challenge else { throw Unexpected() }
    var request = DigestRequest(
      method: "GET", target: "http://h/", user: "u", password: "p", clientNonce: answer.clientNonce, count: 1)
    request.sessionKey = try DigestRule.sessionKey(challenge, request, hash: Self.tools.hash)
    challenge.nonce = "n2"
    answer.challenge = .digest(challenge)
    answer.isRemembered = true
    var second = ProxyAuthentication(credentials, isSecure: false, remembered: answer, tools: Self.tools)
    let value = try second.field(method: "GET", target: "http://h/")
    let expected = try DigestRule.credentials(challenge, request, hash: Self.tools.hash)
    #expect(value == expected)
  }

  /// Only who was told something has a nonce to replace.
  @Test(arguments: [true, false]) func theNextNonce(_ isKnown: Bool) throws {
    let credentials = ProxyCredentials(.password(user: "u", password: "p"))
    var machine = ConnectTunnel(
      authority: "h:443", fields: [],
      authentication: ProxyAuthentication(
        isKnown ? credentials : nil, isSecure: false, remembered: nil, tools: Self.tools), limits: WireLimits())
    _ = try machine.request()
    let established = "HTTP/1.1 200 OK\r\nProxy-Authentication-Info: nextnonce=\"n2\"\r\n\r\n"
    let answer = Array(((isKnown ? Self.asked(Self.digest) : "") + established).utf8)
    var offset = 0
    var step = try machine.receive(answer.span, &offset)
    if case .send = step { step = try machine.receive(answer.span, &offset) }
    #expect(step == .established)
    let nonce = machine.nextNonce
    #expect(nonce == (isKnown ? "n2" : nil))
  }

  /// In FIPS mode there is no MD5: a proxy is answered by what there is, else its 407 stands.
  @Test func aHashThatIsNotThereIsNoChallenge() throws {
    let tools = ProxyAuthenticationTools { hash, bytes in
      hash == .md5 ? nil : MessageDigest.hash(.sha256, bytes)
    } clientNonce: {
      "cnonce"
    }
    let md5 = Array("Digest realm=r, nonce=n, qop=auth".utf8)
    let rows: [(values: [[UInt8]], scheme: String?)] = [
      ([md5], nil), ([md5, Array("Basic realm=r".utf8)], "Basic "),
      ([md5, Array("Digest realm=r, nonce=n, qop=auth, algorithm=SHA-256".utf8)], "Digest "),
    ]
    for row in rows {
      var authentication = ProxyAuthentication(
        ProxyCredentials(.password(user: "u", password: "p")), isSecure: false, remembered: nil, tools: tools)
      let silent = try authentication.field(method: "GET", target: "http://h/")
      #expect(silent == nil)
      let isAnswered = authentication.challenged(by: row.values)
      #expect(isAnswered == (row.scheme != nil))
      guard let scheme = row.scheme, isAnswered else { continue }
      let value = try authentication.field(method: "GET", target: "http://h/")
      #expect(value?.hasPrefix(scheme) == true)
    }
  }

  @Test func whatWasAcceptedIsUsedAgainWithItsCount() throws {
    let secret = CredentialSecret.password(user: "u", password: "p")
    let challenge = try DigestChallenge(
      try #require(ChallengeReader.read([Array("Digest realm=r, nonce=n, qop=auth".utf8)]).challenges.first))
    let remembered = ChallengeAnswer(challenge: .digest(challenge), secret: secret, clientNonce: "c", count: 2)
    var authentication = ProxyAuthentication(
      ProxyCredentials(secret), isSecure: false, remembered: remembered, tools: Self.tools)
    let value = try #require(try authentication.field(method: "GET", target: "http://h/"))
    #expect(value.contains("nc=00000002"))
    #expect(value.contains("uri=\"http://h/\""))
    // curl CVE-2026-9079: a password that is no longer the configured one is not sent.
    var other = ProxyAuthentication(
      ProxyCredentials(.password(user: "u", password: "new")), isSecure: false, remembered: remembered,
      tools: Self.tools)
    let none = try other.field(method: "GET", target: "http://h/")
    #expect(none == nil)
  }
}
