import LupineTLS
import LupineTestSupport
import LupineTesting
import Testing

@Suite("Client certificates")
struct ClientCertificateTests {
  static func policy(_ minted: MintedCertificate?, _ version: TLSVersion) -> TLSPolicy {
    var policy = TLSPolicy.trusting(Mint.shared.root, version)
    policy.clientIdentity = minted.map(TLSIdentity.init)
    return policy
  }

  @Test("A good one is shown", arguments: TLSVersion.allCases)
  func good(version: TLSVersion) throws {
    let own = try Mint.shared.middle.issue(CertificateOrder(commonName: "client", usage: .client))
    let pair = try connect(
      client: Self.policy(own, version), server: serverContext(Mint.shared.leaf, version, .required))
    #expect(pair.client.failure == nil)
    #expect(pair.server.failure == nil)
    #expect(pair.server.connection.peerChain == own.chainDER)
  }

  struct Case: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var minted: @Sendable () throws -> MintedCertificate?
    var seenByServer: TrustProblem
    var alert: TLSAlert
    var alert12: TLSAlert?
  }

  static let cases: [Case] = [
    Case(
      testDescription: "none", minted: { nil }, seenByServer: .missing, alert: .certificateRequired,
      alert12: .handshakeFailure),
    Case(
      testDescription: "for servers", minted: { try Mint.shared.middle.issue() }, seenByServer: .wrongPurpose,
      alert: .unsupportedCertificate),
    Case(
      testDescription: "expired",
      minted: { try Mint.shared.middle.issue(CertificateOrder(validity: .expired, usage: .client)) },
      seenByServer: .expired, alert: .certificateExpired),
    Case(
      testDescription: "of somebody else",
      minted: { try Mint.shared.otherRoot.issue(CertificateOrder(usage: .client)) }, seenByServer: .unknownIssuer,
      alert: .unknownAuthority),
  ]

  @Test("A wrong one is the peer's alert", arguments: cases, TLSVersion.allCases)
  func wrong(example: Case, version: TLSVersion) throws {
    let pair = try connect(
      client: Self.policy(try example.minted(), version), server: serverContext(Mint.shared.leaf, version, .required))
    #expect(pair.server.failure == .untrusted(example.seenByServer))
    #expect(pair.client.failure == .alert(version == .tls12 ? example.alert12 ?? example.alert : example.alert))
  }

  @Test("PEM, DER and files are the same identity; a passphrase opens an encrypted key")
  func sources() throws {
    let own = try Mint.shared.middle.issue(CertificateOrder(usage: .client))
    let files = try own.write()
    defer { files.remove() }
    let sources: [TLSIdentity.Source] = [
      .pem(chain: Array(own.chainPEM.utf8), privateKey: Array(own.privateKeyPEM.utf8)),
      .der(chain: own.chainDER, privateKey: own.privateKeyDER),
      .files(chain: files.chainPath, privateKey: files.privateKeyPath),
    ]
    for source in sources {
      var policy = TLSPolicy.trusting()
      policy.clientIdentity = TLSIdentity(source)
      let pair = try connect(client: policy, server: serverContext(Mint.shared.leaf, nil, .required))
      #expect(pair.server.failure == nil)
      #expect(pair.server.connection.peerChain == own.chainDER)
    }
  }

  @Test("An encrypted key needs its passphrase, and nobody is asked for it")
  func encryptedKey() throws {
    let own = try Mint.shared.middle.issue(CertificateOrder(usage: .client))
    let files = try own.write()
    defer { files.remove() }
    let path = files.directory + "/encrypted.pem"
    try EncryptedKey.write(files.privateKeyPath, to: path, passphrase: "open sesame")
    let sources: [TLSIdentity.Source] = [
      .files(chain: files.chainPath, privateKey: path),
      .pem(chain: Array(own.chainPEM.utf8), privateKey: Array(try text(of: path).utf8)),
    ]
    for source in sources {
      var policy = TLSPolicy.trusting()
      policy.clientIdentity = TLSIdentity(source, passphrase: "open sesame")
      let pair = try connect(client: policy, server: serverContext(Mint.shared.leaf, nil, .required))
      #expect(pair.server.failure == nil)
      #expect(pair.server.connection.peerChain == own.chainDER)
      for passphrase in [nil, "", "wrong", String(repeating: "x", count: 5_000)] {
        policy.clientIdentity = TLSIdentity(source, passphrase: passphrase)
        #expect {
          try TLSContext(client: policy)
        } throws: { error in
          if case TLSError.identityUnreadable = error { true } else { false }
        }
      }
    }
  }

  @Test("What cannot be an identity is refused when the context is made")
  func unreadable() throws {
    let one = try Mint.shared.root.issue()
    let two = try Mint.shared.root.issue()
    let sources: [TLSIdentity.Source] = [
      .der(chain: one.chainDER, privateKey: two.privateKeyDER),
      .der(chain: [], privateKey: one.privateKeyDER),
      .der(chain: [[1, 2, 3]], privateKey: one.privateKeyDER),
      .der(chain: [one.certificateDER + [0]], privateKey: one.privateKeyDER),
      .der(chain: one.chainDER, privateKey: [1, 2, 3]),
      .pem(chain: Array("nothing".utf8), privateKey: Array(one.privateKeyPEM.utf8)),
      .pem(chain: Array(one.chainPEM.utf8), privateKey: []),
      .pem(
        chain: Array((one.chainPEM + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").utf8),
        privateKey: Array(one.privateKeyPEM.utf8)),
      .files(chain: "/nonexistent/chain.pem", privateKey: "/nonexistent/key.pem"),
    ]
    for source in sources {
      var policy = TLSPolicy.trusting()
      policy.clientIdentity = TLSIdentity(source)
      #expect {
        try TLSContext(client: policy)
      } throws: { error in
        if case TLSError.identityUnreadable = error { true } else { false }
      }
    }
  }

  @Test("A description never shows the key")
  func description() throws {
    let own = try Mint.shared.root.issue()
    let identity = TLSIdentity(
      .pem(chain: Array(own.chainPEM.utf8), privateKey: Array("secret key".utf8)), passphrase: "open sesame")
    var policy = TLSPolicy.trusting()
    policy.roots = .system
    policy.clientIdentity = identity
    var text = ""
    dump(policy, to: &text)
    for shown in ["\(identity)", String(reflecting: identity), "\(policy)", String(reflecting: policy), text] {
      #expect(!shown.contains("sesame"))
      #expect(!shown.contains("115"))
    }
  }
}
