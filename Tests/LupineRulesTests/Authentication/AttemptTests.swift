import LupineRules
import Testing

/// The same credentials are never sent twice to a server that refused them, except that a nonce was stale; and nothing goes on for ever.
@Suite struct AttemptTests {
  private static let alice = CredentialSecret.password(user: "alice", password: "a")
  private static let bob = CredentialSecret.password(user: "bob", password: "b")
  private static let token = CredentialSecret.token("t")

  private func party(_ url: String = "http://a/", isProxy: Bool = false) throws -> AuthenticationParty {
    AuthenticationParty(origin: try URLReader.read(url).origin, isProxy: isProxy)
  }

  private func challenges(_ texts: String...) -> [AnswerableChallenge] {
    ChallengePreference.order(
      ChallengeReader.read(texts.map { Array($0.utf8) }).challenges, isSecure: true, has: { _ in true })
  }

  @Test func aRefusedPasswordIsNotTriedAgain() throws {
    let party = try party()
    let asked = challenges("Basic realm=r", "Digest realm=r, nonce=n")
    var attempts = AuthenticationAttempts()
    let result1 = attempts.challenged(by: asked, party: party)
    #expect(result1 == .unjudged)
    let result2 = attempts.choose(Self.alice, for: asked[0], party: party)
    #expect(result2)
    attempts.sent(ChallengeAnswer(challenge: asked[0], secret: Self.alice))
    let result3 = attempts.challenged(by: asked, party: party)
    #expect(result3 == .refused)
    #expect(attempts.failureCount(of: party) == 1)
    // Nor with the weaker scheme.
    let result4 = attempts.choose(Self.alice, for: asked[0], party: party)
    #expect(!result4)
    let result5 = attempts.choose(Self.alice, for: asked[1], party: party)
    #expect(!result5)
    let result6 = attempts.choose(Self.bob, for: asked[0], party: party)
    #expect(result6)
    // Another realm, and another party, are asked for something else.
    let other = challenges("Basic realm=s")[0]
    #expect(attempts.mayTry(Self.alice, for: other, party: party))
    #expect(attempts.mayTry(Self.alice, for: asked[0], party: try self.party("http://b/")))
    #expect(attempts.mayTry(Self.alice, for: asked[0], party: try self.party(isProxy: true)))
    // Redirects do not wash it clean.
    attempts.startOver()
    #expect(!attempts.mayTry(Self.alice, for: asked[0], party: party))
  }

  /// What is refused is the proof, which is made of the bytes of both.
  @Test func realmsAndNoncesAreBytes() throws {
    let party = try party()
    let (one, other) = ("\u{E9}", "e\u{301}")
    func digest(realm: String = "r", nonce: String = "n", _ rest: String = "") -> [AnswerableChallenge] {
      challenges("Digest realm=\"\(realm)\", nonce=\"\(nonce)\"\(rest)")
    }
    var attempts = AuthenticationAttempts()
    for realm in [one, other] {
      let asked = digest(realm: realm)
      #expect(attempts.mayTry(Self.alice, for: asked[0], party: party))
      attempts.sent(ChallengeAnswer(challenge: asked[0], secret: Self.alice))
      let verdict = attempts.challenged(by: asked, party: party)
      #expect(verdict == .refused)
      #expect(!attempts.mayTry(Self.alice, for: asked[0], party: party))
    }
    attempts.sent(ChallengeAnswer(challenge: digest(nonce: one)[0], secret: Self.alice))
    let verdict = attempts.challenged(by: digest(nonce: other, ", stale=true"), party: party)
    #expect(verdict != .refused && attempts.failureCount(of: party) == 2)
  }

  @Test func aStaleNonceIsNoRefusal() throws {
    let party = try party()
    let first = challenges("Digest realm=r, nonce=1")
    let stale = challenges("Digest realm=r, nonce=2, stale=true")
    var attempts = AuthenticationAttempts()
    attempts.sent(ChallengeAnswer(challenge: first[0], secret: Self.alice))
    guard case .stale(let digest) = attempts.challenged(by: stale, party: party) else {
      Issue.record("not stale")
      return
    }
    #expect(digest.nonce == "2")
    #expect(attempts.failureCount(of: party) == 0)
    // A server that calls its own fresh nonce stale has refused.
    attempts.sent(ChallengeAnswer(challenge: stale[0], secret: Self.alice))
    let result7 = attempts.challenged(by: stale, party: party)
    #expect(result7 == .refused)
  }

