import LupineTLS
import LupineTesting
import Testing

@Suite("A decision about trust that takes its time")
struct TrustDecisionTests {
  /// A client with a certificate of its own, in front of a server that asks for it, stopped at the decision.
  static func pending(_ version: TLSVersion, _ feeding: Feeding, leaf: MintedCertificate) throws -> Pair {
    var policy = TLSPolicy.trusting(Mint.shared.root, version)
    policy.clientIdentity = TLSIdentity(try Mint.shared.middle.issue(CertificateOrder(usage: .client)))
    let pair = try makePair(
      client: policy, server: serverContext(leaf, version, .required), host: "example.test", feeding: feeding
    ) { $0.trustEvaluation = .deferred }
    #expect(try pair.client.connection.handshake() == .needsInput)
    pair.server.feed(pair.client.takeOutput(), feeding)
    let hello = pair.client.produced
    pair.settle()
    #expect(pair.client.failure == nil)
    #expect(pair.client.result == .trustPending)
    // Nothing but the ClientHello has left: no certificate, no Finished, no alert.
    #expect(pair.client.produced == hello)
    #expect(try pair.client.connection.handshake() == .trustPending)
    #expect(throws: TLSError.notNow) { try pair.client.send([1]) }
    #expect(pair.client.takeOutput().isEmpty)
    #expect(pair.server.result == .handshaking)
    return pair
  }

  @Test("Accepted: the handshake goes on", arguments: TLSVersion.allCases, Feeding.allCases)
  func accept(version: TLSVersion, feeding: Feeding) throws {
    let pair = try Self.pending(version, feeding, leaf: Mint.shared.leaf)
    try pair.client.connection.resolveTrust(.accept)
    #expect(throws: TLSError.notNow) { try pair.client.connection.resolveTrust(.accept) }
    pair.client.feed([])
    pair.settle()
    #expect(pair.client.result == .open)
    #expect(pair.server.result == .open)
    #expect(pair.server.connection.peerChain.count == 2)
    try pair.server.send([1, 2, 3])
    pair.settle()
    #expect(pair.client.received == [1, 2, 3])
  }

  @Test("Rejected: the server learns nothing but an alert", arguments: TLSVersion.allCases, Feeding.allCases)
  func reject(version: TLSVersion, feeding: Feeding) throws {
    let pair = try Self.pending(version, feeding, leaf: Mint.shared.leaf)
    try pair.client.connection.resolveTrust(.reject(.rejected("no")))
    #expect(throws: TLSError.untrusted(.rejected("no"))) { try pair.client.connection.handshake() }
    pair.settle()
    #expect(pair.server.failure == .alert(version == .tls12 ? .badCertificate : .badCertificate))
    #expect(pair.server.connection.peerChain.isEmpty)
    #expect(throws: TLSError.untrusted(.rejected("no"))) { try pair.client.connection.resolveTrust(.accept) }
  }

  @Test("The facts are there, each apart", arguments: TLSVersion.allCases)
  func facts(version: TLSVersion) throws {
    let leaf = try Mint.shared.otherRoot.issue(CertificateOrder(dnsNames: ["localhost"], validity: .expired))
    let pair = try Self.pending(version, .whole, leaf: leaf)
    let report = try #require(pair.client.connection.trustReport)
    #expect(report.isVerified)
    #expect(report.chainSent == leaf.chainDER)
    #expect(report.chainBuilt == [leaf.certificateDER])
    #expect(report.path == .unknownIssuer)
    #expect(report.time == .expired)
    #expect(report.host == .hostMismatch(host: "example.test", names: ["localhost"]))
    #expect(report.pins == nil)
    #expect(report.verdict == .unknownIssuer)
    let good = try Self.pending(version, .whole, leaf: Mint.shared.leaf)
    let sound = try #require(good.client.connection.trustReport)
    #expect(sound.chainBuilt == Mint.shared.leaf.chainDER + [Mint.shared.root.rootDER])
    #expect(sound.path == nil)
    #expect(sound.time == nil)
    #expect(sound.verdict == .hostMismatch(host: "example.test", names: ["localhost", "127.0.0.1", "0:0:0:0:0:0:0:1"]))
  }

  @Test("Bytes that come meanwhile are kept up to a limit")
  func held() throws {
    let pair = try Self.pending(.tls13, .whole, leaf: Mint.shared.leaf)
    pair.client.feed([UInt8](repeating: 0, count: TLSConnection.heldInputLimit + 1))
    #expect(pair.client.failure == .tooMuchWhilePending(limit: TLSConnection.heldInputLimit))
  }

