import Foundation
import Lupine
import LupineTesting
import Testing

/// Parity with AFSecurityPolicyTests. AFNetworking's tests hold chains of httpbin.org and others; here they are minted.
@Suite struct SecurityPolicyTests {
  /// A root, an intermediate and a leaf for `httpbin.test`; another site; and an authority that signed nothing.
  struct Site: Sendable {
    let root: CertificateAuthority
    let middle: CertificateAuthority
    let leaf: MintedCertificate
    let other: MintedCertificate
    let unrelated: CertificateAuthority

    static let shared = Result { () throws(MintError) in
      let root = try CertificateAuthority(commonName: "root")
      let middle = try root.issueAuthority(commonName: "intermediate")
      return Site(
        root: root, middle: middle,
        leaf: try middle.issue(CertificateOrder(commonName: "httpbin.test", dnsNames: ["httpbin.test"])),
        other: try CertificateAuthority(commonName: "other root").issue(CertificateOrder(dnsNames: ["google.test"])),
        unrelated: try CertificateAuthority(commonName: "unrelated"))
    }

    /// As the session would have it.
    func trust(host: String? = "httpbin.test") -> ServerTrust {
      ServerTrust(certificateChain: leaf.chainDER, roots: .certificates([root.rootDER]), host: host)
    }
  }

  private let site: Site
  init() throws { site = try Site.shared.get() }

  private static func selfSigned(_ names: [String]) throws -> MintedCertificate {
    try CertificateAuthority.selfSigned(CertificateOrder(commonName: "foobar.com", dnsNames: names))
  }

  private func trust(_ certificate: MintedCertificate, host: String? = "foobar.com") -> ServerTrust {
    ServerTrust(certificateChain: certificate.chainDER, roots: .certificates([site.root.rootDER]), host: host)
  }

  private static let pinningModes: [PinningMode] = [.publicKey, .certificate]

  /// The default policy: no pinning, nothing invalid, names validated, no pins.
  @Test func defaultPolicy() {
    let policy = SecurityPolicy.default
    #expect(policy.pinningMode == .none)
    #expect(!policy.allowInvalidCertificates)
    #expect(policy.validatesDomainName)
    #expect(policy.pinnedCertificates.isEmpty && policy.publicKeyPins.isEmpty)
    #expect(!policy.needsEvaluation)
    #expect(policy == SecurityPolicy())
  }

