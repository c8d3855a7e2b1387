import LupineTLS
import LupineTesting
import Testing

@Suite("Every reason to refuse a server")
struct RefusalTests {
  struct Case: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var leaf: @Sendable () throws -> MintedCertificate
    var host = "localhost"
    var policy: @Sendable () throws -> TLSPolicy = { .trusting() }
    var problem: TrustProblem
    /// What the server is told.
    var alert: TLSAlert
  }

  static let cases: [Case] = [
    Case(
      testDescription: "expired",
      leaf: { try Mint.shared.middle.issue(CertificateOrder(dnsNames: ["localhost"], validity: .expired)) },
      problem: .expired, alert: .certificateExpired),
    Case(
      testDescription: "not yet valid",
      leaf: { try Mint.shared.middle.issue(CertificateOrder(dnsNames: ["localhost"], validity: .notYetValid)) },
      problem: .notYetValid, alert: .badCertificate),
    Case(
      testDescription: "expired intermediate",
      leaf: { try Mint.shared.root.issueAuthority(validity: .expired).issue() }, problem: .expired,
      alert: .certificateExpired),
    Case(
      testDescription: "unknown issuer", leaf: { try Mint.shared.otherRoot.issue() }, problem: .unknownIssuer,
      alert: .unknownAuthority),
    Case(
      testDescription: "intermediate not sent",
      leaf: {
        var leaf = Mint.shared.leaf
        leaf.intermediatesDER = []
        return leaf
      }, problem: .unknownIssuer, alert: .unknownAuthority),
    Case(
      testDescription: "self-signed", leaf: { try CertificateAuthority.selfSigned() }, problem: .selfSigned,
      alert: .unknownAuthority),
    Case(
      testDescription: "another host", leaf: { Mint.shared.leaf }, host: "example.test",
      problem: .hostMismatch(host: "example.test", names: ["localhost", "127.0.0.1", "0:0:0:0:0:0:0:1"]),
      alert: .badCertificate),
    Case(
      testDescription: "another address", leaf: { Mint.shared.leaf }, host: "127.0.0.2",
      problem: .hostMismatch(host: "127.0.0.2", names: ["localhost", "127.0.0.1", "0:0:0:0:0:0:0:1"]),
      alert: .badCertificate),
    Case(
      testDescription: "the common name is no name",
      leaf: { try Mint.shared.middle.issue(CertificateOrder(commonName: "localhost")) },
      problem: .hostMismatch(host: "localhost", names: []), alert: .badCertificate),
    Case(
      testDescription: "for clients only",
      leaf: { try Mint.shared.middle.issue(CertificateOrder(dnsNames: ["localhost"], usage: .client)) },
      problem: .wrongPurpose, alert: .unsupportedCertificate),
    Case(
      testDescription: "for signing code only",
      leaf: { try Mint.shared.middle.issue(CertificateOrder(dnsNames: ["localhost"], usage: .codeSigning)) },
      problem: .wrongPurpose, alert: .unsupportedCertificate),
    Case(
      testDescription: "signed by a leaf",
      leaf: { try Mint.shared.root.issueAuthority(isAuthority: false).issue() }, problem: .invalidAuthority,
      alert: .unknownAuthority),
    Case(
      testDescription: "path length exceeded",
      leaf: { try Mint.shared.root.issueAuthority(pathLength: 0).issueAuthority(commonName: "too deep").issue() },
      problem: .invalidAuthority,
      alert: .unknownAuthority),
    Case(
      testDescription: "eleven intermediates",
      leaf: {
        var authority = Mint.shared.root
        for level in 1...11 { authority = try authority.issueAuthority(commonName: "level \(level)") }
        return try authority.issue()
      }, problem: .chainTooLong(limit: 10), alert: .unknownAuthority),
    Case(
      testDescription: "twenty needless certificates",
      leaf: {
        var leaf = Mint.shared.leaf
        leaf.intermediatesDER += Array(repeating: Mint.shared.otherRoot.certificateDER, count: 20)
        return leaf
      }, problem: .chainTooLong(limit: 10), alert: .unknownAuthority),
    Case(
      testDescription: "a key that is pinned nowhere", leaf: { Mint.shared.leaf },
      policy: { TLSPolicy.changed { $0.pins = [[UInt8](repeating: 7, count: 32)] } }, problem: .pinMismatch(found: []),
      alert: .badCertificate),
    Case(
      testDescription: "a pinned key that the path does not need",
      leaf: {
        var leaf = Mint.shared.leaf
        leaf.intermediatesDER.append(Mint.shared.otherRoot.certificateDER)
        return leaf
      },
      policy: {
        let pin = try Mint.shared.otherRoot.identity.publicKeySHA256()
        return TLSPolicy.changed { $0.pins = [pin] }
      }, problem: .pinMismatch(found: []), alert: .badCertificate),
    Case(
      testDescription: "pinned to another leaf, nothing else verified", leaf: { try CertificateAuthority.selfSigned() },
      policy: {
        let pin = try Mint.shared.leaf.publicKeySHA256()
        return TLSPolicy.changed {
          $0.verification = .none
          $0.pins = [pin]
        }
      }, problem: .pinMismatch(found: []), alert: .badCertificate),
  ]

  @Test("Refused inside the handshake, and both sides say why", arguments: cases, TLSVersion.allCases)
  func refused(example: Case, version: TLSVersion) throws {
    for feeding in Feeding.allCases {
      var policy = try example.policy()
      policy.minimumVersion = version
      policy.maximumVersion = version
      let pair = try connect(
        client: policy, server: try serverContext(example.leaf()), host: example.host, feeding: feeding)
      let failure = try #require(pair.client.failure)
      #expect(Self.withoutKeys(failure) == .untrusted(example.problem))
      #expect(pair.server.failure == .alert(example.alert))
      // Dead for good.
      #expect(throws: failure) { try pair.client.send([1]) }
      #expect(throws: failure) { try pair.client.connection.handshake() }
    }
  }

  /// The keys that were found are of certificates made for the test.
  private static func withoutKeys(_ error: TLSError) -> TLSError {
    guard case .untrusted(.pinMismatch(let found)) = error, found.allSatisfy({ $0.count == 32 }), !found.isEmpty else {
      return error
    }
    return .untrusted(.pinMismatch(found: []))
  }

  @Test("What is sound is accepted", arguments: TLSVersion.allCases)
  func accepted(version: TLSVersion) throws {
    let root = Mint.shared.root
    let pins = [try Mint.shared.leaf.publicKeySHA256(), try root.identity.publicKeySHA256()]
    for pin in pins {
      var policy = TLSPolicy.trusting(root, version)
      policy.pins = [pin, [UInt8](repeating: 0, count: 32)]
      #expect(try connect(client: policy).client.failure == nil)
    }
    for host in ["localhost", "LOCALHOST.", "127.0.0.1", "::1", "[::1]"] {
      #expect(try connect(client: .trusting(root, version), host: host).client.failure == nil)
    }
    let unrestricted = try root.issue(CertificateOrder(dnsNames: ["*.example.test"], usage: .unrestricted))
    #expect(
      try connect(client: .trusting(root, version), server: serverContext(unrestricted), host: "a.example.test")
        .client.failure == nil)
    let rsa = try root.issue(CertificateOrder(dnsNames: ["localhost"], key: .rsa2048))
    #expect(try connect(client: .trusting(root, version), server: serverContext(rsa)).client.failure == nil)
    // A given anchor need not be a root: a self-signed server is trusted by trusting it.
    let own = try CertificateAuthority.selfSigned()
    var policy = TLSPolicy()
    policy.roots = .certificates([own.certificateDER])
    #expect(try connect(client: policy, server: serverContext(own)).client.failure == nil)
    // Certificates out of order are sorted.
    var shuffled = try Mint.shared.middle.issueAuthority().issue()
    shuffled.intermediatesDER.reverse()
    #expect(try connect(client: .trusting(root, version), server: serverContext(shuffled)).client.failure == nil)
  }

  @Test("Without verification anything goes, and the report says so")
  func unverified() throws {
    var policy = TLSPolicy()
    policy.verification = .none
    let leaf = try CertificateAuthority.selfSigned(CertificateOrder(validity: .expired))
    let pair = try connect(client: policy, server: serverContext(leaf), host: "example.test")
    #expect(pair.client.failure == nil)
    #expect(pair.client.connection.trustReport == TrustReport(isVerified: false))
    policy.pins = [try leaf.publicKeySHA256()]
    #expect(try connect(client: policy, server: serverContext(leaf)).client.failure == nil)
  }

  /// curl CVE-2024-8096, CVE-2026-7009: what could not be told was taken for good, there of OCSP; rustls-webpki RUSTSEC-2026-0049, RUSTSEC-2026-0104:
  /// lists that were overlooked, or stopped the process.
  @Test("Revocation by a list, closed when in doubt", arguments: TLSVersion.allCases)
  func revocation(version: TLSVersion) throws {
    let mint = Mint.shared
    let revoked = try mint.middle.issue()
    let rootList = try mint.root.revocationListPEM(revoking: [])
    let lists: [(String, TrustProblem?)] = [
      (rootList + (try mint.middle.revocationListPEM(revoking: [])), nil),
      (rootList + (try mint.middle.revocationListPEM(revoking: [revoked.certificateDER])), .revoked),
      (
        (try mint.root.revocationListPEM(revoking: [mint.middle.certificateDER]))
          + (try mint.middle.revocationListPEM(revoking: [])), .revoked
      ),
      (rootList, .revocationUnknown),
      (rootList + (try mint.middle.revocationListPEM(revoking: [], validity: .expired)), .revocationUnknown),
      // A certificate in the list's file becomes no anchor.
      (rootList + mint.otherRoot.rootPEM, .revocationUnknown),
    ]
    for (list, problem) in lists {
      let files = try mint.root.writeRoot()
      defer { files.remove() }
      let path = try files.add(list, name: "lists.pem")
      var policy = TLSPolicy.trusting(mint.root, version)
      policy.revocationListPath = path
      let pair = try connect(client: policy, server: serverContext(revoked))
      #expect(pair.client.failure == problem.map(TLSError.untrusted))
    }
  }

  @Test("A weak key is refused, RSA 1024")
  func weak() throws {
    let leaf = try Mint.shared.root.issue(CertificateOrder(dnsNames: ["localhost"], key: .rsa1024))
    let report = try verify(
      chain: leaf.chainDER, anchors: .certificates([Mint.shared.root.rootDER]), host: ServerName("localhost"))
    #expect(report.path == .weak)
    #expect(report.verdict == .weak)
  }

  @Test("No common version", arguments: Feeding.allCases)
  func versions(feeding: Feeding) throws {
    let newer = try connect(
      client: .trusting(Mint.shared.root, .tls13), server: serverContext(Mint.shared.leaf, .tls12), feeding: feeding)
    #expect(newer.client.failure == .noCommonVersion)
    #expect(newer.server.failure == .noCommonVersion)
    let older = try connect(
      client: .trusting(Mint.shared.root, .tls12), server: serverContext(Mint.shared.leaf, .tls13), feeding: feeding)
    #expect(older.client.failure == .noCommonVersion)
    #expect(older.server.failure == .noCommonVersion)
  }

  @Test("A server that lacks our protocol", arguments: TLSVersion.allCases)
  func applicationProtocol(version: TLSVersion) throws {
    let pair = try connect(client: .trusting(Mint.shared.root, version)) { $0.applicationProtocols = ["h2"] }
    #expect(pair.client.failure == .alert(.noApplicationProtocol))
    let silent = try connect(client: .trusting(Mint.shared.root, version)) { $0.applicationProtocols = [] }
    #expect(silent.client.failure == nil)
    #expect(silent.client.connection.info.applicationProtocol == nil)
  }
}
