import CLupineLinux
import Glibc
import LupineBase
import Testing

@testable import LupineIO

/// What a race came to, without the socket.
private enum Outcome: Equatable, Sendable {
  case connected(SocketAddress)
  case failed(ConnectError)
}

/// Races `addresses` on a loop of its own and closes what connects.
private func race(
  _ addresses: [SocketAddress], options: SocketOptions = SocketOptions(), milliseconds: Int64 = 10_000,
  inspect: @escaping @Sendable (borrowing Descriptor, SocketAddress?) -> Void = { _, _ in }
) throws -> Outcome? {
  let outcome = Locked<Outcome?>(nil)
  try onLoop { context in
    // The longest delay there is: no test passes because a second attempt was started by time.
    let settings = HappyEyeballs.Settings(attemptDelayNanoseconds: 2_000_000_000)
    let connector = Connector(
      context, to: addresses, options: options, settings: settings,
      deadline: context.now.advanced(byNanoseconds: milliseconds * 1_000_000)
    ) { result in
      switch consume result {
      case .connected(let socket):
        let remote = socket.remote
        let local = socket.local
        context.deregister(socket.registration)
        let descriptor = socket.takeDescriptor()
        inspect(descriptor, local)
        outcome.withLock { $0 = .connected(remote) }
      case .failed(let error): outcome.withLock { $0 = .failed(error) }
      }
      #expect(context.timerCount == 0)
      #expect(context.registrationCount == 0)
      context.loop.stop()
    }
    connector.start()
  }
  return outcome.withLock { $0 }
}

/// What failures of all addresses say together.
@Suite struct ConnectErrorTests {
  /// An IPv4 address to send from is there wherever there is a route: where the kernel finds none, all ports are in use.
  @Test func portsThatAreUsedUpAreNoMissingNetwork() {
    func isUnreachable(_ errors: [(SocketAddress, IOError)]) -> Bool {
      ConnectError(reason: .exhausted, attempts: errors.map { HappyEyeballs.Failure(address: $0, error: $1) })
        .isUnreachable
    }
    let (v4, v6) = (SocketAddress.v4(.loopback, port: 80), SocketAddress.v6(.loopback, port: 80))
    #expect(!isUnreachable([(v4, .addressNotAvailable(code: EADDRNOTAVAIL))]))
    #expect(!isUnreachable([(v6, .unreachable(code: ENETUNREACH)), (v4, .addressNotAvailable(code: EADDRNOTAVAIL))]))
    #expect(isUnreachable([(v6, .addressNotAvailable(code: EADDRNOTAVAIL)), (v4, .unreachable(code: ENETUNREACH))]))
    #expect(isUnreachable([(v4, .addressNotAvailable(code: EAFNOSUPPORT))]) && !isUnreachable([]))
  }
}

@Suite struct ConnectorTests {
  @Test func connectsOverIPv4() throws {
    let listener = try Listener()
    #expect(try race([listener.address]) == .connected(listener.address))
    _ = try listener.accept()
  }

  @Test func connectsOverIPv6WithItsScope() throws {
    let listener = try Listener(.v6(.loopback, port: 0))
    let port = try #require(listener.address.port)
    let scoped = try #require(SocketAddress(literal: "[::1%lo]", port: port))
    #expect(try race([scoped]) == .connected(scoped))
    _ = try listener.accept()
  }

  @Test func connectsToAUnixSocketByPathAndByAbstractName() throws {
    let path = "/tmp/lupine-\(getpid())-\(UInt32.random(in: 0...UInt32.max)).sock"
    defer { unsafe unlink(path) }
    for address in [SocketAddress.unix(path: path), .abstract(name: Array(path.utf8))] {
      let listener = try Listener(address)
      #expect(listener.address == address)
      #expect(try race([address]) == .connected(address))
      _ = try listener.accept()
    }
  }

  @Test func aRefusedOnlyAddressSurfacesWithItsAddress() throws {
    let address = try refusingAddress()
    let expected = ConnectError(
      reason: .exhausted, attempts: [HappyEyeballs.Failure(address: address, error: .refused)])
    #expect(try race([address]) == .failed(expected))
    #expect(expected.cause == .refused)
  }

