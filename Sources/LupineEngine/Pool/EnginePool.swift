internal import LupineBase
package import LupineIO
internal import LupineTLS
package import LupineWire

/// What all connections of a pool have in common.
package struct PoolConfiguration: Sendable {
  package var limits = PoolLimits()
  package var wireLimits = WireLimits()
  package var leniency: WireLeniency = []
  /// Without a bound of the output: whoever buffers a body counts what comes of it and cancels, and one that is streamed may be of any length.
  package var decodeLimits = DecodeLimits(maximumOutput: nil)
  /// Of the bodies that a stream gives: see `BodyChannel`.
  package var lowWatermark = BodyChannel.lowWatermark
  package var highWatermark = BodyChannel.highWatermark
  /// Bytes of a body that nobody wants which are read before its connection is given up. Default 64 KiB.
  package var drainedBytes = 64 * 1024
  /// How long such a body is read. Default 50 ms.
  package var drainNanoseconds: Int64 = 50_000_000
  /// Time for a TLS handshake; nil is unlimited. Default 10 s.
  package var tlsNanoseconds: Int64? = 10_000_000_000
  /// Time for resolving a host. Default 10 s.
  package var resolveNanoseconds: Int64? = 10_000_000_000
  /// Time for establishing a connection. Default 10 s.
  package var connectNanoseconds: Int64? = 10_000_000_000
  /// Time for what a proxy is told, from its socket to the way to the origin. Default 10 s.
  package var proxyNanoseconds: Int64? = 10_000_000_000
  /// Accept that a body without a length ends with a TCP close that TLS did not announce: truncation goes unnoticed then.
  package var allowsTLSTruncation = false
  /// Keep TLS sessions, and resume them.
  package var resumesTLS = true
  /// Default nil: none.
  package var keepAlive: SocketOptions.KeepAlive?
  package var resolver: (any HostResolver)?
  /// Answers that the resolver has known for so long are not used; nil leaves their age to the resolver. Nanoseconds.
  package var maximumNameAge: Int64?
  /// Over which interface an address is reached, for requests that may not use all; nil asks the kernel.
  package var routes: (@Sendable (SocketAddress) -> NetworkInterface?)?
  /// Decides trust and identity beside the policy; keys need a trust domain of their own then. Default nil.
  package var trustDecider: (any TrustDecider)?
  /// Time for each decision of it; nil is unlimited. Default 60 s. The time for the handshake stands still meanwhile.
  package var trustNanoseconds: Int64? = 60_000_000_000

  package init() {}
}

