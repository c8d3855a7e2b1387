import FoundationEssentials
import LupineBase
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

  private func session(_ judge: Judge, knowsAuthority: Bool) throws -> Session {
    var configuration = SessionConfiguration()
    configuration.engine = .own
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

  /// What was decided is remembered with the connection, and forgotten at a reset; another session has to decide for itself.
  @Test func decisionsStayWithTheirSession() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: try TestIdentity.server())
    defer { server.shutdown() }
    let accepting = Judge { _ in .trustServer }
    let first = try session(accepting, knowsAuthority: false)
    defer { first.invalidateAndCancel() }
    for _ in 0..<3 { try await first.expect("Hello, world!", from: server.url("/hello")) }
    #expect(accepting.questions.withLock { $0.count } == 1)
    let asked = Judge { _ in .performDefaultHandling }
    let second = try session(asked, knowsAuthority: false)
    defer { second.invalidateAndCancel() }
    try await expectFailure(.serverCertificateUntrusted) { try await second.data(from: server.url("/hello")) }
    first.reset()
    try await first.expect("Hello, world!", from: server.url("/hello"))
    #expect(accepting.questions.withLock { $0.count } == 2)
    #expect(await first.poolStatistics().opened == 2)
  }
}
