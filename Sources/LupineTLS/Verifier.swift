internal import CLupineOpenSSL

/// Checks a chain with OpenSSL's path builder and our own host check, in which the authorities' name constraints have a say, and reports each
/// fact apart.
///
/// OpenSSL is told to go on after every error, and every error is recorded: so an expired certificate of an unknown issuer
/// reports both.
final class Verifier {
  /// Certificates below the anchor and above the leaf (RFC 5280, 6.1). OpenSSL's own default is 100.
  static let maximumDepth: Int32 = 10

  private var codes: [Int32] = []
  /// An authority of the path may not vouch for the host.
  private var isForbidden = false

  /// Verifies what `store` was set up with.
  ///
  /// - Parameters:
  ///   - host: nil: no host check (a server checking a client).
  ///   - wantsChains: whether the report is to hold the chains.
  static func verify(
    _ store: OpaquePointer, host: ServerName?, pins: Set<[UInt8]>, wantsChains: Bool
  ) -> TrustReport {
    let verifier = Verifier()
    var report = TrustReport(isVerified: true)
    unsafe verifier.run(store, host: host)
    for code in verifier.codes {
      let problem = problem(for: code)
      switch problem {
      case .expired, .notYetValid: report.time = report.time ?? problem
      // Revocation is the one fact that no other problem of the path may hide.
      case .revoked: report.path = problem
      default: report.path = report.path ?? problem
      }
    }
    let leaf = unsafe X509_STORE_CTX_get0_cert(store)
    if let leaf = unsafe leaf, let host { report.host = unsafe hostProblem(leaf: leaf, host: host) }
    if report.host == nil, report.path == nil, verifier.isForbidden { report.host = .nameConstraintViolated }
    let built = unsafe X509_STORE_CTX_get0_chain(store)
    if !pins.isEmpty {
      report.pins = unsafe pinProblem(
        chain: built, pins: pins, isValid: report.path == nil, isSound: verifier.codes.allSatisfy(lacksTrustAlone))
    }
    if wantsChains {
      report.chainSent = unsafe CertificateReader.der(of: X509_STORE_CTX_get0_untrusted(store))
      if let leaf = unsafe leaf {
        let first = unsafe CertificateReader.der(leaf)
        if report.chainSent.first != first { report.chainSent.insert(first, at: 0) }
      }
      report.chainBuilt = unsafe CertificateReader.der(of: built)
    }
    OpenSSLError.clear()
    return report
  }

  private func run(_ store: OpaquePointer, host: ServerName?) {
    unsafe X509_VERIFY_PARAM_set_depth(X509_STORE_CTX_get0_param(store), Self.maximumDepth)
    unsafe X509_STORE_CTX_set_ex_data(store, 0, Unmanaged.passUnretained(self).toOpaque())
    unsafe X509_STORE_CTX_set_verify_cb(store) { ok, store in
      guard ok != 1, let box = unsafe X509_STORE_CTX_get_ex_data(store, 0) else { return 1 }
      // A peer cannot make this list long: a path has at most twelve certificates.
      unsafe Unmanaged<Verifier>.fromOpaque(box).takeUnretainedValue().codes.append(X509_STORE_CTX_get_error(store))
      return 1
    }
    unsafe buildPath(store)
    isForbidden = unsafe forbids(host, store)
    if isForbidden || !codes.isEmpty, let anchor = unsafe anchorOfLeaf(store) {
      unsafe buildPath(of: anchor, store)
      isForbidden = unsafe forbids(host, store)
    }
    unsafe X509_STORE_CTX_set_verify_cb(store, nil)
    unsafe X509_STORE_CTX_set_ex_data(store, 0, nil)
    withExtendedLifetime(self) {}
  }

  private func buildPath(_ store: OpaquePointer) {
    guard unsafe X509_verify_cert(store) <= 0 else { return }
    let code = unsafe X509_STORE_CTX_get_error(store)
    codes.append(code == X509_V_OK ? X509_V_ERR_UNSPECIFIED : code)
  }

