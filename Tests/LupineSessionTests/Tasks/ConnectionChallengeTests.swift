import Dispatch
import FoundationEssentials
import Glibc
import LupineBase
import LupineEngine
import LupineIO
import LupineSession
import LupineTesting
import Testing

/// The session's delegate decides about the trust of connections.
@Suite(.timeLimit(.minutes(5))) struct ConnectionChallengeTests {
  private final class Judge: SessionDelegate {
    let handledCallbacks: CallbackSet = .sessionChallenge
    let questions = Locked<[String]>([])
    let answer: @Sendable (ServerTrust) -> ConnectionChallengeDisposition

    init(_ answer: @escaping @Sendable (ServerTrust) -> ConnectionChallengeDisposition) { self.answer = answer }

    func session(
      _ session: Session, didReceive challenge: ConnectionChallenge,
      completionHandler: @escaping @Sendable (ConnectionChallengeDisposition) -> Void
    ) {
      guard case .serverTrust(let trust) = challenge.kind else { return completionHandler(.performDefaultHandling) }
      questions.withLock {
        $0.append("\(challenge.host) \(trust.isTrusted ? "trusted" : trust.pathProblem == nil ? "named" : "unknown")")
      }
      completionHandler(answer(trust))
    }
  }

  private func session(
    _ judge: Judge, knowsAuthority: Bool, engine: SessionConfiguration.EngineChoice = .own
  ) throws -> Session {
    var configuration = SessionConfiguration()
    configuration.engine = engine
    configuration.tls.roots = .certificates(knowsAuthority ? [try TestIdentity.authority.get().rootDER] : [])
    return try Session(configuration, delegate: judge)
  }

  @Test func decidesBothWays() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: try TestIdentity.server())
    defer { server.shutdown() }
    let rows: [(knows: Bool, answer: ConnectionChallengeDisposition, isGood: Bool)] = [
      (true, .performDefaultHandling, true), (true, .reject, false), (true, .trustServer, true),
      (false, .performDefaultHandling, false), (false, .reject, false), (false, .trustServer, true),
    ]
    for row in rows {
      let judge = Judge { _ in row.answer }
      let session = try session(judge, knowsAuthority: row.knows)
      defer { session.invalidateAndCancel() }
      if row.isGood {
        try await session.expect("Hello, world!", from: server.url("/hello"))
      } else {
        try await expectFailure(.serverCertificateUntrusted) { try await session.data(from: server.url("/hello")) }
      }
      #expect(judge.questions.withLock { $0.first } == "localhost \(row.knows ? "trusted" : "unknown")")
    }
  }

  /// What was decided is remembered with the connection, and forgotten at a reset; another session has to decide for itself, also on the
  /// same engine.
  @Test func decisionsStayWithTheirSession() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: try TestIdentity.server())
    defer { server.shutdown() }
    let accepting = Judge { _ in .trustServer }
    let first = try session(accepting, knowsAuthority: false, engine: .shared)
    defer { first.invalidateAndCancel() }
    for _ in 0..<3 { try await first.expect("Hello, world!", from: server.url("/hello")) }
    #expect(accepting.questions.withLock { $0.count } == 1)
    let asked = Judge { _ in .performDefaultHandling }
    let second = try session(asked, knowsAuthority: false, engine: .shared)
    defer { second.invalidateAndCancel() }
    try await expectFailure(.serverCertificateUntrusted) { try await second.data(from: server.url("/hello")) }
    #expect(asked.questions.withLock { $0 } == ["localhost unknown"])
    first.reset()
    try await first.expect("Hello, world!", from: server.url("/hello"))
    #expect(accepting.questions.withLock { $0.count } == 2)
    #expect(await first.poolStatistics().opened == 2)
  }

  /// Keeps count of the questions, and answers none.
  private final class Silent: SessionDelegate {
    let handledCallbacks: CallbackSet = .sessionChallenge
    let questions = Locked(0)

    func session(
      _ session: Session, didReceive challenge: ConnectionChallenge,
      completionHandler: @escaping @Sendable (ConnectionChallengeDisposition) -> Void
    ) {
      questions.withLock { $0 += 1 }
    }
  }

  /// A completion handler that is let go opens no door, though the certificate would do without a delegate.
  @Test func aQuestionThatIsDroppedRejects() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: try TestIdentity.server())
    defer { server.shutdown() }
    let silent = Silent()
    var configuration = SessionConfiguration()
    configuration.engine = .own
    configuration.tls.roots = .certificates([try TestIdentity.authority.get().rootDER])
    let session = try Session(configuration, delegate: silent)
    defer { session.invalidateAndCancel() }
    try await expectFailure(.serverCertificateUntrusted) { try await session.data(from: server.url("/hello")) }
    #expect(silent.questions.withLock { $0 } == 1)
    #expect(server.requestCount == 0)
  }

  // MARK: Client certificates

  private final class Bearer: SessionDelegate {
    let handledCallbacks: CallbackSet = .sessionChallenge
    /// Names of the authorities in each question about a client certificate.
    let questions = Locked<[[[UInt8]]]>([])
    let answer: ConnectionChallengeDisposition

    init(_ answer: ConnectionChallengeDisposition) { self.answer = answer }

    func session(
      _ session: Session, didReceive challenge: ConnectionChallenge,
      completionHandler: @escaping @Sendable (ConnectionChallengeDisposition) -> Void
    ) {
      dispatchPrecondition(condition: .onQueue(session.delegateQueue))
      guard case .clientCertificate(let authorities) = challenge.kind else {
        return completionHandler(.performDefaultHandling)
      }
      questions.withLock { $0.append(authorities) }
      // Not necessarily on the delegate's queue.
      DispatchQueue.global().async { [answer] in completionHandler(answer) }
    }
  }

  /// The server asks for a certificate; what the delegate says goes, and without it what the configuration says.
  @Test(arguments: [TLSConfiguration.Version.tls12, .tls13]) func clientCertificates(
    _ version: TLSConfiguration.Version
  ) async throws {
    let authority = try TestIdentity.authority.get()
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: TestIdentity.asking())
    defer { server.shutdown() }
    let (chosen, configured) = (
      try authority.issue(CertificateOrder(commonName: "chosen", usage: .client)).write(),
      try authority.issue(CertificateOrder(commonName: "configured", usage: .client)).write()
    )
    defer {
      chosen.remove()
      configured.remove()
    }
    let rows: [(answer: ConnectionChallengeDisposition, subject: String?)] = [
      (
        .useIdentity(.init(certificatePath: chosen.chainPath, privateKeyPath: chosen.privateKeyPath)), "chosen"
      ), (.performDefaultHandling, "configured"), (.trustServer, "configured"), (.reject, nil),
    ]
    for row in rows {
      let bearer = Bearer(row.answer)
      var configuration = SessionConfiguration()
      configuration.engine = .own
      configuration.tls.roots = .certificates([authority.rootDER])
      configuration.tls.minimumVersion = version
      configuration.tls.maximumVersion = version
      configuration.tls.clientIdentity = .init(
        certificatePath: configured.chainPath, privateKeyPath: configured.privateKeyPath)
      let session = try Session(configuration, delegate: bearer)
      defer { session.invalidateAndCancel() }
      for _ in 0..<2 { try await session.expect("Hello, world!", from: server.url("/hello")) }
      #expect(bearer.questions.withLock { $0.count } == 1, "asked once a connection")
      #expect(bearer.questions.withLock { $0.first?.count } == 1, "the server names its authority")
      let subject = server.tlsSummaries.max { $0.key < $1.key }?.value.clientSubject
      if let expected = row.subject {
        #expect(subject?.contains(expected) == true, "\(row)")
      } else {
        #expect(subject == nil, "\(row)")
      }
    }
    #expect(server.connectionCount == rows.count)
  }

  private func session(_ bearer: Bearer, _ change: (inout SessionConfiguration) -> Void = { _ in }) throws -> Session {
    var configuration = SessionConfiguration()
    configuration.engine = .own
    configuration.tls.roots = .certificates([try TestIdentity.authority.get().rootDER])
    change(&configuration)
    return try Session(configuration, delegate: bearer)
  }

  /// What a handshake waits for is not read behind files of users, which may be on a server that is gone.
  @Test func slowFilesHoldUpNoIdentity() async throws {
    let latch = try Latch()
    defer { latch.release() }
    let threads = try Engine.processFiles.get()
    for _ in 0..<2 { threads.run({ _ = latch.wait(seconds: 120) }, completion: { _ in }) }
    let files = try TestIdentity.authority.get().issue(CertificateOrder(commonName: "chosen", usage: .client)).write()
    defer { files.remove() }
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: TestIdentity.asking(insists: true))
    defer { server.shutdown() }
    let bearer = Bearer(
      .useIdentity(.init(certificatePath: files.chainPath, privateKeyPath: files.privateKeyPath)))
    let session = try session(bearer)
    defer { session.invalidateAndCancel() }
    try await session.expect("Hello, world!", from: server.url("/hello"))
  }

  /// An identity in a pipe that nobody writes to, for more connections than there are threads: who has another is given it meanwhile.
  @Test func anIdentityThatHangsKeepsOneThread() async throws {
    let directory = try ScratchDirectory()
    let pipe = directory.path + "/identity.pem"
    try #require(unsafe mkfifo(pipe, 0o600) == 0)
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: TestIdentity.asking(insists: true))
    defer { server.shutdown() }
    let hanging = Bearer(.useIdentity(.init(certificatePath: pipe, privateKeyPath: pipe)))
    let session = try session(hanging) { $0.trustDecisionTimeout = .milliseconds(50) }
    defer { session.invalidateAndCancel() }
    for _ in 0..<6 {
      let error = try await failure { try await session.data(from: server.url("/hello")) }
      #expect(error.code == .timedOut, "\(error)")
    }
    let files = try TestIdentity.authority.get().issue(CertificateOrder(commonName: "chosen", usage: .client)).write()
    defer { files.remove() }
    let other = try self.session(
      Bearer(.useIdentity(.init(certificatePath: files.chainPath, privateKeyPath: files.privateKeyPath))))
    defer { other.invalidateAndCancel() }
    try await other.expect("Hello, world!", from: server.url("/hello"))
    // Whoever opens it for reading is let go.
    let writer = unsafe open(pipe, O_WRONLY | O_CLOEXEC | O_NONBLOCK)
    if writer >= 0 { close(writer) }
  }

  /// What a request ends with for which this one is asked.
  private func refusal(of server: LoopbackServer, to bearer: Bearer) async throws -> SessionError {
    let session = try session(bearer)
    defer { session.invalidateAndCancel() }
    return try await failure { try await session.data(from: server.url("/hello")) }
  }

  /// An identity that cannot be read is an error of the request, and no other one is shown.
  @Test func anIdentityThatIsNone() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: TestIdentity.asking(insists: true))
    defer { server.shutdown() }
    let bearer = Bearer(.useIdentity(.init(certificatePath: "/nonexistent.pem", privateKeyPath: "/nonexistent.pem")))
    let error = try await refusal(of: server, to: bearer)
    #expect(error.code == .secureConnectionFailed, "\(error)")
    #expect(server.requestCount == 0)
  }

  /// A delegate that answers the question for a certificate with an error ends the request with that error: nothing goes without.
  @Test func anErrorInPlaceOfAnIdentity() async throws {
    struct NoCardInTheReader: Error {}
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: TestIdentity.asking())
    defer { server.shutdown() }
    let bearer = Bearer(.rejectWithError(NoCardInTheReader()))
    let error = try await refusal(of: server, to: bearer)
    #expect(error.code == .secureConnectionFailed && error.underlying is NoCardInTheReader, "\(error)")
    #expect(server.requestCount == 0)
  }
}
