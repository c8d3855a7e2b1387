internal import LupineRules

/// Oracle: limits hold; what was read of a challenge, written down again in quotes, reads the same; order never adds a challenge; Digest
/// credentials are one challenge without a fault, hold no control byte, and repeat realm, nonce and opaque exactly; the last field does not
/// change what the fields before it gave.
///
/// Lines are fields.
package enum WWWAuthenticateFuzz {
  package static func run(bytes: [UInt8]) {
    let fields = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map { Array($0) }
    let list = ChallengeReader.read(fields)
    precondition(list.challenges.count <= ChallengeReader.maximumChallenges, "too many challenges")
    precondition(list.faults.count <= ChallengeReader.maximumFaults, "too many faults")
    for challenge in list.challenges { check(challenge) }
    let fewer = ChallengeReader.read(fields.dropLast())
    if fields.reduce(0, { $0 + $1.count }) <= ChallengeReader.maximumLength {
      precondition(list.challenges.starts(with: fewer.challenges), "a field changes what was before it")
    }
    let order = ChallengePreference.order(list.challenges, isSecure: bytes.count % 2 == 0, has: { _ in true })
    precondition(order.count <= list.challenges.count, "a challenge appeared")
    for case .digest(let digest) in order { check(digest, bytes) }
    _ = AuthenticationInfo.nextNonce(fields)
  }

  private static func check(_ challenge: Challenge) {
    precondition(challenge.parameters.count <= ChallengeReader.maximumParameters, "too many parameters")
    precondition(challenge.token == nil || challenge.parameters.isEmpty, "a token and parameters")
    var text = Array(challenge.scheme.utf8)
    if let token = challenge.token { text += Array(" \(token)".utf8) }
    for (index, parameter) in challenge.parameters.enumerated() {
      text += Array((index == 0 ? " " : ", ").utf8) + Array("\(parameter.name)=\"".utf8)
      for byte in parameter.bytes {
        if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { text.append(UInt8(ascii: "\\")) }
        text.append(byte)
      }
      text.append(UInt8(ascii: "\""))
    }
    let again = ChallengeReader.read([text])
    if text.count > ChallengeReader.maximumLength { return }
    precondition(again.challenges == [challenge] && again.faults.isEmpty, "it reads differently when written down")
  }

  private static func check(_ digest: DigestChallenge, _ bytes: [UInt8]) {
    let request = DigestRequest(
      method: "GET", target: "/a?b", user: "u\"\\", password: "p", clientNonce: "c", count: 1, bodyHash: [1, 2])
    // A sum is good enough here: the oracle is about the form.
    let hash: DigestHasher = { function, input in
      [UInt8](repeating: input.reduce(0) { $0 &+ $1 }, count: function.length)
    }
    guard let text = try? DigestRule.credentials(digest, request, hash: hash) else {
      preconditionFailure("a challenge that could be answered was not")
    }
    precondition(text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7f || $0 == 9 }, "a control byte is sent")
    guard text.utf8.count <= ChallengeReader.maximumLength else { return }
    let list = ChallengeReader.read([Array(text.utf8)])
    precondition(list.faults.isEmpty && list.challenges.count == 1, "the credentials cannot be read")
    let sent = list.challenges[0]
    precondition(sent["realm"] == digest.realm && sent["nonce"] == digest.nonce, "realm or nonce changed")
    precondition(sent["opaque"] == digest.opaque, "opaque changed")
    precondition(sent["response"]?.utf8.count == digest.hash.length * 2, "the response has another length")
    precondition(sent["qop"] == (digest.hasQuality ? (digest.offersAuthentication ? "auth" : "auth-int") : nil))
  }
}
