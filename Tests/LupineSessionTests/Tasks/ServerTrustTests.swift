import LupineBase
import LupineSession
import LupineTesting
import Testing

/// What a delegate is shown of a server that its session trusts, or does not.
@Suite(.timeLimit(.minutes(5))) struct ServerTrustTests {
  /// Keeps what it is shown, and leaves the decision to the session.
  private final class Witness: SessionDelegate {
    let handledCallbacks: CallbackSet = .sessionChallenge
    let trusts = Locked<[ServerTrust]>([])

    func session(
      _ session: Session, didReceive challenge: ConnectionChallenge,
      completionHandler: @escaping @Sendable (ConnectionChallengeDisposition) -> Void
    ) {
      if case .serverTrust(let trust) = challenge.kind { trusts.withLock { $0.append(trust) } }
      completionHandler(.performDefaultHandling)
    }
  }

  enum Problem: CaseIterable, Sendable { case nothing, path, date, host, pin }

  private static func problems(of trust: ServerTrust) -> [Problem] {
    var problems: [Problem] = []
    if trust.pathProblem != nil { problems.append(.path) }
    if trust.dateProblem != nil { problems.append(.date) }
    if trust.hostProblem != nil { problems.append(.host) }
    if trust.pinProblem != nil { problems.append(.pin) }
    return problems
  }

  private static func order(_ problem: Problem) -> CertificateOrder {
    switch problem {
    case .date: CertificateOrder(dnsNames: ["localhost"], validity: .expired)
    case .host: CertificateOrder(commonName: "localhost", dnsNames: ["other.example"])
    case .nothing, .path, .pin: .loopback
    }
  }

  /// A session that trusts the tests' authority, and whose delegate sees what it trusts.
  private static func session(_ witness: Witness, pins: Set<[UInt8]>) throws -> Session {
    var configuration = SessionConfiguration()
    configuration.engine = .own
    configuration.tls.roots = .certificates([try TestIdentity.authority.get().rootDER])
    configuration.tls.publicKeyPins = pins
    return try Session(configuration, delegate: witness)
  }

  /// Each row has one thing wrong, or nothing: that fact is told, and no other one.
  @Test(arguments: Problem.allCases) func whatIsWrongIsToldAlone(_ problem: Problem) async throws {
    let known = try TestIdentity.authority.get()
    let foreign = try CertificateAuthority(commonName: "Foreign root")
    let minted = try (problem == .path ? foreign : known).issue(Self.order(problem))
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: ServerTLS(minted))
    defer { server.shutdown() }
    let witness = Witness()
    let session = try Self.session(witness, pins: problem == .pin ? [[UInt8](repeating: 7, count: 32)] : [])
    defer { session.invalidateAndCancel() }
    if problem == .nothing {
      try await session.expect("Hello, world!", from: server.url("/hello"))
    } else {
      try await expectFailure(.serverCertificateUntrusted) { try await session.data(from: server.url("/hello")) }
      #expect(server.requestCount == 0)
    }
    let trust = try #require(witness.trusts.withLock { $0.first })
    #expect(trust.isVerified && trust.host == "localhost")
    #expect(trust.isTrusted == (problem == .nothing))
    #expect(Self.problems(of: trust) == (problem == .nothing ? [] : [problem]))
    #expect(trust.certificateChain == minted.chainDER)
    // As far as it goes: to the root, unless that is another one.
    let root = problem == .path ? [] : [known.rootDER]
    #expect(trust.builtChain == [minted.certificateDER] + root)
    #expect(trust.publicKeyHashes == trust.builtChain.compactMap { ServerTrust.publicKeyHash(ofCertificate: $0) })
    #expect(trust.publicKeyHashes.count == trust.builtChain.count)
    let own = try minted.publicKeySHA256()
    #expect(trust.publicKeyHashes.first == own)
  }

  /// Each hash that is shown of a server will do as a pin of it.
  @Test func theHashesArePins() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: try TestIdentity.server())
    defer { server.shutdown() }
    let witness = Witness()
    let first = try Self.session(witness, pins: [])
    defer { first.invalidateAndCancel() }
    try await first.expect("Hello, world!", from: server.url("/hello"))
    let hashes = try #require(witness.trusts.withLock { $0.first }).publicKeyHashes
    #expect(hashes.count == 2 && hashes.allSatisfy { $0.count == 32 })
    for hash in hashes {
      let other = Witness()
      let session = try Self.session(other, pins: [hash])
      defer { session.invalidateAndCancel() }
      try await session.expect("Hello, world!", from: server.url("/hello"))
      let trust = try #require(other.trusts.withLock { $0.first })
      #expect(trust.pinProblem == nil && trust.isTrusted)
    }
  }

  @Test func whatIsNoCertificateHasNoHash() {
    #expect(ServerTrust.publicKeyHash(ofCertificate: [1, 2]) == nil)
  }
}
