import Foundation
import LupineTLS
import LupineTesting
import Testing

@Suite("verify: facts about a chain, outside of a connection")
struct VerifyTests {
  static let anchors = TLSPolicy.Roots.certificates([Mint.shared.root.rootDER])

  @Test("A sound chain")
  func sound() throws {
    let report = try verify(chain: Mint.shared.leaf.chainDER, anchors: Self.anchors, host: ServerName("localhost"))
    #expect(report.verdict == nil)
    #expect(report.chainSent == Mint.shared.leaf.chainDER)
    #expect(report.chainBuilt == Mint.shared.leaf.chainDER + [Mint.shared.root.rootDER])
  }

  @Test("Pins as anchors: a leaf, an intermediate or a root ends the path")
  func pinsAsAnchors() throws {
    for anchor in [Mint.shared.leaf.certificateDER, Mint.shared.middle.certificateDER, Mint.shared.root.rootDER] {
      let report = try verify(chain: Mint.shared.leaf.chainDER, anchors: .certificates([anchor]), host: nil)
      #expect(report.verdict == nil)
      #expect(report.chainBuilt.contains(anchor))
    }
    let own = try CertificateAuthority.selfSigned()
    #expect(try verify(chain: own.chainDER, anchors: .certificates([own.certificateDER]), host: nil).verdict == nil)
    #expect(try verify(chain: own.chainDER, anchors: Self.anchors, host: nil).verdict == .selfSigned)
  }

  /// Anchors of every kind that hold `certificate` and nothing else.
  static func withAnchors(_ certificate: MintedCertificate, _ body: ([TLSPolicy.Roots]) throws -> Void) throws {
    var alone = certificate
    alone.intermediatesDER = []
    let files = try alone.write()
    defer { files.remove() }
    try body([.certificates([alone.certificateDER]), .file(files.certificatePath), .directory(files.directory)])
  }

  @Test("A leaf that is an anchor ends the path, whatever the server sends with it", arguments: TLSVersion.allCases)
  func leafAsAnchor(version: TLSVersion) throws {
    let middle = try Mint.shared.otherRoot.issueAuthority(validity: .expired)
    let leaf = try middle.issue()
    let sibling = try middle.issue()
    let key = try leaf.publicKeySHA256()
    let names = ["localhost", "127.0.0.1", "0:0:0:0:0:0:0:1"]
    try Self.withAnchors(leaf) { kinds in
      for roots in kinds {
        let report = try verify(chain: leaf.chainDER, anchors: roots, host: ServerName("localhost"))
        #expect(report.verdict == nil, "\(roots)")
        #expect(report.chainSent == leaf.chainDER)
        #expect(report.chainBuilt == [leaf.certificateDER])
        // Of the same name and issuer, but it is no anchor.
        #expect(try verify(chain: sibling.chainDER, anchors: roots, host: nil).path == .unknownIssuer)
        var policy = TLSPolicy.trusting(Mint.shared.root, version)
        policy.roots = roots
        let pair = try connect(client: policy, server: serverContext(leaf, version))
        #expect(pair.client.failure == nil, "\(roots)")
        #expect(pair.client.connection.peerChain == leaf.chainDER)
        let elsewhere = try connect(client: policy, server: serverContext(leaf, version), host: "a.test")
        #expect(elsewhere.client.failure == .untrusted(.hostMismatch(host: "a.test", names: names)))
        let stranger = try connect(client: policy, server: serverContext(sibling, version))
        #expect(stranger.client.failure != nil)
        policy.pins = [[UInt8](repeating: 7, count: 32)]
        let pinned = try connect(client: policy, server: serverContext(leaf, version))
        #expect(pinned.client.failure == .untrusted(.pinMismatch(found: [key])))
        // Told whole to whoever decides.
        policy.pins = []
        let asked = try connect(client: policy, server: serverContext(leaf, version)) { $0.trustEvaluation = .deferred }
        #expect(asked.client.connection.trustReport?.chainSent == leaf.chainDER)
        #expect(asked.client.connection.trustReport?.verdict == nil)
      }
    }
  }

  @Test("A leaf that the roots say is not trusted ends no path, whatever else is an anchor")
  func distrustedLeaf() throws {
    let middle = try Mint.shared.otherRoot.issueAuthority(validity: .expired)
    let leaf = try middle.issue()
    let issuer = try #require(leaf.chainDER.dropFirst().first)
    let files = try leaf.write()
    defer { files.remove() }
    let path = files.directory + "/trusted.pem"
    for (use, isTrusted) in [("-addreject", false), ("-addtrust", true)] {
      let process = Process()
      process.executableURL = URL(fileURLWithPath: "/usr/bin/openssl")
      process.arguments = ["x509", "-in", files.certificatePath, "-trustout", use, "serverAuth", "-out", path]
      try process.run()
      process.waitUntilExit()
      try #require(process.terminationStatus == 0)
      #expect(try text(of: path).hasPrefix("-----BEGIN TRUSTED CERTIFICATE-----"))
      for additional in [[], [issuer]] {
        let report = try verify(chain: leaf.chainDER, anchors: .file(path), additional: additional, host: nil)
        #expect((report.verdict == nil) == isTrusted, "\(use)")
      }
    }
  }

