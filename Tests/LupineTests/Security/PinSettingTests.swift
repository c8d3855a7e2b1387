import Foundation
import Lupine
import LupineTesting
import Testing

/// Pins, patterns and files: what is refused when it is set.
@Suite struct PinSettingTests {
  private static let zeros = String(repeating: "A", count: 43) + "="

  static let pins: [(String, Bool)] = [
    ("sha256/" + zeros, true), ("sha256//" + zeros, true), (zeros, false), ("sha1/" + zeros, false),
    ("sha256/" + zeros.dropLast(), false), ("sha256/" + String(repeating: "A", count: 42) + "B=", false),
    ("sha256/", false), ("", false), ("sha256/" + zeros + "\n", false), ("SHA256/" + zeros, false),
    // A digest whose Base64 begins with a slash.
    ("sha256//" + String(repeating: "A", count: 42) + "=", true),
  ]

  @Test(arguments: pins) func readsPins(_ text: String, _ isGood: Bool) throws {
    if isGood {
      let pin = try PublicKeyPin(text)
      #expect(pin.sha256.count == 32)
      #expect(try PublicKeyPin("\(pin)") == pin)
    } else {
      let error = #expect(throws: SecurityPolicyError.self) { try PublicKeyPin(text) }
      #expect(error?.reason == .badPin)
    }
  }

  @Test func slashesAtTheFront() throws {
    let pin = try #require(PublicKeyPin(sha256: [0xFF] + [UInt8](repeating: 0, count: 31)))
    #expect("\(pin)".hasPrefix("sha256//w"))
    #expect(try PublicKeyPin("\(pin)") == pin)
    #expect(try PublicKeyPin("sha256//" + "\(pin)".dropFirst("sha256/".count)) == pin)
  }

