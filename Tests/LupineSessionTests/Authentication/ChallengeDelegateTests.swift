import FoundationEssentials
import HTTPTypes
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// Answers challenges one after the other, and writes them down.
private final class ChallengeDelegate: SessionTaskDelegate {
  private struct State {
    var answers: [ChallengeDisposition]
    var asked: [String] = []
    var drops = false
  }

  private let state: Locked<State>
  let handledCallbacks: CallbackSet = [.taskChallenge, .needNewBodyStream]
  private let body: BodyStream?
  private let drops: Bool

  init(_ answers: [ChallengeDisposition], body: BodyStream? = nil, drops: Bool = false) {
    state = Locked(State(answers: answers))
    self.body = body
    self.drops = drops
  }

  /// Method, realm, proposed user and failures of each.
  var asked: [String] { state.withLock { $0.asked } }

  func session(
    _ session: Session, task: SessionTask, didReceive challenge: AuthenticationChallenge,
    completionHandler: @escaping @Sendable (ChallengeDisposition) -> Void
  ) {
    let space = challenge.protectionSpace
    let text =
      "\(space.method?.rawValue ?? "") \(space.realm ?? "") \(challenge.proposedCredential?.user ?? "-") "
      + "\(challenge.previousFailureCount) \(challenge.failureResponse.statusCode)"
    let answer = state.withLock { state in
      state.asked.append(text)
      return state.answers.isEmpty ? .performDefaultHandling : state.answers.removeFirst()
    }
    if !drops { completionHandler(answer) }
  }

  func session(
    _ session: Session, task: SessionTask,
    needNewBodyStream completionHandler: @escaping @Sendable (BodyStream?) -> Void
  ) {
    completionHandler(body)
  }
}

