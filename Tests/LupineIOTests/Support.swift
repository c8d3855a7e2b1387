import CLupineLinux
import LupineBase
import Testing

@testable import LupineIO

/// A blocking listener on loopback, or at a Unix address, for the other end of a test.
final class Listener: Sendable {
  let socket: Descriptor
  let address: SocketAddress

  init(_ wanted: SocketAddress = .v4(.loopback, port: 0), backlog: Int32 = 16) throws {
    socket = Descriptor(
      adopting: CLupineLinux.socket(wanted.systemFamily, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0))
    try SystemCalls.bind(socket, to: wanted)
    let code = listen(socket.number, backlog)
    let bound = SystemCalls.localAddress(socket)
    address = try #require(code == 0 ? bound : nil)
  }

  /// Waits for a client. The accepted socket blocks.
  func accept() throws -> Descriptor {
    let number = accept4(socket.number, nil, nil, Int32(SOCK_CLOEXEC.rawValue))
    try #require(number >= 0)
    return Descriptor(adopting: number)
  }
}

/// An address of this machine at which nobody listens. Not one that others listen at or connect from: they might be given the port by then.
func refusingAddress() throws -> SocketAddress {
  try Listener(.v4(IPv4Address(bits: 0x7F01_0000 | UInt32.random(in: 0...0xFFFF)), port: 0)).address
}

/// Counts what has happened, and lets one thread wait until it has happened often enough.
final class Signal: Sendable {
  private let event: Descriptor

  init() {
    let number = eventfd(0, Int32(EFD_CLOEXEC | EFD_SEMAPHORE))
    event = Descriptor(adopting: number)
  }

  func raise() { SystemCalls.signal(event) }

  /// Waits for one `raise`; false after a minute.
  func wait() -> Bool {
    SystemCalls.waitReadable(event, milliseconds: 60_000) && SystemCalls.take(event)
  }
}

/// A handler made of a closure.
final class Handler: ReadinessHandler {
  var body: (Readiness) -> Void

  init(_ body: @escaping (Readiness) -> Void = { _ in }) { self.body = body }

  func ready(_ readiness: Readiness) { body(readiness) }
}

final class Alarm: TimerHandler {
  let body: (TimerIdentifier) -> Void

  init(_ body: @escaping (TimerIdentifier) -> Void) { self.body = body }

  func timerFired(_ identifier: TimerIdentifier) { body(identifier) }
}

/// A handler that owns what it watches.
final class Owner: ReadinessHandler {
  private let socket: Descriptor

  init(adopting number: Int32) { socket = Descriptor(adopting: number) }

  func ready(_ readiness: Readiness) {}
}

/// A handler that does something when it is let go.
final class Farewell: ReadinessHandler, TimerHandler {
  private let body: () -> Void

  init(_ body: @escaping () -> Void) { self.body = body }

  deinit { body() }

  func ready(_ readiness: Readiness) {}

  func timerFired(_ identifier: TimerIdentifier) {}
}

/// Runs `body` with a context on the thread of a loop of its own, then turns until `stop`, and waits for the end.
func onLoop(_ body: @escaping @Sendable (LoopContext) -> Void) throws {
  let loop = try EventLoop(name: "test")
  try loop.start {
    do {
      let context = try LoopContext(of: loop)
      body(context)
      context.run()
    } catch {
      Issue.record(error)
    }
  }
  loop.join()
}

/// A loop that turns on its thread, after `prepare`, until it is stopped.
func startedLoop(
  sharesProcessor: Bool = false, _ prepare: @escaping @Sendable (LoopContext) throws -> Void = { _ in }
) throws -> EventLoop {
  let loop = try EventLoop(name: "started")
  try loop.start {
    do {
      let context = try LoopContext(of: loop)
      try prepare(context)
      context.run(sharesProcessor: sharesProcessor)
    } catch {
      Issue.record(error)
    }
  }
  return loop
}

/// A pair of connected nonblocking sockets, as numbers.
func socketPair() throws -> (Int32, Int32) {
  var pair: (Int32, Int32) = (-1, -1)
  let code = unsafe withUnsafeMutablePointer(to: &pair) { pointer in
    unsafe pointer.withMemoryRebound(to: Int32.self, capacity: 2) {
      unsafe socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0, $0)
    }
  }
  try #require(code == 0)
  return pair
}

/// The bytes of a span, copied.
func copy(_ span: Span<UInt8>) -> [UInt8] {
  var bytes: [UInt8] = []
  for index in span.indices { bytes.append(span[index]) }
  return bytes
}

/// Reads one byte, waiting for it.
func recvByte(_ number: Int32, _ byte: UnsafeMutablePointer<UInt8>) -> Int {
  unsafe recv(number, byte, 1, 0)
}

/// Lends a descriptor that somebody else closes.
func withDescriptor<Value>(
  _ number: Int32, _ body: (borrowing Descriptor) throws(IOError) -> Value
) throws(IOError) -> Value {
  let descriptor = Descriptor(adopting: number)
  do throws(IOError) {
    let value = try body(descriptor)
    _ = descriptor.release()
    return value
  } catch {
    _ = descriptor.release()
    throw error
  }
}

func register(
  _ context: LoopContext, _ number: Int32, _ handler: any ReadinessHandler
) throws(IOError) -> Registration {
  try withDescriptor(number) { descriptor throws(IOError) in try context.register(descriptor, handler) }
}

@discardableResult
func send(_ number: Int32, _ bytes: [UInt8]) throws(IOError) -> WriteResult {
  try withDescriptor(number) { descriptor throws(IOError) in try SystemCalls.send(descriptor, bytes.span) }
}

/// Closes a connection in a way that the peer sees as a reset.
func reset(_ socket: consuming Descriptor) {
  var option = linger(l_onoff: 1, l_linger: 0)
  _ = unsafe setsockopt(socket.number, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
  _ = consume socket
}

/// A path in the temporary folder that nobody uses.
func temporaryPath() -> String { "/tmp/lupine-\(getpid())-\(UInt64.random(in: 0...UInt64.max))" }
