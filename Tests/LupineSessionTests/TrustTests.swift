import LupineBase
import LupineEngine
import LupineTLS
import LupineTestSupport
import LupineTesting
import Testing

@testable import LupineSession

/// Keeps questions, and answers them as the test says: at once, later, twice or never.
private final class Decider: TrustDecider {
  private let answers: @Sendable (TrustQuestion) -> TrustAnswer?
  private let identities: (@Sendable (IdentityQuestion) -> IdentityAnswer)?
  private let state = Locked<(questions: [TrustQuestion], open: [@Sendable (TrustAnswer) -> Void])>(([], []))
  private let wishes = Locked<[IdentityQuestion]>([])

  /// An answer of nil is given later, by `answer`.
  init(
    identities: (@Sendable (IdentityQuestion) -> IdentityAnswer)? = nil,
    _ answers: @escaping @Sendable (TrustQuestion) -> TrustAnswer?
  ) {
    self.answers = answers
    self.identities = identities
  }

  var questions: [TrustQuestion] { state.withLock { $0.questions } }
  var identityQuestions: [IdentityQuestion] { wishes.withLock { $0 } }
  var choosesIdentity: Bool { identities != nil }

  func decideTrust(_ question: TrustQuestion, _ answer: @escaping @Sendable (TrustAnswer) -> Void) {
    state.withLock { $0.questions.append(question) }
    guard let now = answers(question) else { return state.withLock { $0.open.append(answer) } }
    // Twice, and from another thread: the second answer does nothing.
    Task.detached {
      answer(now)
      answer(.reject(reason: "twice"))
    }
  }

  func chooseIdentity(_ question: IdentityQuestion, _ answer: @escaping @Sendable (IdentityAnswer) -> Void) {
    wishes.withLock { $0.append(question) }
    answer(identities?(question) ?? .useDefault)
  }

  /// Answers everything that waits.
  func answer(_ answer: TrustAnswer) {
    let open = state.withLock { state in
      defer { state.open = [] }
      return state.open
    }
    for call in open { call(answer) }
  }
}