  @Test func badSettingsAreRefused() throws {
    func reason(_ make: () throws -> Void) throws -> SecurityPolicyError.Reason? {
      let error = #expect(throws: SecurityPolicyError.self) { try make() }
      return error?.reason
    }
    let certificate = try CertificateAuthority().certificateDER
    let pin = "sha256/" + Self.zeros
    #expect(try reason { _ = try SecurityPolicy(pinningMode: .certificate) } == .pinsMissing)
    #expect(try reason { _ = try SecurityPolicy(pinningMode: .publicKey) } == .pinsMissing)
    #expect(
      try reason { _ = try SecurityPolicy(pinningMode: .certificate, pinnedCertificates: [[1, 2]]) } == .badCertificate)
    // One byte too many is no certificate either.
    #expect(
      try reason { _ = try SecurityPolicy(pinningMode: .none, pinnedCertificates: [certificate + [0]]) }
        == .badCertificate)
    #expect(
      try reason {
        _ = try SecurityPolicy(pinningMode: .certificate, pinnedCertificates: [certificate], publicKeyPins: [pin])
      } == .pinsUnused)
    #expect(try reason { _ = try SecurityPolicy(pinningMode: .publicKey, publicKeyPins: ["x"]) } == .badPin)
    // Nothing changes by a setting that is refused.
    var policy = try SecurityPolicy(pinningMode: .publicKey, publicKeyPins: [pin])
    let before = policy
    #expect(try reason { try policy.pin(.certificate) } == .pinsMissing)
    #expect(policy == before)
    try policy.pin(.none)
    #expect(policy == .default)
  }

  /// Keys that nobody would look at are refused, in an archive too; certificates without a mode that pins them are kept, as in AFNetworking.
  @Test(arguments: [PinningMode.none, .certificate]) func unusedKeysAreRefused(_ mode: PinningMode) throws {
    let certificate = try CertificateAuthority().certificateDER
    let pin = "sha256/" + Self.zeros
    for (keys, backups) in [([pin], []), ([], [pin]), ([pin], [pin])] as [([String], [String])] {
      let error = #expect(throws: SecurityPolicyError.self) {
        try SecurityPolicy(
          pinningMode: mode, pinnedCertificates: [certificate], publicKeyPins: keys, backupPins: backups)
      }
      #expect(error?.reason == .pinsUnused && error?.host == nil)
    }
    let kept = try SecurityPolicy(pinningMode: mode, pinnedCertificates: [certificate])
    let archive = try JSONEncoder().encode(kept)
    #expect(try JSONDecoder().decode(SecurityPolicy.self, from: archive) == kept)
    #expect(kept.pinnedCertificates == [certificate])
    for name in ["publicKeyPins", "backupPins"] {
      let bent = String(decoding: archive, as: UTF8.self).replacing("\"\(name)\":[]", with: "\"\(name)\":[\"\(pin)\"]")
      let error = #expect(throws: SecurityPolicyError.self) {
        try JSONDecoder().decode(SecurityPolicy.self, from: Data(bent.utf8))
      }
      #expect(error?.reason == .pinsUnused, "\(name)")
    }
  }

  static let patterns: [(String, String?)] = [
    ("example.test", "example.test"), ("EXAMPLE.test.", "example.test"), ("*.Example.test", "*.example.test"),
    ("bücher.test", "xn--bcher-kva.test"), ("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("[::1]", "::1"),
    ("*.test", "*.test"), ("*", nil), ("*.*.test", nil), ("a*.test", nil), ("*.127.0.0.1", nil), ("", nil),
    ("exa mple.test", nil), ("https://example.test", nil), ("example.test:443", nil),
  ]

  @Test(arguments: patterns) func readsHostPatterns(_ pattern: String, _ key: String?) throws {
    var policy = SecurityPolicy()
    if let key {
      try policy.setPolicy(.default, forHost: pattern)
      #expect(Array(policy.hostPolicies.keys) == [key])
      try policy.setPolicy(nil, forHost: pattern)
      #expect(policy == .default)
    } else {
      let error = #expect(throws: SecurityPolicyError.self) { try policy.setPolicy(.default, forHost: pattern) }
      #expect(error?.reason == .badHostPolicy)
    }
  }

  /// The host itself, else the longest pattern, else the policy.
  @Test func theClosestPatternDecides() throws {
    func marked(_ digit: Character) throws -> SecurityPolicy {
      try SecurityPolicy(
        pinningMode: .publicKey, publicKeyPins: ["sha256/" + String(digit) + String(repeating: "A", count: 42) + "="])
    }
    let (base, wide, narrow, exact) = (try marked("B"), try marked("C"), try marked("D"), try marked("E"))
    var policy = base
    try policy.setPolicy(wide, forHost: "*.example.test")
    try policy.setPolicy(narrow, forHost: "*.api.example.test")
    try policy.setPolicy(exact, forHost: "v1.api.example.test")
    #expect(throws: SecurityPolicyError.self) { try policy.setPolicy(policy, forHost: "other.test") }
    for (host, expected) in [
      ("example.test", base), ("a.example.test", wide), ("a.b.example.test", wide), ("api.example.test", wide),
      ("v2.api.example.test", narrow), ("V1.API.example.test.", exact), ("x.v1.api.example.test", narrow),
      ("badexample.test", base), ("127.0.0.1", base),
    ] {
      #expect(policy.policy(forHost: host).publicKeyPins == expected.publicKeyPins, "\(host)")
    }
    #expect(policy.policy(forHost: nil).publicKeyPins == base.publicKeyPins)
  }

  @Test func readsFilesAndDirectories() throws {
    let root = try CertificateAuthority()
    let leaf = try root.issueAuthority().issue()
    let files = try leaf.write()
    defer { files.remove() }
    #expect(try SecurityPolicy.certificates(inFile: files.certificatePath) == [leaf.certificateDER])
    #expect(try SecurityPolicy.certificates(inFile: files.chainPath) == leaf.chainDER)
    // The key beside it is left out.
    let mixed = try files.add(
      leaf.privateKeyPEM + "comment\r\n" + leaf.chainPEM.replacing("\n", with: "\r\n"), name: "mixed")
    #expect(try SecurityPolicy.certificates(inFile: mixed) == leaf.chainDER)
    let marked = try files.add("\u{FEFF}" + leaf.chainPEM, name: "marked")
    #expect(try SecurityPolicy.certificates(inFile: marked) == leaf.chainDER)
    let der = files.directory + "/one.cer"
    try Data(root.rootDER).write(to: URL(filePath: der))
    #expect(try SecurityPolicy.certificates(inFile: der) == [root.rootDER])
    for (name, text) in [
      ("empty", ""), ("key.only", leaf.privateKeyPEM), ("cut", String(leaf.certificatePEM.dropLast(40))),
      ("bent", leaf.certificatePEM.replacing("MII", with: "NII")),
      ("unended", leaf.certificatePEM.replacing("-----END CERTIFICATE-----\n", with: "") + root.rootPEM),
    ] {
      let path = try files.add(text, name: name)
      let error = #expect(throws: SecurityPolicyError.self) { try SecurityPolicy.certificates(inFile: path) }
      #expect(error?.reason == .badCertificate, "\(name)")
    }
    let missing = #expect(throws: SecurityPolicyError.self) { try SecurityPolicy.certificates(inFile: "/nonexistent") }
    #expect(missing?.reason == .unreadable)
    // `key.pem` holds no certificate: a directory with such a file is no directory of pins.
    #expect(throws: SecurityPolicyError.self) { try SecurityPolicy.certificates(inDirectory: files.directory) }
    try FileManager.default.removeItem(atPath: files.privateKeyPath)
    // Directories are left alone, whatever they are called.
    let former = files.directory + "/former.pem"
    let link = files.directory + "/link.pem"
    try FileManager.default.createDirectory(atPath: former, withIntermediateDirectories: false)
    try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: former)
    defer { for path in [link, former] { try? FileManager.default.removeItem(atPath: path) } }
    #expect(
      Set(try SecurityPolicy.certificates(inDirectory: files.directory)) == Set(leaf.chainDER + [root.rootDER]))
  }

  /// A path is what the system makes of it: `~` is a name like any other, and `..` is above what the link before it leads to. In a process of its own, for
  /// its working directory.
  @Test func pathsAreTakenAsTheyAre() async {
    await #expect(processExitsWith: .success) {
      let manager = FileManager.default
      let folder = try ScratchFolder()
      let top = folder.url.path
      let meant = try CertificateAuthority().rootDER
      let other = try CertificateAuthority().rootDER
      for name in ["~", "~/former.pem", "deep", "deep/er"] {
        try manager.createDirectory(atPath: top + "/" + name, withIntermediateDirectories: false)
      }
      for name in ["link", "~/link.pem"] {
        try manager.createSymbolicLink(atPath: top + "/" + name, withDestinationPath: top + "/deep/er")
      }
      for name in ["~/pin.cer", "deep/pin.cer"] { try Data(meant).write(to: folder.file(name)) }
      try Data(other).write(to: folder.file("pin.cer"))
      #expect(manager.changeCurrentDirectoryPath(top))
      for path in ["~/pin.cer", "./~/pin.cer", "link/../pin.cer", top + "/link/../pin.cer"] {
        let read = try SecurityPolicy.certificates(inFile: path)
        #expect(read == [meant], "\(path)")
      }
      for path in ["~", "./~", "link/..", top + "/~"] {
        let read = try SecurityPolicy.certificates(inDirectory: path)
        #expect(read == [meant], "\(path)")
      }
    }
  }

  /// A backup pin is accepted, and the verdict says that it was needed.
  @Test func backupPins() throws {
    let root = try CertificateAuthority()
    let leaf = try root.issue()
    let trust = ServerTrust(certificateChain: leaf.chainDER, roots: .certificates([root.rootDER]), host: "localhost")
    let own = "\(try #require(PublicKeyPin(certificate: leaf.certificateDER)))"
    let above = "\(try #require(PublicKeyPin(certificate: root.rootDER)))"
    for (pins, backups, isBackup) in [([own], [above], false), ([above], [own], false), ([Self.zerosPin], [own], true)]
    {
      let policy = try SecurityPolicy(pinningMode: .publicKey, publicKeyPins: pins, backupPins: backups)
      let verdict = policy.evaluate(trust, forDomain: "localhost")
      #expect(verdict.isAccepted && verdict.isBackup == isBackup)
      #expect(verdict.foundPins.map(\.description) == [own, above])
    }
  }

  private static let zerosPin = "sha256/" + zeros
}
