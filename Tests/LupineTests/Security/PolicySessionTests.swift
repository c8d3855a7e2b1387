import Foundation
import Lupine
import LupineBase
import LupineTesting
import Testing

/// Policies over connections: what one decided reaches no other, a change asks again, reports only report.
@Suite(.timeLimit(.minutes(2))) struct PolicySessionTests {
  private let authority: CertificateAuthority
  private let leaf: MintedCertificate
  private let pin: String
  private let wrong = "sha256/" + String(repeating: "A", count: 43) + "="

  init() throws {
    authority = try CertificateAuthority()
    leaf = try authority.issue()
    pin = "\(try #require(PublicKeyPin(certificate: leaf.certificateDER)))"
  }

  private func configuration(knowsAuthority: Bool = true) -> SessionConfiguration {
    var configuration = SessionConfiguration()
    configuration.tls.roots = .certificates(knowsAuthority ? [authority.rootDER] : [])
    return configuration
  }

  private func server() throws -> LoopbackServer {
    try LoopbackServer(routes: ServerRoute.standard(), tls: ServerTLS(leaf))
  }

  private func refusal(_ session: Session, _ server: LoopbackServer) async throws -> SecurityPolicyError {
    let error = await #expect(throws: SessionError.self) { _ = try await session.data(from: server.url("/hello")) }
    #expect(error?.code == .serverCertificateUntrusted && error?.requestBytesSent == false)
    return try #require(error?.underlying as? SecurityPolicyError)
  }

  private func policy(_ pins: [String]) throws -> SecurityPolicy {
    try SecurityPolicy(pinningMode: .publicKey, publicKeyPins: pins)
  }

  /// Two sessions of one process share the engine, its pools' keys and the cache of TLS sessions, and nothing that a policy decided.
  @Test func policiesAreKeptApart() async throws {
    let server = try server()
    defer { server.shutdown() }
    let good = try Session(configuration(), delegate: PolicyDelegate(try policy([pin])))
    let bad = try Session(configuration(), delegate: PolicyDelegate(try policy([wrong])))
    let plain = try Session(configuration())
    defer { for session in [good, bad, plain] { session.invalidateAndCancel() } }
    for _ in 0..<2 {
      _ = try await plain.data(from: server.url("/hello"))
      _ = try await good.data(from: server.url("/hello"))
      let error = try await refusal(bad, server)
      #expect(error.reason == .pinMismatch && error.foundPins.first == pin && error.host == "localhost")
      #expect(error.description.contains(pin))
    }
    // A server that nobody vouches for is let in by one policy, and by that one alone.
    var lax = try policy([pin])
    lax.allowInvalidCertificates = true
    let foreign = try Session(configuration(knowsAuthority: false), delegate: PolicyDelegate(lax))
    let strict = try Session(configuration(knowsAuthority: false), delegate: PolicyDelegate(try policy([pin])))
    defer { for session in [foreign, strict] { session.invalidateAndCancel() } }
    _ = try await foreign.data(from: server.url("/hello"))
    #expect(try await refusal(strict, server).reason == .untrustedChain)
    _ = try await foreign.data(from: server.url("/hello"))
  }

  /// After a change and a flush the next request asks the new policy: neither an idle connection nor a TLS session of before is used.
  @Test func aChangeAsksAgain() async throws {
    let server = try server()
    defer { server.shutdown() }
    let delegate = PolicyDelegate(try policy([pin]))
    let session = try Session(configuration(), delegate: delegate)
    defer { session.invalidateAndCancel() }
    for _ in 0..<3 { _ = try await session.data(from: server.url("/hello")) }
    #expect(delegate.questions.withLock { $0 } == 1)
    delegate.change(to: try policy([wrong]))
    session.flush()
    #expect(try await refusal(session, server).reason == .pinMismatch)
    #expect(delegate.questions.withLock { $0 } == 2)
    delegate.change(to: try policy([wrong, pin]))
    session.flush()
    _ = try await session.data(from: server.url("/hello"))
    #expect(delegate.questions.withLock { $0 } == 3)
  }

  /// A policy that is tried out lets everything through that the session trusts, and nothing else.
  @Test func reportsOnly() async throws {
    let server = try server()
    defer { server.shutdown() }
    let verdicts = Locked<[SecurityPolicy.Verdict]>([])
    var policy = try policy([wrong])
    policy.report(only: true) { verdict in verdicts.withLock { $0.append(verdict) } }
    let trusting = try Session(configuration(), delegate: PolicyDelegate(policy))
    defer { trusting.invalidateAndCancel() }
    _ = try await trusting.data(from: server.url("/hello"))
    let verdict = try #require(verdicts.withLock { $0.first })
    #expect(verdict.isReportOnly && !verdict.isAccepted && verdict.error?.reason == .pinMismatch)
    #expect(verdict.host == "localhost" && verdict.foundPins.first?.description == pin)
    let foreign = try Session(configuration(knowsAuthority: false), delegate: PolicyDelegate(policy))
    defer { foreign.invalidateAndCancel() }
    let error = await #expect(throws: SessionError.self) { _ = try await foreign.data(from: server.url("/hello")) }
    #expect(error?.code == .serverCertificateUntrusted && !(error?.underlying is SecurityPolicyError))
    #expect(verdicts.withLock { $0.last?.error?.reason } == .untrustedChain)
    // Enforced and told.
    policy.report(only: false) { verdict in verdicts.withLock { $0.append(verdict) } }
    let enforcing = try Session(configuration(), delegate: PolicyDelegate(policy))
    defer { enforcing.invalidateAndCancel() }
    #expect(try await refusal(enforcing, server).reason == .pinMismatch)
    #expect(verdicts.withLock { $0.count } == 3 && verdicts.withLock { $0.last?.isReportOnly } == false)
  }

  /// Hosts have policies of their own, and report where the whole reports.
  @Test func hostsHavePolicies() async throws {
    let server = try server()
    defer { server.shutdown() }
    var policy = SecurityPolicy()
    #expect(!policy.needsEvaluation)
    try policy.setPolicy(try self.policy([wrong]), forHost: "localhost")
    #expect(policy.needsEvaluation)
    let session = try Session(configuration(), delegate: PolicyDelegate(policy))
    defer { session.invalidateAndCancel() }
    #expect(try await refusal(session, server).reason == .pinMismatch)
    _ = try await session.data(from: "https://127.0.0.1:\(server.port)/hello")
  }

  /// A session that does not verify servers leaves nothing to a policy: it checks for itself.
  @Test func unverifiedSessionsAreCheckedAnyway() async throws {
    let server = try server()
    defer { server.shutdown() }
    for (pins, knows, reason) in [
      ([pin], true, nil), ([wrong], true, .pinMismatch), ([pin], false, .untrustedChain),
    ] as [([String], Bool, SecurityPolicyError.Reason?)] {
      var configuration = configuration(knowsAuthority: knows)
      configuration.tls.verifiesServer = false
      let session = try Session(configuration, delegate: PolicyDelegate(try policy(pins)))
      defer { session.invalidateAndCancel() }
      if let reason {
        #expect(try await refusal(session, server).reason == reason)
      } else {
        _ = try await session.data(from: server.url("/hello"))
      }
    }
  }

  /// Pins of the configuration are never set aside by a policy.
  @Test func pinsOfTheConfigurationStand() async throws {
    let server = try server()
    defer { server.shutdown() }
    var configuration = configuration()
    configuration.tls.publicKeyPins = [[UInt8](repeating: 0, count: 32)]
    var lax = SecurityPolicy()
    lax.allowInvalidCertificates = true
    lax.validatesDomainName = false
    let session = try Session(configuration, delegate: PolicyDelegate(lax))
    defer { session.invalidateAndCancel() }
    #expect(try await refusal(session, server).reason == .pinMismatch)
  }
}
