import Glibc
import LupineBase
import LupineEngine
import LupineIO
import LupineWire
import Testing

/// An engine that the test drives, connected over TCP.
final class TCPDrive {
  var outcomes: [Recorder.Outcome] = []
  private(set) var server: [Int32] = []
  private let listener: Int32
  private let port: UInt16
  private var made: (engine: DrivenEngine, pool: EnginePool)?

  init() throws {
    listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let number = listener
    port = unsafe withUnsafeMutablePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
        unsafe bind(number, pointer, length)
        listen(number, 8)
        unsafe getsockname(number, pointer, &length)
      }
      return unsafe UInt16(bigEndian: pointer.pointee.sin_port)
    }
    let world = DrivenWorld { [unowned self] _ throws(IOError) in
      let near = try SocketOptions().makeSocket(for: .v4(.loopback, port: self.port))
      self.join(near.number)
      return StartedSocket(near, .connected)
    }
    let engine = try DrivenEngine(
      world: world, resolver: TableResolver(["h": [SocketAddress.v4(.loopback, port: 80)]]))
    made = (engine, engine.makePool(PoolConfiguration()))
  }

  deinit {
    for number in server where number >= 0 { _ = Glibc.close(number) }
    _ = Glibc.close(listener)
  }

  /// Connects a nonblocking socket, and waits for both ends: on the loopback interface that is at once.
  private func join(_ near: Int32) {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    address.sin_port = port.bigEndian
    let length = socklen_t(MemoryLayout<sockaddr_in>.size)
    unsafe withUnsafePointer(to: address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { _ = unsafe connect(near, $0, length) }
    }
    server.append(accept(listener, nil, nil))
  }

  var engine: DrivenEngine {
    guard let made else { preconditionFailure("not made yet") }
    return made.engine
  }

  /// Starts a transfer for `handler`, and has the server be asked.
  func start(_ handler: any TransferHandler) throws -> Transfer {
    guard let made else { preconditionFailure("not made yet") }
    let transfer = Transfer(try request(host: "h", port: 80), handler: handler, createdAt: engine.context.now)
    engine.start(transfer, in: made.pool)
    awaitRequest(0)
    return transfer
  }

  /// Sends what the socket takes, and says how much that was.
  func sendSome(_ bytes: ArraySlice<UInt8>, isUrgent: Bool = false) -> Int {
    let flags = Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT) | (isUrgent ? Int32(MSG_OOB) : 0)
    return max(0, unsafe bytes.withUnsafeBytes { unsafe Glibc.send(server[0], $0.baseAddress, $0.count, flags) })
  }

  /// Closes the server's end with a reset.
  func reset(_ index: Int) {
    var option = linger(l_onoff: 1, l_linger: 0)
    let size = socklen_t(MemoryLayout<linger>.size)
    #expect(unsafe setsockopt(server[index], SOL_SOCKET, SO_LINGER, &option, size) == 0)
    _ = Glibc.close(server[index])
    server[index] = -1
  }

  /// Reads what waits at the server's end.
  func drain(_ index: Int) {
    var bytes = [UInt8](repeating: 0, count: 1 << 20)
    while unsafe recv(server[index], &bytes, bytes.count, Int32(MSG_DONTWAIT)) > 0 {}
  }

  func shutDownServer() { _ = shutdown(server[0], Int32(SHUT_WR)) }

  func start(_ request: TransferRequest) {
    guard let made else { preconditionFailure("not made yet") }
    let drive = LoopConfined(self)
    let recorder = Recorder { drive.onLoop.outcomes.append($0) }
    engine.start(Transfer(request, handler: recorder, createdAt: engine.context.now), in: made.pool)
  }

  /// Takes turns until the server has a request.
  func awaitRequest(_ index: Int) {
    var bytes = [UInt8](repeating: 0, count: 4096)
    for _ in 0..<100_000 {
      _ = engine.context.turn()
      guard server.indices.contains(index) else { continue }
      let count = unsafe recv(server[index], &bytes, bytes.count, Int32(MSG_DONTWAIT))
      if count > 0 { return }
    }
    Issue.record("server \(index) was asked for nothing")
  }

  func send(_ index: Int, _ text: String, isUrgent: Bool = false) {
    let bytes = Array(text.utf8)
    let flags = Int32(MSG_NOSIGNAL) | (isUrgent ? Int32(MSG_OOB) : 0)
    guard server.indices.contains(index) else { return }
    #expect(unsafe Glibc.send(server[index], bytes, bytes.count, flags) == bytes.count)
  }

  /// Asks for something, has the server do what `answer` says when it was asked, and gives the body.
  func fetch(_ target: String, from index: Int, _ answer: () -> Void) throws -> [UInt8]? {
    let count = outcomes.count
    start(try request(host: "h", port: 80, target: target))
    awaitRequest(index)
    answer()
    let deadline = ContinuousClock.now + .seconds(20)
    while outcomes.count == count, ContinuousClock.now < deadline { _ = engine.context.turn() }
    return outcomes.count == count + 1 ? outcomes.last?.body : nil
  }

  func end() {
    guard let made else { return }
    engine.forget(made.pool)
    _ = engine.runUntilQuiet(limit: 1000)
    engine.shutdown()
  }
}
