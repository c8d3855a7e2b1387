import LupineTLS
import Testing

@testable import LupineTesting

@Suite("Pins where somebody else decides about trust: the path may be invalid, and yet no other key takes their place")
struct PinnedPathTests {
  /// What is reported of a server to whoever decides.
  private func report(
    _ leaf: MintedCertificate, roots: [[UInt8]], pin: CertificateAuthority, host: String = "localhost",
    lists: String? = nil
  ) throws -> TrustReport {
    var policy = TLSPolicy.trusting()
    policy.roots = .certificates(roots)
    policy.pins = [try pin.identity.publicKeySHA256()]
    policy.revocationListPath = lists
    let pair = try makePair(client: policy, server: serverContext(leaf, .tls13), host: host, feeding: .whole) {
      $0.trustEvaluation = .deferred
    }
    _ = try pair.client.connection.handshake()
    pair.settle()
    #expect(pair.client.result == .trustPending)
    return try #require(pair.client.connection.trustReport)
  }

  /// A leaf of somebody who has the authority's name, and not its key.
  private func forged(_ authority: CertificateAuthority, _ name: String) throws -> MintedCertificate {
    var order = CertificateOrder.loopback
    order.omitsAuthorityKeyIdentifier = true
    var leaf = try CertificateAuthority(commonName: name).issue(order)
    leaf.intermediatesDER = [authority.rootDER]
    return leaf
  }

  @Test(
    "An authority that is not trusted vouches for what it has signed, and for nothing else", arguments: [false, true])
  func authority(isTrusted: Bool) throws {
    let pinned = try CertificateAuthority(commonName: "Pinned")
    let roots = [isTrusted ? pinned.rootDER : Mint.shared.root.rootDER]
    for validity in [MintedValidity.current, .expired] {
      var order = CertificateOrder.loopback
      order.validity = validity
      var genuine = try pinned.issueAuthority().issue(order)
      genuine.intermediatesDER.append(pinned.rootDER)
      #expect(try report(genuine, roots: roots, pin: pinned).pins == nil)
    }
    let found = try report(forged(pinned, "Pinned"), roots: roots, pin: pinned)
    #expect(found.path != nil && found.pins != nil)
    // Its owner has a certificate of the authority, and is none.
    var impostor = try pinned.issueAuthority(isAuthority: false).issue()
    impostor.intermediatesDER.append(pinned.rootDER)
    let other = try report(impostor, roots: roots, pin: pinned)
    #expect(other.path != nil && other.pins != nil)
  }

  @Test("That nobody knows whether a path was revoked takes no pin away from it", arguments: [false, true])
  func withoutLists(isPinned: Bool) throws {
    let mint = Mint.shared
    let files = try mint.root.writeRoot()
    defer { files.remove() }
    let lists = try files.add(mint.root.revocationListPEM(revoking: []), name: "lists.pem")
    let pin = isPinned ? mint.middle : mint.otherRoot
    let found = try report(mint.leaf, roots: [mint.root.rootDER], pin: pin, host: "a.test", lists: lists)
    #expect(found.path == .revocationUnknown && (found.pins == nil) == isPinned)
    // Somebody of that name, without its key, is who he was.
    let impostor = try report(forged(mint.root, "Root"), roots: [mint.root.rootDER], pin: mint.root, lists: lists)
    #expect(impostor.path != nil && impostor.pins != nil)
  }

  @Test("Of a server that sends too much its own certificate is looked at, or what can be read of it")
  func tooMany() throws {
    var leaf = Mint.shared.leaf
    leaf.intermediatesDER += Array(repeating: Mint.shared.otherRoot.certificateDER, count: 20)
    let roots = [Mint.shared.root.rootDER]
    let found = try report(leaf, roots: roots, pin: Mint.shared.otherRoot, host: "a.test")
    #expect(found.path == .chainTooLong(limit: 10) && found.pins != nil && found.host != nil)
    #expect(found.chainSent == [leaf.certificateDER])
    #expect(try report(leaf, roots: roots, pin: Mint.shared.middle).pins != nil)
    #expect(try report(leaf, roots: roots, pin: Mint.shared.middle).host == nil)
    // A name that is longer than all names: to ask who is to decide, that is no obstacle.
    var bytes = leaf.certificateDER
    let name = Array("localhost".utf8)
    let place = try #require(bytes.indices.first { bytes[$0...].starts(with: [0x82, UInt8(name.count)] + name) })
    bytes[place + 1] = 0x7F
    let unreadable = MintedCertificate(
      certificateDER: bytes, privateKeyDER: leaf.privateKeyDER, intermediatesDER: leaf.intermediatesDER)
    let told = try report(unreadable, roots: roots, pin: Mint.shared.middle)
    #expect(told.path == .chainTooLong(limit: 10) && told.host != nil)
  }
}
