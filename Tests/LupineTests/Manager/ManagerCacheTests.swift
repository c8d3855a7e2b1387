import Foundation
import Lupine
import LupineTesting
import Testing

/// Managers that share a cache, or change whom they trust.
@Suite struct ManagerCacheTests {
  private func withServer(_ body: (LoopbackServer, CertificateAuthority) async throws -> Void) async throws {
    let authority = try CertificateAuthority()
    let server = try LoopbackServer(tls: try ServerTLS.minted(by: authority, .loopback)) { _, connection in
      try connection.respond(
        fields: ["Cache-Control": "max-age=1000", "Content-Type": "application/json"], text: "[1]")
    }
    defer { server.shutdown() }
    try await body(server, authority)
  }

  private func configuration(_ cache: ResponseCache) -> SessionConfiguration {
    var configuration = SessionConfiguration.ephemeral
    configuration.engine = .own
    configuration.responseCache = cache
    return configuration
  }

  private func expectRefusal(
    _ manager: HTTPSessionManager, _ server: LoopbackServer, sourceLocation: SourceLocation = #_sourceLocation
  ) async {
    let error = await #expect(throws: SessionError.self, sourceLocation: sourceLocation) {
      try await manager.get(server.url("/json"), as: Data.self)
    }
    #expect(error?.code == .serverCertificateUntrusted, sourceLocation: sourceLocation)
  }

  /// What a lax manager let in answers no strict one, nor itself when it has become strict.
  @Test func whatALaxPolicyLetInIsNotForOthers() async throws {
    try await withServer { server, authority in
      let cache = ResponseCache()
      let lax = try HTTPSessionManager(configuration: configuration(cache))
      var policy = SecurityPolicy()
      policy.allowInvalidCertificates = true
      policy.validatesDomainName = false
      try lax.setSecurityPolicy(policy)
      for _ in 0..<2 { _ = try await lax.get(server.url("/json"), as: Data.self) }
      #expect(server.requestCount == 1)
      let pinned = try HTTPSessionManager(configuration: configuration(cache))
      try pinned.setSecurityPolicy(
        SecurityPolicy(pinningMode: .publicKey, pinnedCertificates: [CertificateAuthority().rootDER]))
      await expectRefusal(pinned, server)
      let plain = try HTTPSessionManager(configuration: configuration(cache))
      await expectRefusal(plain, server)
      try lax.setSecurityPolicy(.default)
      await expectRefusal(lax, server)
      lax.connectionChallengeHandler = { _, _, _ in .disposition(.trustServer) }
      _ = try await lax.get(server.url("/json"), as: Data.self)
      lax.connectionChallengeHandler = nil
      await expectRefusal(lax, server)
      #expect(server.requestCount == 2)
    }
  }

  /// A manager that decides nothing stores as a session does: its responses are in files for the next process, and `ResponseCache` finds and removes them.
  @Test func aManagerThatDecidesNothingStoresAsASession() async throws {
    let server = try LoopbackServer { _, connection in
      try connection.respond(
        fields: ["Cache-Control": "max-age=1000", "Content-Type": "application/json"], text: "[1]")
    }
    defer { server.shutdown() }
    let folder = FileManager.default.temporaryDirectory.appending(path: "cache-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: folder) }
    let request = try Request(server.url("/json"))
    for _ in 0..<2 {
      let cache = try ResponseCache(directory: folder.path)
      let manager = try HTTPSessionManager(configuration: configuration(cache))
      _ = try await manager.session.data(for: request)
      #expect(server.requestCount == 1)
      await cache.flush()
    }
    let cache = try ResponseCache(directory: folder.path)
    let manager = try HTTPSessionManager(configuration: configuration(cache))
    #expect(await cache.cachedResponse(for: request)?.data == Data("[1]".utf8))
    cache.remove(for: request)
    _ = try await manager.session.data(for: request)
    #expect(server.requestCount == 2)
    await cache.flush()
  }
}
