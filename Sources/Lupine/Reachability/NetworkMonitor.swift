internal import LupineBase
internal import LupineIO
internal import LupineRules

/// A thread that keeps a table of links, addresses and routes, and tells whoever subscribed of every change.
///
/// One serves all managers of the process, for as long as one of them is monitoring.
final class NetworkMonitor: Sendable {
  typealias Observer = @Sendable (NetworkTable) -> Void

  private struct State {
    var table: NetworkTable?
    var observers: [UInt64: Observer] = [:]
    var next: UInt64 = 0
  }

  private struct Weak {
    weak var monitor: NetworkMonitor?
  }

  private static let current = Locked(Weak())

  private let loop: EventLoop
  private let state: Locked<State>

  /// The monitor of the process; made if there is none.
  static func shared() throws(IOError) -> NetworkMonitor {
    try current.withLock { current throws(IOError) in
      if let monitor = current.monitor { return monitor }
      let made = try NetworkMonitor()
      current.monitor = made
      return made
    }
  }

  /// Opens a socket in the network namespace of the calling thread, and starts.
  init() throws(IOError) {
    let state = Locked(State())
    let loop = try EventLoop(name: "lupine-network")
    let driver = LoopConfined(
      NetlinkDriver(socket: try NetlinkSocket(), watch: try LoopWatch(for: loop)) { table in
        let observers = state.withLock { state in
          state.table = table
          return state.observers.sorted { $0.key < $1.key }.map(\.value)
        }
        for observer in observers { observer(table) }
      })
    try loop.start { driver.onLoop.run(on: loop) }
    self.loop = loop
    self.state = state
  }

  deinit {
    // Not joined: the last reference may go on the thread itself.
    loop.stop()
  }

  /// Tells `observer` the table, at once if it is known, and again after every change; on the monitor's thread. Until the subscription goes.
  func subscribe(_ observer: @escaping Observer) -> NetworkSubscription {
    let number = state.withLock { state in
      state.next += 1
      return state.next
    }
    let state = state
    // On the loop, so that no change comes between what is told first and what follows.
    loop.submit {
      let table = state.withLock { state in
        state.observers[number] = observer
        return state.table
      }
      if let table { observer(table) }
    }
    return NetworkSubscription(monitor: self) { [loop] in
      loop.submit { state.withLock { _ = $0.observers.removeValue(forKey: number) } }
    }
  }
}

/// Holds a monitor, and ends what it tells when it goes.
final class NetworkSubscription: Sendable {
  private let monitor: NetworkMonitor
  private let end: @Sendable () -> Void

  init(monitor: NetworkMonitor, end: @escaping @Sendable () -> Void) {
    self.monitor = monitor
    self.end = end
  }

  deinit { end() }
}

/// Takes datagrams from the socket to the machine, and requests back. Lives on the monitor's thread.
private final class NetlinkDriver: ReadinessHandler, TimerHandler {
  private let socket: NetlinkSocket
  private var watch: LoopWatch?
  private let publish: (NetworkTable) -> Void
  private var context: LoopContext?
  private var machine = ReachabilityMachine()
  private var registration: Registration?
  private static let datagramsPerTurn = 64
  private var timer: TimerIdentifier?
  /// Before everything is asked for again; doubled up to a minute while there is no whole answer.
  private var pauseNanoseconds = shortestPause
  private static let shortestPause: Int64 = 1_000_000_000
  private static let longestPause: Int64 = 60_000_000_000

  init(socket: consuming NetlinkSocket, watch: consuming LoopWatch, publish: @escaping (NetworkTable) -> Void) {
    self.socket = socket
    self.watch = consume watch
    self.publish = publish
  }

  /// Runs until the loop is stopped.
  func run(on loop: EventLoop) {
    guard let watch = watch.take() else { return }
    let context = LoopContext(of: loop, watch)
    self.context = context
    // Without epoll there is nothing to hear: the status stays unknown.
    registration = try? context.register(socket.descriptor, self)
    perform(machine.begin())
    context.run()
    self.context = nil
  }

  func ready(_ readiness: Readiness) {
    for _ in 0..<Self.datagramsPerTurn {
      do throws(IOError) {
        switch try socket.receive() {
        case .datagram(let bytes): perform(machine.receive(bytes))
        case .foreign: continue
        case .lost: perform(machine.lost())
        case .wouldBlock: return
        }
      } catch {
        perform(machine.lost())
        return waitAWhile()
      }
    }
    if let registration { context?.requeue(registration) }
  }

  func timerFired(_ identifier: TimerIdentifier) {
    timer = nil
    perform(machine.askAgain())
    // A read that failed may have been the one that was told of.
    if let registration { context?.requeue(registration) }
  }

  private func waitAWhile() {
    guard timer == nil, let context else { return }
    timer = context.schedule(at: context.now.advanced(byNanoseconds: pauseNanoseconds), self)
    pauseNanoseconds = min(2 * pauseNanoseconds, Self.longestPause)
  }

  private func perform(_ actions: [ReachabilityMachine.Action]) {
    for action in actions {
      switch action {
      // The kernel takes a request at once, or is out of memory.
      case .send(let request):
        if case .bytes? = try? socket.send(request) { continue }
        perform(machine.refused())
      case .askLater: waitAWhile()
      case .changed: if let table = machine.table { publish(table) }
      }
    }
    if machine.phase == .current { pauseNanoseconds = Self.shortestPause }
  }
}
