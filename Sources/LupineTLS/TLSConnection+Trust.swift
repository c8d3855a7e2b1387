internal import CLupineOpenSSL

extension TLSConnection {
  /// Ends a pending decision; then call `handshake()` or `receive` to go on.
  ///
  /// - Throws: `.notNow` unless the decision is pending, or the reason of an earlier failure.
  package func resolveTrust(_ decision: TrustDecision) throws(TLSError) {
    if case .failed(let error) = state { throw error }
    guard state == .trustPending, self.decision == nil else { throw .notNow }
    self.decision = decision
  }

  /// Called by OpenSSL within the handshake. Returns 1 to go on, 0 to refuse.
  func judge(_ store: OpaquePointer) -> Int32 {
    if let decision { return unsafe conclude(decision, store) }
    let report = unsafe evaluate(store)
    trustReport = report
    if options?.sessions != nil {
      verdictEnd = now + TLSSessionCache.verdictSeconds
      // Now: when a decision has been waited for, the path is no longer there. Without verification nothing rests on the certificates.
      if report.isVerified { verdictEnd = min(verdictEnd, unsafe Verifier.end(store, now: now)) }
    }
    guard options?.trustEvaluation == .deferred else {
      return unsafe conclude(report.verdict.map(TrustDecision.reject) ?? .accept, store)
    }
    guard unsafe lupine_ssl_set_retry_verify(ssl) == 1 else { return 0 }
    return 1
  }

  private func conclude(_ decision: TrustDecision, _ store: OpaquePointer) -> Int32 {
    switch decision {
    case .accept:
      unsafe X509_STORE_CTX_set_error(store, X509_V_OK)
      return 1
    case .reject(let problem):
      trustProblem = problem
      unsafe X509_STORE_CTX_set_error(store, Verifier.code(for: problem))
      return 0
    }
  }

  private func evaluate(_ store: OpaquePointer) -> TrustReport {
    let policy = context.policy
    let isDeferred = options?.trustEvaluation == .deferred
    guard policy.verification == .full else { return unsafe unverifiedReport(store, wantsChains: isDeferred) }
    let sent = unsafe lupine_certificates_count(X509_STORE_CTX_get0_untrusted(store))
    // The leaf, the intermediates, a root. More would only be work for us.
    guard sent <= Verifier.maximumDepth + 2 else {
      // Whoever goes on in spite of it is told of the leaf what there is to know.
      var report = TrustReport(isVerified: true)
      report.path = .chainTooLong(limit: Int(Verifier.maximumDepth))
      if let leaf = unsafe X509_STORE_CTX_get0_cert(store) {
        if let host = options?.serverName { report.host = unsafe Verifier.hostProblem(leaf: leaf, host: host) }
        if isDeferred { report.chainSent = [unsafe CertificateReader.der(leaf)] }
      }
      report.pins = unsafe leafPinProblem(store)
      // What could not be read of the leaf is no failure of the handshake, which goes on if somebody wants it to.
      OpenSSLError.clear()
      return report
    }
    return unsafe Verifier.verify(
      store, host: options?.serverName, pins: policy.pins, wantsChains: isDeferred)
  }

  /// Without verification nothing vouches for the rest of the chain, so a pin must be the leaf's.
  private func unverifiedReport(_ store: OpaquePointer, wantsChains: Bool) -> TrustReport {
    var report = TrustReport(isVerified: false)
    if wantsChains { report.chainSent = unsafe CertificateReader.der(of: X509_STORE_CTX_get0_untrusted(store)) }
    report.pins = unsafe leafPinProblem(store)
    return report
  }

  /// Of what is sent above it nothing was looked at.
  private func leafPinProblem(_ store: OpaquePointer) -> TrustProblem? {
    guard !context.policy.pins.isEmpty else { return nil }
    guard let leaf = unsafe X509_STORE_CTX_get0_cert(store) else { return .missing }
    let digest = unsafe CertificateReader.publicKeyDigest(leaf)
    return context.policy.pins.contains(digest) ? nil : .pinMismatch(found: [digest])
  }

  /// Called by OpenSSL with a session to keep.
  ///
  /// The cache gets a copy: OpenSSL goes on writing to its own, and marks it as spoilt if the connection is freed without
  /// `close_notify`, as a dropped connection is.
  func keep(_ session: OpaquePointer) {
    guard let sessions = options?.sessions, let key = sessionKey, unsafe SSL_SESSION_is_resumable(session) == 1,
      let verdict
    else { return }
    let now = self.now
    let expires = min(now + Int64(unsafe SSL_SESSION_get_timeout(session)), verdict.end)
    guard expires > now, let copy = unsafe SSL_SESSION_dup(session) else { return }
    let ticket = unsafe TLSSessionCache.Ticket(
      taking: copy, report: verdict.report, expires: expires, verdictEnd: verdict.end,
      cost: cost(of: copy, verdict.report))
    sessions.insert(ticket, for: key)
  }

  /// About how many bytes a session keeps, of which tickets of one connection share the chain: certificates as OpenSSL has them take about three times
  /// what they have in DER.
  private func cost(of session: OpaquePointer, _ report: TrustReport) -> Int {
    var ticketLength = 0
    unsafe SSL_SESSION_get0_ticket(session, nil, &ticketLength)
    var chainLength = 0
    let chain = unsafe SSL_get_peer_cert_chain(ssl)
    for index in 0..<max(0, unsafe lupine_certificates_count(chain)) {
      chainLength += Int(max(0, unsafe i2d_X509(lupine_certificates_at(chain, index), nil)))
    }
    let reported = (report.chainSent + report.chainBuilt).reduce(0) { $0 + $1.count }
    return 512 + ticketLength + 3 * chainLength + reported
  }

  /// What a ticket carries over; while a handshake goes on that resumes one, what that carries.
  private var verdict: (report: TrustReport, end: Int64)? {
    if let trustReport { return (trustReport, verdictEnd) }
    guard unsafe SSL_session_reused(ssl) == 1, let resumable else { return nil }
    return (resumable.report, resumable.verdictEnd)
  }
}