  /// What pins of a whole bundle are: an issuer that ends no path of its own takes nothing from a leaf that does.
  @Test("A leaf that is an anchor ends the path, whatever else is one")
  func leafBesideItsIssuerAsAnchor() throws {
    let authorities = [
      try Mint.shared.otherRoot.issueAuthority(validity: .expired),
      try Mint.shared.otherRoot.issueAuthority(validity: .notYetValid),
    ]
    for middle in authorities {
      let leaf = try middle.issue()
      let issuer = try #require(leaf.chainDER.dropFirst().first)
      for anchors in [[leaf.certificateDER, issuer], [issuer, leaf.certificateDER]] {
        let report = try verify(chain: leaf.chainDER, anchors: .certificates(anchors), host: ServerName("localhost"))
        #expect(report.verdict == nil)
        #expect(report.chainBuilt == [leaf.certificateDER])
        #expect(report.chainSent == leaf.chainDER)
        var policy = TLSPolicy()
        policy.roots = .certificates(anchors)
        #expect(try connect(client: policy, server: serverContext(leaf)).client.failure == nil)
        // Another certificate of that issuer is none.
        let sibling = try middle.issue()
        #expect(try verify(chain: sibling.chainDER, anchors: .certificates(anchors), host: nil).verdict != nil)
      }
    }
  }

  @Test("An anchor is a leaf like any other otherwise: its time, its purpose, its strength")
  func leafAsAnchorIsJudged() throws {
    let middle = try Mint.shared.otherRoot.issueAuthority(validity: .expired)
    let cases: [(CertificateOrder, TrustProblem)] = [
      (CertificateOrder(validity: .expired), .expired), (CertificateOrder(validity: .notYetValid), .notYetValid),
      (CertificateOrder(usage: .client), .wrongPurpose), (CertificateOrder(key: .rsa1024), .weak),
    ]
    for (order, problem) in cases {
      let leaf = try middle.issue(order)
      try Self.withAnchors(leaf) { kinds in
        for roots in kinds {
          let report = try verify(chain: leaf.chainDER, anchors: roots, host: nil)
          #expect(report.verdict == problem, "\(roots)")
        }
      }
    }
  }

  @Test("A list of revoked certificates judges the whole path, also above an anchor")
  func leafAsAnchorWithRevocationLists() throws {
    let middle = try Mint.shared.otherRoot.issueAuthority()
    let leaf = try middle.issue()
    try Self.withAnchors(leaf) { kinds in
      try withRevocationLists { path in
        for roots in kinds {
          var policy = TLSPolicy()
          policy.roots = roots
          policy.revocationListPath = path
          let pair = try connect(client: policy, server: serverContext(leaf))
          #expect(pair.client.failure == .untrusted(.revocationUnknown))
        }
      }
    }
  }

  @Test("Time is a parameter")
  func time() throws {
    func verdict(at now: Int64?) throws -> TrustReport {
      try verify(chain: Mint.shared.leaf.chainDER, anchors: Self.anchors, host: nil, now: now)
    }
    #expect(try verdict(at: nil).time == nil)
    // 2000-01-01 and 2100-01-01; neither touches the path.
    #expect(try verdict(at: 946_684_800).time == .notYetValid)
    #expect(try verdict(at: 4_102_444_800).time == .expired)
    #expect(try verdict(at: 4_102_444_800).path == nil)
  }

  @Test("Facts do not hide each other")
  func apart() throws {
    let leaf = try Mint.shared.otherRoot.issue(
      CertificateOrder(dnsNames: ["a.test"], validity: .notYetValid, usage: .client))
    let report = try verify(chain: leaf.chainDER, anchors: Self.anchors, host: ServerName("b.test"))
    #expect(report.path == .unknownIssuer)
    #expect(report.time == .notYetValid)
    #expect(report.host == .hostMismatch(host: "b.test", names: ["a.test"]))
    let wrong = try Mint.shared.root.issue(CertificateOrder(usage: .client))
    #expect(try verify(chain: wrong.chainDER, anchors: Self.anchors, host: nil).path == .wrongPurpose)
  }

  @Test("A signature that was tampered with")
  func tampered() throws {
    var der = try Mint.shared.root.issue().certificateDER
    der[der.count - 1] ^= 1
    let report = try verify(chain: [der], anchors: Self.anchors, host: nil)
    #expect(report.path == .badSignature)
  }

