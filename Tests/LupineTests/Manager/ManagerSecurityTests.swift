import Foundation
import Lupine
import LupineTestSupport
import LupineTesting
import Testing

/// The facts of AFNetworking's `AFHTTPSessionManagerTests` about security policies, and complaints 7 and 8.
@Suite struct ManagerSecurityTests {
  private let authority = Result { () throws(MintError) in try CertificateAuthority() }

  private func policy(_ mode: PinningMode) throws -> SecurityPolicy {
    try SecurityPolicy(
      pinningMode: mode, pinnedCertificates: mode == .none ? [] : [authority.get().rootDER])
  }

  struct Setting: Sendable, CustomTestStringConvertible {
    var base: String?
    var mode: PinningMode
    var isAllowed: Bool
    var testDescription: String { "\(mode) with \(base ?? "no base")" }
  }

  /// A policy that pins needs a base that is https, or none: a thrown error instead of an exception, and absolute URLs may be pinned (complaint 8).
  @Test(arguments: [
    Setting(base: "http://example.com", mode: .none, isAllowed: true),
    Setting(base: "https://example.com", mode: .none, isAllowed: true),
    Setting(base: "https://example.com", mode: .certificate, isAllowed: true),
    Setting(base: "https://example.com", mode: .publicKey, isAllowed: true),
    Setting(base: "HTTPS://example.com", mode: .publicKey, isAllowed: true),
    Setting(base: "http://example.com", mode: .certificate, isAllowed: false),
    Setting(base: "http://example.com", mode: .publicKey, isAllowed: false),
    Setting(base: nil, mode: .certificate, isAllowed: true),
    Setting(base: nil, mode: .publicKey, isAllowed: true),
  ])
  func complaint8PoliciesAndBases(_ setting: Setting) throws {
    let manager = try HTTPSessionManager(baseURL: setting.base)
    let policy = try policy(setting.mode)
    if setting.isAllowed {
      try manager.setSecurityPolicy(policy)
      #expect(manager.securityPolicy == policy)
    } else {
      let error = #expect(throws: SecurityPolicyError.self) { try manager.setSecurityPolicy(policy) }
      #expect(error?.reason == .insecureBaseURL && manager.securityPolicy == .default)
    }
  }

  /// The error about a base URL does not tell the password in it.
  @Test func insecureBasesKeepTheirPassword() throws {
    let manager = try HTTPSessionManager(baseURL: "http://ada:secret@example.com/v1")
    let error = #expect(throws: SecurityPolicyError.self) { try manager.setSecurityPolicy(try policy(.publicKey)) }
    let message = try #require(error?.message)
    #expect(message.contains("http://example.com/v1/") && !message.contains("ada") && !message.contains("secret"))
  }

  /// Invalid certificates allowed, names validated and nothing pinned: such a policy would refuse every server, and is refused itself. Whatever makes the
  /// name mean something, or leaves it out, is taken.
  @Test(arguments: PinningMode.allCases, [true, false])
  func namesWithoutPinsAreRefusedWhenSet(_ mode: PinningMode, _ allows: Bool) throws {
    for validates in [true, false] {
      var policy = try policy(mode)
      policy.allowInvalidCertificates = allows
      policy.validatesDomainName = validates
      let isRefused = mode == .none && allows && validates
      let expected: SecurityPolicyError.Reason? = isRefused ? .domainNeedsPins : nil
      let kept: SecurityPolicy = isRefused ? .default : policy
      let managers: [SessionManager] = [
        try SessionManager(), try HTTPSessionManager(), try HTTPSessionManager(baseURL: "https://example.com"),
      ]
      for manager in managers {
        let reason = Self.refusal { () throws(SecurityPolicyError) in try manager.setSecurityPolicy(policy) }
        #expect(reason == expected)
        #expect(manager.securityPolicy == kept)
      }
      var hosts = SecurityPolicy()
      let reason = Self.refusal { () throws(SecurityPolicyError) in
        try hosts.setPolicy(policy, forHost: "example.com")
      }
      let ofHost: SecurityPolicy? = isRefused ? nil : policy
      #expect(reason == expected)
      #expect(hosts.hostPolicies["example.com"] == ofHost)
    }
  }

  private static func refusal(_ set: () throws(SecurityPolicyError) -> Void) -> SecurityPolicyError.Reason? {
    do throws(SecurityPolicyError) {
      try set()
      return nil
    } catch {
      return error.reason
    }
  }

  /// An archive brings no such policy into a manager either.
  @Test func archivesCannotLeaveNamesWithoutPins() throws {
    var archive = try ManagerArchive(HTTPSessionManager())
    archive.securityPolicy.allowInvalidCertificates = true
    let error = #expect(throws: SecurityPolicyError.self) { try HTTPSessionManager(archive: archive) }
    #expect(error?.reason == .domainNeedsPins)
  }