/// The connections of one session on one engine: carries out what the pool machine decides. Lives on the loop.
package final class EnginePool {
  let configuration: PoolConfiguration
  let machine: Exclusive<PoolMachine<PoolKey, Transfer>>
  let connections = Exclusive<[Connection?]>([])
  /// Connections are closed as soon as they are idle.
  private var isDraining = false
  /// Nothing may be started any more.
  private(set) var isClosed = false
  private var expiry: TimerIdentifier?
  let core: EngineCore
  let resolver: any HostResolver
  let trustDesk: TrustDesk?
  /// What proxies accepted.
  var proxies = ProxyMemory()
  /// See `park`.
  var parked: [ObjectIdentifier: Transfer] = [:]

  init(configuration: PoolConfiguration, core: EngineCore) {
    self.configuration = configuration
    self.core = core
    let resolver = configuration.resolver ?? core.resolver
    self.resolver = configuration.maximumNameAge.map { resolver.limited(toAge: $0) } ?? resolver
    trustDesk = configuration.trustDecider.map { TrustDesk($0, core: core) }
    machine = Exclusive(PoolMachine(limits: configuration.limits))
  }

  /// What the pool has done so far.
  package var counters: PoolCounters { machine.value.counters }

  var context: LoopContext { core.context }

  /// Whether a connection idles for a transfer with this key, which is begun next: it is promised to that until it is its turn in the mailbox or among those that ends of others
  /// ask for, lest all that are begun before be told of the same one.
  func promisesIdle(_ key: PoolKey) -> Bool {
    machine.update { machine in
      let promises = machine.canPromise(key)
      if promises { machine.promise() }
      return promises
    }
  }

  /// Begins a transfer that has waited for its turn, where what was promised an idle connection comes from.
  func startInTurn(_ transfer: Transfer) {
    machine.update { $0.keepPromise() }
    start(transfer)
  }

  // MARK: Transfers

  /// Begins a transfer, now or as soon as there is a connection.
  ///
  /// - Parameter isReturning: it has been let in before, and no limit of waiting requests holds for it.
  func start(_ transfer: Transfer, isReturning: Bool = false) {
    assert(core.loop.isCurrent, "a pool was entered off its loop")
    guard case .new = transfer.state else { return }
    transfer.pool = self
    guard !isClosed else {
      end(transfer, .poolClosed, .poolWait)
      return
    }
    // Timers wait for what epoll has to say, and an answer may be quick; a time that is over before it begins has none.
    if let total = transfer.clock.limits.total, total <= 0 { return refuseLate(transfer) }
    if let target = transfer.request.forwardTarget {
      do throws(EngineError) {
        try authorize(transfer, target)
      } catch {
        end(transfer, error, .proxy)
        return
      }
    }
    if transfer.isPaused { hold(transfer) } else { acquire(transfer, isReturning: isReturning) }
  }

  /// Apart, as hardly any request is.
  @inline(never)
  private func refuseLate(_ transfer: Transfer) { end(transfer, .deadline(.total), .total) }

  /// Gives the transfer a connection, or a place in the queue for one.
  func acquire(_ transfer: Transfer, isReturning: Bool = false) {
    let now = context.now
    core.lookForSuspension(now)
    while true {
      let answer = machine.value.acquire(
        transfer.request.key, transfer, priority: transfer.request.priority, now: now, isReturning: isReturning,
        isShared: transfer.request.key.isShared, share: transfer.request.key.share
      ) { identifier, _ in
        connections.value[identifier.index]?.dismantle()
        connections.value[identifier.index] = nil
      }
      switch answer {
      case .lease(let identifier):
        guard let connection = connections.value[identifier.index] else {
          preconditionFailure("leased a connection that is gone")
        }
        guard connection.isFitForLease() else {
          connection.close(.closedByPeer)
          continue
        }
        connection.begin(transfer)
      case .wait(let token, let steps):
        transfer.state = .waiting(token)
        armWait(of: transfer)
        perform(steps)
        if steps.open == nil { renewOpening(token) }
      case .tooManyWaiters:
        end(transfer, .tooManyWaiters(limit: machine.value.limits.waiters), .poolWait)
      }
      return
    }
  }

  /// Ends a transfer from outside; nothing happens if it has ended.
  func cancel(_ transfer: Transfer, _ error: EngineError) {
    switch transfer.state {
    case .new:
      // It was to begin in this turn, and needs no connection any more.
      machine.update { $0.keepPromise() }
      end(transfer, error, .poolWait)
    case .waiting(let token):
      noteOpening(transfer, token)
      giveUp(token)
      end(transfer, error, .poolWait)
    case .parked:
      parked[ObjectIdentifier(transfer)] = nil
      end(transfer, error, .poolWait)
    case .attached(let connection):
      // Its response may be complete, and the next exchange have begun there, while its end is still to be told.
      guard connection.transfer === transfer else { return }
      connection.cancelExchange(
        TransferFailure(error: error, phase: .total, requestBytesSent: connection.wroteAnything))
    case .ended: break
    }
  }

  /// A transfer leaves the queue; the place of what was being opened for it may go to another one. False: it was in it no more.
  @discardableResult
  func giveUp(_ token: PoolMachine<PoolKey, Transfer>.WaiterToken) -> Bool {
    guard let given = machine.value.cancel(token, now: context.now) else { return false }
    perform(given.steps)
    return true
  }

  /// The same request once more, because 417 refused its expectation, or with what a proxy wants to know.
  func resend(_ transfer: Transfer) {
    transfer.dropExpectation()
    transfer.prepareForRetry(now: context.now)
    start(transfer, isReturning: true)
  }

  /// The attempt on a connection, which is closed by now, failed.
  func attemptFailed(_ transfer: Transfer, _ failure: TransferFailure, mayHaveDied: Bool) {
    let canRepeat: Bool
    switch failure.error {
    // A server may say with an alert that it is about to close, and ends by whatever it says that TLS refuses.
    case .io, .closedBeforeResponse, .tls:
      if mayHaveDied, !transfer.receivedAnything { closeSuspects(of: transfer) }
      canRepeat = transfer.mayRetry(mayHaveDied: mayHaveDied, wroteAnything: failure.requestBytesSent)
    // A router that forgot may drop what it is given without a word. It is not sent again: its time is over.
    case .deadline(.firstByte), .deadline(.send), .deadline(.awaitContinue):
      if mayHaveDied, !transfer.receivedAnything, isSilent(transfer) { closeSuspects(of: transfer) }
      canRepeat = false
    default: canRepeat = false
    }
    if canRepeat, !isClosed {
      transfer.prepareForRetry(now: context.now)
      start(transfer, isReturning: true)
    } else {
      transfer.end(failure, now: context.now)
    }
  }

  /// Whether nothing has moved for longer than a way that works is likely to take: less is a limit that was meant to be short.
  private func isSilent(_ transfer: Transfer) -> Bool {
    let movedAt = max(transfer.clock.lastActivityAt, transfer.clock.lastCiphertextAt)
    return context.now.nanoseconds(since: movedAt) >= 1_000_000_000
  }

  /// What took a connection away while it was idle, a server that ended or a router that forgot, took those that have been idle for longer: one
  /// failure speaks for all of them. What makes a server hang up is not sent over each of them either.
  private func closeSuspects(of transfer: Transfer) {
    guard let assignedAt = transfer.record.assignedAt else { return }
    while let suspect = machine.value.idle(transfer.request.key, since: assignedAt) {
      connections.value[suspect.index]?.close(.suspected)
    }
  }

  func end(_ transfer: Transfer, _ error: EngineError, _ phase: TransferPhase) {
    disarmWait(of: transfer)
    transfer.end(TransferFailure(error: error, phase: phase, requestBytesSent: false), now: context.now)
  }

  // MARK: What connections report

  func connectionOpened(_ connection: Connection) {
    perform(machine.value.opened(connection.identifier, now: context.now))
    if connection.isRetired, connection.state == .idle { connection.close(.shutdown) }
    if isDraining { closeIdle() } else { armExpiry() }
  }

  func connectionOpenFailed(_ connection: Connection, _ error: EngineError, _ phase: TransferPhase) {
    connections.value[connection.identifier.index] = nil
    if connection.isWaitingForKeyLog, reopens(connection, afterKeyLog: error) { return }
    if reopens(connection, after: error) { return }
    let failure = OpenFailure(error: error, phase: phase, information: connection.currentInformation)
    perform(machine.value.openFailed(connection.identifier, now: context.now), failure: failure)
  }

  func connectionReleased(_ connection: Connection) {
    if let steps = machine.value.release(connection.identifier, now: context.now) { perform(steps) }
    if isDraining { closeIdle() } else { armExpiry() }
  }

  func connectionClosed(_ connection: Connection, _ reason: ConnectionCloseReason) {
    connections.value[connection.identifier.index] = nil
    perform(machine.value.closed(connection.identifier, reason, now: context.now))
  }

  // MARK: Carrying out

  /// Why a connection could not be opened, and how far it came.
  struct OpenFailure {
    var error: EngineError
    var phase: TransferPhase
    var information: ConnectionInformation
  }

  func perform(_ steps: PoolMachine<PoolKey, Transfer>.Steps, failure: OpenFailure? = nil) {
    if let (identifier, _) = steps.close {
      connections.value[identifier.index]?.dismantle()
      connections.value[identifier.index] = nil
    }
    if let (identifier, key) = steps.open { open(identifier, key) }
    if let failure {
      for waiter in steps.fail {
        waiter.connection = failure.information
        end(waiter, failure.error, failure.phase)
      }
    }
    if let (identifier, transfer, _) = steps.lease {
      guard let connection = connections.value[identifier.index] else {
        preconditionFailure("leased a connection that is gone")
      }
      disarmWait(of: transfer)
      connection.begin(transfer)
    }
  }

  /// Opens a connection in the next turn: opening may fail at once, and a queue of waiters must not become a recursion.
  ///
  /// - Parameter former: whose opening this is once more.
  func open(_ identifier: Connection.Identifier, _ key: PoolKey, after former: Connection? = nil) {
    let connection = Connection(pool: self, context: context, identifier: identifier, key: key)
    if let former {
      connection.openings = former.openings
      connection.isReopenedForKeyLog = former.isReopenedForKeyLog
      connection.isRetired = former.isRetired
    }
    while connections.value.count <= identifier.index { connections.value.append(nil) }
    connections.value[identifier.index] = connection
    let opener = ConnectionOpener(connection: connection, core: core)
    connection.opener = opener
    core.later { opener.start() }
  }

  func tlsConnection(_ context: TLSContext, _ identity: ConnectionIdentity) throws(TLSError) -> TLSConnection {
    try core.tlsConnection(
      context, identity, resumes: configuration.resumesTLS, stops: trustDesk?.stops)
  }

  // MARK: Time

  private func armWait(of transfer: Transfer) {
    let limits = transfer.request.deadlines
    var waits = WaitDeadlines()
    if let total = limits.total { waits.total = transfer.clock.createdAt.advanced(byNanoseconds: total) }
    if let wait = limits.poolWait { waits.poolWait = context.now.advanced(byNanoseconds: wait) }
    if let idle = limits.idle { waits.idle = context.now.advanced(byNanoseconds: idle) }
    guard waits.next != .distantFuture else { return }
    transfer.waitTimer = context.schedule(
      at: waits.next, WaitTimer(pool: self, transfer: transfer, deadlines: waits))
  }

  /// Of a transfer that nothing is done for.
  func armTotal(of transfer: Transfer) {
    guard let total = transfer.request.deadlines.total else { return }
    let waits = WaitDeadlines(total: transfer.clock.createdAt.advanced(byNanoseconds: total))
    transfer.waitTimer = context.schedule(
      at: waits.next, WaitTimer(pool: self, transfer: transfer, deadlines: waits))
  }

  func disarmWait(of transfer: Transfer) {
    if let timer = transfer.waitTimer { context.cancel(timer) }
    transfer.waitTimer = nil
  }

  /// The idle limit counts while the transfer waits for an opening alone. Who waits behind requests that are under way waits for
  /// these, and they have idle limits of their own; `poolWait` bounds that.
  fileprivate func waitTimedOut(_ timer: WaitTimer) {
    let transfer = timer.transfer
    transfer.waitTimer = nil
    if case .parked = transfer.state {
      parked[ObjectIdentifier(transfer)] = nil
      return end(transfer, .deadline(.total), .total)
    }
    guard case .waiting(let token) = transfer.state else { return }
    var phase: TransferPhase
    if timer.deadlines.total <= context.now {
      phase = .total
    } else if timer.deadlines.poolWait <= context.now {
      phase = .poolWait
    } else {
      // A limit of nothing would be due again in every turn.
      let idle = max(transfer.request.deadlines.idle ?? .max, 1_000_000)
      let opening =
        machine.value.waitsForOpening(token)
        ? latestOpening(for: transfer.request.key) { $0.openingPhase != nil } : nil
      let end = (opening?.movedAt ?? context.now).advanced(byNanoseconds: idle)
      if end > context.now {
        timer.deadlines.idle = end
        transfer.waitTimer = context.schedule(at: timer.deadlines.next, timer)
        return
      }
      phase = opening?.connection.openingPhase ?? .poolWait
    }
    noteOpening(transfer, token)
    giveUp(token)
    end(transfer, .deadline(phase), phase)
  }

  private func armExpiry() {
    // What became idle later is due later: a timer that is armed comes in time for all of them.
    guard expiry == nil, let next = machine.update({ $0.nextExpiry }) else { return }
    expiry = context.schedule(at: next, IdleExpiry(pool: self))
  }

  fileprivate func expireIdle() {
    expiry = nil
    while let steps = machine.value.expireOne(now: context.now) { perform(steps) }
    armExpiry()
  }

  // MARK: The end

  /// Closes the pool: idle connections at once, busy ones when their exchange and whatever waits is done; tasks under way may still start
  /// transfers, for redirects. With `cancelling`, everything ends now, and nothing may be started any more.
  func close(cancelling: Bool) {
    isDraining = true
    if let expiry { context.cancel(expiry) }
    expiry = nil
    closeIdle()
    guard cancelling else { return }
    isClosed = true
    for transfer in machine.value.drainWaiters() { end(transfer, .cancelled, .poolWait) }
    for transfer in parked.values { cancel(transfer, .cancelled) }
    for connection in connections.value {
      guard let connection else { continue }
      if let transfer = connection.transfer {
        cancel(transfer, .cancelled)
      } else {
        connection.close(.shutdown)
      }
    }
  }

  /// Forgets what was decided: idle connections are closed, others when what they do or wait for is done, and the TLS sessions of
  /// `trustDomain` are not resumed any more. The caller names another domain in its keys from now on.
  func reset(forgetting trustDomain: UInt64) {
    closeIdle()
    for connection in connections.value { connection?.isRetired = true }
    core.forgetSessions(of: trustDomain)
  }

  /// Closes what has been idle while the machine was suspended, and forgets what names meant before.
  func closeOutdated() {
    configuration.resolver?.flush()
    closeIdle(.suspected)
  }

  private func closeIdle(_ reason: ConnectionCloseReason = .shutdown) {
    while closeEldestIdle(reason) {}
  }

  /// Whether there was one.
  @discardableResult
  func closeEldestIdle(_ reason: ConnectionCloseReason) -> Bool {
    guard let identifier = machine.value.anyIdle else { return false }
    connections.value[identifier.index]?.close(reason)
    return true
  }

  // MARK: For tests

  /// Connections, those being opened included.
  package var liveConnections: Int { machine.value.live }

  /// Bytes that connections keep: unsent ones of requests, and unread ones of readers that paused.
  package var keptBytes: Int {
    connections.value.reduce(0) { sum, connection in
      guard let connection else { return sum }
      return sum + connection.output.value.count + connection.unparsed.count
        + (connection.transfer?.undecodedBytes ?? 0)
    }
  }

  /// Whether nothing of the pool is left on the loop.
  package var isEmpty: Bool { machine.value.live == 0 && machine.value.waiting == 0 && parked.isEmpty }
}

/// What a waiting transfer waits for at most.
private struct WaitDeadlines {
  var total = Instant.distantFuture
  var poolWait = Instant.distantFuture
  var idle = Instant.distantFuture

  var next: Instant { min(total, poolWait, idle) }
}

private final class WaitTimer: TimerHandler {
  private let pool: EnginePool
  let transfer: Transfer
  var deadlines: WaitDeadlines

  init(pool: EnginePool, transfer: Transfer, deadlines: WaitDeadlines) {
    self.pool = pool
    self.transfer = transfer
    self.deadlines = deadlines
  }

  func timerFired(_ identifier: TimerIdentifier) {
    pool.waitTimedOut(self)
  }
}

private final class IdleExpiry: TimerHandler {
  /// Not weak: every count of references to an object that has weak ones takes the long way. Closing the pool cancels its timer.
  private let pool: EnginePool

  init(pool: EnginePool) {
    self.pool = pool
  }

  func timerFired(_ identifier: TimerIdentifier) {
    pool.expireIdle()
  }
}
