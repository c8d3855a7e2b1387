internal import LupineBase
internal import LupineIO
internal import LupineTLS
internal import LupineWire

/// One connection to one origin: drives socket, TLS, parser and exchange machine, and holds no decision of its own.
///
/// States, and their legal successors:
///
///     opening -> handshaking | idle | closed      resolving and connecting
///     handshaking -> idle | closed                TLS
///     idle -> busy | closed                       in the pool, watched
///     busy -> ending | closed                     an exchange is under way
///     ending -> idle | closed                     its response is complete, what was read with it is still being looked at
///
/// Invariant: a connection goes back to the pool only when everything that was read has been looked at, so that bytes which
/// nobody asked for can never become the next response (response queue poisoning).
final class Connection: ReadinessHandler, TimerHandler {
  enum State { case opening, handshaking, idle, busy, ending, closed }

  typealias Identifier = PoolMachine<PoolKey, Transfer>.ConnectionIdentifier

  let pool: EnginePool
  let context: LoopContext
  let identifier: Identifier
  let key: PoolKey

  var state = State.opening
  var opener: ConnectionOpener?
  /// For what opens it; nil when that is over.
  private var link: ConnectionLink?
  var socket: Socket?
  var registration: Registration?
  var tls: TLSConnection?
  /// The TLS of a proxy around that of the origin; nil wherever there is one of them at most.
  var outerTLS: TLSConnection?
  let parser: Exclusive<ResponseParser>
  var information: ConnectionInformation?
  var opening = OpeningTimes() {
    didSet { openingMovedAt = context.now }
  }
  var remoteAddress: SocketAddress?
  var localAddress: SocketAddress?

  // Reading.
  var canRead = false
  var hangUpSeen = false
  /// A read that gives less than it may has drained the socket; not behind a hang-up, nor where there was urgent data.
  var shortReadDrains = true
  /// The last response was small, so that the next one may be: see `mayBeReadAhead`.
  var isSmallLikely = true
  /// The handshake waits for something of ours: nothing is read meanwhile.
  var isHandshakeHeld = false
  /// The handshake is over, and its secrets are being written: see `waits(for:)`.
  var keyLogWait: KeyLog.WaiterToken?
  var isWaitingForKeyLog: Bool { keyLogWait != nil }
  /// See `updateGathering`.
  var isGathering = false
  /// While `isGathering`. Not the last activity, which is also what is sent.
  var lastReadAt = Instant(nanoseconds: 0)
  /// When ciphertext came.
  var lastCiphertextAt = Instant(nanoseconds: 0)
  /// It waits for a decision of the pool's decider.
  var isAskingForTrust = false
  /// When the opening last came further: a step, an answer about trust, or bytes of a proxy. See `lastCiphertextAt` for those of TLS.
  var openingMovedAt = Instant(nanoseconds: 0)
  var deadlineOfHandshake = Instant.distantFuture
  /// What was left of the handshake's time when the question was asked.
  var handshakeTimeLeft: Int64?
  /// When the connection became idle.
  var idleSince = Instant(nanoseconds: 0)
  /// How often the loop had asked epoll then.
  private(set) var idlePoll: UInt64 = 0
  /// The peer may have closed it before a request came: it has served another one, or waited for its first.
  var hasIdled = false
  /// How long a connection is idle before it gives its buffers back: long enough for none to be freed between two requests.
  static let parkNanoseconds: Int64 = 1_000_000_000

  /// When the peer, which said for how long it waits, is about to close the connection that has been idle since then.
  var departure: (idleSince: Instant, at: Instant)?

  /// How often its opening has begun: more than once where it found no descriptor.
  var openings = 1
  /// Its opening began once more because the one before ended while its secrets were being written.
  var isReopenedForKeyLog = false

  /// The reader paused in the middle of what was read: the rest waits here, unparsed, and after it perhaps the end.
  var isParsingHeld = false
  var unparsed = ByteQueue()
  /// The peer has closed its side, cleanly or not.
  var heldEnd: Bool?
  /// TLS has failed, of the origin or of the proxy.
  var heldFailure: TLSError?

  // The exchange under way.
  var transfer: Transfer?
  var exchange = ExchangeMachine(hasBody: false, expectsContinue: false)
  var wasReused = false
  var wroteAnything = false
  var verdict = ReuseVerdict.reusable
  var served = 0
  /// It takes no further request: what it was trusted by is to be forgotten, or the request under way says `close`.
  var isRetired = false

