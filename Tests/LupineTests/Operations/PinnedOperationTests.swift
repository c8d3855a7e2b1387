import Dispatch
import Foundation
import Lupine
import LupineTesting
import Testing

/// Operations against a server whose certificate is pinned.
@Suite struct PinnedOperationTests {
  /// With the right pin an operation succeeds; with another one it fails as a refusal of the server, not as a cancellation.
  @Test(arguments: [PinningMode.certificate, .publicKey]) func pins(_ mode: PinningMode) async throws {
    let authority = try CertificateAuthority()
    let other = try CertificateAuthority()
    let server = try LoopbackServer(
      routes: ServerRoute.standard(), tls: ServerTLS.minted(by: authority, .loopback))
    defer { server.shutdown() }
    var configuration = SessionConfiguration.ephemeral
    configuration.tls.roots = .certificates([authority.rootDER])
    let manager = try HTTPRequestOperationManager(baseURL: server.url("/"), configuration: configuration)
    manager.completionQueue = DispatchQueue(label: "manager")
    manager.responseSerializer = HTTPResponseSerializer()
    for (pinned, isTrusted) in [(authority, true), (other, false), (authority, true)] {
      try manager.setSecurityPolicy(SecurityPolicy(pinningMode: mode, pinnedCertificates: [pinned.rootDER]))
      let outcomes = Calls<(any Error)?>()
      manager.get("hello") { _, _ in
        outcomes.note(nil)
      } failure: { operation, error in
        outcomes.note(error)
        #expect(operation?.response == nil)
      }
      let error = try await outcomes.first(1)[0] as? SessionError
      #expect((error == nil) == isTrusted)
      #expect(error == nil || error?.code == .serverCertificateUntrusted)
      #expect(error == nil || (error?.underlying as? SecurityPolicyError)?.reason == .pinMismatch)
    }
    #expect(server.requestCount == 2)
    manager.sessionManager.session.invalidateAndCancel()
    #expect(await until { server.openConnectionCount == 0 })
  }
}
