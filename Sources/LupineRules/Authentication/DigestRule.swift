/// What a Digest response is computed from besides the challenge.
package struct DigestRequest: Hashable, Sendable {
  package var method: String
  /// The request target as it is sent.
  package var target: String
  package var user: String
  package var password: String
  /// Unpredictable, of visible ASCII without quotes.
  package var clientNonce: String
  /// From 1, one more for each use of the nonce.
  package var count: UInt32
  /// The hash of the body by the function of the challenge; the empty body has one too. Needed for `auth-int`.
  package var bodyHash: [UInt8]?
  /// What `DigestRule.sessionKey` gave for the challenge, for the algorithms that end in `-sess`; nil computes it from this request.
  package var sessionKey: [UInt8]?

  package init(
    method: String, target: String, user: String, password: String, clientNonce: String, count: UInt32,
    bodyHash: [UInt8]? = nil, sessionKey: [UInt8]? = nil
  ) {
    self.method = method
    self.target = target
    self.user = user
    self.password = password
    self.clientNonce = clientNonce
    self.count = count
    self.bodyHash = bodyHash
    self.sessionKey = sessionKey
  }
}

/// Computes `Digest` credentials (RFC 7616 section 3.4), with what RFC 2617 and RFC 2069 servers expect where the challenge shows one.
///
/// User names and passwords are encoded as UTF-8 as they are given. Hashes are over unescaped values.
package enum DigestRule {
  /// The value of `Authorization` or `Proxy-Authorization`.
  package static func credentials(
    _ challenge: DigestChallenge, _ request: DigestRequest, hash: DigestHasher
  ) throws(DigestRefusal) -> String {
    guard !AuthenticationText.hasControl(request.user) else { throw .controlInUser }
    guard !AuthenticationText.hasControl(request.password) else { throw .controlInPassword }
    guard !challenge.hasQuality || request.count > 0 else { throw .nonceExhausted }
    let quality = challenge.quality
    let response = try Self.response(challenge, request, quality, hash)
    var parameters = try Self.user(challenge, request, hash)
    parameters += [
      ("realm", AuthenticationText.quoted(Array(challenge.realm.utf8))),
      ("nonce", AuthenticationText.quoted(Array(challenge.nonce.utf8))),
      ("uri", AuthenticationText.quoted(Array(request.target.utf8))),
    ]
    // Repeated as it came: a token by the grammar, but quoted if a server quoted something else.
    if let algorithm = challenge.algorithm { parameters.append(("algorithm", Array(algorithm.utf8))) }
    if quality != .legacy {
      parameters += [
        ("qop", Array(name(quality).utf8)), ("nc", count(request.count)),
        ("cnonce", AuthenticationText.quoted(Array(request.clientNonce.utf8))),
      ]
    } else if challenge.isSession {
      // RFC 7616 wants `qop` here; a server without it still has to learn the client's part of the key.
      parameters.append(("cnonce", AuthenticationText.quoted(Array(request.clientNonce.utf8))))
    }
    parameters.append(("response", AuthenticationText.quoted(response)))
    if let opaque = challenge.opaque {
      parameters.append(("opaque", AuthenticationText.quoted(Array(opaque.utf8))))
    }
    if challenge.hashesUser { parameters.append(("userhash", Array("true".utf8))) }
    return join(parameters)
  }

  /// The secret part of the algorithms that end in `-sess`, computed once for each challenge (RFC 7616 section 3.4.2), in hexadecimal.
  package static func sessionKey(
    _ challenge: DigestChallenge, _ request: DigestRequest, hash: DigestHasher
  ) throws(DigestRefusal) -> [UInt8] {
    let secret = try hexadecimal(
      challenge, Array("\(request.user):\(challenge.realm):\(request.password)".utf8), hash)
    return try hexadecimal(challenge, secret + Array(":\(challenge.nonce):\(request.clientNonce)".utf8), hash)
  }

  private static func response(
    _ challenge: DigestChallenge, _ request: DigestRequest, _ quality: DigestQuality, _ hash: DigestHasher
  ) throws(DigestRefusal) -> [UInt8] {
    let secret: [UInt8]
    if let known = request.sessionKey, challenge.isSession {
      secret = known
    } else if challenge.isSession {
      secret = try sessionKey(challenge, request, hash: hash)
    } else {
      secret = try hexadecimal(
        challenge, Array("\(request.user):\(challenge.realm):\(request.password)".utf8), hash)
    }
    var what = Array("\(request.method):\(request.target)".utf8)
    if quality == .integrity {
      guard let body = request.bodyHash else { throw .needsBodyHash }
      what += [UInt8(ascii: ":")] + AuthenticationText.hexadecimal(body)
    }
    var text = secret + Array(":\(challenge.nonce):".utf8)
    if quality != .legacy {
      text += count(request.count)
      text += Array(":\(request.clientNonce):\(name(quality)):".utf8)
    }
    text += try hexadecimal(challenge, what, hash)
    return try hexadecimal(challenge, text, hash)
  }

  /// `username` hashed, extended, or as it is.
  private static func user(
    _ challenge: DigestChallenge, _ request: DigestRequest, _ hash: DigestHasher
  ) throws(DigestRefusal) -> [(String, [UInt8])] {
    if challenge.hashesUser {
      let hashed = try hexadecimal(challenge, Array("\(request.user):\(challenge.realm)".utf8), hash)
      return [("username", AuthenticationText.quoted(hashed))]
    }
    // The extended form is RFC 7616's; a server that says nothing of UTF-8 may be older than it.
    if challenge.isUTF8, !request.user.utf8.allSatisfy({ $0 < 0x80 }) {
      return [("username*", AuthenticationText.extended(Array(request.user.utf8)))]
    }
    return [("username", AuthenticationText.quoted(Array(request.user.utf8)))]
  }

  private static func hexadecimal(
    _ challenge: DigestChallenge, _ bytes: [UInt8], _ hash: DigestHasher
  ) throws(DigestRefusal) -> [UInt8] {
    guard let result = hash(challenge.hash, bytes) else { throw .unavailable(challenge.hash) }
    return AuthenticationText.hexadecimal(result)
  }

  private static func name(_ quality: DigestQuality) -> String { quality == .integrity ? "auth-int" : "auth" }

  /// Eight hexadecimal digits.
  private static func count(_ count: UInt32) -> [UInt8] {
    AuthenticationText.hexadecimal((0..<4).map { UInt8(truncatingIfNeeded: count >> (24 - 8 * $0)) })
  }

  private static func join(_ parameters: [(String, [UInt8])]) -> String {
    var result = Array("Digest ".utf8)
    for (index, parameter) in parameters.enumerated() {
      if index > 0 { result += [UInt8(ascii: ","), UInt8(ascii: " ")] }
      result += Array(parameter.0.utf8)
      result.append(UInt8(ascii: "="))
      result += parameter.1
    }
    return String(decoding: result, as: UTF8.self)
  }
}

/// `Authentication-Info` of servers, and `Proxy-Authentication-Info` of proxies (RFC 7615, RFC 7616 sections 3.5 and 3.8).
package enum AuthenticationInfo {
  /// Bytes of a nonce that is taken: it goes out with every request from then on.
  package static let nonceLimit = 1024

  /// The nonce that the server or proxy wants next; none that is longer than `nonceLimit`: somebody behind a proxy may have named it, to make requests of
  /// a length that the proxy refuses.
  ///
  /// The field has no scheme, so it is read as the parameters of one.
  package static func nextNonce(_ values: [[UInt8]]) -> String? {
    let list = ChallengeReader.read(values.map { Array("info ".utf8) + $0 })
    return list.challenges.lazy.compactMap { (try? $0.exact("nextnonce")) ?? nil }.first.flatMap { nonce in
      nonce.utf8.count <= nonceLimit ? nonce : nil
    }
  }
}
