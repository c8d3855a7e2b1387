internal import LupineBase
internal import LupineIO
internal import LupineRules
internal import LupineTLS

/// The steps between a socket that leads to a proxy and a connection that leads to the origin: TLS with the proxy, then SOCKS or CONNECT, as
/// `OpeningStep.chain` says. Drives the pure machines; the connection knows nothing of them. Lives on the loop.
///
///     waiting (for the socket) -> securing? -> asking? -> done      the connection takes the socket over
///     asking -> waiting                                             407, and the proxy closes: once more from the socket on; or SOCKS does
///                                                                   not get to one address of the origin, and there is another
///     every state -> ended                                          failed, cancelled, past the one deadline for all of it or a lookup's
///
/// Invariants: after every question the proxy's answer ends exactly with what was read, because what it says unasked belongs to nobody; not
/// a byte of the origin's TLS or request leaves before the last step.
final class ProxyHandshake: ReadinessHandler, TimerHandler {
  private let link: ConnectionLink
  private weak var opener: ConnectionOpener?
  private let core: EngineCore
  private let route: ProxyRoute
  private let steps: [OpeningStep]
  private var index = 0

  private(set) var socket: Socket?
  private(set) var registration: Registration?
  private(set) var tls: TLSConnection?
  private(set) var remote: SocketAddress?
  private(set) var local: SocketAddress?
  /// What the socket has reported and nobody has acted upon.
  private(set) var seen: Readiness = []

  private var canRead = false
  private var canWrite = true
  private var output = ByteQueue()
  private var timer: TimerIdentifier?
  private var lookup: ResolveToken?
  /// How long the lookup may take, which ends before or after what the proxy has time for.
  private var lookupLimit: (timer: TimerIdentifier, deadline: Instant)?

  private var isEnded = false
  /// The proxy's TLS waits for its context.
  private var isHeld = false
  private var isSecuring = false
  private var socks: SOCKS5Machine?
  /// Addresses of the origin that the proxy was not asked for yet.
  private var targets: ArraySlice<SOCKS5Target> = []
  /// The proxy does not get to one, and is to be asked for the next on another connection: it closes this one (RFC 1928 section 6).
  private var asksNext = false
  private var tunnel: Tunnel?
  private var isEstablished = false
  /// The proxy is to be asked this on another connection.
  private var reconnect: [UInt8]?
  /// To be sent on the connection that is being made for it.
  private var again: [UInt8]?

  /// A box, because a machine that cannot be copied is asked through an optional.
  private final class Tunnel {
    var machine: ConnectTunnel

    init(_ machine: consuming ConnectTunnel) { self.machine = machine }
  }

  private var context: LoopContext { core.context }
  private var connection: Connection? { link.connection }

  init(_ route: ProxyRoute, steps: [OpeningStep], link: ConnectionLink, opener: ConnectionOpener, core: EngineCore) {
    self.route = route
    self.steps = steps
    self.link = link
    self.opener = opener
    self.core = core
  }

  /// Stops; the connection hears nothing more.
  func cancel() {
    guard !isEnded else { return }
    isEnded = true
    disarm()
    drop()
  }

  private func drop() {
    lookup?.cancel()
    endLookup()
    if let registration { context.deregister(registration) }
    registration = nil
    socket = nil
    tls = nil
  }

  private func fail(_ failure: ProxyFailure) {
    end(with: .proxy(failure))
  }

  private func end(with error: EngineError, _ phase: TransferPhase = .proxy) {
    guard !isEnded else { return }
    // A session that the proxy was offered may be the reason.
    if isSecuring { try? tls?.endOfInput() }
    // Cancels this on its way.
    connection?.openFailed(error, phase)
    cancel()
  }

  func timerFired(_ identifier: TimerIdentifier) {
    if identifier == timer { timer = nil }
    // Where both pass at once, as by default, it was the lookup that took the time.
    let phase = lookupLimit.map { $0.deadline <= context.now } ?? false ? TransferPhase.resolve : .proxy
    end(with: .deadline(phase), phase)
  }

  private func disarm() {
    if let timer { context.cancel(timer) }
    timer = nil
  }

  // MARK: Steps

  /// The socket leads to the proxy.
  func connected(_ connected: consuming ConnectedSocket) {
    guard !isEnded, let connection else {
      context.deregister(connected.registration)
      return
    }
    if connection.opening.proxyStart == nil {
      connection.opening.connectEnd = context.now
      connection.opening.proxyStart = context.now
      if let limit = connection.pool.configuration.proxyNanoseconds {
        timer = context.schedule(at: context.now.advanced(byNanoseconds: limit), self)
      }
    }
    remote = connected.remote
    local = connected.local
    seen = connected.seen
    canRead = false
    canWrite = true
    output = ByteQueue()
    registration = connected.registration
    context.transfer(connected.registration, to: self, readiness: connected.seen)
    socket = Socket(connected.takeDescriptor())
    index = 0
    advance()
  }