/// Runs `body` with a session whose connections ask `decider`.
private func withDecider(
  _ decider: Decider?, ports: [Int], configure: (inout SessionConfiguration) -> Void = { _ in },
  _ body: (Session, EngineTransport) async throws -> Void
) async throws {
  var transport: EngineTransport?
  try await withSession(
    ports: ports,
    configure: { configuration in
      configure(&configuration)
      transport = try? EngineTransport(configuration, trust: decider)
      configuration.transport = transport
    }
  ) { session in
    try await body(session, try #require(transport))
  }
}

/// Whom connections trust and what they show is decided inside the handshake, by code, over real sockets.
@Suite(.timeLimit(.minutes(5))) struct TrustTests {
  private static func selfSigned() throws -> (identity: MintedCertificate, server: LoopbackServer) {
    let identity = try CertificateAuthority.selfSigned(.loopback)
    return (identity, try LoopbackServer(routes: ServerRoute.standard(), tls: ServerTLS(identity)))
  }

  /// Roots that are others by now make another question of the same chain, and the policy's word for one is not that for the other.
  @Test func whatIsSaidOfAChainIsAskedOfItAlone() async throws {
    let (authority, directory) = (try CertificateAuthority(), try ScratchDirectory())
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: try ServerTLS.minted(by: authority))
    defer { server.shutdown() }
    let roots = try directory.write(Array(authority.rootPEM.utf8), to: "roots.pem")
    let decider = Decider { _ in nil }
    try await withDecider(decider, ports: [server.port], configure: { $0.tls.roots = .file(roots) }) { session, _ in
      // Nobody else gets a connection that closes behind its answer.
      let url = server.url("/close")
      let first = Task { try await session.data(from: url) }
      #expect(await eventually { decider.questions.count == 1 })
      _ = try directory.write(Array(CertificateAuthority().rootPEM.utf8), to: "roots.pem")
      let second = Task { try await session.data(from: url) }
      #expect(await eventually { decider.questions.count == 2 })
      #expect(decider.questions.map { $0.report.verdict == nil } == [true, false])
      decider.answer(.useDefault)
      #expect(try await first.value.1.statusCode == 200)
      let error = await #expect(throws: SessionError.self) { try await second.value }
      #expect(error?.code == .serverCertificateUntrusted)
    }
  }

  @Test(arguments: [TLSConfiguration.Version.tls12, .tls13]) func selfSignedIsAcceptedByDecision(
    _ version: TLSConfiguration.Version
  ) async throws {
    let (identity, server) = try Self.selfSigned()
    defer { server.shutdown() }
    let decider = Decider { _ in .accept }
    try await withDecider(
      decider, ports: [server.port],
      configure: {
        $0.tls.minimumVersion = version
        $0.tls.maximumVersion = version
      }
    ) { session, _ in
      for _ in 0..<3 { _ = try await session.data(from: server.url("/close")) }
      let question = try #require(decider.questions.first)
      #expect(question.host == "localhost" && Int(question.port) == server.port)
      #expect(question.report.chainSent == identity.chainDER)
      #expect(question.report.path == .selfSigned && question.report.host == nil && question.report.time == nil)
      // The others resumed, and carry the first one's answer.
      #expect(decider.questions.count == 1)
      #expect(server.tlsSummaries.values.count { $0.resumed } == 2)
    }
  }

  @Test func validIsRejectedByDecision() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: try TestIdentity.server())
    defer { server.shutdown() }
    let decider = Decider { _ in .reject(reason: "not today") }
    try await withDecider(decider, ports: [server.port]) { session, _ in
      let error = try await failure { try await session.data(from: server.url("/hello")) }
      #expect(error.code == .serverCertificateUntrusted && error.phase == .tls, "\(error)")
      #expect(error.message.contains("not today") && !error.requestBytesSent)
      #expect(decider.questions.first?.report.verdict == nil)
      #expect(server.requestCount == 0)
    }
  }

  @Test func defaultIsWhatThePolicySays() async throws {
    let good = try LoopbackServer(routes: ServerRoute.standard(), tls: try TestIdentity.server())
    defer { good.shutdown() }
    let (_, bad) = try Self.selfSigned()
    defer { bad.shutdown() }
    let decider = Decider { _ in .useDefault }
    try await withDecider(decider, ports: [good.port, bad.port]) { session, _ in
      try await session.expect("Hello, world!", from: good.url("/hello"))
      try await expectFailure(.serverCertificateUntrusted) { try await session.data(from: bad.url("/hello")) }
      #expect(decider.questions.count == 2 && bad.requestCount == 0)
    }
  }

  /// Until somebody decides, the server has seen a ClientHello and nothing else; the handshake's own time stands still.
  @Test(arguments: [TLSConfiguration.Version.tls12, .tls13]) func nothingLeavesBeforeTheDecision(
    _ version: TLSConfiguration.Version
  ) async throws {
    let (_, server) = try Self.selfSigned()
    defer { server.shutdown() }
    let decider = Decider { _ in nil }
    try await withDecider(
      decider, ports: [server.port],
      configure: {
        $0.tls.minimumVersion = version
        $0.tls.maximumVersion = version
        $0.tlsTimeout = .seconds(2)
        $0.timeoutIntervalForRequest = .seconds(2)
      }
    ) { session, _ in
      let task = Task { try await session.text(server.url("/hello")).0 }
      #expect(await eventually { decider.questions.count == 1 })
      let start = ContinuousClock.now
      _ = await eventually { ContinuousClock.now - start > .milliseconds(2_600) }
      #expect(server.tlsSummaries.isEmpty && server.requestCount == 0)
      decider.answer(.accept)
      let text = try await task.value
      #expect(text == "Hello, world!")
      #expect(server.connectionCount == 1)
    }
  }

  @Test func aDecisionThatNeverComes() async throws {
    let (_, server) = try Self.selfSigned()
    defer { server.shutdown() }
    let decider = Decider { _ in nil }
    let limit = Duration.milliseconds(150)
    try await withDecider(decider, ports: [server.port], configure: { $0.trustDecisionTimeout = limit }) { session, _ in
      let start = ContinuousClock.now
      let error = try await failure { try await session.data(from: server.url("/hello")) }
      #expect(error.code == .timedOut && error.phase == .tls, "\(error)")
      #expect(ContinuousClock.now - start >= limit)
      // Too late: it answers nothing, and the next connection asks anew.
      decider.answer(.accept)
      _ = try await failure { try await session.data(from: server.url("/hello")) }
      #expect(decider.questions.count == 2 && server.requestCount == 0)
    }
  }

  /// A request whose server's certificate is being looked at, given up by `giveUp`; it ends with `.cancelled`.
  private func whilePending(
    _ giveUp: (_ session: Session, _ cancelTask: () -> Void) -> Void,
    then body: (Session, LoopbackServer, Decider) async throws -> Void
  ) async throws {
    let (_, server) = try Self.selfSigned()
    defer { server.shutdown() }
    let decider = Decider { _ in nil }
    try await withDecider(decider, ports: [server.port]) { session, _ in
      let task = Task { try await session.data(from: server.url("/hello")) }
      #expect(await eventually { decider.questions.count == 1 })
      giveUp(session) { task.cancel() }
      try await expectFailure(.cancelled) { try await task.value }
      try await body(session, server, decider)
    }
  }

  @Test func cancelledWhilePending() async throws {
    try await whilePending { _, cancelTask in
      cancelTask()
    } then: { session, server, decider in
      // The connection still waits for its answer, and serves whoever comes next.
      let next = Task { try await session.text(server.url("/hello")).0 }
      #expect(await eventually { await session.poolStatistics().waits == 2 })
      decider.answer(.accept)
      let text = try await next.value
      #expect(text == "Hello, world!")
    }
  }

  @Test func invalidatedWhilePending() async throws {
    try await whilePending { session, _ in
      session.invalidateAndCancel()
    } then: { _, server, decider in
      decider.answer(.accept)
      #expect(await eventually { ClientSockets.count(to: server.port) == 0 })
      #expect(server.requestCount == 0)
    }
  }

  /// Six connections to a new host stop at the same question.
  @Test func sameQuestionIsAskedOnce() async throws {
    let (_, server) = try Self.selfSigned()
    defer { server.shutdown() }
    let decider = Decider { _ in nil }
    try await withDecider(decider, ports: [server.port]) { session, _ in
      try await withThrowingTaskGroup(of: String.self) { group in
        for _ in 0..<6 { group.addTask { try await session.text(server.url("/hello")).0 } }
        #expect(await eventually { server.connectionCount == 6 && decider.questions.count == 1 })
        let start = ContinuousClock.now
        _ = await eventually { ContinuousClock.now - start > .milliseconds(200) }
        // All that have come to it wait for the same answer.
        #expect(decider.questions.count == 1)
        // Who comes to it behind the answer asks anew: how long six handshakes take, nobody knows.
        let answering = Task {
          while !Task.isCancelled {
            decider.answer(.accept)
            await Task.yield()
          }
        }
        defer { answering.cancel() }
        for try await text in group { #expect(text == "Hello, world!") }
      }
    }
  }

  /// On one engine: what one session's code accepted is nothing to another's, and nothing to a session without any.
  @Test func sessionsShareNeitherConnectionsNorTickets() async throws {
    let (_, server) = try Self.selfSigned()
    defer { server.shutdown() }
    let trusting = Decider { _ in .accept }
    let other = Decider { _ in .accept }
    let wary = Decider { _ in .reject(reason: "no") }
    let shared: (inout SessionConfiguration) -> Void = { $0.engine = .shared }
    try await withDecider(trusting, ports: [], configure: shared) { first, _ in
      try await first.expect("Hello, world!", from: server.url("/hello"))
      try await withDecider(other, ports: [], configure: shared) { second, _ in
        try await second.expect("Hello, world!", from: server.url("/hello"))
      }
      try await withDecider(wary, ports: [], configure: shared) { third, _ in
        try await expectFailure(.serverCertificateUntrusted) { try await third.data(from: server.url("/hello")) }
      }
      try await withDecider(nil, ports: [], configure: shared) { fourth, _ in
        try await expectFailure(.serverCertificateUntrusted) { try await fourth.data(from: server.url("/hello")) }
      }
      // Each was asked, and nothing was resumed.
      #expect([trusting, other, wary].map(\.questions.count) == [1, 1, 1])
      #expect(server.tlsSummaries.values.allSatisfy { !$0.resumed })
      #expect(server.requestCount == 2)
    }
  }

  @Test func resetForgetsWhatWasDecided() async throws {
    let (_, server) = try Self.selfSigned()
    defer { server.shutdown() }
    let decider = Decider { _ in .accept }
    try await withDecider(decider, ports: [server.port]) { session, transport in
      try await session.expect("Hello, world!", from: server.url("/hello"))
      let slow = Task { try await session.data(from: server.url("/slow")) }
      #expect(await eventually { server.requestCount == 2 })
      transport.reset()
      // What is under way goes on, over a connection that takes nothing new afterwards.
      for _ in 0..<2 { try await session.expect("Hello, world!", from: server.url("/hello")) }
      #expect(decider.questions.count == 2)
      #expect(server.tlsSummaries.values.allSatisfy { !$0.resumed })
      slow.cancel()
      _ = await slow.result
      let closes = await session.poolStatistics().closes
      #expect(server.connectionCount == 2, "\(closes)")
    }
  }

  @Test func resetWithoutADeciderForgetsSessionsToo() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: try TestIdentity.server())
    defer { server.shutdown() }
    try await withDecider(nil, ports: [server.port]) { session, transport in
      for _ in 0..<2 { _ = try await session.data(from: server.url("/close")) }
      transport.reset()
      for _ in 0..<2 { _ = try await session.data(from: server.url("/close")) }
      #expect((1...4).map { server.tlsSummaries[$0]?.resumed } == [false, true, false, true])
    }
  }

  enum Choice: String, CaseIterable, Sendable { case chosen, policy, nothing, unreadable }

  @Test(arguments: Choice.allCases, [TLSConfiguration.Version.tls12, .tls13]) func clientIdentityByDecision(
    _ choice: Choice, _ version: TLSConfiguration.Version
  ) async throws {
    let authority = try TestIdentity.authority.get()
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: TestIdentity.asking())
    defer { server.shutdown() }
    let own = try authority.issue(CertificateOrder(commonName: "policy", usage: .client)).write()
    defer { own.remove() }
    let chosen = try authority.issue(CertificateOrder(commonName: "chosen", usage: .client))
    let answer: IdentityAnswer =
      switch choice {
      case .chosen: .identity(TLSIdentity(.der(chain: chosen.chainDER, privateKey: chosen.privateKeyDER)))
      case .policy: .useDefault
      case .nothing: .none
      case .unreadable: .identity(TLSIdentity(.files(chain: "/nonexistent", privateKey: "/nonexistent")))
      }
    let decider = Decider(identities: { _ in answer }) { _ in .useDefault }
    try await withDecider(
      decider, ports: [server.port],
      configure: {
        $0.tls.minimumVersion = version
        $0.tls.maximumVersion = version
        $0.tls.clientIdentity = TLSConfiguration.ClientIdentity(
          certificatePath: own.chainPath, privateKeyPath: own.privateKeyPath)
      }
    ) { session, _ in
      if choice == .unreadable {
        let error = try await failure { try await session.data(from: server.url("/hello")) }
        #expect(error.code == .secureConnectionFailed && error.phase == .tls)
        #expect(error.message.contains("No such file or directory"), "\(error.message)")
        #expect(server.requestCount == 0)
        return
      }
      try await session.expect("Hello, world!", from: server.url("/hello"))
      let subject = server.tlsSummaries.values.first?.clientSubject
      switch choice {
      case .nothing: #expect(subject == nil)
      default: #expect(subject?.contains(choice.rawValue) == true, "\(String(describing: subject))")
      }
      let question = try #require(decider.identityQuestions.first)
      #expect(decider.identityQuestions.count == 1)
      #expect(question.host == "localhost" && Int(question.port) == server.port)
      #expect(question.acceptableAuthorities.allSatisfy { $0.first == 0x30 })
    }
  }
}