  /// The kernel may take the very port that is to be connected to for the near end, and then connects the socket to itself.
  @Test func aSocketThatMeetsItselfWasRefused() throws {
    let address = try refusingAddress()
    let expected = ConnectError(
      reason: .exhausted, attempts: [HappyEyeballs.Failure(address: address, error: .refused)])
    #expect(try race([address], options: SocketOptions(localAddress: address)) == .failed(expected))
  }

  /// What was asked for is not what the peer is called then.
  @Test func aSocketThatMeetsItselfByAnotherNameWasRefused() throws {
    let own = try refusingAddress()
    let port = try #require(own.port)
    let portOfAny = try refusingPort()
    let portOfScoped = try refusingPort()
    let scoped = try #require(SocketAddress(literal: "[::1%lo]", port: portOfScoped))
    let cases: [(SocketAddress, SocketAddress)] = [
      (.v4(IPv4Address(0, 0, 0, 0), port: port), own),
      (.v6(IPv6Address(high: 0, low: 0), port: portOfAny), .v6(.loopback, port: portOfAny)),
      (scoped, .v6(.loopback, port: portOfScoped)),
    ]
    for (asked, local) in cases {
      let expected = ConnectError(
        reason: .exhausted, attempts: [HappyEyeballs.Failure(address: asked, error: .refused)])
      #expect(try race([asked], options: SocketOptions(localAddress: local)) == .failed(expected))
    }
  }

  @Test func aPeerMayHaveTheSamePortAtAnotherAddress() throws {
    let listener = try Listener()
    let port = try #require(listener.address.port)
    let own = SocketAddress.v4(IPv4Address(bits: 0x7F01_0000 | UInt32.random(in: 0...0xFFFF)), port: port)
    #expect(try race([listener.address], options: SocketOptions(localAddress: own)) == .connected(listener.address))
    _ = try listener.accept()
  }

  @Test func theNextAddressIsTriedAfterARefusal() throws {
    let listener = try Listener()
    // Under the attempt delay: refusals do not wait for it. Once is enough, as a busy machine may take long over anything.
    var shortest = Int64.max
    for _ in 0..<5 where shortest >= 2_000_000_000 {
      let closed = try refusingAddress()
      let started = EventLoop.monotonicNow()
      #expect(try race([.v6(.loopback, port: 1), closed, listener.address]) == .connected(listener.address))
      shortest = min(shortest, EventLoop.monotonicNow().nanoseconds(since: started))
      _ = try listener.accept()
    }
    #expect(shortest < 2_000_000_000)
  }

