import FoundationEssentials
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// Roots beside the others, and identities in memory, over real sockets.
@Suite(.timeLimit(.minutes(5))) struct TrustMaterialTests {
  static func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

  @Test func additionalRootsAreTrustedBesideTheOthers() async throws {
    let own = try CertificateAuthority(commonName: "Company root")
    let foreign = try LoopbackServer(routes: ServerRoute.standard(), tls: try ServerTLS.minted(by: own))
    defer { foreign.shutdown() }
    let known = try LoopbackServer(routes: ServerRoute.standard(), tls: try TestIdentity.server())
    defer { known.shutdown() }
    let roots = try TLSConfiguration.certificates(inPEM: Self.bytes(own.rootPEM))
    let ports = [foreign.port, known.port]
    try await withSession(ports: ports, configure: { $0.tls.additionalRoots = roots }) { session in
      try await session.expect("Hello, world!", from: foreign.url("/hello"))
      try await session.expect("Hello, world!", from: known.url("/hello"))
    }
    try await withSession(
      ports: ports,
      configure: {
        $0.tls.roots = .system
        $0.tls.additionalRoots = roots
      },
      { session in
        try await session.expect("Hello, world!", from: foreign.url("/hello"))
        try await expectFailure(.serverCertificateUntrusted) { try await session.data(from: known.url("/hello")) }
      })
    try await withSession(ports: ports) { session in
      try await expectFailure(.serverCertificateUntrusted) { try await session.data(from: foreign.url("/hello")) }
    }
    try await withSession(ports: ports, configure: { $0.tls.additionalRoots = roots + [[1, 2]] }) { session in
      let error = try await failure { try await session.data(from: foreign.url("/hello")) }
      #expect(error.code == .secureConnectionFailed && error.message.contains("additionalRoots[1]"), "\(error)")
    }
  }

  /// What a delegate is shown, and what it asks anew, is judged by all of the session's roots.
  @Test func delegatesAreToldOfAdditionalRoots() throws {
    let (one, two) = (try CertificateAuthority(), try CertificateAuthority(commonName: "Other root"))
    let leaf = try two.issue(.loopback)
    let trust = ServerTrust(
      certificateChain: leaf.chainDER, roots: .certificates([one.rootDER]), additionalRoots: [two.rootDER],
      host: "localhost")
    #expect(trust.isTrusted && trust.additionalRoots == [two.rootDER])
    #expect(trust.evaluate(host: "localhost").isTrusted)
    // Anchors that are named are the only ones.
    #expect(!trust.evaluate(anchors: .certificates([one.rootDER]), host: "localhost").isTrusted)
  }

  @Test func cachesAreKeptApartByWhatIsTrustedAndShown() async throws {
    let server = try LoopbackServer { _, connection in
      try connection.respond(fields: ["Cache-Control": "max-age=60"], text: "x")
    }
    defer { server.shutdown() }
    let cache = ResponseCache()
    let identities = ["one", "two"].map {
      TLSConfiguration.ClientIdentity(certificatePEM: Self.bytes($0), privateKeyPEM: [])
    }
    let settings: [@Sendable (inout TLSConfiguration) -> Void] = [
      { _ in }, { $0.additionalRoots = [[1]] }, { $0.clientIdentity = identities[0] },
      { $0.clientIdentity = identities[1] },
    ]
    for (index, setting) in settings.enumerated() {
      try await withSession(
        ports: [server.port],
        configure: {
          $0.responseCache = cache
          setting(&$0.tls)
        },
        { session in
          for _ in 0..<2 { try await session.expect("x", from: server.url()) }
          #expect(server.requestCount == index + 1)
        })
    }
  }

  @Test func certificatesOfAText() throws {
    let root = try CertificateAuthority()
    let leaf = try root.issueAuthority().issue()
    let mixed = "comment\n" + leaf.privateKeyPEM + leaf.chainPEM.replacing("\n", with: "\r\n") + root.rootPEM
    #expect(try TLSConfiguration.certificates(inPEM: Self.bytes(mixed)) == leaf.chainDER + [root.rootDER])
    let bent = leaf.certificatePEM.replacing("MII", with: "NII")
    let unended = leaf.certificatePEM.replacing("-----END CERTIFICATE-----\n", with: "")
    let many = String(repeating: "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n", count: 1_025)
    for (text, message) in [
      ("", "it holds no certificate"), (leaf.privateKeyPEM, "it holds no certificate"),
      (root.rootPEM + bent + root.rootPEM, "certificate 2 of 3 cannot be read"),
      (root.rootPEM + unended, "certificate 2 of 2 cannot be read"),
      (many, "it holds more than 1024 certificates"),
      (String(repeating: "\n", count: 4 << 20 + 1), "it has more than 4 MiB"),
    ] {
      let error = #expect(throws: SessionError.self) { try TLSConfiguration.certificates(inPEM: Self.bytes(text)) }
      #expect(error?.code == .badRequest && error?.message.hasSuffix(": " + message) == true, "\(message)")
    }
    let full = String(repeating: root.rootPEM, count: 1_024)
    #expect(try TLSConfiguration.certificates(inPEM: Self.bytes(full)).count == 1_024)
  }

  /// Lines are compared by bytes: a character may have any number of marks.
  @Test func certificatesOfATextWithManyMarks() {
    let marks = String(repeating: "\u{301}", count: 80_000) + String(repeating: "\u{323}", count: 80_000)
    let text = Self.bytes("-----BEGIN CERTIFICATE-----\(marks)\n-----END CERTIFICATE-----\(marks)\n")
    var error: SessionError?
    let time = ContinuousClock().measure {
      do throws(SessionError) {
        _ = try TLSConfiguration.certificates(inPEM: text)
      } catch let refusal {
        error = refusal
      }
    }
    #expect(error?.message.hasSuffix(": it holds no certificate") == true && time < .seconds(6))
  }

  @Test func identityInMemory() async throws {
    let authority = try TestIdentity.authority.get()
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: TestIdentity.asking(insists: true))
    defer { server.shutdown() }
    let minted = try authority.issueAuthority().issue(CertificateOrder(commonName: "in-memory", usage: .client))
    let files = try minted.write()
    defer { files.remove() }
    let encrypted = files.directory + "/encrypted.pem"
    try EncryptedKey.write(files.privateKeyPath, to: encrypted, passphrase: "open sesame")
    let key = Self.bytes(minted.privateKeyPEM)
    let closed = [UInt8](try Data(contentsOf: URL(filePath: encrypted)))
    let cases: [(key: [UInt8], passphrase: String?, works: Bool)] = [
      (key, nil, true), (closed, "open sesame", true), (closed, "wrong", false), (closed, nil, false), ([], nil, false),
    ]
    for (key, passphrase, works) in cases {
      let identity = TLSConfiguration.ClientIdentity(
        certificatePEM: Self.bytes(minted.chainPEM), privateKeyPEM: key, passphrase: passphrase)
      try await withSession(ports: [server.port], configure: { $0.tls.clientIdentity = identity }) { session in
        if works {
          try await session.expect("Hello, world!", from: server.url("/hello"))
          #expect(server.tlsSummaries.values.allSatisfy { $0.clientSubject?.contains("in-memory") == true })
        } else {
          let error = try await failure { try await session.data(from: server.url("/hello")) }
          #expect(error.code == .secureConnectionFailed && !"\(error)".contains("sesame"))
          #expect(error.message.hasPrefix("the client identity cannot be read: "), "\(error.message)")
        }
      }
    }
    #expect(server.requestCount == 2)
  }

  @Test func identitiesAreComparedByValueAndNeverShown() throws {
    let identity = TLSConfiguration.ClientIdentity(
      certificatePEM: Self.bytes("cccc"), privateKeyPEM: Self.bytes("kkkk"), passphrase: "open sesame")
    #expect(identity.certificatePath == nil && identity.privateKeyPath == nil)
    #expect(
      identity
        == TLSConfiguration.ClientIdentity(
          certificatePEM: Self.bytes("cccc"), privateKeyPEM: Self.bytes("kkkk"), passphrase: "open sesame"))
    for other in [
      TLSConfiguration.ClientIdentity(
        certificatePEM: Self.bytes("cccc"), privateKeyPEM: Self.bytes("llll"), passphrase: "open sesame"),
      TLSConfiguration.ClientIdentity(certificatePEM: Self.bytes("cccc"), privateKeyPEM: Self.bytes("kkkk")),
      TLSConfiguration.ClientIdentity(
        certificatePath: "cccc", privateKeyPath: "kkkk", passphrase: "open sesame"),
    ] {
      #expect(identity != other && Set([identity, other]).count == 2)
    }
    var configuration = SessionConfiguration()
    configuration.tls.clientIdentity = identity
    var request = try Request("https://a.example/")
    request.fields[.accept] = "*/*"
    let command = request.curlCommand(configuration: configuration)
    #expect(command.contains("shows a certificate in memory") && !command.contains("cccc"))
    for value in [identity, configuration.tls, configuration] as [Any] {
      var dumped = ""
      dump(value, to: &dumped)
      for shown in [dumped, "\(value)", String(reflecting: value), command] {
        // 107 is a "k", 99 a "c".
        #expect(!shown.contains("sesame") && !shown.contains("107, 107") && !shown.contains("kkkk"))
        #expect(!shown.contains("99, 99"))
      }
      #expect(!dumped.contains("- 107"))
    }
  }
}