  /// What is pinned is trusted; what is not is refused as such, in AFNetworking's words, by tasks and calls, and never as a cancellation (complaint 7). The
  /// policy may change while the manager lives.
  @Test(arguments: [PinningMode.certificate, .publicKey])
  func complaint7PinFailures(_ mode: PinningMode) async throws {
    let authority = try authority.get()
    let other = try CertificateAuthority()
    try await withManager(
      tls: ServerTLS.minted(by: authority, .loopback),
      configure: { $0.tls.roots = .certificates([authority.rootDER]) }
    ) { manager, server in
      #expect(await ended { manager.get("json", success: $0, failure: $1) }.isSuccess)
      try manager.setSecurityPolicy(
        SecurityPolicy(pinningMode: mode, pinnedCertificates: [other.rootDER]))
      let end = await ended { manager.get("json", success: $0, failure: $1) }
      let thrown = await #expect(throws: SessionError.self) { try await manager.get("json", as: Data.self) }
      for error in [end.error as? SessionError, thrown] {
        #expect(error?.code == .serverCertificateUntrusted)
        let cause = error?.underlying as? SecurityPolicyError
        #expect(cause?.reason == .pinMismatch)
        #expect(
          cause?.errorDescription
            == "The certificate for this server is invalid. You might be connecting to a server that is pretending to be “localhost” "
            + "which could put your confidential information at risk.")
      }
      try manager.setSecurityPolicy(
        SecurityPolicy(pinningMode: mode, pinnedCertificates: [authority.rootDER]))
      #expect(await ended { manager.get("json", success: $0, failure: $1) }.isSuccess)
    }
  }

  /// A task of before a reset asks who decides when it begins: its session resumes no TLS session of before that.
  @Test(arguments: [false, true]) func policiesReachFormerSessions(_ isByHandler: Bool) async throws {
    let authority = try authority.get()
    let other = try CertificateAuthority()
    try await withManager(
      tls: ServerTLS.minted(by: authority, .loopback),
      configure: { $0.tls.roots = .certificates([authority.rootDER]) }
    ) { manager, server in
      try manager.setSecurityPolicy(
        SecurityPolicy(pinningMode: .certificate, pinnedCertificates: [authority.rootDER]))
      #expect(await ended { manager.get("json", success: $0, failure: $1) }.isSuccess)
      let ends = Recorder<SessionError.Code?>()
      let task = manager.dataTask(with: try Request(server.url("/json"))) { _, _, error in
        ends.add((error as? SessionError)?.code)
      }
      // Twice: it is not the one before the current session alone.
      for _ in 0..<2 { try manager.invalidateSession(cancellingTasks: false, resettingSession: true) }
      if isByHandler {
        manager.connectionChallengeHandler = { _, _, _ in .disposition(.reject) }
      } else {
        try manager.setSecurityPolicy(SecurityPolicy(pinningMode: .certificate, pinnedCertificates: [other.rootDER]))
      }
      task.resume()
      #expect(await eventually { ends.values.count == 1 })
      #expect(ends.values == [.serverCertificateUntrusted] && server.requestCount == 1)
    }
  }

  /// The manager does not keep what it has replaced: a session without tasks goes.
  @Test func formerSessionsGo() async throws {
    try await withManager { manager, server in
      weak let former = manager.session
      try manager.invalidateSession(cancellingTasks: false, resettingSession: true)
      try manager.setSecurityPolicy(.default)
      #expect(await eventually { former == nil })
    }
  }

  /// A handler of challenges decides alone, unless it says that the default is right: that is the policy's.
  @Test func theHandlerPassesThePolicyBy() async throws {
    let other = try CertificateAuthority()
    try await withManager(tls: ServerTLS.minted(by: authority.get(), .loopback)) { manager, server in
      try manager.setSecurityPolicy(SecurityPolicy(pinningMode: .publicKey, pinnedCertificates: [other.rootDER]))
      manager.connectionChallengeHandler = { _, _, _ in .disposition(.trustServer) }
      #expect(await ended { manager.get("json", success: $0, failure: $1) }.isSuccess)
      manager.connectionChallengeHandler = { _, _, _ in .disposition(.performDefaultHandling) }
      let end = await ended { manager.get("json", success: $0, failure: $1) }
      #expect((end.error as? SessionError)?.underlying is SecurityPolicyError)
    }
  }

  /// However the handler is replaced, connections that the former one let in are not used again.
  @Test(arguments: [false, true]) func theHandlerIsReplacedByAnyName(isAmongAll: Bool) async throws {
    let other = try CertificateAuthority()
    try await withManager(tls: ServerTLS.minted(by: other, .loopback)) { manager, server in
      manager.connectionChallengeHandler = { _, _, _ in .disposition(.trustServer) }
      #expect(await ended { manager.get("json", success: $0, failure: $1) }.isSuccess)
      if isAmongAll {
        manager[dynamicMember: \.self] = SessionManagerHooks()
      } else {
        manager[dynamicMember: \.connectionChallengeHandler!] = { _, _, _ in .disposition(.reject) }
      }
      let end = await ended { manager.get("json", success: $0, failure: $1) }
      #expect((end.error as? SessionError)?.code == .serverCertificateUntrusted, "\(end)")
    }
  }

  /// A handler that says that it answers later, and never does, lets nobody in: not even whom the session trusts by
  /// itself, which a policy that pins others does not.
  @Test(arguments: [PinningMode.certificate, .publicKey])
  func aHandlerThatNeverAnswersRefuses(_ mode: PinningMode) async throws {
    let authority = try authority.get()
    let other = try CertificateAuthority()
    try await withManager(
      tls: ServerTLS.minted(by: authority, .loopback),
      configure: { $0.tls.roots = .certificates([authority.rootDER]) }
    ) { manager, server in
      try manager.setSecurityPolicy(SecurityPolicy(pinningMode: mode, pinnedCertificates: [other.rootDER]))
      manager.connectionChallengeHandler = { _, _, _ in .handledLater }
      let end = await ended { manager.get("json", success: $0, failure: $1) }
      let thrown = await #expect(throws: SessionError.self) { try await manager.get("json", as: Data.self) }
      for error in [end.error as? SessionError, thrown] { #expect(error?.code == .serverCertificateUntrusted) }
      #expect(server.requestCount == 0)
    }
  }
}
