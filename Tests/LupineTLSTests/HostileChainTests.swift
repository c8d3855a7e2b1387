import LupineTLS
import LupineTesting
import Testing

@Suite("Certificates that have stopped other clients, or kept them busy")
struct HostileChainTests {
  static let anchors = TLSPolicy.Roots.certificates([Mint.shared.root.rootDER])

  /// The same bytes, in which keys of the mint are of a kind that nobody has given a number: id-ecPublicKey (RFC 5480) with another last byte.
  static func withUnknownKeys(_ bytes: [UInt8]) -> [UInt8] {
    let kind: [UInt8] = [0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01]
    var changed = bytes
    for start in bytes.indices where bytes[start...].starts(with: kind) { changed[start + kind.count - 1] = 0x7F }
    return changed
  }

  /// Go CVE-2024-24783: whoever was to verify with such a key trapped.
  @Test("A key of an unknown kind, anywhere in the chain", arguments: [0, 1])
  func unknownKeys(index: Int) throws {
    var chain = Mint.shared.leaf.chainDER
    chain[index] = Self.withUnknownKeys(chain[index])
    #expect(chain[index] != Mint.shared.leaf.chainDER[index])
    let report = try verify(chain: chain, anchors: Self.anchors, host: ServerName("localhost"))
    #expect(report.path != nil)
    // Its names can be read for all that.
    #expect(report.host == nil)
    #expect(report.chainSent == chain)
    // Nor is it trusted as an anchor that the others are signed by.
    guard index > 0 else { return }
    #expect(try verify(chain: chain, anchors: .certificates([chain[index]]), host: nil).path != nil)
  }

  /// TLS 1.2 shows certificates in the clear, so that they can be changed on their way.
  @Test("… and within a handshake", arguments: Feeding.allCases)
  func unknownKeysInAHandshake(feeding: Feeding) throws {
    let pair = try makePair(
      client: .trusting(Mint.shared.root, .tls12), server: serverContext(Mint.shared.leaf, .tls12))
    _ = try pair.client.connection.handshake()
    pair.server.feed(pair.client.takeOutput())
    let flight = pair.server.takeOutput()
    let hostile = Self.withUnknownKeys(flight)
    #expect(hostile != flight)
    pair.client.feed(hostile, feeding)
    guard case .untrusted? = pair.client.failure else {
      Issue.record("\(String(describing: pair.client.failure))")
      return
    }
    #expect(pair.client.connection.trustReport?.path != nil)
  }

  /// Go CVE-2025-58187: every name is held against every constraint, which makes much work of few bytes. OpenSSL counts both first, and looks at none where
  /// that would take more than 2²⁰ steps: the verdict is then not that of a violation but X509_V_ERR_UNSPECIFIED.
  @Test("Names times constraints have a limit", arguments: TLSVersion.allCases)
  func constraints(version: TLSVersion) throws {
    let permitted = (0..<2_000).map { "c\($0).test" }
    let authority = try Mint.shared.root.issueAuthority(permittedDNSNames: permitted)
    let names = ["localhost"] + (0..<1_000).map { "n\($0).test" }
    let cases: [(Int, TrustProblem)] = [(20, .nameConstraintViolated), (names.count, .other(code: 1))]
    for (count, problem) in cases {
      let leaf = try authority.issue(CertificateOrder(dnsNames: Array(names.prefix(count))))
      let size = leaf.chainDER.reduce(0) { $0 + $1.count }
      #expect(size < TLSContext.maximumChainBytes)
      let report = try verify(chain: leaf.chainDER, anchors: Self.anchors, host: ServerName("localhost"))
      #expect(report.path == problem)
      let pair = try connect(client: .trusting(Mint.shared.root, version), server: serverContext(leaf))
      #expect(pair.client.failure == .untrusted(problem))
    }
  }

  /// rustls-webpki RUSTSEC-2026-0099: a wildcard stands for names that the constraint leaves out.
  @Test("A wildcard is no name within a constraint that is narrower")
  func wildcardAndConstraint() throws {
    let authority = try Mint.shared.root.issueAuthority(permittedDNSNames: ["a.example.test"])
    let leaf = try authority.issue(CertificateOrder(dnsNames: ["*.example.test"]))
    for host in ["a.example.test", "b.example.test"] {
      let report = try verify(chain: leaf.chainDER, anchors: Self.anchors, host: ServerName(host))
      #expect(report.path == .nameConstraintViolated)
    }
  }

  /// Go CVE-2025-61729: text without end of what a certificate names.
  @Test("Thousands of names are looked through, and few of them told")
  func names() throws {
    let strangers = (0..<3_000).map { "n\($0).test" }
    let leaf = try Mint.shared.root.issue(CertificateOrder(dnsNames: strangers + ["localhost"]))
    let report = try verify(chain: leaf.chainDER, anchors: Self.anchors, host: ServerName("localhost"))
    #expect(report.verdict == nil)
    let other = try verify(chain: leaf.chainDER, anchors: Self.anchors, host: ServerName("a.test"))
    let expected = TrustProblem.hostMismatch(host: "a.test", names: Array(strangers.prefix(16)))
    #expect(other.host == expected)
    let text = "\(TLSError.untrusted(expected))"
    #expect(text.utf8.count < 1_000)
  }
}
