import FoundationEssentials
import Glibc
import LupineBase
import LupineIO
import LupineRules
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// Sessions with several engines of their own, over real connections.
@Suite(.timeLimit(.minutes(5))) struct SeveralEnginesTests {
  /// On which thread the completion of a request is called.
  private func thread(of session: Session, _ url: String) async throws -> UInt {
    let request = try Request(url)
    return try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<UInt, any Error>) in
      session.data(for: request) { result in
        switch result {
        case .success: continuation.resume(returning: currentThread())
        case .failure(let error): continuation.resume(throwing: error)
        }
      }
    }
  }

  private static func held(until go: Latch) -> ServerRoute {
    ServerRoute(nil, "/held") { _, connection in
      _ = try connection.stall(until: go)
      try connection.respond(text: "held")
    }
  }

  // MARK: Which engine

  /// Places are shared out among the engines; each stays where it is, also behind a reset, and its connection is used again.
  @Test func aPlaceStaysOnItsEngine() async throws {
    let servers = try (0..<4).map { _ in try LoopbackServer(routes: ServerRoute.standard()) }
    defer { for server in servers { server.shutdown() } }
    try await withSession(ports: servers.map { $0.port }, configure: { $0.engine = .several(2) }) { session in
      var threads: [Set<UInt>] = []
      for server in servers {
        var own: Set<UInt> = []
        for _ in 0..<5 {
          let one = try await thread(of: session, server.url("/hello"))
          own.insert(one)
        }
        #expect(own.count == 1 && server.connectionCount == 1)
        threads.append(own)
      }
      let all = Set(threads.flatMap { $0 })
      #expect(all.count == 2)
      session.flush()
      for (server, own) in zip(servers, threads) {
        let now = try await thread(of: session, server.url("/hello"))
        #expect(own == [now] && server.connectionCount == 2)
      }
      let statistics = await session.poolStatistics()
      #expect(statistics.opened == 8 && statistics.reused == 16)
    }
  }

  @Test func spreadRequestsTakeTurns() async throws {
    try await withServer(configure: { $0.engine = .several(3, spreading: true) }) { session, server in
      var counts: [UInt: Int] = [:]
      for _ in 0..<12 {
        let one = try await thread(of: session, server.url("/hello"))
        counts[one, default: 0] += 1
      }
      #expect(counts.values.sorted() == [4, 4, 4] && server.connectionCount == 3)
    }
  }

  /// Whoever asks again in a completion stays on its engine, where the connection idles.
  @Test func completionsStayOnTheirEngine() async throws {
    try await withServer(configure: { $0.engine = .several(3, spreading: true) }) { session, server in
      let request = try Request(server.url("/hello"))
      let threads = Locked<[UInt]>([])
      @Sendable func ask() {
        session.data(for: request) { _ in
          let thread = currentThread()
          let count = threads.withLock { threads -> Int in
            threads.append(thread)
            return threads.count
          }
          if count < 20 { ask() }
        }
      }
      ask()
      #expect(await eventually { threads.withLock { $0.count } == 20 })
      let seen = threads.withLock { Set($0) }
      #expect(seen.count == 1 && server.connectionCount == 1)
    }
  }

  /// Many that are begun at once on one engine do not all stay there, also where a connection idles there: one stays for that, and the others take turns.
  @Test(arguments: [(0, [4, 4, 4]), (3, [3, 4, 5])])
  func manyFromOneEngineAreSpread(_ warmUp: Int, _ expected: [Int]) async throws {
    try await withServer(configure: { $0.engine = .several(3, spreading: true) }) { session, server in
      let request = try Request(server.url("/hello"))
      for _ in 0..<warmUp { try await session.expect("Hello, world!", from: request) }
      #expect(server.connectionCount == warmUp)
      let threads = Locked<[UInt: Int]>([:])
      session.onEngine {
        for _ in 0..<12 {
          session.data(for: request) { _ in
            let thread = currentThread()
            threads.withLock { $0[thread, default: 0] += 1 }
          }
        }
      }
      #expect(await eventually { threads.withLock { $0.values.reduce(0, +) } == 12 })
      let counts = threads.withLock { $0.values.sorted() }
      #expect(counts == expected)
    }
  }

  /// A redirect leads from the engine of one place to that of another, and both keep their connection.
  @Test func redirectsLeadFromEngineToEngine() async throws {
    let target = Locked("")
    let routes =
      ServerRoute.standard() + [
        ServerRoute(nil, "/from") { _, connection in
          let location = target.withLock { $0 }
          try connection.respond(302, fields: ["Location": location], text: "moved")
        }
      ]
    let servers = try (0..<4).map { _ in try LoopbackServer(routes: routes) }
    defer { for server in servers { server.shutdown() } }
    try await withSession(ports: servers.map { $0.port }, configure: { $0.engine = .several(2) }) { session in
      var threads: [UInt] = []
      for server in servers {
        let one = try await thread(of: session, server.url("/hello"))
        threads.append(one)
      }
      let first = threads[0]
      let index = threads.firstIndex { $0 != first }
      let other = try #require(index)
      target.withLock { $0 = servers[other].url("/hello") }
      for _ in 0..<3 {
        let one = try await thread(of: session, servers[0].url("/from"))
        #expect(one == threads[other])
      }
      #expect(servers[0].connectionCount == 1 && servers[other].connectionCount == 1)
      #expect(servers[0].requestCount == 4 && servers[other].requestCount == 4)
    }
  }

  /// A task obeys who asks something of it on the thread of any engine, that of its connection or another one.
  @Test(arguments: 0..<3) func tasksObeyOnEveryEngine(_ number: Int) async throws {
    let (go, never) = (try Latch(), try Latch())
    let routes =
      ServerRoute.standard() + [
        Self.held(until: never),
        ServerRoute(nil, "/parts") { _, connection in
          let part = [UInt8](repeating: 1, count: 100_000)
          try connection.begin(framing: .length(200_000))
          try connection.write(part)
          _ = try connection.stall(until: go)
          try connection.write(part)
          try connection.finish()
        },
      ]
    try await withServer(routes, configure: { $0.engine = .several(3) }) { session, server in
      let loop = try #require(session.engineExecutors[number] as? EventLoop)
      func onLoop(_ work: @escaping @Sendable () -> Void) async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
          loop.submit {
            work()
            continuation.resume()
          }
        }
      }
      let (sizes, codes) = (Locked<[Int]>([]), Locked<[SessionError.Code]>([]))
      let completion: DataTaskCompletion = { result in
        switch result {
        case .success((let body, _)): sizes.withLock { $0.append(body.count) }
        case .failure(let error): codes.withLock { $0.append(error.code) }
        }
      }
      let parts = session.dataTask(with: try Request(server.url("/parts")), completionHandler: completion)
      await onLoop { parts.resume() }
      #expect(await eventually { parts.countOfBytesReceived == 100_000 })
      await onLoop { parts.suspend() }
      #expect(parts.state == .suspended)
      // Behind the pause in the mailbox of the engine that has the connections.
      try await session.expect("Hello, world!", from: server.url("/hello"))
      go.release()
      for _ in 0..<5 { try await session.expect("Hello, world!", from: server.url("/hello")) }
      #expect(parts.countOfBytesReceived == 100_000)
      await onLoop { parts.resume() }
      #expect(await eventually { sizes.withLock { $0 } == [200_000] })

      let held = session.dataTask(with: try Request(server.url("/held")), completionHandler: completion)
      await onLoop { held.resume() }
      #expect(await eventually { server.recordedRequests.contains { $0.path == "/held" } })
      await onLoop { held.cancel() }
      #expect(await eventually { codes.withLock { $0 } == [.cancelled] })
      try await session.expect("Hello, world!", from: server.url("/hello"))
      #expect(sizes.withLock { $0 } == [200_000] && codes.withLock { $0 } == [.cancelled])
    }
  }

  // MARK: Limits

  /// The connections to a host are a total, and all of them are used, by as many engines as there are connections.
  @Test(arguments: [(6, [3, 3, 7, 7]), (2, [10, 10]), (1, [20])])
  func connectionsToAHostAreATotal(_ perHost: Int, _ requests: [Int]) async throws {
    let go = try Latch()
    try await withServer(
      [Self.held(until: go)],
      configure: {
        $0.engine = .several(4, spreading: true)
        $0.maximumConnectionsPerHost = perHost
      }
    ) { session, server in
      let request = try Request(server.url("/held"))
      let threads = Locked<[UInt: Int]>([:])
      for _ in 0..<20 {
        session.data(for: request) { _ in
          let thread = currentThread()
          threads.withLock { $0[thread, default: 0] += 1 }
        }
      }
      #expect(await eventually { await session.poolStatistics().waits == 20 })
      #expect(await eventually { server.requestCount == perHost })
      go.release()
      #expect(await eventually { threads.withLock { $0.values.reduce(0, +) } == 20 })
      let counts = threads.withLock { $0.values.sorted() }
      #expect(counts == requests)
      let statistics = await session.poolStatistics()
      #expect(statistics.opened == perHost && server.connectionCount == perHost)
    }
  }

  /// So are those in all: each engine has one, and whoever waits for it gets it when it is free.
  @Test func connectionsInAllAreATotal() async throws {
    let go = try Latch()
    let servers = try (0..<4).map { _ in try LoopbackServer(routes: [Self.held(until: go)]) }
    defer { for server in servers { server.shutdown() } }
    try await withSession(
      ports: servers.map { $0.port },
      configure: {
        $0.engine = .several(2)
        $0.maximumConnections = 2
      }
    ) { session in
      let answers = Locked(0)
      for server in servers {
        session.data(for: try Request(server.url("/held"))) { result in
          if case .success = result { answers.withLock { $0 += 1 } }
        }
      }
      #expect(await eventually { await session.poolStatistics().waits == 4 })
      #expect(await eventually { servers.reduce(0) { $0 + $1.requestCount } == 2 })
      go.release()
      #expect(await eventually { answers.withLock { $0 } == 4 })
      // Two made room for the two that waited.
      let statistics = await session.poolStatistics()
      #expect(statistics.opened == 4 && statistics.closes["evicted"] == 2)
      #expect(await eventually { servers.reduce(0) { $0 + $1.openConnectionCount } <= 2 })
    }
  }

  /// Each engine has a part of the places of those that wait.
  @Test func placesToWaitAreATotal() async throws {
    let go = try Latch()
    try await withServer(
      [Self.held(until: go)],
      configure: {
        $0.engine = .several(2)
        $0.maximumConnectionsPerHost = 1
        $0.maximumWaitingRequests = 2
      }
    ) { session, server in
      let first = Task { try await session.data(from: server.url("/held")) }
      #expect(await eventually { server.requestCount == 1 })
      let second = Task { try await session.data(from: server.url("/held")) }
      #expect(await eventually { await session.poolStatistics().waits == 2 })
      try await expectFailure(.tooManyWaiters) { try await session.data(from: server.url("/held")) }
      go.release()
      for task in [first, second] { _ = try await task.value }
    }
  }

  private struct NoTransport: Transport {
    func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
      IdleExchange()
    }
  }

  /// Also where another transport carries the session, and there are no engines.
  @Test(arguments: [false, true]) func whatIsNoNumberOfEnginesIsRefused(_ hasTransport: Bool) {
    var configuration = SessionConfiguration()
    if hasTransport { configuration.transport = NoTransport() }
    for number in [0, -1, 65, Int.max, Int.min] {
      configuration.engine = .several(number)
      do throws(SessionError) {
        _ = try Session(configuration)
        Issue.record("a session has \(number) engines")
      } catch {
        #expect(error.code == .badRequest, "\(number)")
      }
    }
  }

  @Test func numbersOfEnginesHaveLimits() throws {
    var configuration = SessionConfiguration()
    let rows: [(number: Int, connections: Int, waiting: Int, engines: Int)] = [
      (1, 256, 10_000, 1), (3, 256, 10_000, 3), (64, 2, 10_000, 2), (64, 256, 3, 3), (4, 0, 0, 1),
    ]
    for row in rows {
      configuration.engine = .several(row.number, spreading: true)
      configuration.maximumConnections = row.connections
      configuration.maximumWaitingRequests = row.waiting
      let session = try Session(configuration)
      let executors = session.engineExecutors
      #expect(executors.count == row.engines, "\(row)")
      let isFirst = session.engineExecutor === executors.first
      #expect(isFirst, "\(row)")
    }
  }

  // MARK: Executors

  /// A task goes on where it prefers to, whichever engine has carried its request.
  @Test(arguments: [false, true]) func tasksStayOnTheirExecutor(_ spreads: Bool) async throws {
    try await withServer(configure: { $0.engine = .several(3, spreading: spreads) }) { session, server in
      let url = server.url("/hello")
      for executor in session.engineExecutors {
        let loop = try #require(executor as? EventLoop)
        let stays = try await Task(executorPreference: loop) {
          var stays = loop.isCurrent
          for _ in 0..<6 {
            _ = try await session.data(from: url)
            stays = stays && loop.isCurrent
          }
          return stays
        }.value
        #expect(stays)
      }
    }
  }

  /// Where a connection of its engine idles the requests of a task go over that one, each of them.
  @Test func tasksUseTheConnectionsOfTheirEngine() async throws {
    try await withServer(configure: { $0.engine = .several(3, spreading: true) }) { session, server in
      let url = server.url("/hello")
      for _ in 0..<3 { try await session.expect("Hello, world!", from: url) }
      for executor in session.engineExecutors {
        let loop = try #require(executor as? EventLoop)
        try await Task(executorPreference: loop) {
          for _ in 0..<6 { _ = try await session.data(from: url) }
        }.value
        let numbers = Set(server.recordedRequests.suffix(6).map(\.connectionNumber))
        #expect(numbers.count == 1)
      }
      #expect(server.connectionCount == 3)
    }
  }

  // MARK: The end

  private final class Witness: SessionDelegate {
    let handledCallbacks: CallbackSet = .becameInvalid
    let ends = Locked(0)

    func session(_ session: Session, didBecomeInvalidWithError error: SessionError?) { ends.withLock { $0 += 1 } }
  }

  /// Everything ends once, on whichever engine it is; the session once for all of them.
  @Test(arguments: [false, true]) func theSessionEndsOnAllEngines(_ cancels: Bool) async throws {
    let go = try Latch()
    let server = try LoopbackServer(routes: [Self.held(until: go)])
    defer { server.shutdown() }
    var configuration = SessionConfiguration()
    configuration.engine = .several(3, spreading: true)
    configuration.cookieStorage = nil
    let witness = Witness()
    let session = try Session(configuration, delegate: witness)
    let request = try Request(server.url("/held"))
    let ends = Locked<[String]>([])
    for _ in 0..<12 {
      session.data(for: request) { result in
        let text: String
        switch result {
        case .success((let body, _)): text = String(decoding: body, as: UTF8.self)
        case .failure(let error): text = error.code.rawValue
        }
        ends.withLock { $0.append(text) }
      }
    }
    #expect(await eventually { await session.poolStatistics().waits == 12 })
    #expect(await eventually { server.requestCount == 6 })
    if cancels {
      session.invalidateAndCancel()
    } else {
      session.finishTasksAndInvalidate()
      go.release()
    }
    #expect(await eventually { witness.ends.withLock { $0 } > 0 })
    #expect(await eventually { ClientSockets.count(to: server.port) == 0 })
    #expect(await eventually { ends.withLock { $0.count } == 12 })
    let expected = cancels ? SessionError.Code.cancelled.rawValue : "held"
    #expect(ends.withLock { $0 } == [String](repeating: expected, count: 12))
    #expect(witness.ends.withLock { $0 } == 1)
    try await expectFailure(.sessionInvalidated) { try await session.data(for: request) }
  }

  @Test func aResetClosesTheConnectionsOfAll() async throws {
    try await withServer(configure: { $0.engine = .several(3, spreading: true) }) { session, server in
      for _ in 0..<6 { try await session.expect("Hello, world!", from: server.url("/hello")) }
      #expect(server.connectionCount == 3)
      session.reset()
      #expect(await eventually { server.openConnectionCount == 0 })
      for _ in 0..<3 { try await session.expect("Hello, world!", from: server.url("/hello")) }
      let statistics = await session.poolStatistics()
      #expect(statistics.opened == 6 && statistics.reused == 3 && statistics.closes == ["shutdown": 3])
    }
  }

  private struct Leak: Error, CustomStringConvertible {
    let description: String
  }

  /// With the last reference to the session all its threads and descriptors go.
  @Test func nothingIsLeftBehind() async {
    await #expect(processExitsWith: .success) {
      // Starts what the process keeps: resolver, file threads. The end of this engine is waited for.
      try await Self.useAndLeave(.shared, engines: 1)
      try Session.shutDownSharedEngine()
      let before = DescriptorCensus.now(threadsNamed: "lupine", except: ["lupine-dns", "lupine-file"])
      for round in 0..<3 {
        try await Self.useAndLeave(.several(4, spreading: true), engines: 4)
        guard before.isRestored(withinSeconds: 60) else {
          throw Leak(description: "round \(round) left \(before.newcomers())")
        }
      }
    }
  }

  private static func useAndLeave(_ choice: SessionConfiguration.EngineChoice, engines: Int) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    var configuration = SessionConfiguration.ephemeral
    configuration.engine = choice
    let session = try Session(configuration)
    for _ in 0..<8 { _ = try await session.data(from: server.url("/hello")) }
    guard session.engineExecutors.count == engines, server.connectionCount == engines else {
      throw Leak(description: "\(server.connectionCount) connections")
    }
    let slow = Task { try await session.data(from: server.url("/slow")) }
    _ = await eventually { server.requestCount == 9 }
    slow.cancel()
    _ = await slow.result
  }
}

private func currentThread() -> UInt { pthread_self() }
