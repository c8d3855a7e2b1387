internal import Foundation
public import LupineSession

/// Which servers to trust, beyond what the session's trusted roots say. A value: a copy changes nothing elsewhere.
///
/// The verdict, for a chain whose check against the session's roots says *valid* or not:
///
/// | Mode | `allowInvalidCertificates` | `validatesDomainName` | Accepted |
/// |---|---|---|---|
/// | none | false | true | valid, with the right name |
/// | none | false | false | valid, whatever its name |
/// | none | true | true | never, if a domain is given: nothing would make the name mean anything; a manager does not take such a policy |
/// | none | true | false | always |
/// | certificate, publicKey | false | true | valid, with the right name, and pinned |
/// | certificate, publicKey | false | false | valid, whatever its name, and pinned |
/// | certificate | true | either | valid with the pins as the only anchors, dates too; with the right name if it is validated |
/// | publicKey | true | either | pinned; with the right name if it is validated |
///
/// *Pinned* by certificate: the path that leads to the pins as anchors holds one of them, byte by byte. By public key: a certificate of the path
/// has a pinned key. Three things differ from AFNetworking: `validatesDomainName` is honoured in every row; in the last row a key above the
/// server's own counts only if the signatures lead up to it, since anybody can send a pinned certificate along; and pins of
/// `TLSConfiguration.publicKeyPins` are never set aside. Names are those of the subject alternative name extension only (RFC 9525), and a
/// wildcard is not the right one for a host that an authority of a valid chain may not vouch for. The chain has to be meant for servers also
/// where the name is not looked at.
///
/// Source: `AFSecurityPolicy`.
public struct SecurityPolicy: Sendable, Hashable {
  /// What has to be pinned.
  public private(set) var pinningMode: PinningMode
  /// DER certificates. Under `.publicKey` their keys are pins. Source: `pinnedCertificates`.
  public private(set) var pinnedCertificates: Set<[UInt8]>
  /// Keys of `.publicKey`, beside those of the certificates.
  public private(set) var publicKeyPins: Set<PublicKeyPin>
  /// Keys that are accepted like the others, and meant for later: a verdict says when one of them was needed.
  public private(set) var backupPins: Set<PublicKeyPin>
  /// Trust servers whose chain is not valid. Default false. Source: `allowInvalidCertificates`.
  public var allowInvalidCertificates: Bool
  /// Check that the certificate names the host. Default true. Source: `validatesDomainName`.
  public var validatesDomainName: Bool
  /// Policies of certain hosts, by pattern; see `setPolicy(_:forHost:)`.
  public private(set) var hostPolicies: [String: SecurityPolicy]
  /// Whether verdicts are only reported: the session decides as if there were no policy. Default false; see `report(only:to:)`.
  public private(set) var isReportOnly = false

  private var reporter: Reporter?
  /// Every key that is accepted: the keys of certificates are worked out once.
  private(set) var acceptedKeys: Set<PublicKeyPin>
  /// The pinned certificates as anchors: one array, because what was parsed of them is found again by it. Sorted, so that equal sets give equal ones.
  private(set) var pinnedAnchors: [[UInt8]]

  /// A closure, compared by identity.
  private final class Reporter: Sendable, Hashable {
    let report: @Sendable (Verdict) -> Void

    init(_ report: @escaping @Sendable (Verdict) -> Void) { self.report = report }

    static func == (left: Reporter, right: Reporter) -> Bool { left === right }
    func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
  }

  /// No pins; valid chains with the right name are trusted. It costs nothing. Source: `+defaultPolicy`.
  public static var `default`: SecurityPolicy { SecurityPolicy() }

  /// No pins; valid chains with the right name are trusted.
  public init() {
    pinningMode = .none
    pinnedCertificates = []
    publicKeyPins = []
    backupPins = []
    acceptedKeys = []
    pinnedAnchors = []
    allowInvalidCertificates = false
    validatesDomainName = true
    hostPolicies = [:]
  }

