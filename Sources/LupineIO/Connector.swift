package import LupineBase

/// A socket that has just connected, watched already.
package struct ConnectedSocket: ~Copyable {
  private let descriptor: Descriptor
  /// Give it to the new owner with `LoopContext.transfer`, or end it with `deregister`.
  package let registration: Registration
  /// What epoll has reported so far besides `writable`: pass it to `transfer`, because it will not come again.
  package let seen: Readiness
  package let remote: SocketAddress
  package let local: SocketAddress?

  init(
    descriptor: consuming Descriptor, registration: Registration, seen: Readiness, remote: SocketAddress,
    local: SocketAddress?
  ) {
    self.descriptor = descriptor
    self.registration = registration
    self.seen = seen
    self.remote = remote
    self.local = local
  }

  /// The socket itself.
  package consuming func takeDescriptor() -> Descriptor { descriptor }
}

/// Why no connection was made.
package struct ConnectError: Error, Hashable, Sendable {
  package enum Reason: Hashable, Sendable {
    /// There was no address to try.
    case noAddress
    /// Every address failed.
    case exhausted
    /// The deadline passed first.
    case deadlinePassed
  }

  package var reason: Reason
  /// Every address that was tried, in the order of failing; those cut off by the deadline come last.
  package var attempts: [HappyEyeballs.Failure]

  /// Whether no network leads to any of the addresses.
  package var isUnreachable: Bool { !attempts.isEmpty && attempts.allSatisfy(Self.isUnreachable) }

  /// EADDRNOTAVAIL says so of IPv6, where there is no address to send from; of IPv4, that all ports to that address are in use.
  private static func isUnreachable(_ attempt: HappyEyeballs.Failure) -> Bool {
    switch attempt.error {
    case .unreachable: true
    case .addressNotAvailable: !attempt.error.hasNoSource || attempt.address.family == .v6
    default: false
    }
  }

  /// Whether no attempt had an address to connect from. Of sockets that are bound to one, it is that one which the machine lacks.
  package var lacksLocalAddress: Bool {
    !attempts.isEmpty && attempts.allSatisfy { if case .addressNotAvailable = $0.error { true } else { false } }
  }

  /// Whether this process or the system had no descriptor left for one of them.
  package var lacksDescriptors: Bool {
    attempts.contains { if case .descriptorLimit = $0.error { true } else { false } }
  }

  /// The error that says most: of the first attempt that got any further than "no route".
  package var cause: IOError {
    let telling = attempts.first {
      !Self.isUnreachable($0)
    }
    return (telling ?? attempts.first)?.error
      ?? (reason == .deadlinePassed ? .deadlinePassed : .addressNotAvailable(code: 0))
  }
}

/// How a `Connector` ended.
package enum ConnectOutcome: ~Copyable {
  case connected(ConnectedSocket)
  case failed(ConnectError)
}

