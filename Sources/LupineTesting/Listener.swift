internal import CLupineLinux
import Glibc

/// Where a loopback server listens. Ports are always chosen by the system (`bind` to port 0).
public enum LoopbackAddress: Equatable, Sendable {
  /// 127.0.0.1.
  case ipv4
  /// ::1.
  case ipv6
  /// A Unix-domain socket at this path; the file is removed at shutdown.
  case unix(String)
}

/// The descriptor of one accepted connection, as other threads may touch it: only to interrupt it.
final class ConnectionControl: Sendable {
  private let descriptor: Monitor<Int32?>

  init(_ descriptor: Int32) { self.descriptor = Monitor(descriptor) }

  /// Ends both directions, so that the connection's thread returns from whatever call it blocks in.
  func interrupt() {
    descriptor.withLock { if let descriptor = $0 { shutdown(descriptor, Int32(SHUT_RDWR)) } }
  }

  /// Closes the descriptor; later interrupts do nothing.
  func finish() {
    descriptor.withLock {
      if let descriptor = $0 { close(descriptor) }
      $0 = nil
    }
  }
}

/// One accepted connection, handed to the body that runs on its thread.
struct AcceptedConnection: Sendable {
  let descriptor: Int32
  let control: ConnectionControl
  /// Counted from 1 in the order of acceptance.
  let number: Int
  let stop: Latch
}

/// The accept loop: a bound socket, a thread that accepts, and a thread for each connection.
///
/// Invariant: every thread started is joined, by the accept loop when a later connection comes or by `shutdown()`;
/// every descriptor is closed by the thread that runs its connection.
final class Listener: Sendable {
  private struct State {
    var live: [Int: (thread: ServerThread, control: ConnectionControl)] = [:]
    var finished: [Int] = []
    var accepted = 0
    var acceptThread: ServerThread?
    var isShutDown = false
  }

  let address: LoopbackAddress
  /// 0 for a Unix socket.
  let port: UInt16
  let stop: Latch
  private let state = Monitor(State())

  /// Binds, listens and starts accepting; `body` runs once for each connection, on that connection's thread.
  init(
    _ address: LoopbackAddress, _ body: @escaping @Sendable (AcceptedConnection) -> Void
  ) throws(LoopbackError) {
    let bound = try BoundSocket.open(address)
    self.address = address
    port = bound.port
    do throws(LoopbackError) {
      stop = try Latch()
    } catch {
      close(bound.descriptor)
      throw error
    }
    let thread: ServerThread
    do throws(LoopbackError) {
      thread = try ServerThread { [state, stop] in
        Self.acceptLoop(bound.descriptor, state, stop, body)
        close(bound.descriptor)
      }
    } catch {
      close(bound.descriptor)
      throw error
    }
    state.withLock { $0.acceptThread = thread }
  }

  /// Connections accepted so far.
  var connectionCount: Int { state.withLock { $0.accepted } }

  /// Connections whose thread still runs.
  var openConnectionCount: Int { state.withLock { $0.live.count - $0.finished.count } }

  /// Waits until at least `count` connections were accepted and `open` says how many may still be open.
  func wait(accepted: Int, openAtMost: Int, seconds: Double) -> Bool {
    state.wait(seconds: seconds) {
      $0.accepted >= accepted && $0.live.count - $0.finished.count <= openAtMost ? true : nil
    } ?? false
  }

  /// Interrupts every connection that is open now.
  func interruptConnections() {
    for control in state.withLock({ $0.live.values.map { $0.control } }) { control.interrupt() }
  }

  /// Stops accepting, interrupts every connection and joins every thread. Calling it again does nothing.
  func shutdown() {
    let acceptThread: ServerThread? = state.withLock {
      guard !$0.isShutDown else { return nil }
      $0.isShutDown = true
      return $0.acceptThread
    }
    guard let acceptThread else { return }
    stop.release()
    acceptThread.join()  // no connection is added from here on
    interruptConnections()
    for thread in state.withLock({ $0.live.values.map { $0.thread } }) { thread.join() }
    state.withLock {
      $0.live = [:]
      $0.finished = []
    }
    if case .unix(let path) = address { unsafe unlink(path) }
  }

  private static func acceptLoop(
    _ descriptor: Int32, _ state: Monitor<State>, _ stop: Latch,
    _ body: @escaping @Sendable (AcceptedConnection) -> Void
  ) {
    while true {
      let ready = SystemCalls.readable([descriptor, stop.descriptor])
      if ready[1] { return }
      let accepted = accept4(descriptor, nil, nil, Int32(SOCK_CLOEXEC.rawValue))
      guard accepted >= 0 else {  // the peer gave up before we came to it, or descriptors ran out
        sched_yield()
        continue
      }
      SystemCalls.setOption(accepted, Int32(IPPROTO_TCP), TCP_NODELAY, 1)
      start(accepted, state, stop, body)
    }
  }

