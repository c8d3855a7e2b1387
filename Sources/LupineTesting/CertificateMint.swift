/// Why a certificate could not be minted: OpenSSL's own words.
public struct MintError: Error, Equatable, Sendable, CustomStringConvertible {
  /// What was being done, for example `"sign certificate"`.
  public var operation: String

  /// OpenSSL's reason, or the system's.
  public var reason: String

  /// Makes an error from its two parts.
  public init(operation: String, reason: String) {
    self.operation = operation
    self.reason = reason
  }

  /// `"operation: reason"`.
  public var description: String { "\(operation): \(reason)" }
}

/// The kind of key pair that a certificate gets.
public enum MintedKeyKind: Sendable, Hashable, CaseIterable {
  /// ECDSA on P-256 (quick; the default everywhere).
  case p256
  /// RSA with 2048 bits (tens of milliseconds to make).
  case rsa2048
  /// RSA with 1024 bits: below OpenSSL's security level 2, so a client must refuse it.
  case rsa1024
  /// Ed25519 (RFC 8410).
  case ed25519
}

/// What a leaf may be used for (RFC 5280, 4.2.1.12).
public enum MintedUsage: Sendable, Hashable, CaseIterable {
  /// `serverAuth`.
  case server
  /// `clientAuth`.
  case client
  /// `serverAuth` and `clientAuth`.
  case serverAndClient
  /// `codeSigning`: wrong for TLS.
  case codeSigning
  /// No extended-key-usage extension: no restriction.
  case unrestricted

  var configuration: String? {
    switch self {
    case .server: "serverAuth"
    case .client: "clientAuth"
    case .serverAndClient: "serverAuth,clientAuth"
    case .codeSigning: "codeSigning"
    case .unrestricted: nil
    }
  }
}

/// When a certificate is valid, relative to the moment of minting.
public struct MintedValidity: Sendable, Hashable {
  /// Start, in seconds from now (negative: in the past).
  public var notBefore: Int
  /// End, in seconds from now.
  public var notAfter: Int

  /// Makes a window from seconds relative to now.
  public init(notBefore: Int, notAfter: Int) {
    self.notBefore = notBefore
    self.notAfter = notAfter
  }

  /// From an hour ago until thirty days ahead.
  public static let current = MintedValidity(notBefore: -3600, notAfter: 30 * 86_400)
  /// Ended an hour ago.
  public static let expired = MintedValidity(notBefore: -30 * 86_400, notAfter: -3600)
  /// Begins in an hour.
  public static let notYetValid = MintedValidity(notBefore: 3600, notAfter: 30 * 86_400)
}

/// Everything that can be chosen about a certificate.
public struct CertificateOrder: Sendable, Hashable {
  /// The subject's common name. Never read by Lupine's host check, which looks at the names below only (RFC 9525, 6.3).
  public var commonName: String
  /// DNS names for the subject alternative name extension; no commas.
  public var dnsNames: [String]
  /// IPv4 or IPv6 literals for the subject alternative name extension.
  public var ipAddresses: [String]
  /// When the certificate is valid.
  public var validity: MintedValidity
  /// What it may be used for.
  public var usage: MintedUsage
  /// Whether it may sign certificates (basic constraints `CA:TRUE` and key usage `keyCertSign`).
  public var isAuthority: Bool
  /// How many authorities may follow below an authority; nil: no limit.
  public var pathLength: Int?
  /// The kind of key.
  public var key: MintedKeyKind
  /// Name constraints of an authority (RFC 5280, 4.2.1.10): DNS names that it may vouch for, with all below them; empty: any.
  public var permittedDNSNames: [String] = []
  /// The same: DNS names that it may not vouch for.
  public var excludedDNSNames: [String] = []
  /// Leave out the authority key identifier: then the issuer's name alone says whose key should verify the signature.
  public var omitsAuthorityKeyIdentifier = false

  /// Makes an order for a server certificate unless told otherwise.
  public init(
    commonName: String = "Lupine test leaf", dnsNames: [String] = [], ipAddresses: [String] = [],
    validity: MintedValidity = .current, usage: MintedUsage = .server, isAuthority: Bool = false,
    pathLength: Int? = nil, key: MintedKeyKind = .p256
  ) {
    self.commonName = commonName
    self.dnsNames = dnsNames
    self.ipAddresses = ipAddresses
    self.validity = validity
    self.usage = usage
    self.isAuthority = isAuthority
    self.pathLength = pathLength
    self.key = key
  }

  /// A server certificate for `localhost`, `127.0.0.1` and `::1`.
  public static let loopback = CertificateOrder(
    commonName: "localhost", dnsNames: ["localhost"], ipAddresses: ["127.0.0.1", "::1"])
}

/// A certificate with its private key and the certificates that a peer should be sent with it. Exists in memory only until `write` is called.
public struct MintedCertificate: Sendable, Hashable {
  /// The certificate, DER.
  public let certificateDER: [UInt8]
  /// The private key, PKCS #8 DER, not encrypted.
  public let privateKeyDER: [UInt8]
  /// The intermediate authorities to send along, in order, nearest first; without the root.
  public var intermediatesDER: [[UInt8]]

  /// The leaf, then the intermediates: what a server sends.
  public var chainDER: [[UInt8]] { [certificateDER] + intermediatesDER }

  /// The certificate alone, PEM.
  public var certificatePEM: String { PEM.encode(certificateDER, label: "CERTIFICATE") }

