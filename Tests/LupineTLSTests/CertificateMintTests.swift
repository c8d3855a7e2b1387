import Foundation
import LupineTesting
import Testing

@Suite("Certificate mint")
struct CertificateMintTests {
  @Test("Files are private, and are removed")
  func files() throws {
    let minted = try CertificateAuthority().issue()
    let files = try minted.write()
    for path in [files.certificatePath, files.chainPath, files.privateKeyPath] {
      let attributes = try FileManager.default.attributesOfItem(atPath: path)
      #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o600)
    }
    files.remove()
    #expect(!FileManager.default.fileExists(atPath: files.directory))
  }

  @Test("PEM holds exactly the DER", arguments: MintedKeyKind.allCases)
  func pem(key: MintedKeyKind) throws {
    let minted = try CertificateAuthority.selfSigned(CertificateOrder(dnsNames: ["example.test"], key: key))
    let lines = minted.privateKeyPEM.split(separator: "\n")
    #expect(lines.first == "-----BEGIN PRIVATE KEY-----")
    #expect(lines.dropFirst().dropLast().allSatisfy { $0.count <= 64 })
    #expect(Data(base64Encoded: lines.dropFirst().dropLast().joined()) == Data(minted.privateKeyDER))
  }

  @Test("The chain of an intermediate leaves the root out")
  func chain() throws {
    let root = try CertificateAuthority()
    let middle = try root.issueAuthority()
    let leaf = try middle.issue()
    #expect(leaf.chainDER == [leaf.certificateDER, middle.certificateDER])
    #expect(try root.issue().chainDER.count == 1)
    #expect(try leaf.publicKeySHA256().count == 32)
    #expect(try root.revocationListPEM(revoking: [leaf.certificateDER]).hasPrefix("-----BEGIN X509 CRL-----\n"))
  }

  @Test("A malformed address is refused with OpenSSL's reason")
  func malformed() {
    #expect(throws: MintError.self) {
      try CertificateAuthority.selfSigned(CertificateOrder(ipAddresses: ["300.1.1.1"]))
    }
  }

  @Test("OpenSSL's command line accepts chain, key and revocation list")
  func commandLine() throws {
    let root = try CertificateAuthority()
    let middle = try root.issueAuthority(pathLength: 0)
    let leaf = try middle.issue()
    let files = try leaf.write()
    defer { files.remove() }
    let anchors = try files.add(root.rootPEM, name: "root.pem")
    func openssl(_ arguments: String...) throws -> Int32 {
      let process = Process()
      process.executableURL = URL(fileURLWithPath: "/usr/bin/openssl")
      process.arguments = arguments
      process.standardOutput = FileHandle.nullDevice
      process.standardError = FileHandle.nullDevice
      try process.run()
      process.waitUntilExit()
      return process.terminationStatus
    }
    let status = try openssl(
      "verify", "-CAfile", anchors, "-untrusted", files.chainPath, "-purpose", "sslserver",
      "-verify_hostname", "localhost", files.certificatePath)
    #expect(status == 0)
    let revoked = try files.add(middle.revocationListPEM(revoking: [leaf.certificateDER]), name: "list.pem")
    let status2 = try openssl(
      "verify", "-CAfile", anchors, "-untrusted", files.chainPath, "-crl_check", "-CRLfile", revoked,
      files.certificatePath)
    #expect(status2 == 2)
    #expect(try openssl("pkey", "-in", files.privateKeyPath, "-check", "-noout") == 0)
  }
}