  private static func start(
    _ descriptor: Int32, _ state: Monitor<State>, _ stop: Latch,
    _ body: @escaping @Sendable (AcceptedConnection) -> Void
  ) {
    let control = ConnectionControl(descriptor)
    let finished = state.withLock { state in
      defer { state.finished = [] }
      return state.finished.compactMap { state.live.removeValue(forKey: $0)?.thread }
    }
    for thread in finished { thread.join() }
    // The lock is held over the start so that the thread's end finds its entry. Counted under the same lock: what has been accepted and is not
    // over is open, whoever looks.
    state.withLock { locked in
      locked.accepted += 1
      let number = locked.accepted
      let connection = AcceptedConnection(descriptor: descriptor, control: control, number: number, stop: stop)
      let thread = try? ServerThread {
        body(connection)
        control.finish()
        state.withLock { $0.finished.append(number) }
      }
      if let thread {
        locked.live[number] = (thread, control)
      } else {
        control.finish()
      }
    }
  }
}

/// Opens a bound socket of each family.
enum BoundSocket {
  /// - Parameter listens: false: it only keeps its port, for somebody who binds to it with SO_REUSEADDR as well.
  static func open(
    _ address: LoopbackAddress, listens: Bool = true
  ) throws(LoopbackError) -> (descriptor: Int32, port: UInt16) {
    let descriptor = try SocketName.socket(address)
    do throws(LoopbackError) {
      if !listens { SystemCalls.setOption(descriptor, SOL_SOCKET, SO_REUSEADDR, 1) }
      try bind(descriptor, address)
      guard !listens || listen(descriptor, 1024) == 0 else { throw .system(call: "listen", code: errno) }
      return (descriptor, port(of: descriptor, address))
    } catch {
      close(descriptor)
      throw error
    }
  }

  private static func bind(_ descriptor: Int32, _ address: LoopbackAddress) throws(LoopbackError) {
    let code = try unsafe SocketName.with(address, port: 0) { pointer, length in
      unsafe CLupineLinux.bind(descriptor, pointer, length)
    }
    guard code == 0 else { throw .system(call: "bind", code: errno) }
  }

  private static func port(of descriptor: Int32, _ address: LoopbackAddress) -> UInt16 {
    var name = sockaddr_in6()  // both families keep the port at the same place
    var length = socklen_t(MemoryLayout<sockaddr_in6>.size)
    if case .unix = address { return 0 }
    _ = unsafe withUnsafeMutablePointer(to: &name) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe getsockname(descriptor, $0, &length)
      }
    }
    return UInt16(bigEndian: name.sin6_port)
  }
}

/// Socket names in the system's form.
enum SocketName {
  /// A new close-on-exec stream socket of the address's family.
  static func socket(_ address: LoopbackAddress) throws(LoopbackError) -> Int32 {
    let family =
      switch address {
      case .ipv4: AF_INET
      case .ipv6: AF_INET6
      case .unix: AF_UNIX
      }
    let descriptor = Glibc.socket(family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw .system(call: "socket", code: errno) }
    return descriptor
  }

  static func with<Result>(
    _ address: LoopbackAddress, port: UInt16, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
  ) throws(LoopbackError) -> Result {
    switch address {
    case .ipv4:
      var name = sockaddr_in()
      name.sin_family = sa_family_t(AF_INET)
      name.sin_port = port.bigEndian
      name.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
      return unsafe rebound(&name, body)
    case .ipv6:
      var name = sockaddr_in6()
      name.sin6_family = sa_family_t(AF_INET6)
      name.sin6_port = port.bigEndian
      name.sin6_addr = in6addr_loopback
      return unsafe rebound(&name, body)
    case .unix(let path):
      var name = sockaddr_un()
      name.sun_family = sa_family_t(AF_UNIX)
      let bytes = Array(path.utf8)
      let limit = MemoryLayout.size(ofValue: name.sun_path) - 1
      guard bytes.count <= limit else { throw .pathTooLong(limit: limit) }
      unsafe withUnsafeMutableBytes(of: &name.sun_path) { unsafe $0.copyBytes(from: bytes) }
      return unsafe rebound(&name, body)
    }
  }

  private static func rebound<Name, Result>(
    _ name: inout Name, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
  ) -> Result {
    unsafe withUnsafePointer(to: &name) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe body($0, socklen_t(MemoryLayout<Name>.size))
      }
    }
  }
}

/// Connections that we open: to see whether a launched server is ready, and in this module's own tests.
enum OutgoingSocket {
  static func connect(_ address: LoopbackAddress, port: UInt16) throws(LoopbackError) -> Int32 {
    let descriptor = try SocketName.socket(address)
    let code = try unsafe SocketName.with(address, port: port) { pointer, length in
      unsafe CLupineLinux.connect(descriptor, pointer, length)
    }
    guard code == 0 else {
      let code = errno
      close(descriptor)
      throw .system(call: "connect", code: code)
    }
    return descriptor
  }
}