  // Writing.
  let output = Exclusive(ByteQueue())
  var canWrite = true
  /// How often the socket was reported writable.
  var writableEdges: UInt64 = 0
  var body = BodyCursor.none
  /// Of a body of several pieces: which comes after the one that `body` is in.
  var nextSegment = 0
  /// A write failed; an early response may explain why, and is read first.
  var writeError: IOError?

  // One timer a connection, armed lazily: moving a deadline to later costs nothing.
  private var timer: TimerIdentifier?
  private var timerAt = Instant.distantFuture

  init(pool: EnginePool, context: LoopContext, identifier: Identifier, key: PoolKey) {
    self.pool = pool
    self.context = context
    self.identifier = identifier
    self.key = key
    parser = Exclusive(
      ResponseParser(limits: pool.configuration.wireLimits, leniency: pool.configuration.leniency))
  }

  /// The way back for something that opens the connection, and may be called when the connection has ended.
  func linked() -> ConnectionLink {
    if let link { return link }
    let link = ConnectionLink(self)
    self.link = link
    return link
  }

  private func unlink() {
    link?.cut()
    link = nil
  }

  // MARK: Opening

  /// The socket is connected: go on to TLS, or serve.
  func connected(_ connected: consuming ConnectedSocket) {
    guard state == .opening else {
      context.deregister(connected.registration)
      return
    }
    opener = nil
    opening.connectEnd = context.now
    remoteAddress = connected.remote
    localAddress = connected.local
    registration = connected.registration
    if connected.seen.readsFallShort { note(connected.seen) }
    let mayBeUnasked = connected.seen.isReadable
    context.transfer(connected.registration, to: self, readiness: connected.seen)
    let socket = Socket(connected.takeDescriptor())
    self.socket = socket
    guard let policy = key.identity.tls else {
      // A server that speaks before it is asked, whether its end is there already or not: its words would be taken for the answer to the first request.
      if mayBeUnasked, case .bytes? = try? SystemCalls.peek(socket.descriptor) {
        return openFailed(.unsolicitedBytes, .connect)
      }
      opened()
      return
    }
    startTLS(policy)
  }

  func startTLS(_ policy: TLSPolicy) {
    state = .handshaking
    opening.tlsStart = context.now
    armHandshake(for: pool.configuration.tlsNanoseconds)
    isHandshakeHeld = true
    let link = linked()
    pool.core.tlsContext(for: policy) { result in link.connection?.startTLS(with: result) }
  }

  /// Gives the handshake so long from now on; nil is unlimited.
  func armHandshake(for limit: Int64?) {
    disarm()
    deadlineOfHandshake = limit.map { context.now.advanced(byNanoseconds: $0) } ?? .distantFuture
    arm(at: deadlineOfHandshake)
  }

  private func startTLS(with result: Result<TLSContext, TLSError>) {
    guard state == .handshaking else { return }
    do throws(TLSError) {
      let tls = try pool.tlsConnection(try result.get(), key.identity)
      self.tls = tls
      isHandshakeHeld = false
      let step = try tls.handshake()
      // What came meanwhile, the end included, has not been looked at.
      if canRead, let registration { context.requeue(registration) }
      guard flushTLS() else { return }
      if step == .done { handshakeDone() }
    } catch {
      openFailed(.tls(error), .tls)
    }
  }

  /// TLS is up.
  func handshakeDone() {
    // Within a proxy's TLS more than one piece may come while it waits.
    guard !isWaitingForKeyLog else { return }
    opening.tlsEnd = context.now
    if let tls, let log = tls.context.keyLog, !tls.hasLostSecrets, waits(for: log) { return }
    opened()
  }

  func opened() {
    state = .idle
    disarm()
    unlink()
    information = currentInformation
    pool.connectionOpened(self)
    // Not in its stage: it goes in one piece with the end of the handshake, which waits for it.
    sendStagedHead()
    // Nobody waited for it any more.
    if state == .idle { idled() }
  }

  private func idled() {
    hasIdled = true
    idleSince = context.now
    arm(at: idleSince.advanced(byNanoseconds: Self.parkNanoseconds))
  }

  /// What is known of the connection now.
  var currentInformation: ConnectionInformation {
    // Of a proxy's TLS nothing is said of the origin, and during a handshake nothing is agreed.
    let origin = key.identity.tls == nil || state == .handshaking ? nil : tls
    let agreed = origin?.info
    return ConnectionInformation(
      remoteAddress: remoteAddress?.description,
      localAddress: localAddress?.description,
      tlsVersion: agreed?.version.map { $0 == .tls13 ? "TLSv1.3" : "TLSv1.2" }, tlsCipher: agreed?.cipher,
      tlsResumed: agreed?.isResumed ?? false, peerCertificates: origin?.peerChain ?? [], opening: opening,
      isProxied: isProxied)
  }