  /// A nonce may be what a server does not like about an answer that it has not asked for, whether it says so or not.
  @Test func aRefusedMemoryIsAnsweredOnce() throws {
    let party = try party()
    let first = challenges("Digest realm=r, nonce=1")[0]
    let second = challenges("Digest realm=r, nonce=2")
    var attempts = AuthenticationAttempts()
    var remembered = ChallengeAnswer(challenge: first, secret: Self.alice, count: 7)
    remembered.isRemembered = true
    attempts.sent(remembered)
    let unasked = attempts.challenged(by: second, party: party)
    #expect(unasked == .outdated && attempts.failureCount(of: party) == 0)
    let isChosen = attempts.choose(Self.alice, for: second[0], party: party)
    #expect(isChosen)
    attempts.sent(ChallengeAnswer(challenge: second[0], secret: Self.alice))
    let asked = attempts.challenged(by: challenges("Digest realm=r, nonce=3"), party: party)
    #expect(asked == .refused && attempts.failureCount(of: party) == 1)
    #expect(!attempts.mayTry(Self.alice, for: second[0], party: party))
  }

  /// With the same nonce, or as Basic, the next answer would be the same.
  @Test func aMemoryThatMustBeWrongIsRefused() throws {
    let party = try party()
    for challenge in challenges("Digest realm=r, nonce=1", "Basic realm=r") {
      var attempts = AuthenticationAttempts()
      var remembered = ChallengeAnswer(challenge: challenge, secret: Self.alice, count: 7)
      remembered.isRemembered = true
      attempts.sent(remembered)
      let verdict = attempts.challenged(by: [challenge], party: party)
      #expect(verdict == .refused && !attempts.mayTry(Self.alice, for: challenge, party: party))
    }
  }

  @Test func endlessStalenessEnds() throws {
    let party = try party()
    var attempts = AuthenticationAttempts()
    var nonce = 0
    while attempts.chooseAgain() {
      attempts.sent(ChallengeAnswer(challenge: challenges("Digest realm=r, nonce=\(nonce)")[0], secret: Self.alice))
      nonce += 1
      let next = challenges("Digest realm=r, nonce=\(nonce), stale=true")
      guard case .stale = attempts.challenged(by: next, party: party) else {
        Issue.record("not stale")
        return
      }
    }
    #expect(nonce == AuthenticationAttempts.maximumRounds)
    #expect(!attempts.mayTry(Self.bob, for: challenges("Basic realm=r")[0], party: party))
  }

  /// It came back to what this party had asked for: whatever it calls itself now, it has seen the secret.
  @Test func anotherRealmRefusesWhatWasAskedFor() throws {
    let party = try party()
    for (asked, answered, secret) in [
      ("Basic realm=1", "Basic realm=2", Self.alice), ("Bearer realm=1", "Bearer realm=2", Self.token),
      ("Bearer realm=1", "Bearer", Self.token), ("Bearer", "Bearer realm=2", Self.token),
      ("Digest realm=1, nonce=a", "Digest realm=2, nonce=b", Self.alice),
      ("Digest realm=1, nonce=a", "Digest realm=2, nonce=b, stale=true", Self.alice),
    ] {
      var attempts = AuthenticationAttempts()
      attempts.sent(ChallengeAnswer(challenge: challenges(asked)[0], secret: secret))
      let verdict = attempts.challenged(by: challenges(answered), party: party)
      #expect(verdict == .refused && attempts.failureCount(of: party) == 1, "\(asked), \(answered)")
      let third = asked.replacing("=1", with: "=3")
      for text in [asked, answered, third] {
        #expect(!attempts.mayTry(secret, for: challenges(text)[0], party: party), "\(asked), \(answered): \(text)")
      }
      #expect(attempts.mayTry(secret, for: challenges(asked)[0], party: try self.party("http://b/")))
    }
  }

  /// What Basic and Bearer send is the same in every realm.
  @Test func theSameBytesAreRefusedInEveryRealm() throws {
    let party = try party()
    for (scheme, secret) in [("Basic", Self.alice), ("Bearer", Self.token)] {
      let asked = challenges("\(scheme) realm=r")
      var attempts = AuthenticationAttempts()
      attempts.sent(ChallengeAnswer(challenge: asked[0], secret: secret))
      let verdict = attempts.challenged(by: asked, party: party)
      #expect(verdict == .refused)
      #expect(!attempts.mayTry(secret, for: challenges("\(scheme) realm=s")[0], party: party))
    }
  }

  /// What Digest has refused does not go out readable because Basic beside it names no realm.
  @Test func basicWithoutARealmMayBeOfTheOneThatRefused() throws {
    let party = try party()
    let asked = challenges("Digest realm=r, nonce=n, algorithm=SHA-256") + challenges("Basic")
    #expect(asked.count == 2)
    var attempts = AuthenticationAttempts()
    #expect(attempts.mayTry(Self.alice, for: asked[1], party: party))
    attempts.sent(ChallengeAnswer(challenge: asked[0], secret: Self.alice))
    #expect(attempts.challenged(by: asked, party: party) == .refused)
    #expect(!attempts.mayTry(Self.alice, for: asked[1], party: party))
    #expect(attempts.mayTry(Self.alice, for: asked[1], party: try self.party("http://b/")))
  }