  /// The anchor that is the leaf itself, byte for byte, for whoever frees it; nil if there is none. Not where revocation lists are asked for, which judge
  /// the whole path. It is that of the store, which may say what the certificate is not trusted for.
  private func anchorOfLeaf(_ store: OpaquePointer) -> OpaquePointer? {
    let flags = unsafe X509_VERIFY_PARAM_get_flags(X509_STORE_CTX_get0_param(store))
    guard flags & UInt(X509_V_FLAG_CRL_CHECK) == 0, let leaf = unsafe X509_STORE_CTX_get0_cert(store),
      let named = unsafe X509_STORE_CTX_get1_certs(store, X509_get_subject_name(leaf))
    else { return nil }
    defer { unsafe lupine_certificates_free(named) }
    let wanted = unsafe CertificateReader.der(leaf)
    for index in 0..<max(0, unsafe lupine_certificates_count(named)) {
      guard let anchor = unsafe lupine_certificates_at(named, index), unsafe CertificateReader.der(anchor) == wanted
      else { continue }
      unsafe X509_up_ref(anchor)
      return unsafe anchor
    }
    return nil
  }

  /// Verifies once more, with the leaf as the only anchor and without what the peer sent above it: OpenSSL sees only after every other path, those to
  /// other anchors too, that the leaf is one, and then judges that path as well.
  ///
  /// - Parameter anchor: the leaf as the store has it; it is freed.
  private func buildPath(of anchor: OpaquePointer, _ store: OpaquePointer) {
    guard let anchors = unsafe lupine_certificates_new() else { return unsafe X509_free(anchor) }
    defer {
      // Nothing is looked for in them any more.
      unsafe X509_STORE_CTX_set0_trusted_stack(store, nil)
      unsafe lupine_certificates_free(anchors)
    }
    unsafe lupine_certificates_push(anchors, anchor)
    unsafe X509_STORE_CTX_set0_trusted_stack(store, anchors)
    let sent = unsafe X509_STORE_CTX_get0_untrusted(store)
    defer { unsafe X509_STORE_CTX_set0_untrusted(store, sent) }
    unsafe X509_STORE_CTX_set0_untrusted(store, nil)
    // A context that has a chain refuses to verify.
    unsafe X509_STORE_CTX_set0_verified_chain(store, nil)
    unsafe X509_STORE_CTX_set_error(store, X509_V_OK)
    codes = []
    unsafe buildPath(store)
  }

  /// Whether an authority of the path, the anchor among them, may not vouch for the host. Not asked of a path that is refused whatever the host is.
  private func forbids(_ host: ServerName?, _ store: OpaquePointer) -> Bool {
    guard let host, host.indication != nil, codes.allSatisfy(Self.isOfTime) else { return false }
    let chain = unsafe X509_STORE_CTX_get0_chain(store)
    for index in 1..<max(1, unsafe lupine_certificates_count(chain)) {
      guard let authority = unsafe lupine_certificates_at(chain, index),
        let constraints = unsafe CertificateReader.nameConstraints(authority)
      else { continue }
      if !constraints.allows(host) { return true }
    }
    return false
  }

  private static func isOfTime(_ code: Int32) -> Bool {
    switch problem(for: code) {
    case .expired, .notYetValid: true
    default: false
    }
  }