  @Test(
    "What is no certificate is a fact too, never a trap",
    arguments: [
      ([], .missing), ([[]], .malformed), ([[0x30]], .malformed), ([[0x30, 0x80, 0, 0]], .malformed),
      ([Mint.shared.leaf.certificateDER, [1, 2, 3]], .malformed),
      ([Mint.shared.leaf.certificateDER + [0]], .malformed),
      ([Array(Mint.shared.leaf.certificateDER.dropLast())], .malformed),
    ] as [([[UInt8]], TrustProblem)])
  func malformed(chain: [[UInt8]], problem: TrustProblem) throws {
    #expect(try verify(chain: chain, anchors: Self.anchors, host: ServerName("localhost")).verdict == problem)
  }

  @Test("Every flipped byte of a certificate is refused, and none of them harms")
  func flipped() throws {
    let original = try Mint.shared.root.issue().certificateDER
    for index in original.indices {
      var der = original
      der[index] ^= 0x41
      let report = try verify(chain: [der], anchors: Self.anchors, host: ServerName("localhost"))
      #expect(report.verdict != nil, "byte \(index)")
    }
  }

  @Test("Additional roots are trusted beside the others, and nowhere else", arguments: TLSVersion.allCases)
  func additionalRoots(version: TLSVersion) throws {
    let own = Mint.shared.otherRoot
    let foreign = try own.issue()
    // Again the same: no error.
    let additional = [own.rootDER, own.rootDER]
    for leaf in [Mint.shared.leaf, foreign] {
      let report = try verify(
        chain: leaf.chainDER, anchors: Self.anchors, additional: additional, host: ServerName("localhost"))
      #expect(report.verdict == nil)
    }
    #expect(try verify(chain: foreign.chainDER, anchors: Self.anchors, host: nil).path == .unknownIssuer)
    for roots in [Self.anchors, .system] {
      var policy = TLSPolicy.trusting(Mint.shared.root, version)
      policy.roots = roots
      policy.additionalRoots = [foreign.certificateDER]
      let pair = try connect(client: policy, server: serverContext(foreign, version))
      // A server's own certificate ends the path as well.
      #expect(pair.client.failure == nil, "\(roots)")
      let elsewhere = try connect(client: policy, server: serverContext(foreign, version), host: "a.test")
      #expect(elsewhere.client.failure != nil)
      policy.additionalRoots = []
      // What the system's roots are shared by has learnt nothing.
      let without = try connect(client: policy, server: serverContext(foreign, version))
      #expect(without.client.failure == .untrusted(.unknownIssuer), "\(roots)")
    }
  }

  @Test("Additional roots are held against revocation lists as the others are")
  func additionalRootsAndRevocation() throws {
    try withRevocationLists { path in
      var policy = TLSPolicy.trusting(Mint.shared.otherRoot)
      policy.additionalRoots = [Mint.shared.root.rootDER]
      policy.revocationListPath = path
      let covered = try connect(client: policy, server: serverContext())
      #expect(covered.client.failure == nil)
      let uncovered = try connect(client: policy, server: serverContext(try Mint.shared.otherRoot.issue()))
      #expect(uncovered.client.failure == .untrusted(.revocationUnknown))
    }
  }

  @Test("The system's roots are found and do not know our mint")
  func system() throws {
    let report = try verify(chain: Mint.shared.leaf.chainDER, anchors: .system, host: nil)
    #expect(report.verdict == .unknownIssuer)
  }

  /// Many a root is no certificate of a server, and some are out of date: its path is what is asked about.
  @Test("Each of the system's roots is an anchor")
  func systemRoots() throws {
    let bundles = [
      "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
      "/etc/ssl/cert.pem",
    ]
    let bundle = try #require(bundles.lazy.compactMap { try? text(of: $0) }.first, "install ca-certificates")
    let roots = certificates(inPEM: bundle)
    #expect(roots.count > 50)
    let reports = try roots.map { try verify(chain: [$0], anchors: .system, host: nil) }
    #expect(reports.count { $0.path == .unknownIssuer || $0.path == .selfSigned } == 0)
    #expect(reports.map(\.chainBuilt) == roots.map { [$0] })
  }

  /// Go CVE-2025-61729: an error that lists all names of a certificate.
  @Test("Hostile names are told in a bearable way")
  func names() throws {
    let many = (0..<40).map { "host\($0).example" }
    let leaf = try Mint.shared.root.issue(CertificateOrder(dnsNames: ["a\u{1b}[31mb"] + many))
    let report = try verify(chain: leaf.chainDER, anchors: Self.anchors, host: ServerName("localhost"))
    let expected = ["a\\x1b[31mb"] + many.prefix(15)
    #expect(report.host == .hostMismatch(host: "localhost", names: expected))
  }
}