/// Races addresses as `HappyEyeballs` decides, until one connects. Lives on a loop; used once.
///
/// `start` may call the completion before it returns. It is called exactly once, or never after `cancel`. Whoever lets go of a connector
/// that has not ended cancels it first.
package final class Connector: TimerHandler {
  private let context: LoopContext
  private let options: SocketOptions
  private var race: HappyEyeballs
  private var attempts: [Int: Attempt] = [:]
  private var timer: TimerIdentifier?
  private var completion: ((consuming ConnectOutcome) -> Void)?

  package init(
    _ context: LoopContext, to addresses: [SocketAddress], options: SocketOptions = SocketOptions(),
    settings: HappyEyeballs.Settings = HappyEyeballs.Settings(), deadline: Instant,
    completion: @escaping (consuming ConnectOutcome) -> Void
  ) {
    self.context = context
    self.options = options
    self.completion = completion
    race = HappyEyeballs(addresses, settings: settings, now: context.now, deadline: deadline)
  }

  /// Starts the race.
  package func start() {
    advance(context.now)
  }

  /// Closes everything; the completion is not called any more.
  package func cancel() {
    completion = nil
    close()
  }

  package func timerFired(_ identifier: TimerIdentifier) {
    timer = nil
    advance(context.now)
  }

  private func advance(_ now: Instant) {
    while completion != nil {
      switch race.next(now) {
      case .attempt(let index): begin(index, now)
      case .abandon(let index): attempts.removeValue(forKey: index)?.close(context)
      case .wait(let instant): return wait(until: instant)
      case .exhausted:
        return finish(
          .failed(ConnectError(reason: race.addresses.isEmpty ? .noAddress : .exhausted, attempts: race.failures)))
      case .deadlinePassed:
        let cut = race.unfinished.map { HappyEyeballs.Failure(address: $0, error: .deadlinePassed) }
        return finish(.failed(ConnectError(reason: .deadlinePassed, attempts: race.failures + cut)))
      case .won(let index): return win(index)
      }
    }
  }

  private func begin(_ index: Int, _ now: Instant) {
    let address = race.addresses[index]
    do throws(IOError) {
      let started = try context.startConnecting(to: address, options)
      let result = started.result
      if result == .backlogFull { return race.busy(index, now: now) }
      let attempt = Attempt(self, index)
      try attempt.watch(started.takeDescriptor(), context)
      attempts[index] = attempt
      if result == .connected { connected(index, now) }
    } catch {
      race.failed(index, error, now: now)
    }
  }

  /// The kernel has decided about an attempt.
  fileprivate func decided(_ index: Int, _ error: IOError?) {
    if let error {
      attempts.removeValue(forKey: index)?.close(context)
      race.failed(index, error, now: context.now)
    } else {
      connected(index, context.now)
    }
    advance(context.now)
  }

  /// A socket that the kernel gave the very port that it was to connect to may have connected to itself, and nobody listens there then.
  private func connected(_ index: Int, _ now: Instant) {
    guard attempts[index]?.hasMetItself(at: race.addresses[index]) == true else { return race.connected(index) }
    attempts.removeValue(forKey: index)?.close(context)
    race.failed(index, .refused, now: now)
  }

  private func win(_ index: Int) {
    guard let socket = attempts.removeValue(forKey: index)?.take(race.addresses[index]) else { return }
    finish(.connected(socket))
  }

  private func wait(until instant: Instant) {
    if let timer, context.reschedule(timer, at: instant) { return }
    timer = instant == .distantFuture ? nil : context.schedule(at: instant, self)
  }

  private func finish(_ outcome: consuming ConnectOutcome) {
    let completion = completion
    self.completion = nil
    close()
    completion?(outcome)
  }

  private func close() {
    if let timer { context.cancel(timer) }
    timer = nil
    let open = attempts
    attempts = [:]
    for attempt in open.values { attempt.close(context) }
  }
}

/// One socket on its way.
private final class Attempt: ReadinessHandler {
  private weak let connector: Connector?
  private let index: Int
  private var descriptor: Descriptor?
  private var registration: Registration?
  private var seen: Readiness = []
  private var boundTo: SocketAddress?

  init(_ connector: Connector, _ index: Int) {
    self.connector = connector
    self.index = index
  }

  func watch(_ socket: consuming Descriptor, _ context: LoopContext) throws(IOError) {
    registration = try context.register(socket, self)
    descriptor = consume socket
  }

  func ready(_ readiness: Readiness) {
    seen.formUnion(readiness)
    guard !readiness.isDisjoint(with: [.writable, .error, .hangUp]) else { return }
    var error: IOError?
    switch descriptor {
    // A socket that may only be written to has connected: an error would have been reported with it.
    case .some where readiness.isDisjoint(with: [.error, .hangUp]): break
    case .some(let socket): error = SystemCalls.pendingError(socket)
    case .none: return
    }
    connector?.decided(index, error)
  }

  func close(_ context: LoopContext) {
    if let registration { context.deregister(registration) }
    registration = nil
    descriptor = nil
  }

  /// The address of this end, once it is connected.
  var local: SocketAddress? {
    if let boundTo { return boundTo }
    switch descriptor {
    case .some(let socket): boundTo = SystemCalls.localAddress(socket)
    case .none: break
    }
    return boundTo
  }

  /// Whether this end is the other one too.
  ///
  /// The address that was asked for does not tell, as it need not be the peer's name: 0.0.0.0 and :: lead to this machine, and ::1 has no scope. But its
  /// port is the peer's, and hardly ever this end's: only then is the system asked.
  func hasMetItself(at asked: SocketAddress) -> Bool {
    guard let port = asked.port, let local, local.port == port else { return false }
    return isPeer(local)
  }

  @inline(never)
  private func isPeer(_ address: SocketAddress) -> Bool {
    switch descriptor {
    case .some(let socket): return SystemCalls.peerAddress(socket) == address
    case .none: return false
    }
  }

  func take(_ remote: SocketAddress) -> ConnectedSocket? {
    let local = local
    guard let registration, let socket = descriptor.take() else { return nil }
    self.registration = nil
    return ConnectedSocket(
      descriptor: socket, registration: registration, seen: seen.subtracting(.writable), remote: remote, local: local)
  }
}
