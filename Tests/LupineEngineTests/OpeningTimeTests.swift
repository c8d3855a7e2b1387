import LupineBase
import LupineEngine
import LupineIO
import LupineSimulation
import LupineWire
import Testing

/// The limit of idleness counts from what moved last, while a connection is opened too.
@Suite(.timeLimit(.minutes(1))) struct OpeningTimeTests {
  private static let second: Int64 = 1_000_000_000

  /// Answers when it is told to.
  private final class LateResolver: HostResolver {
    private let completion = Locked<(@Sendable (Result<[SocketAddress], ResolveError>) -> Void)?>(nil)

    func resolve(
      host: String, port: UInt16, completion: @escaping @Sendable (Result<[SocketAddress], ResolveError>) -> Void
    ) -> ResolveToken {
      self.completion.withLock { $0 = completion }
      return ResolveToken()
    }

    func immediateAnswer(host: String, port: UInt16) -> Result<[SocketAddress], ResolveError>? { nil }

    func answer() {
      completion.withLock { $0 }?(.success([SocketAddress.v4(.loopback, port: 80)]))
    }
  }

  /// A request whose limit of idleness is 10 s, with a name that took 6 s to be looked up, and a connection that is not decided yet.
  private func start() throws -> Drive {
    var configuration = PoolConfiguration()
    let resolver = LateResolver()
    configuration.resolver = resolver
    configuration.connectNanoseconds = nil
    configuration.resolveNanoseconds = nil
    let drive = try Drive(configuration)
    drive.isDecided = false
    var deadlines = Deadlines()
    deadlines.idle = 10 * Self.second
    let plain = try request(host: "h", port: 80)
    drive.start(
      TransferRequest(
        key: plain.key, method: "GET", head: plain.head, context: RequestContext(), deadlines: deadlines))
    drive.settle()
    pass(6, drive)
    resolver.answer()
    drive.settle()
    #expect(drive.servers.count == 1)
    return drive
  }

  private func pass(_ seconds: Int64, _ drive: Drive) {
    drive.engine.world.now = drive.engine.world.now.advanced(byNanoseconds: seconds * Self.second)
    drive.settle()
  }

  @Test func anOpeningWhoseStepsMoveIsNotIdle() throws {
    let drive = try start()
    pass(9, drive)
    #expect(drive.outcomes.isEmpty)
    drive.servers[0].accept()
    drive.settle()
    #expect(drive.received(0).hasPrefix("GET / HTTP/1.1\r\n"))
    drive.send(0, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
    drive.settle()
    #expect(drive.outcomes.first?.body == Array("hello".utf8))
    drive.end()
  }

  @Test func anOpeningThatStandsStillRunsIntoTheLimitInItsStep() throws {
    let drive = try start()
    pass(9, drive)
    #expect(drive.outcomes.isEmpty)
    pass(1, drive)
    guard case .deadline(.connect)? = drive.outcomes.first?.failure?.error else {
      Issue.record("\(drive.outcomes)")
      return
    }
    // The opening goes on for whoever comes next.
    drive.servers[0].accept()
    drive.settle()
    drive.end()
  }
}