  /// Which step of the opening is under way; nil: it is over.
  var openingPhase: TransferPhase? {
    switch state {
    case .opening:
      opening.proxyStart != nil ? .proxy : opening.connectStart == nil ? .resolve : .connect
    // Whoever decides about trust may be a person, and takes the time that the decision has; a file takes its own.
    case .handshaking: isAskingForTrust || isWaitingForKeyLog ? nil : .tls
    case .idle, .busy, .ending, .closed: nil
    }
  }

  /// A session that was offered may be why the server hung up, or says nothing; it is no reason for what went wrong here or at a proxy.
  func refuseUnansweredSession() {
    if state == .handshaking { try? tls?.endOfInput() }
  }

  /// The connection could not be made.
  func openFailed(_ error: EngineError, _ phase: TransferPhase) {
    guard state == .opening || state == .handshaking else { return }
    switch error {
    case .tls(.truncated), .deadline, .io(.reset), .io(.brokenPipe): refuseUnansweredSession()
    default: break
    }
    dismantle()
    pool.connectionOpenFailed(self, error, phase)
  }

  // MARK: Exchanges

  /// Begins an exchange. The pool has leased this connection to `transfer`.
  func begin(_ transfer: Transfer) {
    precondition(state == .idle, "an exchange began on a connection that was not idle")
    let now = context.now
    state = .busy
    self.transfer = transfer
    transfer.state = .attached(self)
    transfer.attempts += 1
    wasReused = served > 0
    served += 1
    if transfer.request.closesConnection { isRetired = true }
    wroteAnything = false
    writeError = nil
    verdict = .reusable
    exchange = ExchangeMachine(hasBody: transfer.hasBody, expectsContinue: transfer.expectsContinue)
    parser.value.begin(transfer.request.context)
    transfer.record.assignedAt = now
    transfer.record.reusedConnection = wasReused
    transfer.connection = information
    transfer.clock.lastActivityAt = now
    pool.core.stages.sendHead(self)
  }

  /// Sends the head of the exchange that has begun, unless that has been given up since.
  func sendStagedHead() {
    guard let transfer, state == .busy, exchange.sending == .head else { return }
    let now = context.now
    transfer.record.sendStart = now
    transfer.clock.sendStartedAt = now
    sendHead(transfer)
    armForTransfer()
  }

  /// The response is complete, and all that was read with it has been looked at.
  func finishExchange() {
    guard let transfer, state == .ending else { return }
    self.transfer = nil
    stopBody()
    let now = context.now
    isSmallLikely = transfer.record.responseBytes <= Int64(LoopContext.readAheadSize)
    var failure: TransferFailure?
    do throws(EngineError) {
      try transfer.finishBody()
    } catch {
      failure = TransferFailure(error: error, phase: .receive, requestBytesSent: true)
    }
    let again = failure == nil && mayResend(transfer)
    if verdict == .reusable, exchange.leavesConnectionClean, failure == nil, hasNothingToSend, !isRetired,
      hasNoPartOfARecord
    {
      state = .idle
      idled()
      // What was read with the end of the exchange was all there was.
      idlePoll = context.polls
      pool.connectionReleased(self)
    } else {
      close(.notReusable)
    }
    if again {
      pool.resend(transfer)
    } else if failure == nil {
      pool.core.stages.end(transfer, in: context)
    } else {
      transfer.end(failure, now: now)
    }
  }

  /// The exchange cannot go on: the connection is closed, and the transfer is sent again or fails.
  func fail(_ error: EngineError, _ phase: TransferPhase? = nil) {
    guard let transfer else {
      if state == .handshaking || state == .opening { openFailed(error, phase ?? .tls) } else { close(.failed) }
      return
    }
    self.transfer = nil
    stopBody()
    let failedPhase = phase ?? currentPhase(of: transfer)
    let wrote = wroteAnything
    close(.failed)
    if mayResend(transfer), !error.isDeadline {
      // The answer was read as far as it matters: how its unwanted body ends changes nothing.
      pool.resend(transfer)
      return
    }
    if transfer.isOfNoInterest { return transfer.end(nil, now: context.now) }
    pool.attemptFailed(
      transfer, TransferFailure(error: error, phase: failedPhase, requestBytesSent: wrote),
      mayHaveDied: hasIdled)
  }

