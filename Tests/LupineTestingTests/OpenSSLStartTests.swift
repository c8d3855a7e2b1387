import CLupineOpenSSL
import Glibc
import Testing

@testable import LupineTesting

@Suite struct OpenSSLStartTests {
  /// Whoever is the first to use OpenSSL, it has no handler at exit, when other threads may still be in it.
  @Test(arguments: 0..<4) func opensslIsAliveAtExit(_ user: Int) async throws {
    let identity = try CertificateAuthority().identity
    await #expect(processExitsWith: .success) {
      [user, certificate = identity.certificateDER as [UInt8], key = identity.privateKeyDER as [UInt8]] in
      // The first handler is the last that runs.
      atexit { if OPENSSL_init_crypto(0, nil) == 0 { _exit(3) } }
      let known = MintedCertificate(certificateDER: certificate, privateKeyDER: key, intermediatesDER: [])
      switch user {
      case 0: _ = try CertificateAuthority()
      case 1: _ = try known.publicKeySHA256()
      case 2: _ = try Mint.revocationList(signer: known, revoking: [], validity: .current)
      default: _ = try Digest()
      }
    }
  }
}
