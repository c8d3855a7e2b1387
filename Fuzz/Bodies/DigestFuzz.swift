internal import LupineRules
internal import LupineTLS

/// Oracle: those for Basic decode to name and password; the credentials for any challenge of Digest hold the response that RFC 7616 section 3.4 gives, computed a second time from nothing but
/// their own words and the password; nothing but a control character in a name or password is refused; what is remembered is sent to its own
/// party, origin and paths only, with a count that no nonce has twice.
///
/// The first byte chooses method and body. Lines: user, password, target, then fields of challenges.
package enum DigestFuzz {
  private static let base = try? URLReader.read("https://a.example:8443/dir/index.html?x")

  package static func run(bytes: [UInt8]) {
    guard let choice = bytes.first, let base else { return }
    let lines = bytes.dropFirst().split(separator: UInt8(ascii: "\n"), maxSplits: 3, omittingEmptySubsequences: false)
    guard lines.count == 4 else { return }
    let (user, password) = (String(decoding: lines[0], as: UTF8.self), String(decoding: lines[1], as: UTF8.self))
    let url = (try? URLReader.resolve(String(decoding: lines[2], as: UTF8.self), against: base)) ?? base
    let fields = lines[3].split(separator: UInt8(ascii: "\n")).map { Array($0) }
    let body: [UInt8] = choice & 2 == 0 ? [] : Array("body".utf8)
    let order = ChallengePreference.order(
      ChallengeReader.read(fields).challenges, isSecure: true, has: { _ in true })
    basic(user, password)
    for case .digest(let challenge) in order {
      let request = DigestRequest(
        method: choice & 1 == 0 ? "GET" : "PUT", target: url.target, user: user, password: password,
        clientNonce: "0a4f113b", count: 1 + UInt32(choice >> 2), bodyHash: hash(challenge.hash, body))
      check(challenge, request)
      remember(challenge, request, url, AuthenticationInfo.nextNonce(fields))
    }
  }

  private static func basic(_ user: String, _ password: String) {
    let text: String
    do {
      text = try BasicRule.credentials(user: user, password: password)
    } catch {
      precondition(!error.description.isEmpty)
      return precondition(
        user.utf8.contains(UInt8(ascii: ":")) || hasControl(user) || hasControl(password), "a password is refused")
    }
    let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    var bits = 0
    var (value, decoded) = (0, [UInt8]())
    for byte in text.utf8.dropFirst("Basic ".utf8.count) where byte != UInt8(ascii: "=") {
      guard let digit = alphabet.firstIndex(of: byte) else { preconditionFailure("no base64") }
      (value, bits) = (value << 6 | digit, bits + 6)
      if bits >= 8 {
        bits -= 8
        decoded.append(UInt8(truncatingIfNeeded: value >> bits))
        value &= 1 << bits - 1
      }
    }
    precondition(text.utf8.count % 4 == 2 && value == 0, "base64 of another length")
    precondition(decoded == Array("\(user):\(password)".utf8), "another name or password")
    let token = String(text.dropFirst(6))
    precondition((try? BearerRule.credentials(token: token)) == (BearerRule.isToken68(token) ? "Bearer " + token : nil))
  }

  private static func hash(_ function: DigestHash, _ bytes: [UInt8]) -> [UInt8]? {
    switch function {
    case .md5: MessageDigest.hash(.md5, bytes)
    case .sha256: MessageDigest.hash(.sha256, bytes)
    case .sha512Truncated: MessageDigest.hash(.sha512Truncated, bytes)
    }
  }

  private static func check(_ challenge: DigestChallenge, _ request: DigestRequest) {
    let isControlled = hasControl(request.user) || hasControl(request.password)
    guard let text = try? DigestRule.credentials(challenge, request, hash: { hash($0, $1) }) else {
      return precondition(isControlled || hash(challenge.hash, []) == nil, "a challenge that could be answered was not")
    }
    precondition(!isControlled, "a control character is sent")
    guard text.utf8.count < ChallengeReader.maximumLength, !CombiningMarks.areTooMany(in: request.user) else { return }
    let list = ChallengeReader.read([Array(text.utf8)])
    precondition(list.faults.isEmpty && list.challenges.count == 1, "the credentials cannot be read")
    let sent = list.challenges[0]
    precondition(sent["response"] == response(sent, challenge, request), "another response than that of the RFC")
    precondition(sent["uri"] == request.target && sent["algorithm"] == challenge.algorithm)
    // The key of a session, computed before, gives the same.
    var again = request
    again.sessionKey = try? DigestRule.sessionKey(challenge, request, hash: { hash($0, $1) })
    if challenge.isSession { again.password = "forgotten" }
    precondition((try? DigestRule.credentials(challenge, again, hash: { hash($0, $1) })) == text, "a key that differs")
  }

  /// RFC 7616 section 3.4.1 to 3.4.3, and RFC 2069 for a challenge without `qop`.
  private static func response(_ sent: Challenge, _ challenge: DigestChallenge, _ request: DigestRequest) -> String {
    func word(_ name: String) -> [UInt8] { sent.parameters.first { $0.name == name }?.bytes ?? [] }
    func h(_ parts: [[UInt8]]) -> [UInt8] {
      hexadecimal(hash(challenge.hash, Array(parts.joined(separator: [UInt8(ascii: ":")]))) ?? [])
    }
    var first = h([Array(request.user.utf8), word("realm"), Array(request.password.utf8)])
    if sent["userhash"] == "true" {
      precondition(word("username") == h([Array(request.user.utf8), word("realm")]), "another hash of the name")
    } else if let plain = sent["username"] {
      precondition(plain == request.user, "another name")
    }
    if sent["algorithm"]?.lowercased().hasSuffix("-sess") == true { first = h([first, word("nonce"), word("cnonce")]) }
    var second = [Array(request.method.utf8), word("uri")]
    if sent["qop"] == "auth-int" { second.append(hexadecimal(request.bodyHash ?? [])) }
    guard sent["qop"] != nil else { return text(h([first, word("nonce"), h(second)])) }
    precondition(UInt32(sent["nc"] ?? "", radix: 16) == request.count && sent["nc"]?.utf8.count == 8, "another count")
    return text(h([first, word("nonce"), word("nc"), word("cnonce"), word("qop"), h(second)]))
  }

  private static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

  private static func hexadecimal(_ bytes: [UInt8]) -> [UInt8] {
    let digits = Array("0123456789abcdef".utf8)
    return bytes.flatMap { [digits[Int($0 / 16)], digits[Int($0 % 16)]] }
  }

  private static func hasControl(_ text: String) -> Bool {
    text.unicodeScalars.contains { $0.properties.generalCategory == .control }
  }

  // MARK: Memory

  private static func remember(
    _ challenge: DigestChallenge, _ request: DigestRequest, _ url: ParsedURL, _ nextNonce: String?
  ) {
    let party = AuthenticationParty(origin: url.origin)
    let secret = CredentialSecret.password(user: request.user, password: request.password)
    let answer = ChallengeAnswer(
      challenge: .digest(challenge), secret: secret, clientNonce: request.clientNonce, count: request.count)
    var attempts = AuthenticationAttempts()
    precondition(attempts.choose(secret, for: answer.challenge, party: party))
    attempts.sent(answer)
    guard let accepted = attempts.accepted() else { preconditionFailure("what was accepted is not known") }
    var memory = AuthenticationMemory()
    memory.learn(accepted, party: party, url: url)
    precondition(memory.spaceCount == 1)
    let proxy = AuthenticationParty(origin: url.origin, isProxy: true)
    precondition(memory.use(party: proxy, target: url.target) { _ in true } == nil, "a proxy gets a server's answer")
    precondition(memory.use(party: party, target: url.target) { _ in false } == nil)
    var count = request.count
    for target in ["/", url.target, "/dir/..%2f", "/dir/x"] {
      guard let used = memory.use(party: party, target: target, isUsable: { _ in true }) else {
        precondition(!challenge.domain.isEmpty, "the whole origin is not known")
        continue
      }
      precondition(used.count == count + 1 && used.nonce == challenge.nonce, "a count twice")
      count = used.count
      memory.learn(used, party: party, url: url)
    }
    precondition(memory.nextCount(of: challenge.nonce, party: party) == count + 1, "a count twice")
    if let used = memory.use(party: party, target: url.target, isUsable: { _ in true }) {
      precondition(used.count == count + 2, "a count twice")
    }
    if let nextNonce, nextNonce != challenge.nonce {
      memory.replaceNonce(of: accepted, by: nextNonce, party: party)
      let used = memory.use(party: party, target: url.target) { _ in true }
      precondition(used.map { $0.nonce == nextNonce && $0.count == 1 } ?? !challenge.domain.isEmpty, "an old nonce")
    }
    for prefix in ProtectionPath.digest(challenge.domain, base: url) {
      precondition(prefix.utf8.first == UInt8(ascii: "/"), "a path of another origin")
      precondition(ProtectionPath.covers(prefix, prefix) || prefix.contains(".") || prefix.contains("%"))
    }
    forget(accepted, party, url, &memory)
    refuse(challenge, answer, party, &attempts)
  }

  private static func forget(
    _ answer: ChallengeAnswer, _ party: AuthenticationParty, _ url: ParsedURL, _ memory: inout AuthenticationMemory
  ) {
    memory.learn(answer, party: party, url: url)
    precondition(memory.spaceCount == 1, "a space twice")
    guard let realm = answer.challenge.realm else { preconditionFailure("Digest without a realm") }
    var basic = answer
    basic.challenge = .basic(realm: realm)
    for _ in 0..<2 { memory.learn(basic, party: party, url: url) }
    precondition(memory.spaceCount == 2, "Basic and Digest are one")
    memory.forget(answer, party: party)
    precondition(memory.spaceCount == 1)
    guard let used = memory.use(party: party, target: url.target, isUsable: { _ in true }) else {
      return precondition(url.target.contains(".") || url.target.contains("%"), "Basic is forgotten below its own path")
    }
    precondition(used.challenge == basic.challenge, "what was forgotten is sent")
    memory.removeAll()
    precondition(memory.isEmpty)
  }

  private static func refuse(
    _ challenge: DigestChallenge, _ answer: ChallengeAnswer, _ party: AuthenticationParty,
    _ attempts: inout AuthenticationAttempts
  ) {
    attempts.sent(answer)
    var renewed = challenge
    renewed.nonce += "+"
    switch attempts.challenged(by: [.digest(renewed)], party: party) {
    case .stale(let stale): precondition(renewed.isStale && stale == renewed && attempts.chooseAgain())
    case .refused:
      precondition(!renewed.isStale && attempts.failureCount(of: party) == 1)
      precondition(
        !attempts.mayTry(answer.secret, for: .digest(renewed), party: party), "a refused secret is tried again")
    case .unjudged, .outdated, .refusedHere: preconditionFailure("nobody looked at the answer")
    }
    while attempts.chooseAgain() {}
    precondition(attempts.rounds == AuthenticationAttempts.maximumRounds && !attempts.mayAnswer)
    attempts.startOver()
    precondition(attempts.mayAnswer && attempts.current == nil)
  }
}
