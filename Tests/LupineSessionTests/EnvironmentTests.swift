import Foundation
import Glibc
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// Whoever starts a program decides neither whom it trusts nor who may read along.
@Suite(.timeLimit(.minutes(2))) struct EnvironmentTests {
  /// What OpenSSL and others read, in a process of its own: nothing of it has been read before.
  @Test func variablesOfTLSAreNotRead() async {
    await #expect(processExitsWith: .success) {
      let authority = try CertificateAuthority()
      let roots = try authority.writeRoot()
      defer { roots.remove() }
      try CertificateFolder.rehash(roots.directory)
      let keys = roots.directory + "/keys"
      for (name, value) in [
        ("SSL_CERT_FILE", roots.certificatePath), ("SSL_CERT_DIR", roots.directory), ("SSLKEYLOGFILE", keys),
      ] { unsafe setenv(name, value, 1) }
      let server = try LoopbackServer(routes: ServerRoute.standard(), tls: try ServerTLS.minted(by: authority))
      defer { server.shutdown() }
      let trusting = try Session(SessionConfiguration())
      let error = await #expect(throws: SessionError.self, "a root of the environment is trusted") {
        try await trusting.data(from: server.url("/hello"))
      }
      #expect(error?.code == .serverCertificateUntrusted)
      var configuration = SessionConfiguration()
      configuration.tls.roots = .certificates([authority.rootDER])
      _ = try await Session(configuration).data(from: server.url("/hello"))
      #expect(!FileManager.default.fileExists(atPath: keys), "keys were written")
    }
  }
}
