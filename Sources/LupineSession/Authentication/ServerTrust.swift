internal import LupineTLS

/// What a server has shown, and what a check of it against trusted roots says: each fact apart, so that whoever decides can combine them.
///
/// A value. Checking takes about 100 µs for each certificate and, if the roots come from a file, the time to read it.
public struct ServerTrust: Sendable {
  /// DER certificates as they were sent, the server's own first. That one alone if there were more than are looked at (12).
  public let certificateChain: [[UInt8]]
  /// DER certificates of the path that was built towards a root, as far as it goes; empty if nothing was checked.
  public let builtChain: [[UInt8]]
  /// What is wrong with the path, dates and names aside; nil: it leads to a trusted root.
  public let pathProblem: String?
  /// What is wrong with the dates.
  public let dateProblem: String?
  /// What is wrong with the names: another host's, or such as an authority of the chain may not vouch for; nil also if no host was asked about.
  public let hostProblem: String?
  /// Why the pins of the session's configuration refuse the chain; nil also if it has none.
  public let pinProblem: String?
  /// Whether anything was checked: false under a configuration that does not verify servers. Then no problem means nothing.
  public let isVerified: Bool
  /// The host that `hostProblem` is about; nil: none was asked about.
  public let host: String?
  /// The roots that the path was to lead to.
  public let roots: TLSConfiguration.Roots
  /// DER certificates that were trusted beside them.
  public let additionalRoots: [[UInt8]]

  /// Whether the session trusts the server by itself.
  public var isTrusted: Bool {
    pathProblem == nil && dateProblem == nil && hostProblem == nil && pinProblem == nil
  }

  init(_ report: TrustReport, roots: TLSConfiguration.Roots, additionalRoots: [[UInt8]], host: String?) {
    certificateChain = report.chainSent
    builtChain = report.chainBuilt
    pathProblem = report.path.map { "\($0)" }
    dateProblem = report.time.map { "\($0)" }
    hostProblem = report.host.map { "\($0)" }
    pinProblem = report.pins.map { "\($0)" }
    isVerified = report.isVerified
    self.roots = roots
    self.additionalRoots = additionalRoots
    self.host = host
  }

  /// Checks a chain outside of any connection: what a policy would say of a server can be tried out.
  ///
  /// - Parameters:
  ///   - certificateChain: DER, the server's own first. What is no certificate is a `pathProblem`.
  ///   - roots: roots that cannot be read are a `pathProblem` too.
  ///   - additionalRoots: DER certificates that are trusted beside `roots`. Default none.
  ///   - host: a DNS name or an address; nil: names are not looked at. What is neither is a `hostProblem`.
  public init(
    certificateChain: [[UInt8]], roots: TLSConfiguration.Roots, additionalRoots: [[UInt8]] = [], host: String?
  ) {
    var report = TrustReport(isVerified: true)
    report.chainSent = certificateChain
    var name: ServerName?
    if let host {
      name = try? ServerName(host)
      if name == nil { report.host = .hostMismatch(host: host, names: []) }
    }
    let badHost = report.host
    do throws(TLSError) {
      report = try verify(
        chain: certificateChain, anchors: TLSPolicy.Roots(roots), additional: additionalRoots, host: name)
      report.host = badHost ?? report.host
    } catch {
      report.path = .rejected(TrustRejection(reason: "the trusted roots cannot be used: \(error)"))
    }
    self.init(report, roots: roots, additionalRoots: additionalRoots, host: host)
  }

  /// Checks the chain that was sent once more: against other anchors, which alone are trusted then, or for another host. A certificate of the
  /// chain that is among the anchors ends the path, also if it is no root. Revocation lists and pins of the configuration are not looked at.
  ///
  /// - Parameters:
  ///   - anchors: the default nil stands for `roots` with `additionalRoots`.
  ///   - host: nil: names are not looked at.
  public func evaluate(anchors: TLSConfiguration.Roots? = nil, host: String?) -> ServerTrust {
    ServerTrust(
      certificateChain: certificateChain, roots: anchors ?? roots,
      additionalRoots: anchors == nil ? additionalRoots : [], host: host)
  }

  /// SHA-256 digests of the SubjectPublicKeyInfo of each certificate, 32 bytes each: of the built chain, or if there is none of the one sent.
  /// What is no certificate is left out.
  public var publicKeyHashes: [[UInt8]] {
    (builtChain.isEmpty ? certificateChain : builtChain).compactMap(Self.publicKeyHash(ofCertificate:))
  }

  /// The SHA-256 digest of the SubjectPublicKeyInfo of a DER certificate, 32 bytes (RFC 7469 section 2.4); nil: these bytes are no certificate.
  public static func publicKeyHash(ofCertificate certificate: [UInt8]) -> [UInt8]? {
    publicKeyDigest(ofCertificate: certificate)
  }

  /// For a message: as they would be pinned.
  static func describe(keys: [[UInt8]]) -> String {
    keys.isEmpty ? "none" : keys.map { "sha256/" + Base64.encode($0) }.joined(separator: ", ")
  }
}

extension TLSPolicy.Roots {
  init(_ roots: TLSConfiguration.Roots) {
    self =
      switch roots {
      case .system: .system
      case .file(let path): .file(path)
      case .directory(let path): .directory(path)
      case .certificates(let certificates): .certificates(certificates)
      }
  }
}
