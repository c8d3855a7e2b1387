internal import LupineBase

/// How a challenge is answered: all that a field is made of, besides the request.
package struct ChallengeAnswer: Hashable, Sendable {
  package var challenge: AnswerableChallenge
  package var secret: CredentialSecret
  /// Digest only.
  package var clientNonce: String
  /// How often the nonce has been used, this time included. Digest only.
  package var count: UInt32
  /// Of the algorithms that end in `-sess`.
  package var sessionKey: [UInt8]?
  /// Sent because an earlier one was accepted, not in answer to a challenge of its own.
  package var isRemembered = false

  package init(
    challenge: AnswerableChallenge, secret: CredentialSecret, clientNonce: String = "", count: UInt32 = 1,
    sessionKey: [UInt8]? = nil
  ) {
    self.challenge = challenge
    self.secret = secret
    self.clientNonce = clientNonce
    self.count = count
    self.sessionKey = sessionKey
  }

  /// The nonce that is answered; nil unless this is Digest.
  package var nonce: String? {
    if case .digest(let challenge) = challenge { challenge.nonce } else { nil }
  }
}

/// What a session has learned about who asks for credentials where: nonces with their counts, and paths that need not be asked for again.
/// Of nonces that are not remembered it knows the counts: a server may name one again, and takes no count twice (RFC 7616 section 3.4).
///
/// It decides what is sent without a challenge, but supplies no credentials: a request uses an entry only if it has the very secret that
/// the entry was learned with. Bounded; the space that was not used for longest goes first.
package struct AuthenticationMemory: Sendable {
  package static let maximumSpaces = 256
  /// Spaces of one server or proxy, which calls its realms what it likes: it pushes out its own, and nobody else's.
  package static let maximumSpacesOfParty = 32
  /// Paths remembered of one space.
  package static let maximumPrefixes = 32
  /// Bytes of such a path: a server may lead to any number of long ones. Below a longer one nothing goes unasked.
  package static let maximumPrefixLength = 2048
  /// Nonces whose counts are known; the one that was not used for longest goes first.
  package static let maximumNonces = 256

  private struct Space: Sendable {
    var party: AuthenticationParty
    var answer: ChallengeAnswer
    var prefixes: [String]
    var lastUse: UInt64
  }

  private var spaces: [AuthenticationParty: [Space]] = [:]
  /// The last count of each nonce that was given out.
  private var nonces = NonceCounts<AuthenticationParty>(limit: AuthenticationMemory.maximumNonces)
  private var count = 0
  private var clock: UInt64 = 0

  package init() {}

  /// Whether nothing has been learned.
  package var isEmpty: Bool { count == 0 }
  /// Spaces known.
  package var spaceCount: Int { count }

  /// Learns from an answer that was accepted for `url`.
  ///
  /// Answers come in any order: of Digest, one that was remembered teaches nothing. The entry is as far as it, or has a nonce that came later,
  /// or is gone, because a use after it was refused; to go back to its nonce would be to use counts twice.
  package mutating func learn(_ answer: ChallengeAnswer, party: AuthenticationParty, url: ParsedURL) {
    if answer.isRemembered, answer.nonce != nil { return }
    clock += 1
    var answer = answer
    answer.isRemembered = false
    var prefixes: [String]
    switch answer.challenge {
    case .digest(let challenge): prefixes = ProtectionPath.digest(challenge.domain, base: url)
    case .basic, .bearer: prefixes = [ProtectionPath.basic(url.path)]
    }
    prefixes.removeAll { $0.utf8.count > Self.maximumPrefixLength }
    var list = spaces[party] ?? []
    if let index = list.firstIndex(where: { Self.isSame($0.answer.challenge, answer.challenge) }) {
      if list[index].answer.secret == answer.secret, answer.nonce == nil {
        prefixes = Self.paths(list[index].prefixes, with: prefixes.first)
      }
      // A request with the same nonce may be further already.
      if list[index].answer.nonce.hasBytes(of: answer.nonce) {
        answer.count = max(answer.count, list[index].answer.count)
      }
      list[index] = Space(
        party: party, answer: answer, prefixes: prefixes.suffix(Self.maximumPrefixes), lastUse: clock)
    } else {
      list.append(Space(party: party, answer: answer, prefixes: prefixes, lastUse: clock))
      count += 1
      if list.count > Self.maximumSpacesOfParty {
        let oldest = list.enumerated().min { $0.element.lastUse < $1.element.lastUse }
        if let oldest { list.remove(at: oldest.offset) }
        count -= 1
      }
    }
    spaces[party] = list
    if count > Self.maximumSpaces { evict() }
  }

  /// Paths with one more. One that is below another adds nothing: else, where credentials go to many directories unasked, the one above them all, which was
  /// asked for, would be pushed out by them.
  private static func paths(_ known: [String], with path: String?) -> [String] {
    guard let path, !known.contains(where: { path.utf8.starts(with: $0.utf8) }) else { return known }
    return known.filter { !$0.utf8.starts(with: path.utf8) } + [path]
  }

  /// What to send without being asked; counts as a use of the nonce.
  ///
  /// - Parameter isUsable: whether the request has this secret, for this challenge.
  package mutating func use(
    party: AuthenticationParty, target: String, isUsable: (ChallengeAnswer) -> Bool
  ) -> ChallengeAnswer? {
    guard var list = spaces[party] else { return nil }
    var best: (index: Int, length: Int)?
    // Looked at once, and not for each path: how many there are is up to the server, and how long the target is may be too.
    var climbs: Bool?
    for (index, space) in list.enumerated() {
      for prefix in space.prefixes where prefix.utf8.count > best?.length ?? -1 {
        guard ProtectionPath.covers(prefix, target, &climbs), isUsable(space.answer) else { continue }
        best = (index, prefix.utf8.count)
      }
    }
    guard let index = best?.index else { return nil }
    if let nonce = list[index].answer.nonce {
      let count = nextCount(of: nonce, party: party)
      guard count > 0 else {
        forget(list[index].answer, party: party)
        return nil
      }
      list[index].answer.count = count
    }
    clock += 1
    list[index].lastUse = clock
    spaces[party] = list
    var answer = list[index].answer
    answer.isRemembered = true
    return answer
  }

  /// The count for the next use of a nonce, also in answer to a challenge: it is given to nobody else.
  ///
  /// - Returns: 0 if the nonce has no more.
  package mutating func nextCount(of nonce: String, party: AuthenticationParty) -> UInt32 {
    var known: UInt32 = 0
    for space in spaces[party] ?? [] where space.answer.nonce.hasBytes(of: nonce) {
      known = max(known, space.answer.count)
    }
    return nonces.next(of: nonce, party: party, after: known)
  }

  /// The answer was refused: it is sent no more unless asked for. An entry with another secret or nonce stays.
  package mutating func forget(_ answer: ChallengeAnswer, party: AuthenticationParty) {
    guard var list = spaces[party] else { return }
    let before = list.count
    list.removeAll {
      Self.isSame($0.answer.challenge, answer.challenge) && $0.answer.secret == answer.secret
        && $0.answer.nonce.hasBytes(of: answer.nonce)
    }
    count -= before - list.count
    spaces[party] = list.isEmpty ? nil : list
  }

  /// The server wants another nonce from now on (RFC 7616 section 3.5). The key of a `-sess` algorithm stays.
  package mutating func replaceNonce(of answer: ChallengeAnswer, by nonce: String, party: AuthenticationParty) {
    guard var list = spaces[party] else { return }
    for index in list.indices where Self.isSame(list[index].answer.challenge, answer.challenge) {
      guard list[index].answer.secret == answer.secret, list[index].answer.nonce.hasBytes(of: answer.nonce),
        !answer.nonce.hasBytes(of: nonce), case .digest(var challenge) = list[index].answer.challenge
      else { continue }
      challenge.nonce = nonce
      list[index].answer.challenge = .digest(challenge)
      list[index].answer.count = 0
    }
    spaces[party] = list
  }

  /// Forgets everything but the counts of nonces, which are no secrets: the server may name one again.
  package mutating func removeAll() {
    // The one that was used last is known for longest.
    for space in spaces.values.joined().sorted(by: { $0.lastUse < $1.lastUse }) {
      if let nonce = space.answer.nonce { nonces.note(space.answer.count, of: nonce, party: space.party) }
    }
    spaces = [:]
    count = 0
  }

  /// The same scheme and realm, byte by byte: one protection space (RFC 9110 section 11.5).
  private static func isSame(_ left: AnswerableChallenge, _ right: AnswerableChallenge) -> Bool {
    left.scheme == right.scheme && left.realm.hasBytes(of: right.realm)
  }

  private mutating func evict() {
    guard let oldest = spaces.values.joined().min(by: { $0.lastUse < $1.lastUse }) else { return }
    forget(oldest.answer, party: oldest.party)
  }
}