  private func advance() {
    guard !isEnded, let connection else { return }
    guard index < steps.count else {
      isEnded = true
      disarm()
      connection.opening.proxyEnd = context.now
      connection.reached(self, canRead: canRead)
      return
    }
    switch steps[index] {
    case .proxyTLS(let serverName, let port): secure(serverName, port)
    case .socks5(let host, let port, let resolves, let address):
      startSOCKS(host, port, resolves: resolves, address, connection)
    case .tunnel(let authority): startTunnel(authority, connection)
    case .resolve, .connect, .tls: preconditionFailure("no step of a proxy")
    }
  }

  private func secure(_ serverName: String, _ port: UInt16) {
    guard let policy = route.tls else { preconditionFailure("a proxy over TLS has a policy") }
    isHeld = true
    core.tlsContext(for: policy) { [weak self] result in
      guard let self, self.isHeld, !self.isEnded, let connection = self.connection else { return }
      self.isHeld = false
      do throws(TLSError) {
        let tls = try self.core.proxyTLSConnection(
          try result.get(), serverName: serverName, port: port, self.route, of: connection.key.identity)
        self.tls = tls
        self.isSecuring = true
        _ = try tls.handshake()
        self.flush()
        if self.canRead, let registration = self.registration { self.context.requeue(registration) }
      } catch {
        self.fail(.tls(error))
      }
    }
  }

  // MARK: SOCKS

  private func startSOCKS(
    _ host: String, _ port: UInt16, resolves: Bool, _ address: SocketAddress?, _ connection: Connection
  ) {
    if let target = targets.popFirst() { return startSOCKS(target, port) }
    // An address is no name, wherever names are resolved.
    if let address = address ?? SocketAddress(literal: host, port: port), let target = SOCKS5Target(address) {
      return startSOCKS(target, address.port ?? port)
    }
    guard resolves else { return startSOCKS(.name(host), port) }
    let resolver = connection.pool.resolver
    if let answer = resolver.immediateAnswer(host: host, port: port) { return resolved(answer, port) }
    if let limit = connection.pool.configuration.resolveNanoseconds {
      let deadline = context.now.advanced(byNanoseconds: limit)
      lookupLimit = (context.schedule(at: deadline, self), deadline)
    }
    let confined = LoopConfined(self)
    let loop = context.loop
    lookup = resolver.resolve(host: host, port: port) { answer in
      loop.submit { confined.onLoop.resolved(answer, port) }
    }
  }

  private func endLookup() {
    lookup = nil
    if let lookupLimit { context.cancel(lookupLimit.timer) }
    lookupLimit = nil
  }

  private func resolved(_ answer: Result<[SocketAddress], ResolveError>, _ port: UInt16) {
    guard !isEnded else { return }
    endLookup()
    switch answer {
    case .success(let addresses):
      // In the order in which they would be tried without a proxy.
      targets = HappyEyeballs.interleaved(addresses).compactMap { SOCKS5Target($0) }[...]
      guard let target = targets.popFirst() else { return fail(.target(.notFound)) }
      startSOCKS(target, port)
    case .failure(let error): fail(.target(error))
    }
  }

  private func startSOCKS(_ target: SOCKS5Target, _ port: UInt16) {
    do throws(SOCKS5Error) {
      let machine = try SOCKS5Machine(target, port: port, secret: route.credentials?.secret)
      socks = machine
      send(machine.greeting)
    } catch {
      fail(.socks(error))
    }
  }

  // MARK: CONNECT

  private func startTunnel(_ authority: String, _ connection: Connection) {
    if let head = again {
      again = nil
      return send(head)
    }
    let pool = connection.pool
    let tunnel = Tunnel(
      ConnectTunnel(
        authority: authority, fields: route.connectFields.map { ($0.name, $0.value) },
        authentication: pool.proxies.authentication(for: route), limits: pool.configuration.wireLimits,
        leniency: pool.configuration.leniency, discardLimit: pool.configuration.drainedBytes))
    self.tunnel = tunnel
    do throws(TunnelError) {
      send(try tunnel.machine.request())
    } catch {
      fail(.tunnel(error))
    }
  }

  private func connectAgain(_ head: [UInt8]) {
    reconnect = nil
    again = head
    startOver()
  }

  private func startOver() {
    drop()
    opener?.connectAgain()
  }

  // MARK: Reading

  func ready(_ readiness: Readiness) {
    seen.formUnion(readiness)
    if readiness.isWritable { canWrite = true }
    if readiness.isReadable || readiness.isEnding { canRead = true }
    flush()
    read()
  }

  private func read() {
    var reads = 0
    while canRead, !isEnded, !isHeld, let socket {
      // TLS passes over HelloRequests without end while it shakes hands: who sends them as fast as they are read keeps nobody from his turn, nor the
      // deadline from passing.
      guard reads < Connection.readsPerTurn else {
        if let registration { context.requeue(registration) }
        return
      }
      reads += 1
      do throws(IOError) {
        switch try context.read(socket.descriptor) {
        case .bytes(let count):
          if count < LoopContext.readBufferSize, !seen.readsFallShort { canRead = false }
          receive(context.bytes)
        case .wouldBlock: canRead = false
        case .end:
          canRead = false
          closed()
        }
      } catch {
        canRead = false
        if tunnel?.machine.mayBeGone == true { closed() } else { fail(.io(error)) }
      }
    }
  }

