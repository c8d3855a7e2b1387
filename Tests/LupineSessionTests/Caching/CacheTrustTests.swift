import FoundationEssentials
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// A cache behind which connections are opened, and servers that are not trusted.
@Suite(.timeLimit(.minutes(2))) struct CacheTrustTests {
  private static let established = ScriptBytes("HTTP/1.1 200 Connection established\r\n\r\n")

  /// Trusts everybody, and counts.
  private final class Judge: SessionDelegate {
    let handledCallbacks: CallbackSet = .sessionChallenge
    let questions = Locked(0)

    func session(
      _ session: Session, didReceive challenge: ConnectionChallenge,
      completionHandler: @escaping @Sendable (ConnectionChallengeDisposition) -> Void
    ) {
      questions.withLock { $0 += 1 }
      completionHandler(.trustServer)
    }
  }

  /// What is asked behind an answer outlives the session's delegate, which alone could say whether the server is the
  /// right one: nobody is asked then, and nothing is sent, though the certificate would do without a delegate.
  @Test func nobodyIsTrustedBehindTheEndOfTheSession() async throws {
    let identity = try TestIdentity.server()
    let (isAsked, goOn) = try (Latch(), Latch())
    let stale = reply(
      "x", "Cache-Control: max-age=0, stale-while-revalidate=1000\r\nETag: \"1\"\r\nAge: 1\r\nConnection: close\r\n")
    let proxy = try ScriptedServer([
      [.readHead, .send(Self.established), .startTLS(identity), .readHead, .send(stale), .waitForClose],
      // The way to the server is open once the session has let go of its delegate.
      [
        .readHead, .release(isAsked), .stall(goOn), .send(Self.established), .startTLS(identity), .readHead,
        .send(stale), .waitForClose,
      ],
    ])
    defer {
      goOn.release()
      proxy.shutdown()
    }
    let judge = Judge()
    var configuration = SessionConfiguration.ephemeral
    configuration.engine = .own
    configuration.proxy = .proxy(try Proxy("http://127.0.0.1:\(proxy.port)"))
    configuration.proxyTimeout = .seconds(100)
    configuration.responseCache = ResponseCache()
    configuration.tls.roots = .certificates([try TestIdentity.authority.get().rootDER])
    let session = try Session(configuration, delegate: judge)
    defer { session.invalidateAndCancel() }
    for _ in 0..<2 { try await session.expect("x", from: "https://localhost:7443/x") }
    #expect(await eventually { isAsked.isReleased })
    session.finishTasksAndInvalidate()
    #expect(await eventually { session.delegate == nil })
    goOn.release()
    #expect(await proxy.hasPlayed(2))
    #expect(proxy.recordedRequests.map(\.target) == ["localhost:7443", "/x", "localhost:7443"])
    #expect(judge.questions.withLock { $0 } == 1)
  }

  /// `stale-if-error` is for servers that fail or are not there (RFC 5861 section 4): of one that is not the right one
  /// the caller hears.
  @Test func anUntrustedServerIsNoOutage() async throws {
    let good = try TestIdentity.server()
    let bad = ServerTLS(try CertificateAuthority.selfSigned(.loopback))
    let stale = reply("x", "Cache-Control: max-age=0, stale-if-error=1000\r\nAge: 1\r\nConnection: close\r\n")
    try await withScript(
      [[.startTLS(good), .readHead, .send(stale), .waitForClose], [.startTLS(bad), .waitForClose]],
      expectsProblems: true, configure: { $0.responseCache = ResponseCache() }
    ) { session, server in
      let url = "https://localhost:\(server.port)/"
      try await session.expect("x", from: url)
      try await expectFailure(.serverCertificateUntrusted) { try await session.data(from: url) }
      server.shutdown()
      let gone = try RefusingPort(server.port)
      let response = try await session.expect("x", from: url)
      withExtendedLifetime(gone) {}
      #expect(response.metrics.transactions.map(\.fetchType) == [.localCache])
    }
  }
}
