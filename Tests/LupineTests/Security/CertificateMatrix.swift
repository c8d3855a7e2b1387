import Foundation
import Lupine
import LupineTesting

/// Every kind of certificate under every kind of policy: what `Cases/certificate-matrix.txt` says comes of it.
enum CertificateMatrix {
  /// What a server shows, and to whom.
  struct Server: Sendable {
    let identity: MintedCertificate
    let host: String
  }

  static let host = "www.example.test"

  /// The authorities of the matrix; made once, because keys take time.
  struct Authorities: Sendable {
    let root: CertificateAuthority
    let middle: CertificateAuthority
    let foreign: CertificateAuthority

    static let shared = Result { () throws(MintError) in
      let root = try CertificateAuthority(commonName: "matrix root")
      return Authorities(
        root: root, middle: try root.issueAuthority(commonName: "matrix intermediate"),
        foreign: try CertificateAuthority(commonName: "foreign root"))
    }
  }

  private static func order(
    _ names: [String] = [host], validity: MintedValidity = .current, usage: MintedUsage = .server,
    key: MintedKeyKind = .p256
  ) -> CertificateOrder {
    CertificateOrder(commonName: host, dnsNames: names, validity: validity, usage: usage, key: key)
  }

  /// The server of a row; nil: the row's name is none of these.
  static func server(_ name: String) throws -> Server? {
    let authorities = try Authorities.shared.get()
    let middle = authorities.middle
    func issued(_ order: CertificateOrder, host: String = host) throws -> Server {
      Server(identity: try middle.issue(order), host: host)
    }
    func below(_ authority: CertificateAuthority, _ order: CertificateOrder = order()) throws -> Server {
      Server(identity: try authority.issue(order), host: host)
    }
    switch name {
    case "valid-ecdsa": return try issued(order())
    case "valid-rsa": return try issued(order(key: .rsa2048))
    case "valid-ed25519": return try issued(order(key: .ed25519))
    case "expired": return try issued(order(validity: .expired))
    case "not-yet-valid": return try issued(order(validity: .notYetValid))
    case "expired-intermediate": return try below(authorities.root.issueAuthority(validity: .expired))
    case "wrong-host": return try issued(order(["other.example.test"]))
    case "wildcard": return try issued(order(["*.example.test"]))
    case "wildcard-too-deep": return try issued(order(["*.test"]))
    case "wildcard-two-labels": return try issued(order(["*.example.test"]), host: "a.www.example.test")
    case "wildcard-partial": return try issued(order(["w*.example.test"]))
    case "wildcard-parent": return try issued(order(["*.example.test"]), host: "example.test")
    case "common-name-only": return try issued(order([]))
    case "address":
      return try issued(CertificateOrder(commonName: host, ipAddresses: ["127.0.0.1"]), host: "127.0.0.1")
    case "address-as-name": return try issued(order(["127.0.0.1"]), host: "127.0.0.1")
    case "name-for-address": return try issued(order(), host: "127.0.0.1")
    case "self-signed": return Server(identity: try CertificateAuthority.selfSigned(order()), host: host)
    case "self-signed-expired":
      return Server(identity: try CertificateAuthority.selfSigned(order(validity: .expired)), host: host)
    case "untrusted-root": return try below(authorities.foreign)
    case "missing-intermediate":
      var identity = try middle.issue(order())
      identity.intermediatesDER = []
      return Server(identity: identity, host: host)
    case "forged-intermediate":
      // Signed by a stranger with the intermediate's name, and sent along with the real intermediate.
      let stranger = try CertificateAuthority(commonName: "matrix intermediate")
      var order = order()
      order.omitsAuthorityKeyIdentifier = true
      var identity = try stranger.issue(order)
      identity.intermediatesDER = [middle.certificateDER]
      return Server(identity: identity, host: host)
    case "weak-key": return try issued(order(key: .rsa1024))
    case "wrong-purpose": return try issued(order(usage: .client))
    case "names-permitted":
      return try below(authorities.root.issueAuthority(permittedDNSNames: ["example.test"]))
    case "names-not-permitted":
      return try below(authorities.root.issueAuthority(permittedDNSNames: ["example.com"]))
    case "names-excluded":
      return try below(authorities.root.issueAuthority(excludedDNSNames: ["www.example.test"]))
    case "wildcard-excluded":
      return try below(authorities.root.issueAuthority(excludedDNSNames: [host]), order(["*.example.test"]))
    case "wildcard-permitted":
      return try below(
        authorities.root.issueAuthority(excludedDNSNames: ["other.example.test"]), order(["*.example.test"]))
    case "not-an-authority": return try below(authorities.root.issueAuthority(isAuthority: false))
    case "path-too-long":
      return try below(authorities.root.issueAuthority(pathLength: 0).issueAuthority(commonName: "too deep"))
    default: return nil
    }
  }

  /// The policy of a column for a server: mode, pin (of the leaf, the certificate above it, the root, or a stranger), `A` for allowing
  /// invalid certificates, `D-` for not validating names. For example `key:root:A`.
  static func policy(_ name: String, for server: Server) throws -> SecurityPolicy? {
    let authorities = try Authorities.shared.get()
    var parts = name.split(separator: ":").map(String.init)[...]
    let mode: PinningMode
    switch parts.popFirst() {
    case "none": mode = .none
    case "cert": mode = .certificate
    case "key": mode = .publicKey
    default: return nil
    }
    var pins: [[UInt8]] = []
    if mode != .none {
      switch parts.popFirst() {
      case "leaf": pins = [server.identity.certificateDER]
      case "middle": pins = [authorities.middle.certificateDER]
      case "root": pins = [authorities.root.rootDER]
      case "other": pins = [authorities.foreign.rootDER]
      default: return nil
      }
    }
    return try SecurityPolicy(
      pinningMode: mode, pinnedCertificates: pins, allowInvalidCertificates: parts.contains("A"),
      validatesDomainName: !parts.contains("D-"))
  }

  /// The word of the table for a verdict.
  static func word(_ error: SecurityPolicyError?) -> String {
    switch error?.reason {
    case nil: "yes"
    case .untrustedChain: "chain"
    case .invalidDate: "date"
    case .hostMismatch: "host"
    case .pinMismatch: "pin"
    case .domainNeedsPins: "nopins"
    case let reason?: reason.rawValue
    }
  }

  struct Table {
    var columns: [String]
    var rows: [(name: String, words: [String])]
  }

  /// Lines of words: the first is the columns'; `#` begins a comment.
  static func table() throws -> Table {
    guard let folder = Bundle.module.url(forResource: "Cases", withExtension: nil) else {
      throw CocoaError(.fileNoSuchFile)
    }
    let text = try String(contentsOf: folder.appending(path: "certificate-matrix.txt"), encoding: .utf8)
    var lines = text.split(separator: "\n").filter { !$0.hasPrefix("#") }
      .map { $0.split(separator: " ").map(String.init) }[...]
    let columns = lines.removeFirst().dropFirst()
    return Table(columns: Array(columns), rows: lines.map { (name: $0[0], words: Array($0.dropFirst())) })
  }
}
