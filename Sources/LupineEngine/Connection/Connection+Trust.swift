internal import LupineBase
internal import LupineIO
internal import LupineTLS

/// A handshake that stops for a decision. While it does, it is not driven: nothing is read and nothing is sent. The decision has a
/// deadline of its own, and the time of the handshake stands still meanwhile.
extension Connection {
  /// The server's certificates are there.
  func askTrust() {
    // Within a proxy's TLS more than one piece may come while it waits.
    guard !isAskingForTrust, let tls, let report = tls.trustReport, let desk = pool.trustDesk else { return }
    hold()
    desk.askTrust(for: self, report)
  }

  /// The server wants to see a certificate.
  func askIdentity() {
    guard !isAskingForTrust, let tls, let desk = pool.trustDesk else { return }
    hold()
    desk.askIdentity(for: self, authorities: tls.acceptableAuthorities)
  }

  private func hold() {
    isHandshakeHeld = true
    isAskingForTrust = true
    handshakeTimeLeft = deadlineOfHandshake.nanoseconds(since: context.now)
    armHandshake(for: pool.configuration.trustNanoseconds)
  }

  func trustDecided(_ decision: TrustDecision) {
    goOn { (tls) throws(TLSError) in try tls.resolveTrust(decision) }
  }

  func identityChosen(_ choice: Result<TLSIdentityChoice, TLSError>) {
    goOn { (tls) throws(TLSError) in try tls.resolveIdentity(try choice.get()) }
  }

  private func goOn(_ resolve: (TLSConnection) throws(TLSError) -> Void) {
    guard state == .handshaking, isAskingForTrust, let tls else { return }
    isHandshakeHeld = false
    isAskingForTrust = false
    openingMovedAt = context.now
    armHandshake(for: handshakeTimeLeft)
    do throws(TLSError) {
      try resolve(tls)
    } catch {
      openFailed(.tls(error), .tls)
      return
    }
    // What was kept meanwhile is looked at now, what came to the socket in the next turn.
    if canRead, let registration { context.requeue(registration) }
    receive(ciphertext: Span(), tls)
  }
}
