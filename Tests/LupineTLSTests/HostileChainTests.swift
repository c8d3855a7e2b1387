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

  /// Go CVE-2025-61727: a wildcard that stands for an excluded name, too, is not that name, and OpenSSL takes it.
  @Test("A wildcard does not name a host that an authority may not vouch for", arguments: TLSVersion.allCases)
  func wildcardAndExclusion(version: TLSVersion) throws {
    let root = Mint.shared.root
    let authority = try root.issueAuthority(excludedDNSNames: ["A.example.test", "c.test"])
    let below = try authority.issueAuthority(commonName: "Lupine test authority below another")
    for issuer in [authority, below] {
      let leaf = try issuer.issue(CertificateOrder(dnsNames: ["*.example.test"]))
      let server = try serverContext(leaf)
      let sessions = TLSSessionCache()
      func connection(to host: String) throws -> End {
        try connect(client: .trusting(root, version), server: server, host: host) { $0.sessions = sessions }.client
      }
      let other = try verify(chain: leaf.chainDER, anchors: Self.anchors, host: ServerName("b.example.test"))
      #expect(other.verdict == nil)
      let first = try connection(to: "b.example.test")
      #expect(first.failure == nil && !first.connection.info.isResumed)
      let kept = sessions.count
      #expect(kept > 0)
      for host in ["a.example.test", "a.EXAMPLE.test."] {
        let report = try verify(chain: leaf.chainDER, anchors: Self.anchors, host: ServerName(host))
        #expect(report.host == .nameConstraintViolated && report.path == nil)
        #expect(report.verdict == .nameConstraintViolated)
        // What was resumed for another host is not asked for here, and is not forgotten.
        let refused = try connection(to: host)
        #expect(refused.failure == .untrusted(.nameConstraintViolated))
        #expect(sessions.count == kept)
      }
      let again = try connection(to: "b.example.test")
      #expect(again.failure == nil && again.connection.info.isResumed)
      // Where no name is looked at none is excluded; nor is an address.
      #expect(try verify(chain: leaf.chainDER, anchors: Self.anchors, host: nil).verdict == nil)
      let addressed = try issuer.issue(CertificateOrder(dnsNames: ["*.example.test"], ipAddresses: ["127.0.0.1"]))
      let byAddress = try verify(chain: addressed.chainDER, anchors: Self.anchors, host: ServerName("127.0.0.1"))
      #expect(byAddress.verdict == nil)
    }
  }

  @Test("An anchor's own constraints count, those above a server's certificate that is an anchor itself do not")
  func exclusionOfAnchors() throws {
    let root = Mint.shared.root
    let authority = try root.issueAuthority(excludedDNSNames: ["a.example.test"])
    let leaf = try authority.issue(CertificateOrder(dnsNames: ["*.example.test"]))
    let host = try ServerName("a.example.test")
    let anchored = try verify(
      chain: leaf.chainDER, anchors: .certificates([authority.certificateDER]), host: host)
    #expect(anchored.verdict == .nameConstraintViolated)
    let own = try verify(chain: leaf.chainDER, anchors: Self.anchors, additional: [leaf.certificateDER], host: host)
    #expect(own.verdict == nil)
    #expect(own.chainBuilt == [leaf.certificateDER])
    // Dates and names hide it as little as each other, and of another host it says nothing.
    let late = try authority.issue(CertificateOrder(dnsNames: ["*.example.test"], validity: .expired))
    let report = try verify(chain: late.chainDER, anchors: Self.anchors, host: host)
    #expect(report.time == .expired && report.host == .nameConstraintViolated && report.path == nil)
    let stranger = try verify(chain: leaf.chainDER, anchors: Self.anchors, host: ServerName("a.test"))
    #expect(stranger.host == .hostMismatch(host: "a.test", names: ["*.example.test"]))
  }

  @Test("Constraints that OpenSSL reads as no name's, and others could as that of the host")
  func subtreesOfOtherForms() throws {
    let cases: [(permitted: [String], excluded: [String], name: String)] = [
      ([], ["a.example.test."], "a.example.test"), ([], ["*.example.test"], "a.example.test"),
      (["*.example.test"], [], "*.example.test"),
    ]
    for example in cases {
      let authority = try Mint.shared.root.issueAuthority(
        permittedDNSNames: example.permitted, excludedDNSNames: example.excluded)
      let leaf = try authority.issue(CertificateOrder(dnsNames: [example.name]))
      let report = try verify(chain: leaf.chainDER, anchors: Self.anchors, host: ServerName("a.example.test"))
      #expect(report.verdict == .nameConstraintViolated, "\(example)")
    }
  }

  @Test("Constraints have a limit, beyond which nothing is vouched for", arguments: [0, 1])
  func subtreesWithoutEnd(beyond: Int) throws {
    let excluded = (0..<NameConstraints.limit + beyond).map { "c\($0).test" }
    let authority = try Mint.shared.root.issueAuthority(excludedDNSNames: excluded)
    let leaf = try authority.issue(CertificateOrder(dnsNames: ["localhost"]))
    let report = try verify(chain: leaf.chainDER, anchors: Self.anchors, host: ServerName("localhost"))
    #expect(report.path == nil)
    let problem: TrustProblem? = beyond > 0 ? .nameConstraintViolated : nil
    #expect(report.host == problem)
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