/// The delegate's word on challenges.
@Suite(.timeLimit(.minutes(5))) struct ChallengeDelegateTests {
  /// An answer that found no network waits with its request, and is not asked for again.
  @Test func anAnswerThatNeverLeftIsSentLater() async throws {
    let connections = Locked(0)
    let server = try LoopbackServer { request, connection in
      guard request.fields.first("Authorization") == nil else { return try connection.respond(text: "in") }
      try connection.respond(401, fields: ["WWW-Authenticate": "Basic realm=\"r\"", "Connection": "close"])
    }
    defer { server.shutdown() }
    try await withSession(configure: { $0.waitForNetwork(connections) { $0 != 2 } }) { session in
      let delegate = ChallengeDelegate([.useCredential(.password(user: "u", password: "p"))])
      let task = session.dataTask(with: try Request(server.url("/")))
      task.delegate = delegate
      task.resume()
      #expect(await eventually { task.state == .completed })
      #expect(task.response?.statusCode == 200 && delegate.asked == ["basic r - 0 401"])
      #expect(server.recordedRequests.map { $0.fields.first("Authorization") != nil } == [false, true])
      #expect(connections.withLock { $0 } == 3)
    }
  }

  private static let aladdin = AuthenticationTests.aladdin
  private static let challenges = #"Basic realm="weak", Digest realm="strong", nonce="n", qop="auth""#

  /// Runs one task with a delegate against a server that demands Basic credentials, beside a Digest that nobody can satisfy, or what
  /// `challenges` says.
  private func run(
    _ delegate: ChallengeDelegate, named: Credential? = nil, body: Request.Body = .none,
    challenges: String = ChallengeDelegateTests.challenges,
    _ check: (Result<(Data, Response), SessionError>, LoopbackServer, Session) throws -> Void
  ) async throws {
    let server = try LoopbackServer(handler: AuthenticationTests.demanding(AuthenticationTests.basic, challenges))
    defer { server.shutdown() }
    try await withSession(ports: [server.port]) { session in
      var request = try Request(server.url("/"), method: .post, body: body)
      request.credential = named
      let result: Result<(Data, Response), SessionError>
      do {
        result = .success(try await session.data(for: request, delegate: delegate))
      } catch {
        result = .failure(try #require(error as? SessionError))
      }
      try check(result, server, session)
    }
  }

  private func status(_ result: Result<(Data, Response), SessionError>) -> Int? { try? result.get().1.statusCode }

  @Test func strongestFirstThenWhatIsRejectedMakesRoom() async throws {
    let delegate = ChallengeDelegate([.rejectProtectionSpace, .useCredential(Self.aladdin)])
    try await run(delegate) { result, server, session in
      #expect(status(result) == 200)
      #expect(delegate.asked == ["digest strong - 0 401", "basic weak - 0 401"])
      // Accepted, so it is stored as its persistence says.
      let space = try ProtectionSpace(server.url("/"), realm: "weak", method: .basic)
      #expect(session.configuration.credentialStorage?.defaultCredential(for: space) == Self.aladdin)
    }
  }

  /// What was not looked at, or was found not to do, does not take the place of what is stored.
  @Test(arguments: [(200, "new"), (404, "new"), (403, "old"), (503, "old")])
  func onlyWhatIsAcceptedIsStored(_ status: Int, _ password: String) async throws {
    let server = try LoopbackServer { request, connection in
      guard request.fields.first("Authorization") == nil else { return try connection.respond(status, text: "so") }
      try connection.respond(401, fields: ["WWW-Authenticate": "Basic realm=\"r\""])
    }
    defer { server.shutdown() }
    try await withSession(ports: [server.port]) { session in
      let storage = try #require(session.configuration.credentialStorage)
      let space = try ProtectionSpace(server.url("/"), realm: "r", method: .basic)
      storage.set(.password(user: "u", password: "old"), for: space)
      let delegate = ChallengeDelegate([.useCredential(.password(user: "u", password: "new"))])
      let (_, response) = try await session.data(for: try Request(server.url("/")), delegate: delegate)
      #expect(response.statusCode == status && delegate.asked == ["basic r u 0 401"])
      #expect(storage.defaultCredential(for: space)?.password == password)
    }
  }

  /// Bearer, which is asked about first, takes no password: that answers what it fits, and is stored for it.
  @Test(arguments: [
    #"Bearer realm="token", Basic realm="weak""#, #"Basic realm="weak", Bearer realm="token""#,
  ]) func aPasswordAnswersWhatItFits(_ challenges: String) async throws {
    let delegate = ChallengeDelegate([.useCredential(Self.aladdin)])
    try await run(delegate, challenges: challenges) { result, server, session in
      #expect(status(result) == 200)
      #expect(delegate.asked == ["bearer token - 0 401"])
      #expect(server.authorizations == [nil, AuthenticationTests.basic])
      let storage = try #require(session.configuration.credentialStorage)
      let space = try ProtectionSpace(server.url("/"), realm: "weak", method: .basic)
      #expect(storage.protectionSpaces == [space])
      #expect(storage.defaultCredential(for: space) == Self.aladdin)
    }
  }

  @Test func aPasswordForBasicAloneAnswersBasic() async throws {
    var basic = Self.aladdin
    basic.schemes = .basic
    let delegate = ChallengeDelegate([.useCredential(basic)])
    try await run(delegate) { result, server, session in
      #expect(status(result) == 200)
      #expect(delegate.asked == ["digest strong - 0 401"])
      #expect(server.authorizations == [nil, AuthenticationTests.basic])
    }
  }

  /// What was refused where it fits is not sent again, and what fits nothing is not sent at all.
  @Test func whatFitsNothingMoreIsNotSent() async throws {
    let wrong = Credential.password(user: "x", password: "y")
    let stubborn = ChallengeDelegate([.useCredential(wrong), .useCredential(wrong)])
    try await run(stubborn, challenges: #"Bearer realm="token", Basic realm="weak""#) { result, server, session in
      #expect(status(result) == 401)
      #expect(stubborn.asked == ["bearer token - 0 401", "bearer token - 1 401"])
      #expect(server.requestCount == 2)
    }
    let token = ChallengeDelegate([.useCredential(.bearer("t"))])
    try await run(token) { result, server, session in
      #expect(status(result) == 401)
      #expect(token.asked == ["digest strong - 0 401"])
      #expect(server.requestCount == 1)
    }
  }

  /// A nonce that was too old when the delegate had made up its mind is no refusal: what is accepted with the next one is stored.
  @Test func whatIsAcceptedAfterAStaleNonceIsStored() async throws {
    let server = try LoopbackServer { request, connection in
      let field = request.fields.first("Authorization") ?? ""
      if field.contains("nonce=\"n2\"") { return try connection.respond(text: "welcome") }
      let challenge = field.isEmpty ? #"Digest realm="r", nonce="n1""# : #"Digest realm="r", nonce="n2", stale=true"#
      try connection.respond(401, fields: ["WWW-Authenticate": challenge + #", qop="auth", algorithm=SHA-256"#])
    }
    defer { server.shutdown() }
    try await withSession(ports: [server.port]) { session in
      let delegate = ChallengeDelegate([.useCredential(Self.aladdin)])
      for _ in 0..<2 {
        let response = try await session.data(for: Request(server.url("/")), delegate: delegate).1
        #expect(response.statusCode == 200)
      }
      #expect(delegate.asked == ["digest r - 0 401"])
      let space = try ProtectionSpace(server.url("/"), realm: "r", method: .digest)
      #expect(session.configuration.credentialStorage?.defaultCredential(for: space) == Self.aladdin)
    }
  }

  /// What one server refused is no failure at another.
  @Test func failuresAreCountedByServer() async throws {
    let last = try LoopbackServer(handler: AuthenticationTests.demanding(AuthenticationTests.basic))
    defer { last.shutdown() }
    let first = try LoopbackServer { request, connection in
      guard request.fields.first("Authorization") == AuthenticationTests.basic else {
        return try connection.respond(401, fields: ["WWW-Authenticate": "Basic realm=\"first\""])
      }
      try connection.respond(302, fields: ["Location": last.url("/")])
    }
    defer { first.shutdown() }
    try await withSession(ports: [first.port, last.port]) { session in
      let wrong = Credential.password(user: "w", password: "w")
      let delegate = ChallengeDelegate([.useCredential(wrong), .useCredential(Self.aladdin)])
      _ = try await session.data(for: Request(first.url("/")), delegate: delegate)
      #expect(delegate.asked == ["basic first - 0 401", "basic first - 1 401", "basic lupine - 0 401"])
    }
  }

  /// The server chooses the realm: one that is too long to be of use is not kept, though the credential was accepted.
  @Test func underALongRealmNothingIsStored() async throws {
    let challenge = "Basic realm=\"\(String(repeating: "r", count: 1025))\""
    let server = try LoopbackServer(handler: AuthenticationTests.demanding(AuthenticationTests.basic, challenge))
    defer { server.shutdown() }
    try await withSession(ports: [server.port]) { session in
      let delegate = ChallengeDelegate([.useCredential(Self.aladdin)])
      let response = try await session.data(for: Request(server.url("/")), delegate: delegate).1
      #expect(response.statusCode == 200)
      #expect(session.configuration.credentialStorage?.protectionSpaces.isEmpty == true)
    }
  }

  @Test func whatIsRefusedIsNotStoredNorSentAgain() async throws {
    let wrong = Credential.password(user: "x", password: "y")
    let delegate = ChallengeDelegate([.useCredential(wrong), .useCredential(wrong)])
    try await run(delegate) { result, server, session in
      #expect(status(result) == 401)
      #expect(delegate.asked == ["digest strong - 0 401", "digest strong - 1 401"])
      #expect(server.requestCount == 2)
      #expect(session.configuration.credentialStorage?.protectionSpaces.isEmpty == true)
    }
  }

  @Test func onlyForThisTask() async throws {
    var once = Self.aladdin
    once.persistence = .none
    let delegate = ChallengeDelegate([.rejectProtectionSpace, .useCredential(once)])
    try await run(delegate) { result, server, session in
      #expect(status(result) == 200)
      #expect(session.configuration.credentialStorage?.protectionSpaces.isEmpty == true)
    }
  }

  @Test func defaultHandling() async throws {
    let delegate = ChallengeDelegate([])
    try await run(delegate) { result, server, session in
      #expect(status(result) == 401)
      #expect(delegate.asked == ["digest strong - 0 401", "basic weak - 0 401"])
      #expect(server.requestCount == 1)
    }
    var credential = Self.aladdin
    credential.schemes = .basic
    let proposed = ChallengeDelegate([])
    try await run(proposed, named: credential) { result, server, session in
      #expect(status(result) == 200)
      #expect(proposed.asked == ["digest strong - 0 401", "basic weak Aladdin 0 401"])
    }
  }

  @Test(arguments: [false, true]) func noCredential(_ drops: Bool) async throws {
    // A completion handler that is let go counts as default handling.
    let delegate = ChallengeDelegate([.useCredential(nil)], drops: drops)
    try await run(delegate) { result, server, session in
      #expect(status(result) == 401)
      #expect(delegate.asked.count == (drops ? 2 : 1))
      #expect(server.requestCount == 1)
    }
  }

  @Test func cancel() async throws {
    let delegate = ChallengeDelegate([.cancelAuthenticationChallenge])
    try await run(delegate) { result, server, session in
      guard case .failure(let error) = result else {
        Issue.record("not cancelled")
        return
      }
      #expect(error.code == .cancelled)
      #expect(error.phase == .authentication)
      #expect(error.response?.statusCode == 401)
    }
  }

  @Test func aNewBody() async throws {
    let once = Request.Body.stream(length: 3, isReplayable: false) { BodyStream([[1, 2, 3]]) }
    let delegate = ChallengeDelegate(
      [.rejectProtectionSpace, .useCredential(Self.aladdin)], body: BodyStream([[4, 5], [6]]))
    try await run(delegate, body: once) { result, server, session in
      #expect(status(result) == 200)
      #expect(server.recordedRequests.last?.body == [4, 5, 6])
    }
    let none = ChallengeDelegate([.rejectProtectionSpace, .useCredential(Self.aladdin)])
    try await run(none, body: once) { result, server, session in
      guard case .failure(let error) = result else {
        Issue.record("no failure")
        return
      }
      #expect(error.code == .requestBodyFailed)
    }
  }
}