  /// 417 refused the expectation, and the whole body is to be had; or a proxy wants to know who is asking.
  private func mayResend(_ transfer: Transfer) -> Bool {
    switch transfer.resend {
    case nil: false
    case .withoutExpectation: !transfer.isBodySpent
    case .toProxy: true
    }
  }

  private func currentPhase(of transfer: Transfer) -> TransferPhase {
    if transfer.receivedAnything { return .receive }
    switch exchange.sending {
    case .head, .body: return .send
    case .awaitingContinue: return .awaitContinue
    // Written down is not sent, whoever has stopped the body since.
    case .done, .stopped: return transfer.record.sendEnd == nil ? .send : .firstByte
    }
  }

  /// The caller gave up.
  func cancelExchange(_ failure: TransferFailure) {
    guard let transfer else { return }
    self.transfer = nil
    stopBody()
    close(.failed)
    transfer.end(failure, now: context.now)
  }

  // MARK: Closing

  /// Ends the connection in whatever state it is, and tells the pool.
  func close(_ reason: ConnectionCloseReason) {
    guard state != .closed else { return }
    dismantle()
    pool.connectionClosed(self, reason)
  }

  /// Ends the connection without telling the pool, which knows.
  func dismantle() {
    guard state != .closed else { return }
    let mayNotify = state == .idle || state == .busy || state == .ending
    state = .closed
    disarm()
    opener?.cancel()
    opener = nil
    unlink()
    if isAskingForTrust { pool.trustDesk?.forget(self) }
    if isWaitingForKeyLog { giveUpKeyLogWait() }
    if outerTLS != nil {
      if mayNotify, output.value.isEmpty { notifyNested() }
    } else if let tls, mayNotify, let socket, output.value.isEmpty {
      // Best effort: a peer that is told of the end can free its session; nobody waits for the outcome.
      tls.close()
      tls.drainOutput { bytes in
        _ = try? SystemCalls.send(socket.descriptor, bytes)
        return 0
      }
    }
    tls = nil
    outerTLS = nil
    if let registration { context.deregister(registration) }
    registration = nil
    socket = nil
    body.abandon()
    body = .none
  }

  // MARK: Time

  /// Makes sure that the timer fires no later than the transfer's next deadline.
  func armForTransfer() {
    guard let transfer else { return }
    arm(at: transfer.clock.nextInPlace().at)
  }

  func arm(at deadline: Instant) {
    guard deadline < timerAt || timer == nil, deadline != .distantFuture else { return }
    if let timer, context.reschedule(timer, at: deadline) {
      timerAt = deadline
      return
    }
    timer = context.schedule(at: deadline, self)
    timerAt = deadline
  }

  private func disarm() {
    if let timer { context.cancel(timer) }
    timer = nil
    timerAt = .distantFuture
  }

  func timerFired(_ identifier: TimerIdentifier) {
    timer = nil
    timerAt = .distantFuture
    if state == .handshaking {
      if isWaitingForKeyLog { keyLogTimedOut() } else { openFailed(.deadline(.tls), .tls) }
      return
    }
    if state == .idle { park() }
    guard let transfer, state == .busy else { return }
    if isGathering { checkGathering() }
    // Told when it may matter, instead of with every record.
    transfer.clock.lastCiphertextAt = lastCiphertextAt
    let (deadline, phase) = transfer.clock.next
    guard deadline <= context.now else {
      arm(at: deadline)
      return
    }
    if transfer.clock.discardUntil.map({ $0 <= context.now }) ?? false {
      abandonDiscarded()
    } else if phase == .awaitContinue {
      transfer.clock.awaitingContinueSince = nil
      if exchange.continueTimedOut() == .startBody { startBody() }
      armForTransfer()
    } else {
      // The idle deadline passes in whatever phase is under way.
      let missed = phase == .receive ? currentPhase(of: transfer) : phase
      // A write that failed while the socket stayed open says more than the silence after it.
      let error = isWaitingForBody ? EngineError.bodyDeadline(DeadlineLimit(phase)) : .deadline(missed)
      fail(writeError.map { .io($0) } ?? error, missed)
    }
  }

  /// An unwanted body is too long or too slow: the transfer ends as if it had been read, the connection does not go on.
  func abandonDiscarded() {
    guard let transfer else { return }
    self.transfer = nil
    stopBody()
    close(.notReusable)
    if mayResend(transfer) {
      pool.resend(transfer)
    } else {
      transfer.end(nil, now: context.now)
    }
  }
}