  /// Makes a policy. Source: `+policyWithPinningMode:withPinnedCertificates:`.
  ///
  /// - Parameters:
  ///   - pinnedCertificates: DER; see `certificates(inFile:)` and `certificates(inDirectory:)`. With `.none` they are kept, and nobody looks at them, as
  ///     in AFNetworking, where a policy of that mode may hold the certificates of its bundle.
  ///   - publicKeyPins: `sha256/` and Base64, as `lupine --pin` and HPKP write them.
  ///   - backupPins: the same, of keys that are not in use yet.
  /// - Throws: `SecurityPolicyError`: `.badCertificate`, `.badPin`, `.pinsMissing` for a mode without anything to pin, `.pinsUnused` for
  ///   public keys, backups too, under `.certificate` and `.none`.
  public init(
    pinningMode: PinningMode, pinnedCertificates: some Sequence<[UInt8]> = [],
    publicKeyPins: some Sequence<String> = [],
    backupPins: some Sequence<String> = [], allowInvalidCertificates: Bool = false, validatesDomainName: Bool = true
  ) throws(SecurityPolicyError) {
    self.init()
    self.allowInvalidCertificates = allowInvalidCertificates
    self.validatesDomainName = validatesDomainName
    try pin(
      pinningMode, certificates: pinnedCertificates, publicKeys: publicKeyPins, backups: backupPins)
  }

  /// Makes a policy that pins public keys, for example those of certificates: `PublicKeyPin(certificate:)`. See `init(pinningMode:…)`.
  ///
  /// - Parameter backups: of keys that are not in use yet.
  /// - Throws: `SecurityPolicyError` with `.pinsMissing` if there is none.
  public init(
    publicKeys: some Sequence<PublicKeyPin>, backups: some Sequence<PublicKeyPin> = [],
    allowInvalidCertificates: Bool = false, validatesDomainName: Bool = true
  ) throws(SecurityPolicyError) {
    try self.init(
      pinningMode: .publicKey, publicKeyPins: publicKeys.map(\.description), backupPins: backups.map(\.description),
      allowInvalidCertificates: allowInvalidCertificates, validatesDomainName: validatesDomainName)
  }

  /// Replaces mode and pins. Nothing changes if this throws.
  ///
  /// - Throws: as `init(pinningMode:…)`.
  public mutating func pin(
    _ mode: PinningMode, certificates: some Sequence<[UInt8]> = [], publicKeys: some Sequence<String> = [],
    backups: some Sequence<String> = []
  ) throws(SecurityPolicyError) {
    let certificates = Set(certificates)
    var keys: Set<PublicKeyPin> = []
    for certificate in certificates {
      guard let key = PublicKeyPin(certificate: certificate) else {
        throw SecurityPolicyError(
          .badCertificate, message: "a pinned certificate of \(certificate.count) bytes is no DER certificate")
      }
      keys.insert(key)
    }
    let publicKeys = try Self.read(publicKeys)
    let backups = try Self.read(backups)
    switch mode {
    case .none:
      // Certificates may be there without being pinned, in AFNetworking too; a digest is good for nothing else.
      guard publicKeys.isEmpty, backups.isEmpty else {
        throw SecurityPolicyError(
          .pinsUnused, message: "public keys are pinned under .publicKey; under .none nobody would look at them")
      }
    case .certificate:
      guard publicKeys.isEmpty, backups.isEmpty else {
        throw SecurityPolicyError(
          .pinsUnused, message: "public keys are pinned under .publicKey; .certificate compares certificates only")
      }
      guard !certificates.isEmpty else {
        throw SecurityPolicyError(.pinsMissing, message: "the mode is .certificate, and no certificate is pinned")
      }
    case .publicKey:
      guard !(certificates.isEmpty && publicKeys.isEmpty && backups.isEmpty) else {
        throw SecurityPolicyError(.pinsMissing, message: "the mode is .publicKey, and no key or certificate is pinned")
      }
    }
    pinningMode = mode
    pinnedCertificates = certificates
    publicKeyPins = publicKeys
    backupPins = backups
    acceptedKeys = keys.union(publicKeys).union(backups)
    pinnedAnchors = certificates.sorted { $0.lexicographicallyPrecedes($1) }
  }