  /// Seconds since 1970 at which what `store` was verified to can no longer be relied upon: the first certificate of the path that was built
  /// ends then, the anchor among them, or the first of the lists by which revocation was looked for.
  ///
  /// - Parameter now: seconds since 1970, of the clock that it was verified by.
  static func end(_ store: OpaquePointer, now: Int64) -> Int64 {
    // An error in the queue would be taken for one of the handshake's.
    defer { OpenSSLError.clear() }
    guard let chain = unsafe X509_STORE_CTX_get0_chain(store) else {
      // Of more certificates than are looked at no path was built.
      guard let leaf = unsafe X509_STORE_CTX_get0_cert(store) else { return .max }
      return unsafe CertificateReader.end(leaf)
    }
    let flags = unsafe X509_VERIFY_PARAM_get_flags(X509_STORE_CTX_get0_param(store))
    let looksAtLists = flags & UInt(X509_V_FLAG_CRL_CHECK) != 0
    var end = Int64.max
    for index in 0..<max(0, unsafe lupine_certificates_count(chain)) {
      guard let certificate = unsafe lupine_certificates_at(chain, index) else { continue }
      end = min(end, unsafe CertificateReader.end(certificate))
      if looksAtLists { end = min(end, unsafe endOfLists(about: certificate, store, now: now)) }
    }
    return end
  }

  /// The same of the lists of a certificate's issuer. One that has ended has a successor beside it, or was of no use to anybody.
  private static func endOfLists(about certificate: OpaquePointer, _ store: OpaquePointer, now: Int64) -> Int64 {
    guard let lists = unsafe X509_STORE_CTX_get1_crls(store, X509_get_issuer_name(certificate)) else { return .max }
    defer { unsafe lupine_revocation_lists_free(lists) }
    var end = Int64.max
    for index in 0..<max(0, unsafe lupine_revocation_lists_count(lists)) {
      guard let list = unsafe lupine_revocation_lists_at(lists, index),
        let nextUpdate = unsafe X509_CRL_get0_nextUpdate(list)
      else { continue }
      let endOfList = unsafe CertificateReader.seconds(nextUpdate)
      if endOfList > now { end = min(end, endOfList) }
    }
    return end
  }

  static func hostProblem(leaf: OpaquePointer, host: ServerName) -> TrustProblem? {
    let names = unsafe CertificateReader.names(leaf)
    if names.contains(where: host.matches) { return nil }
    return .hostMismatch(host: host.host, names: names.prefix(16).map(\.readable))
  }

  /// Whether a pin is among the keys that count. The server has proved that it holds the key of the leaf. OpenSSL picks issuers by name and goes on after
  /// every error, so that of a path that is not valid the keys above count only as far as signatures of authorities lead up to them.
  ///
  /// - Parameters:
  ///   - isValid: the path leads to an anchor.
  ///   - isSound: nothing is wrong with it but that it does not, with the time, and that nobody knows whether it was revoked.
  private static func pinProblem(
    chain: OpaquePointer?, pins: Set<[UInt8]>, isValid: Bool, isSound: Bool
  ) -> TrustProblem? {
    var found: [[UInt8]] = []
    var isProved = true
    var below: OpaquePointer?
    for index in 0..<max(0, unsafe lupine_certificates_count(chain)) {
      guard let certificate = unsafe lupine_certificates_at(chain, index) else { continue }
      if let signed = unsafe below, !isValid { isProved = unsafe isProved && isSound && signs(certificate, signed) }
      unsafe below = certificate
      let digest = unsafe CertificateReader.publicKeyDigest(certificate)
      if isProved, pins.contains(digest) { return nil }
      found.append(digest)
    }
    return .pinMismatch(found: found)
  }

  /// Whether a certificate is that of an authority whose key has signed another one.
  private static func signs(_ authority: OpaquePointer, _ certificate: OpaquePointer) -> Bool {
    guard unsafe X509_check_ca(authority) > 0, let key = unsafe X509_get0_pubkey(authority) else { return false }
    return unsafe X509_verify(certificate, key) == 1
  }

  /// Whether an error says no more than that the path leads to no anchor, is not of this time, or has no list that tells whether it was revoked.
  private static func lacksTrustAlone(_ code: Int32) -> Bool {
    switch problem(for: code) {
    case .unknownIssuer, .selfSigned, .expired, .notYetValid, .revocationUnknown: true
    default: false
    }
  }