  @Test func everyErrorIsReportedWhenAllFail() throws {
    let first = try refusingAddress()
    let missing = SocketAddress.unix(path: "/nonexistent/lupine.sock")
    let outcome = try race([first, missing])
    #expect(
      outcome
        == .failed(
          ConnectError(
            reason: .exhausted,
            attempts: [
              HappyEyeballs.Failure(address: first, error: .refused),
              HappyEyeballs.Failure(address: missing, error: .notFound(code: ENOENT)),
            ])))
  }

  @Test func noAddressIsAnErrorOfItsOwn() throws {
    #expect(try race([]) == .failed(ConnectError(reason: .noAddress, attempts: [])))
  }

  @Test func aLinkLocalAddressWithoutScopeIsAnErrorNotATrap() throws {
    let address = try #require(SocketAddress(literal: "fe80::1", port: 80))
    guard case .failed(let error)? = try race([address]) else {
      Issue.record("connected to a link-local address without a scope")
      return
    }
    #expect(error.attempts.count == 1)
  }

  @Test func badUnixPathsAreTypedErrors() throws {
    for path in ["", String(repeating: "x", count: 108), "a\0b"] {
      let address = SocketAddress.unix(path: path)
      #expect(
        try race([address])
          == .failed(
            ConnectError(
              reason: .exhausted, attempts: [HappyEyeballs.Failure(address: address, error: .badPath)])))
    }
  }

  @Test func aFullUnixListenerIsWaitedForUntilTheDeadline() throws {
    let name = "lupine-\(getpid())-\(UInt32.random(in: 0...UInt32.max))"
    let address = SocketAddress.abstract(name: Array(name.utf8))
    let listener = try Listener(address, backlog: 0)
    // Fill the queue.
    var clients: [Int32] = []
    defer { for client in clients { close(client) } }
    while clients.count < 64 {
      let socket = try SocketOptions().makeSocket(for: address)
      let result = try SystemCalls.connect(socket, to: address)
      clients.append(socket.release())
      if result == .backlogFull { break }
    }
    let cut = HappyEyeballs.Failure(address: address, error: .deadlinePassed)
    #expect(
      try race([address], milliseconds: 20) == .failed(ConnectError(reason: .deadlinePassed, attempts: [cut])))
    // With room it connects.
    while try race([address], milliseconds: 20) != .connected(address) { _ = try listener.accept() }
  }

  @Test func socketOptionsAreSet() throws {
    let listener = try Listener()
    let options = SocketOptions(
      noDelay: true, keepAlive: SocketOptions.KeepAlive(idleSeconds: 7, intervalSeconds: 3, probes: 2),
      localAddress: .v4(IPv4Address(127, 0, 0, 9), port: 0))
    let seen = Locked<[Int32]>([])
    let local = Locked<SocketAddress?>(nil)
    let outcome = try race([listener.address], options: options) { socket, address in
      local.withLock { $0 = address }
      let number = socket.number
      seen.withLock { seen in
        seen = [
          option(number, Int32(IPPROTO_TCP), TCP_NODELAY), option(number, SOL_SOCKET, SO_KEEPALIVE),
          option(number, Int32(IPPROTO_TCP), TCP_KEEPIDLE), option(number, Int32(IPPROTO_TCP), TCP_KEEPINTVL),
          option(number, Int32(IPPROTO_TCP), TCP_KEEPCNT), fcntl(number, F_GETFD) & FD_CLOEXEC,
          fcntl(number, F_GETFL) & O_NONBLOCK,
        ]
      }
    }
    #expect(outcome == .connected(listener.address))
    #expect(seen.withLock { $0 } == [1, 1, 7, 3, 2, FD_CLOEXEC, O_NONBLOCK])
    guard case .v4(let address, let port)? = local.withLock({ $0 }) else {
      Issue.record("no local address")
      return
    }
    #expect(address == IPv4Address(127, 0, 0, 9))
    #expect(port != 0)
  }

  @Test func aLocalAddressThatIsNotOursIsAnError() throws {
    let listener = try Listener()
    let options = SocketOptions(localAddress: .v4(IPv4Address(192, 0, 2, 1), port: 0))
    let failure = HappyEyeballs.Failure(
      address: listener.address, error: .addressNotAvailable(code: EADDRNOTAVAIL))
    #expect(
      try race([listener.address], options: options)
        == .failed(ConnectError(reason: .exhausted, attempts: [failure])))
  }

  @Test func afterCancelNothingIsReportedAndNothingStaysOpen() throws {
    let name = "lupine-\(getpid())-\(UInt32.random(in: 0...UInt32.max))"
    let address = SocketAddress.abstract(name: Array(name.utf8))
    let listener = try Listener(address, backlog: 0)
    var clients: [Int32] = []
    defer { for client in clients { close(client) } }
    while clients.count < 64 {
      let socket = try SocketOptions().makeSocket(for: address)
      let result = try SystemCalls.connect(socket, to: address)
      clients.append(socket.release())
      if result == .backlogFull { break }
    }
    let calls = Locked(0)
    try onLoop { context in
      let connector = Connector(context, to: [address], deadline: .distantFuture) { _ in calls.withLock { $0 += 1 } }
      connector.start()
      #expect(context.timerCount == 1)
      connector.cancel()
      #expect(context.timerCount == 0)
      #expect(context.registrationCount == 0)
      connector.start()
      context.loop.stop()
    }
    #expect(calls.withLock { $0 } == 0)
    _ = listener
  }
}

/// A port of ::1 at which nobody listens. Not one that the system gives to whoever asks for any: others might be given it by then.
private func refusingPort() throws -> UInt16 {
  for _ in 0..<100 {
    let port = UInt16.random(in: 10_000..<30_000)
    do {
      _ = try Listener(.v6(.loopback, port: port))
      return port
    } catch IOError.addressInUse {}
  }
  throw IOError.addressInUse
}

private func option(_ number: Int32, _ level: Int32, _ name: Int32) -> Int32 {
  var value: Int32 = -1
  var length = socklen_t(MemoryLayout<Int32>.size)
  _ = unsafe getsockopt(number, level, name, &value, &length)
  return value
}
