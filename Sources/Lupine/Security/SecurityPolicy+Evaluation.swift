public import LupineSession

extension SecurityPolicy {
  /// What a policy says of a server.
  public struct Verdict: Sendable, Hashable {
    /// The host; nil if none was given.
    public let host: String?
    /// Why the server is refused; nil: it is trusted.
    public let error: SecurityPolicyError?
    /// The keys of the chain that was looked at, the server's own first.
    public let foundPins: [PublicKeyPin]
    /// Those of them that are pinned. Under `.certificate` the keys of the pinned certificates that were found.
    public let matchedPins: Set<PublicKeyPin>
    /// Whether only a backup pin was found: the keys in use have changed.
    public let isBackup: Bool
    /// Whether the verdict is only told.
    public let isReportOnly: Bool

    /// Whether the server is trusted.
    public var isAccepted: Bool { error == nil }
  }

  /// Judges what a server has shown, by the table above.
  ///
  /// - Parameters:
  ///   - trust: of a `ConnectionChallenge`, or of a chain at hand.
  ///   - domain: the host that was asked for; it chooses among host policies. Nil: no name is looked at.
  ///
  /// Any thread. Source: `-evaluateServerTrust:forDomain:`.
  public func evaluate(_ trust: ServerTrust, forDomain domain: String?) -> Verdict {
    policy(forHost: domain).judge(trust, domain)
  }

  /// The steps of AFNetworking's rule, in its order.
  private func judge(_ trust: ServerTrust, _ domain: String?) -> Verdict {
    // A session that does not verify servers has looked at nothing.
    let checked = trust.isVerified ? trust : trust.evaluate(host: domain)
    let found = checked.publicKeyHashes.compactMap { PublicKeyPin(sha256: $0) }
    func refuse(_ reason: SecurityPolicyError.Reason, _ message: String) -> Verdict {
      let error = SecurityPolicyError(
        reason, message: message, host: domain ?? "the server", foundPins: found.map(\.description))
      return Verdict(
        host: domain, error: error, foundPins: found, matchedPins: [], isBackup: false, isReportOnly: isReportOnly)
    }
    func accept(_ matched: Set<PublicKeyPin> = []) -> Verdict {
      Verdict(
        host: domain, error: nil, foundPins: found, matchedPins: matched,
        isBackup: !matched.isEmpty && matched.isSubset(of: backupPins), isReportOnly: isReportOnly)
    }

    if let problem = trust.pinProblem {
      return refuse(.pinMismatch, "the pins of the session's configuration refuse it: \(problem)")
    }
    if domain != nil, namesMeanNothing { return refuse(.domainNeedsPins, Self.adviceOnNames) }
    let name = validatesDomainName ? domain : nil
    let problem = problem(of: checked, name: name)
    if !allowInvalidCertificates, let problem { return refuse(problem.reason, problem.message) }
    switch pinningMode {
    case .none: return accept()
    case .certificate:
      let anchored = trust.evaluate(anchors: .certificates(pinnedAnchors), host: name)
      if let problem = self.problem(of: anchored, name: name) {
        // Whoever is no descendant of a pin is not pinned; whoever is can still be expired or somebody else.
        let isForeign = problem.reason == .untrustedChain
        return refuse(
          isForeign ? .pinMismatch : problem.reason, "with the pinned certificates as anchors: \(problem.message)")
      }
      let matched = anchored.builtChain.filter(pinnedCertificates.contains)
      guard !matched.isEmpty else { return refuse(.pinMismatch, "no certificate of its path is pinned") }
      return accept(Set(matched.compactMap { PublicKeyPin(certificate: $0) }))
    case .publicKey:
      if let name, let problem = hostProblem(of: checked, name: name) { return refuse(.hostMismatch, problem) }
      let matched = matchedKeys(checked)
      guard !matched.isEmpty else { return refuse(.pinMismatch, "none of its public keys is pinned") }
      return accept(matched)
    }
  }

  private func problem(
    of trust: ServerTrust, name: String?
  ) -> (reason: SecurityPolicyError.Reason, message: String)? {
    if let problem = trust.pathProblem { return (.untrustedChain, "its certificate is not trusted: \(problem)") }
    if let problem = trust.dateProblem { return (.invalidDate, "its certificate is not valid now: \(problem)") }
    if let name, let problem = hostProblem(of: trust, name: name) { return (.hostMismatch, problem) }
    return nil
  }

  /// The session has asked about its own host already; another one has to be asked about.
  private func hostProblem(of trust: ServerTrust, name: String) -> String? {
    let asked = trust.host == name ? trust : trust.evaluate(host: name)
    return asked.hostProblem.map { "its certificate is not for this host: \($0)" }
  }

  /// The pinned keys of the path. The server has proved that it holds its own key. Of a path that is not valid, nothing is proved of the
  /// others until the signatures have been followed up to them.
  private func matchedKeys(_ trust: ServerTrust) -> Set<PublicKeyPin> {
    let chain = trust.builtChain.isEmpty ? trust.certificateChain : trust.builtChain
    var matched: Set<PublicKeyPin> = []
    for (index, certificate) in chain.enumerated() {
      guard let key = PublicKeyPin(certificate: certificate), acceptedKeys.contains(key) else { continue }
      let isProved =
        index == 0 || (trust.isVerified && trust.pathProblem == nil)
        || trust.evaluate(anchors: .certificates([certificate]), host: nil).pathProblem == nil
      if isProved { matched.insert(key) }
    }
    return matched
  }
}