  static func problem(for code: Int32) -> TrustProblem {
    switch code {
    case X509_V_ERR_CERT_HAS_EXPIRED: .expired
    case X509_V_ERR_CERT_NOT_YET_VALID: .notYetValid
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT: .selfSigned
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT,
      X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE,
      X509_V_ERR_CERT_UNTRUSTED, X509_V_ERR_CERT_REJECTED, X509_V_ERR_SUBJECT_ISSUER_MISMATCH,
      X509_V_ERR_AKID_SKID_MISMATCH, X509_V_ERR_AKID_ISSUER_SERIAL_MISMATCH:
      .unknownIssuer
    case X509_V_ERR_CERT_SIGNATURE_FAILURE, X509_V_ERR_UNABLE_TO_DECRYPT_CERT_SIGNATURE: .badSignature
    case X509_V_ERR_INVALID_CA, X509_V_ERR_INVALID_NON_CA, X509_V_ERR_PATH_LENGTH_EXCEEDED,
      X509_V_ERR_KEYUSAGE_NO_CERTSIGN:
      .invalidAuthority
    case X509_V_ERR_INVALID_PURPOSE: .wrongPurpose
    case X509_V_ERR_EE_KEY_TOO_SMALL, X509_V_ERR_CA_KEY_TOO_SMALL, X509_V_ERR_CA_MD_TOO_WEAK: .weak
    case X509_V_ERR_PERMITTED_VIOLATION, X509_V_ERR_EXCLUDED_VIOLATION, X509_V_ERR_SUBTREE_MINMAX,
      X509_V_ERR_UNSUPPORTED_CONSTRAINT_TYPE, X509_V_ERR_UNSUPPORTED_CONSTRAINT_SYNTAX,
      X509_V_ERR_UNSUPPORTED_NAME_SYNTAX:
      .nameConstraintViolated
    case X509_V_ERR_CERT_REVOKED: .revoked
    case X509_V_ERR_UNABLE_TO_GET_CRL, X509_V_ERR_CRL_NOT_YET_VALID, X509_V_ERR_CRL_HAS_EXPIRED,
      X509_V_ERR_UNABLE_TO_DECRYPT_CRL_SIGNATURE, X509_V_ERR_CRL_SIGNATURE_FAILURE,
      X509_V_ERR_ERROR_IN_CRL_LAST_UPDATE_FIELD, X509_V_ERR_ERROR_IN_CRL_NEXT_UPDATE_FIELD,
      X509_V_ERR_UNABLE_TO_GET_CRL_ISSUER, X509_V_ERR_KEYUSAGE_NO_CRL_SIGN, X509_V_ERR_DIFFERENT_CRL_SCOPE,
      X509_V_ERR_CRL_PATH_VALIDATION_ERROR, X509_V_ERR_UNHANDLED_CRITICAL_CRL_EXTENSION:
      .revocationUnknown
    case X509_V_ERR_CERT_CHAIN_TOO_LONG: .chainTooLong(limit: Int(maximumDepth))
    case X509_V_ERR_ERROR_IN_CERT_NOT_BEFORE_FIELD, X509_V_ERR_ERROR_IN_CERT_NOT_AFTER_FIELD,
      X509_V_ERR_UNHANDLED_CRITICAL_EXTENSION, X509_V_ERR_INVALID_EXTENSION,
      X509_V_ERR_UNABLE_TO_DECODE_ISSUER_PUBLIC_KEY:
      .malformed
    default: .other(code: code)
    }
  }