  /// The default policy accepts a valid chain without a host and with the right one; rejects another host and a self-signed certificate.
  @Test func defaultPolicyAcceptsWhatIsValid() throws {
    let policy = SecurityPolicy.default
    #expect(policy.evaluate(site.trust(host: nil), forDomain: nil).isAccepted)
    #expect(policy.evaluate(site.trust(), forDomain: "httpbin.test").isAccepted)
    #expect(policy.evaluate(site.trust(), forDomain: "apple.com").error?.reason == .hostMismatch)
    #expect(
      policy.evaluate(trust(try Self.selfSigned(["foobar.com"])), forDomain: "foobar.com").error?.reason
        == .untrustedChain)
  }

  /// A bundle with the one certificate gives exactly that one pin.
  @Test func pinsOfABundle() throws {
    let files = try site.leaf.write()
    defer { files.remove() }
    let folder = FileManager.default.temporaryDirectory.appending(path: "pins-\(UUID().uuidString).bundle")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
    defer { try? FileManager.default.removeItem(at: folder) }
    try Data(site.leaf.certificateDER).write(to: folder.appending(path: "httpbin.cer"))
    try Data("not a certificate".utf8).write(to: folder.appending(path: "README"))
    let bundle = try #require(Bundle(path: folder.path))
    let pins = try SecurityPolicy.certificates(in: bundle)
    #expect(pins == [site.leaf.certificateDER])
    let policy = try SecurityPolicy(pinningMode: .certificate, pinnedCertificates: pins)
    #expect(policy.pinnedCertificates == [site.leaf.certificateDER])
    #expect(policy.evaluate(site.trust(), forDomain: "httpbin.test").isAccepted)
  }

  /// Both modes accept the chain with the leaf, the intermediate, the root, the whole chain, or the leaf and another pinned.
  @Test(arguments: pinningModes) func acceptsWhenPinned(_ mode: PinningMode) throws {
    let (leaf, middle, root) = (site.leaf.certificateDER, site.middle.certificateDER, site.root.rootDER)
    for pins in [[leaf], [middle], [root], [leaf, middle, root], [leaf, site.unrelated.rootDER]] {
      let policy = try SecurityPolicy(pinningMode: mode, pinnedCertificates: pins)
      #expect(policy.evaluate(site.trust(host: nil), forDomain: nil).isAccepted)
      #expect(policy.evaluate(site.trust(), forDomain: "httpbin.test").isAccepted)
    }
  }

  /// Equal pins make equal policies, in whatever order they were given.
  @Test(arguments: pinningModes) func orderOfPinsMeansNothing(_ mode: PinningMode) throws {
    let pins = [
      site.leaf.certificateDER, site.other.certificateDER, site.root.rootDER, site.middle.certificateDER,
      site.unrelated.rootDER,
    ]
    let policy = try SecurityPolicy(pinningMode: mode, pinnedCertificates: pins)
    for _ in 0..<20 {
      let other = try SecurityPolicy(pinningMode: mode, pinnedCertificates: pins.shuffled())
      #expect(other == policy && other.hashValue == policy.hashValue)
    }
  }

  /// Both modes reject another site's chain, the wrong host, and several pins that have nothing to do with it. Without a pin they cannot be made.
  @Test(arguments: pinningModes) func rejectsWhenNotPinned(_ mode: PinningMode) throws {
    let policy = try SecurityPolicy(pinningMode: mode, pinnedCertificates: [site.leaf.certificateDER])
    let otherRoot = ServerTrust(
      certificateChain: site.other.chainDER, roots: .certificates([site.other.certificateDER]), host: "google.test")
    #expect(otherRoot.isTrusted)
    #expect(policy.evaluate(otherRoot, forDomain: "google.test").error?.reason == .pinMismatch)
    #expect(policy.evaluate(site.trust(), forDomain: "apple.com").error?.reason == .hostMismatch)
    let unrelated = try SecurityPolicy(
      pinningMode: mode, pinnedCertificates: [site.unrelated.rootDER, site.other.certificateDER])
    let verdict = unrelated.evaluate(site.trust(), forDomain: "httpbin.test")
    #expect(verdict.error?.reason == .pinMismatch)
    #expect(verdict.error?.foundPins.first == "\(try #require(PublicKeyPin(certificate: site.leaf.certificateDER)))")
    #expect(throws: SecurityPolicyError.self) { try SecurityPolicy(pinningMode: mode) }
  }

  /// A verdict names the keys that are pinned, and none where the server is refused.
  @Test(arguments: pinningModes) func verdictsNameThePins(_ mode: PinningMode) throws {
    let own = try #require(PublicKeyPin(certificate: site.leaf.certificateDER))
    let middle = try #require(PublicKeyPin(certificate: site.middle.certificateDER))
    let policy = try SecurityPolicy(
      pinningMode: mode, pinnedCertificates: [site.middle.certificateDER, site.unrelated.rootDER])
    let verdict = policy.evaluate(site.trust(), forDomain: "httpbin.test")
    #expect(verdict.isAccepted && verdict.matchedPins == [middle] && verdict.foundPins.first == own)
    let unrelated = try SecurityPolicy(pinningMode: mode, pinnedCertificates: [site.unrelated.rootDER])
    let refusal = unrelated.evaluate(site.trust(), forDomain: "httpbin.test")
    #expect(!refusal.isAccepted && refusal.matchedPins.isEmpty && refusal.foundPins.first == own)
  }

  @Test func pinsOfCertificatesArePinned() throws {
    let own = try #require(PublicKeyPin(certificate: site.leaf.certificateDER))
    let other = try #require(PublicKeyPin(certificate: site.unrelated.rootDER))
    let policy = try SecurityPolicy(publicKeys: [own], backups: [other])
    #expect(policy.pinningMode == .publicKey && policy.publicKeyPins == [own] && policy.backupPins == [other])
    let unrelated = try SecurityPolicy(publicKeys: Set([other]))
    #expect(unrelated.evaluate(site.trust(), forDomain: "httpbin.test").error?.reason == .pinMismatch)
    #expect(throws: SecurityPolicyError.self) { try SecurityPolicy(publicKeys: []) }
  }

  /// Without validation of names any host is accepted, with it none but the right one.
  @Test(arguments: pinningModes) func namesAreValidatedOnRequest(_ mode: PinningMode) throws {
    var policy = try SecurityPolicy(
      pinningMode: mode, pinnedCertificates: [site.leaf.certificateDER], validatesDomainName: false)
    #expect(policy.evaluate(site.trust(host: "invalid.org"), forDomain: "invalid.org").isAccepted)
    policy.validatesDomainName = true
    #expect(policy.evaluate(site.trust(host: "invalid.org"), forDomain: "invalid.org").error?.reason == .hostMismatch)
  }

  /// A self-signed certificate is accepted by its pinned key, with invalid certificates allowed. AFNetworking accepts it by its common name too;
  /// here names are those of the extension, and are always validated if validation is on.
  @Test func selfSignedIsAcceptedByItsKey() throws {
    for (names, accepted) in [(["foobar.com"], true), ([], false)] {
      let certificate = try Self.selfSigned(names)
      let policy = try SecurityPolicy(
        pinningMode: .publicKey, pinnedCertificates: [certificate.certificateDER], allowInvalidCertificates: true)
      #expect(policy.evaluate(trust(certificate), forDomain: "foobar.com").isAccepted == accepted)
    }
  }

  /// In certificate mode with invalid certificates allowed, a pinned certificate without any name is rejected for a host.
  @Test func certificateWithoutANameIsRejected() throws {
    let certificate = try CertificateAuthority.selfSigned(CertificateOrder(commonName: "nobody", dnsNames: []))
    let policy = try SecurityPolicy(
      pinningMode: .certificate, pinnedCertificates: [certificate.certificateDER], allowInvalidCertificates: true)
    #expect(policy.evaluate(trust(certificate), forDomain: "foobar.com").error?.reason == .hostMismatch)
  }

  /// Invalid certificates allowed without pins: accepted without a host, or with names not validated; rejected with names validated, since
  /// nothing would make the name mean anything, whether there are pins that nobody looks at or not.
  @Test func invalidCertificatesWithoutPinning() throws {
    let certificate = try Self.selfSigned(["foobar.com"])
    var policy = SecurityPolicy.default
    #expect(!policy.evaluate(trust(certificate), forDomain: "foobar.com").isAccepted)
    policy.allowInvalidCertificates = true
    #expect(policy.evaluate(trust(certificate, host: nil), forDomain: nil).isAccepted)
    #expect(policy.evaluate(trust(certificate), forDomain: "foobar.com").error?.reason == .domainNeedsPins)
    let pinned = try SecurityPolicy(
      pinningMode: .none, pinnedCertificates: [certificate.certificateDER], allowInvalidCertificates: true)
    #expect(pinned.evaluate(trust(certificate), forDomain: "foobar.com").error?.reason == .domainNeedsPins)
    policy.validatesDomainName = false
    #expect(policy.evaluate(trust(certificate), forDomain: "foobar.com").isAccepted)
  }

  /// Public keys pinned, invalid certificates allowed and no pin: AFNetworking rejects every server; such a policy cannot be made.
  @Test func noPinsAreRefusedWhenSet() throws {
    let error = #expect(throws: SecurityPolicyError.self) {
      try SecurityPolicy(pinningMode: .publicKey, allowInvalidCertificates: true)
    }
    #expect(error?.reason == .pinsMissing && error?.host == nil)
  }

  /// A copy and an archive keep mode, flags and pins.
  @Test func copiesAndArchives() throws {
    var policy = try SecurityPolicy(
      pinningMode: .publicKey, pinnedCertificates: [site.leaf.certificateDER],
      publicKeyPins: ["sha256/" + String(repeating: "A", count: 43) + "="], allowInvalidCertificates: true,
      validatesDomainName: false)
    try policy.setPolicy(.default, forHost: "*.Example.test")
    var copy = policy
    #expect(copy == policy)
    copy.validatesDomainName = true
    #expect(copy != policy && !policy.validatesDomainName)
    let archive = try JSONEncoder().encode(policy)
    #expect(try JSONDecoder().decode(SecurityPolicy.self, from: archive) == policy)
    // An archive is refused like a setting.
    let bent = String(decoding: archive, as: UTF8.self).replacing("\"pinningMode\":1", with: "\"pinningMode\":2")
    #expect(throws: SecurityPolicyError.self) { try JSONDecoder().decode(SecurityPolicy.self, from: Data(bent.utf8)) }
  }

  /// AFNetworking's description of −1202.
  @Test func describesARefusal() throws {
    let policy = try SecurityPolicy(pinningMode: .publicKey, pinnedCertificates: [site.unrelated.rootDER])
    let error = try #require(policy.evaluate(site.trust(), forDomain: "httpbin.test").error)
    #expect(
      error.errorDescription
        == "The certificate for this server is invalid. You might be connecting to a server that is pretending to be “httpbin.test” which could put your confidential information at risk."
    )
  }
}