  @Test("A peer that gives up meanwhile is truncation")
  func endMeanwhile() throws {
    let pair = try Self.pending(.tls13, .whole, leaf: Mint.shared.leaf)
    #expect(throws: TLSError.truncated) { try pair.client.connection.endOfInput() }
    #expect(throws: TLSError.truncated) { try pair.client.connection.resolveTrust(.accept) }
  }

  @Test("A connection nobody decides about is freed all the same")
  func abandoned() throws {
    weak var client: TLSConnection?
    do {
      let pair = try Self.pending(.tls12, .whole, leaf: Mint.shared.leaf)
      client = pair.client.connection
    }
    #expect(client == nil)
  }

  /// A client that chooses its certificate when it is asked for one, stopped there.
  static func choosing(_ version: TLSVersion, _ feeding: Feeding) throws -> Pair {
    let pair = try connect(
      client: .trusting(Mint.shared.root, version), server: serverContext(Mint.shared.leaf, version, .optional),
      feeding: feeding
    ) { $0.asksForIdentity = true }
    #expect(pair.client.result == .identityPending)
    #expect(pair.client.failure == nil)
    // Trust was decided before.
    #expect(pair.client.connection.trustReport?.verdict == nil)
    #expect(try pair.client.connection.handshake() == .identityPending)
    #expect(throws: TLSError.notNow) { try pair.client.send([1]) }
    #expect(throws: TLSError.notNow) { try pair.client.connection.resolveTrust(.accept) }
    #expect(pair.client.takeOutput().isEmpty)
    #expect(pair.server.result == .handshaking)
    return pair
  }

  /// OpenSSL keeps a certificate for each kind of key, and takes the first that the server's signature algorithms allow.
  @Test("The certificate that is chosen is shown instead of the policy's", arguments: TLSVersion.allCases)
  func identityOfAnotherKind(version: TLSVersion) throws {
    let kinds: [MintedKeyKind] = [.p256, .rsa2048, .ed25519]
    let certificates = try kinds.map { try Mint.shared.root.issue(CertificateOrder(usage: .client, key: $0)) }
    for own in certificates {
      var policy = TLSPolicy.trusting(Mint.shared.root, version)
      policy.clientIdentity = TLSIdentity(own)
      for chosen in certificates {
        let pair = try connect(client: policy, server: serverContext(Mint.shared.leaf, version, .required)) {
          $0.asksForIdentity = true
        }
        #expect(pair.client.result == .identityPending)
        try pair.client.connection.resolveIdentity(.identity(try TLSPreparedIdentity(TLSIdentity(chosen))))
        pair.client.feed([])
        pair.settle()
        #expect(pair.client.failure == nil && pair.server.failure == nil)
        #expect(pair.server.connection.peerChain == chosen.chainDER)
      }
    }
  }

  @Test("A client certificate is chosen within the handshake", arguments: TLSVersion.allCases, Feeding.allCases)
  func identity(version: TLSVersion, feeding: Feeding) throws {
    let own = try Mint.shared.middle.issue(CertificateOrder(usage: .client))
    let choices: [(TLSIdentityChoice, [[UInt8]])] = [
      (.identity(try TLSPreparedIdentity(TLSIdentity(own))), own.chainDER), (.none, []), (.policy, []),
    ]
    for (choice, seen) in choices {
      let pair = try Self.choosing(version, feeding)
      try pair.client.connection.resolveIdentity(choice)
      #expect(throws: TLSError.notNow) { try pair.client.connection.resolveIdentity(.none) }
      pair.client.feed([])
      pair.settle()
      #expect(pair.client.result == .open && pair.server.result == .open)
      #expect(pair.server.connection.peerChain == seen)
      try pair.server.send([1, 2, 3])
      pair.settle()
      #expect(pair.client.received == [1, 2, 3])
    }
  }

  @Test("A chain and a key that do not belong together are refused when they are prepared")
  func unreadableIdentity() throws {
    let (one, two) = (try Mint.shared.root.issue(), try Mint.shared.root.issue())
    #expect {
      try TLSPreparedIdentity(TLSIdentity(.der(chain: one.chainDER, privateKey: two.privateKeyDER)))
    } throws: { error in
      if case TLSError.identityUnreadable = error { true } else { false }
    }
  }

  @Test("A server that asks for nothing makes nobody choose", arguments: TLSVersion.allCases)
  func nobodyAsks(version: TLSVersion) throws {
    let pair = try connect(client: .trusting(Mint.shared.root, version)) { $0.asksForIdentity = true }
    #expect(pair.client.result == .open)
    #expect(throws: TLSError.notNow) { try pair.client.connection.resolveIdentity(.none) }
  }

  @Test("Without a pending decision there is nothing to decide")
  func notPending() throws {
    let pair = try connect()
    #expect(throws: TLSError.notNow) { try pair.client.connection.resolveTrust(.accept) }
  }
}