  private static func read(_ pins: some Sequence<String>) throws(SecurityPolicyError) -> Set<PublicKeyPin> {
    var read: Set<PublicKeyPin> = []
    for pin in pins { read.insert(try PublicKeyPin(pin)) }
    return read
  }

  // MARK: Hosts

  /// Gives a host, or all hosts below a name, a policy of their own.
  ///
  /// The most specific pattern decides alone: the host itself, else the longest `*.` pattern, else this policy. `*.example.com` stands for
  /// every host below `example.com`, however deep, and not for `example.com`: a host that is deeper than you thought is not left unpinned.
  ///
  /// - Parameters:
  ///   - policy: nil removes what was set.
  ///   - pattern: a host, an address, or `*.` and a name, without case; names in any script.
  /// - Throws: `SecurityPolicyError`: `.badHostPolicy`; `.domainNeedsPins` for a policy that would refuse every server, see the table above.
  public mutating func setPolicy(_ policy: SecurityPolicy?, forHost pattern: String) throws(SecurityPolicyError) {
    guard let key = HostPattern.canonical(pattern) else {
      throw SecurityPolicyError(
        .badHostPolicy, message: "\"\(pattern)\" is neither a host nor \"*.\" and a name")
    }
    guard policy?.hostPolicies.isEmpty ?? true else {
      throw SecurityPolicyError(
        .badHostPolicy, message: "the policy for \"\(pattern)\" has host policies of its own; put them into this one")
    }
    try policy?.checkNamesMeanSomething()
    hostPolicies[key] = policy
  }

  /// The row of the table that refuses every server. The flags change one by one, so that only who takes a policy can know that they are meant so;
  /// those of hosts were looked at when they were set. One that only reports refuses nobody.
  func checkNamesMeanSomething() throws(SecurityPolicyError) {
    guard namesMeanNothing, !isReportOnly else { return }
    throw SecurityPolicyError(.domainNeedsPins, message: Self.adviceOnNames)
  }

  /// Whether names are to be validated, and nothing would make them mean anything.
  var namesMeanNothing: Bool { pinningMode == .none && allowInvalidCertificates && validatesDomainName }

  static let adviceOnNames = "to validate the names of invalid certificates, pin them, or do not validate names"

  /// The policy that decides about a host; nil asks for that of hosts without a name.
  public func policy(forHost host: String?) -> SecurityPolicy {
    guard !hostPolicies.isEmpty else { return self }
    var chosen = host.flatMap { HostPattern.candidates(for: $0).lazy.compactMap { hostPolicies[$0] }.first } ?? self
    guard chosen.reporter == nil else { return chosen }
    chosen.reporter = reporter
    chosen.isReportOnly = isReportOnly
    return chosen
  }

  // MARK: Reports

  /// Tells every verdict, accepted or not, for a trial of pins or for a log.
  ///
  /// - Parameters:
  ///   - only: with true nothing is enforced: connections are made as if there were no policy.
  ///   - report: called on the session's delegate queue, inside the handshake: be quick. Nil: tell nobody, and enforce.
  public mutating func report(only: Bool, to report: (@Sendable (Verdict) -> Void)?) {
    reporter = report.map { Reporter($0) }
    isReportOnly = only && report != nil
  }

  /// Whether servers have to be looked at: false for the default, where the session's own check is all there is.
  public var needsEvaluation: Bool {
    pinningMode != .none || allowInvalidCertificates || !validatesDomainName || !hostPolicies.isEmpty || reporter != nil
  }

  /// Answers a session's question about a connection: for `session(_:didReceive:completionHandler:)`. Reports the verdict.
  ///
  /// Any thread. Takes some 100 µs, and with invalid certificates allowed a few times that.
  public func disposition(for challenge: ConnectionChallenge) -> ConnectionChallengeDisposition {
    guard case .serverTrust(let trust) = challenge.kind else { return .performDefaultHandling }
    let policy = policy(forHost: challenge.host)
    let verdict = policy.evaluate(trust, forDomain: challenge.host)
    policy.reporter?.report(verdict)
    if policy.isReportOnly { return .performDefaultHandling }
    return verdict.error.map { .rejectWithError($0) } ?? .trustServer
  }
}