  /// Unasked it went to where another realm is: its own realm, which had accepted it, may still have it.
  @Test func anotherRealmRefusesAMemoryForItself() throws {
    let party = try party()
    for (scheme, secret) in [("Basic", Self.alice), ("Bearer", Self.token)] {
      let own = challenges("\(scheme) realm=r")[0]
      var attempts = AuthenticationAttempts()
      var remembered = ChallengeAnswer(challenge: own, secret: secret)
      remembered.isRemembered = true
      attempts.sent(remembered)
      let elsewhere = challenges("\(scheme) realm=s")
      let verdict = attempts.challenged(by: elsewhere, party: party)
      #expect(verdict != .unjudged && verdict != .refused && attempts.failureCount(of: party) == 1)
      #expect(!attempts.mayTry(secret, for: elsewhere[0], party: party))
      #expect(!attempts.mayTry(secret, for: challenges("\(scheme) realm=t")[0], party: party))
      #expect(attempts.mayTry(secret, for: own, party: party))
      // Until that one has refused it too.
      attempts.sent(ChallengeAnswer(challenge: own, secret: secret))
      let last = attempts.challenged(by: [own], party: party)
      #expect(last == .refused && !attempts.mayTry(secret, for: own, party: party))
    }
  }

  /// A realm is a part of what Digest proves: another one has not looked at the secret.
  @Test func anotherRealmJudgesNoMemoryOfDigest() throws {
    let party = try party()
    var attempts = AuthenticationAttempts()
    var remembered = ChallengeAnswer(challenge: challenges("Digest realm=r, nonce=1")[0], secret: Self.alice)
    remembered.isRemembered = true
    attempts.sent(remembered)
    let elsewhere = challenges("Digest realm=s, nonce=2")
    let verdict = attempts.challenged(by: elsewhere, party: party)
    #expect(verdict == .unjudged && attempts.failureCount(of: party) == 0)
    #expect(attempts.mayTry(Self.alice, for: elsewhere[0], party: party))
  }

  @Test func aBlindAnswerIsJudgedByEveryRealmOfItsScheme() throws {
    let party = try party()
    let asked = challenges("Digest realm=r, nonce=n")
    var attempts = AuthenticationAttempts()
    attempts.sent(ChallengeAnswer(challenge: .basic(realm: ""), secret: Self.alice), isBlind: true)
    // The server has no Basic: it never looked.
    let result9 = attempts.challenged(by: asked, party: party)
    #expect(result9 == .unjudged)
    #expect(attempts.mayTry(Self.alice, for: asked[0], party: party))
    attempts.sent(ChallengeAnswer(challenge: .basic(realm: ""), secret: Self.alice), isBlind: true)
    let result10 = attempts.challenged(by: challenges("Basic realm=x"), party: party)
    #expect(result10 == .refused)
    #expect(!attempts.mayTry(Self.alice, for: asked[0], party: party))
  }

  /// What nobody had asked for says something only if the response is a success.
  @Test(
    arguments: [
      (false, 200, .realm), (false, 206, .realm), (false, 302, .realm), (false, 304, .realm), (false, 404, .realm),
      (false, 405, .realm), (false, 400, nil), (false, 403, nil), (false, 407, nil), (false, 408, nil),
      (false, 421, nil),
      (false, 429, nil), (false, 431, nil), (false, 500, nil), (false, 503, nil),
      (true, 200, .everyRealm), (true, 204, .everyRealm), (true, 302, nil), (true, 304, nil), (true, 403, nil),
      (true, 404, nil), (true, 500, nil),
    ] as [(Bool, Int, AuthenticationAttempts.Extent?)])
  func forHowMuchItIsGood(_ isBlind: Bool, _ status: Int, _ extent: AuthenticationAttempts.Extent?) {
    var attempts = AuthenticationAttempts()
    #expect(attempts.extent(acceptedWith: status) == nil)
    attempts.sent(ChallengeAnswer(challenge: .basic(realm: "r"), secret: Self.alice), isBlind: isBlind)
    #expect(attempts.extent(acceptedWith: status) == extent)
    _ = attempts.accepted()
    #expect(attempts.extent(acceptedWith: status) == nil)
  }

  @Test func onlyWhatWasAskedForIsLearned() throws {
    var attempts = AuthenticationAttempts()
    let answer = ChallengeAnswer(challenge: .basic(realm: "r"), secret: Self.alice)
    let result11 = attempts.accepted()
    #expect(result11 == nil)
    attempts.sent(answer, isBlind: true)
    let result12 = attempts.accepted()
    #expect(result12 == nil)
    attempts.sent(answer)
    let result13 = attempts.accepted()
    #expect(result13 == answer)
    let result14 = attempts.accepted()
    #expect(result14 == nil)
  }

  @Test(arguments: [
    (AnswerableChallenge.Scheme.basic, true, false), (.digest, true, false), (.bearer, false, true),
  ]) func kinds(_ row: (AnswerableChallenge.Scheme, Bool, Bool)) {
    #expect(Self.alice.fits(row.0) == row.1)
    #expect(Self.token.fits(row.0) == row.2)
  }
}