  private func receive(_ bytes: Span<UInt8>) {
    connection?.openingMovedAt = context.now
    if let tls {
      do throws(TLSError) {
        let result = try tls.receive(bytes) { plaintext in take(plaintext) }
        guard !isEnded else { return }
        flush()
        if isSecuring, result == .open || result == .closedByPeer {
          isSecuring = false
          index += 1
          advance()
        }
        if result == .closedByPeer, !isEnded, !isEstablished, reconnect == nil { closed() }
      } catch {
        flush()
        fail(.tls(error))
      }
    } else {
      take(bytes)
    }
    guard !isEnded else { return }
    if isEstablished {
      isEstablished = false
      index += 1
      advance()
    } else if let head = reconnect {
      connectAgain(head)
    } else if asksNext {
      asksNext = false
      startOver()
    }
  }

  /// Looks at what the proxy says. Whatever follows from it that changes the connection is left to `receive`.
  private func take(_ bytes: Span<UInt8>) {
    // TLS hands a long answer out in pieces: of one that is given up with its connection the rest is nobody's.
    guard !isEnded, reconnect == nil, bytes.count > 0 else { return }
    guard !isSecuring, !isEstablished else { return fail(.unsolicitedBytes) }
    var offset = 0
    if socks != nil {
      takeSOCKS(bytes, &offset)
    } else if let tunnel {
      takeTunnel(bytes, &offset, tunnel)
    } else {
      return fail(.unsolicitedBytes)
    }
    // Whoever answers more than was asked is not to be trusted with where answers end.
    if !isEnded, reconnect == nil, !asksNext, offset < bytes.count { fail(.unsolicitedBytes) }
  }

  private func takeSOCKS(_ bytes: Span<UInt8>, _ offset: inout Int) {
    do throws(SOCKS5Error) {
      switch try socks?.receive(bytes, &offset) {
      case .needMore, nil: break
      case .send(let message): send(message)
      case .established: isEstablished = true
      }
    } catch {
      guard case .refused(let reply) = error, reply != .commandNotSupported, !targets.isEmpty else {
        return fail(.socks(error))
      }
      asksNext = true
    }
  }

  private func takeTunnel(_ bytes: Span<UInt8>, _ offset: inout Int, _ tunnel: Tunnel) {
    do throws(TunnelError) {
      follow(try tunnel.machine.receive(bytes, &offset), tunnel)
    } catch {
      // What was accepted once is wrong now. Any other refusal is about the origin.
      if case .refused(let refusal) = error, refusal.status == 407 { connection?.pool.proxies.forget(route) }
      fail(.tunnel(error))
    }
  }

  private func follow(_ step: ConnectTunnel.Step, _ tunnel: Tunnel) {
    switch step {
    case .needMore: break
    case .send(let head): send(head)
    case .reconnect(let head): reconnect = head
    case .established:
      if let answer = tunnel.machine.accepted {
        connection?.pool.proxies.accepted(answer, nextNonce: tunnel.machine.nextNonce, route)
      }
      isEstablished = true
    }
  }

  private func closed() {
    guard let tunnel, !isSecuring else { return fail(isSecuring ? .tls(.truncated) : .closed) }
    do throws(TunnelError) {
      if case .reconnect(let head) = try tunnel.machine.finish() { connectAgain(head) }
    } catch {
      fail(.tunnel(error))
    }
  }

  // MARK: Writing

  private func send(_ bytes: [UInt8]) {
    if let tls {
      do throws(TLSError) {
        try tls.send(bytes.span)
      } catch {
        return fail(.tls(error))
      }
    } else {
      output.append(bytes)
    }
    flush()
  }

  private func flush() {
    guard let socket, canWrite else { return }
    do throws(IOError) {
      if let tls {
        while tls.hasOutput, canWrite {
          switch try Connection.send(outputOf: tls, to: socket) {
          case .bytes: break
          case .wouldBlock: canWrite = false
          }
        }
      }
      while !output.isEmpty, canWrite {
        switch try SystemCalls.send(socket.descriptor, output.span) {
        case .bytes(let count): output.consume(count)
        case .wouldBlock: canWrite = false
        }
      }
    } catch {
      // It may have said why before it hung up: what it said is read, then its end.
      canWrite = false
      seen.insert(.hangUp)
      if let registration { context.requeue(registration, .hangUp) }
    }
  }
}

extension SOCKS5Target {
  /// Nil for Unix-domain sockets.
  init?(_ address: SocketAddress) {
    switch address {
    case .v4(let address, _): self = .address(InternetAddress(v4: address.bits))
    case .v6(let address, _, _): self = .address(InternetAddress(v6: address.high, address.low))
    case .unix, .abstract: return nil
    }
  }
}