  /// The leaf, then the intermediates, PEM: what nginx and OpenSSL call the chain file.
  public var chainPEM: String { chainDER.map { PEM.encode($0, label: "CERTIFICATE") }.joined() }

  /// The private key, PKCS #8 PEM, not encrypted.
  public var privateKeyPEM: String { PEM.encode(privateKeyDER, label: "PRIVATE KEY") }

  /// SHA-256 of the DER SubjectPublicKeyInfo: the value of an HPKP-style pin (RFC 7469, 2.4), 32 bytes.
  ///
  /// - Throws: `MintError` when the certificate cannot be read.
  public func publicKeySHA256() throws(MintError) -> [UInt8] {
    try Mint.publicKeySHA256(ofCertificate: certificateDER)
  }

  /// Writes certificate, chain and key to new files in a new private directory below `directory`.
  ///
  /// - Parameter directory: an existing directory; by default `/tmp`.
  /// - Returns: the paths; call `remove()` on it when done.
  /// - Throws: `MintError` with the system's reason.
  public func write(in directory: String = "/tmp") throws(MintError) -> MintedFiles {
    let files = try MintedFiles(in: directory)
    try MintedFiles.write(certificatePEM, to: files.certificatePath)
    try MintedFiles.write(chainPEM, to: files.chainPath)
    try MintedFiles.write(privateKeyPEM, to: files.privateKeyPath)
    return files
  }
}

/// An authority that signs certificates for tests. A value: issuing does not change it, and it may be used from any thread.
public struct CertificateAuthority: Sendable, Hashable {
  /// The authority's own certificate and key. For an intermediate, `intermediatesDER` leads up to, not including, the root.
  public let identity: MintedCertificate

  /// The root at the top, DER: what a client must trust.
  public let rootDER: [UInt8]

  /// Makes a self-signed root authority.
  ///
  /// - Throws: `MintError` when OpenSSL refuses.
  public init(
    commonName: String = "Lupine test root", key: MintedKeyKind = .p256, validity: MintedValidity = .current
  ) throws(MintError) {
    let order = CertificateOrder(
      commonName: commonName, validity: validity, usage: .unrestricted, isAuthority: true, key: key)
    identity = try Mint.issue(order, signer: nil)
    rootDER = identity.certificateDER
  }

  private init(identity: MintedCertificate, rootDER: [UInt8]) {
    self.identity = identity
    self.rootDER = rootDER
  }

  /// The authority's certificate, DER.
  public var certificateDER: [UInt8] { identity.certificateDER }

  /// The root, PEM: for a CA file.
  public var rootPEM: String { PEM.encode(rootDER, label: "CERTIFICATE") }

  /// Issues a certificate signed by this authority, with the intermediates a peer needs.
  ///
  /// - Throws: `MintError` when OpenSSL refuses, for example a malformed IP address.
  public func issue(_ order: CertificateOrder = .loopback) throws(MintError) -> MintedCertificate {
    var minted = try Mint.issue(order, signer: identity)
    minted.intermediatesDER = identity.certificateDER == rootDER ? [] : identity.chainDER
    return minted
  }

  /// Makes an authority below this one.
  ///
  /// - Parameters:
  ///   - isAuthority: false makes an impostor: a plain certificate whose key signs anyway.
  ///   - permittedDNSNames: a name constraint; empty: none.
  ///   - excludedDNSNames: the same.
  /// - Throws: `MintError` when OpenSSL refuses.
  public func issueAuthority(
    commonName: String = "Lupine test intermediate", key: MintedKeyKind = .p256,
    validity: MintedValidity = .current, pathLength: Int? = nil, isAuthority: Bool = true,
    permittedDNSNames: [String] = [], excludedDNSNames: [String] = []
  ) throws(MintError) -> CertificateAuthority {
    var order = CertificateOrder(
      commonName: commonName, validity: validity, usage: .unrestricted, isAuthority: isAuthority,
      pathLength: pathLength, key: key)
    order.permittedDNSNames = permittedDNSNames
    order.excludedDNSNames = excludedDNSNames
    return CertificateAuthority(identity: try issue(order), rootDER: rootDER)
  }

  /// Makes a certificate that signs itself and is no authority.
  ///
  /// - Throws: `MintError` when OpenSSL refuses.
  public static func selfSigned(_ order: CertificateOrder = .loopback) throws(MintError) -> MintedCertificate {
    try Mint.issue(order, signer: nil)
  }

  /// A certificate revocation list of this authority, PEM.
  ///
  /// - Parameters:
  ///   - certificates: DER of certificates of this authority to revoke; may be empty.
  ///   - validity: `thisUpdate` and `nextUpdate`, relative to now.
  /// - Throws: `MintError` when OpenSSL refuses.
  public func revocationListPEM(
    revoking certificates: [[UInt8]], validity: MintedValidity = .current
  ) throws(MintError) -> String {
    let der = try Mint.revocationList(signer: identity, revoking: certificates, validity: validity)
    return PEM.encode(der, label: "X509 CRL")
  }

  /// Writes the root (PEM) to a new file in a new private directory; `certificatePath` and `chainPath` both hold it.
  ///
  /// - Throws: `MintError` with the system's reason.
  public func writeRoot(in directory: String = "/tmp") throws(MintError) -> MintedFiles {
    let files = try MintedFiles(in: directory)
    try MintedFiles.write(rootPEM, to: files.certificatePath)
    try MintedFiles.write(rootPEM, to: files.chainPath)
    return files
  }
}