  /// OpenSSL turns this into the alert for the peer.
  static func code(for problem: TrustProblem?) -> Int32 {
    switch problem {
    case nil: X509_V_OK
    case .expired: X509_V_ERR_CERT_HAS_EXPIRED
    case .notYetValid: X509_V_ERR_CERT_NOT_YET_VALID
    case .selfSigned: X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT
    case .unknownIssuer: X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY
    case .badSignature: X509_V_ERR_CERT_SIGNATURE_FAILURE
    case .invalidAuthority: X509_V_ERR_INVALID_CA
    case .wrongPurpose: X509_V_ERR_INVALID_PURPOSE
    case .weak: X509_V_ERR_EE_KEY_TOO_SMALL
    case .nameConstraintViolated: X509_V_ERR_PERMITTED_VIOLATION
    case .revoked: X509_V_ERR_CERT_REVOKED
    case .revocationUnknown: X509_V_ERR_UNABLE_TO_GET_CRL
    case .chainTooLong: X509_V_ERR_CERT_CHAIN_TOO_LONG
    case .hostMismatch: X509_V_ERR_HOSTNAME_MISMATCH
    case .pinMismatch, .missing, .rejected: X509_V_ERR_CERT_REJECTED
    case .malformed: X509_V_ERR_INVALID_EXTENSION
    case .other(let code): code
    }
  }
}

extension PresentedName {
  /// For people: escaped, and cut to a bearable length.
  var readable: String {
    switch self {
    case .dns(let bytes):
      bytes.prefix(253).map { byte in
        (0x21...0x7E).contains(byte) && byte != UInt8(ascii: "\\")
          ? String(Unicode.Scalar(byte)) : "\\x" + String(byte, radix: 16)
      }.joined()
    case .address(let bytes) where bytes.count == 4:
      bytes.map { String($0) }.joined(separator: ".")
    case .address(let bytes):
      stride(from: 0, to: bytes.count, by: 2).prefix(8).map { index in
        String(bytes[index..<min(index + 2, bytes.count)].reduce(0) { $0 << 8 | Int($1) }, radix: 16)
      }.joined(separator: ":")
    }
  }
}

/// Verifies a server's chain against `anchors`, outside of any connection.
///
/// - Parameters:
///   - chain: DER, leaf first.
///   - anchors: certificates to trust; any of them ends the path, also one that is no root.
///   - additional: DER certificates that are trusted beside `anchors`.
///   - host: nil: no host check.
///   - now: seconds since 1970; nil: the system's clock.
/// - Throws: `TLSError` when the anchors cannot be loaded or memory is short. A bad chain is a report, not an error.
package func verify(
  chain: [[UInt8]], anchors: TLSPolicy.Roots, additional: [[UInt8]] = [], host: ServerName?, now: Int64? = nil
) throws(TLSError) -> TrustReport {
  OpenSSLLibrary.start()
  let roots = try RootStore.make(anchors, additional: additional)
  var report = TrustReport(isVerified: true)
  report.chainSent = chain
  guard !chain.isEmpty else {
    report.path = .missing
    return report
  }
  let certificates = chain.compactMap(Certificate.init(der:))
  guard certificates.count == chain.count else {
    report.path = .malformed
    return report
  }
  guard let stack = unsafe lupine_certificates_new(), let store = unsafe X509_STORE_CTX_new() else {
    throw .internalFailure("X509_STORE_CTX_new")
  }
  defer {
    unsafe X509_STORE_CTX_free(store)
    unsafe lupine_certificates_free(stack)
  }
  for certificate in certificates {
    unsafe X509_up_ref(certificate.pointer)
    unsafe lupine_certificates_push(stack, certificate.pointer)
  }
  guard unsafe X509_STORE_CTX_init(store, roots.pointer, certificates[0].pointer, stack) == 1,
    unsafe X509_STORE_CTX_set_default(store, "ssl_server") == 1
  else { throw .internalFailure("X509_STORE_CTX_init") }
  let parameters = unsafe X509_STORE_CTX_get0_param(store)
  unsafe X509_VERIFY_PARAM_set_auth_level(parameters, TLSContext.securityLevel)
  unsafe X509_VERIFY_PARAM_set_flags(parameters, UInt(X509_V_FLAG_PARTIAL_CHAIN))
  if let now { unsafe X509_VERIFY_PARAM_set_time(parameters, Int(now)) }
  report = unsafe Verifier.verify(store, host: host, pins: [], wantsChains: true)
  report.chainSent = chain
  return report
}
