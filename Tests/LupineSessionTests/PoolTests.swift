import FoundationEssentials
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// The pool's limits as a session shows them.
@Suite(.timeLimit(.minutes(5))) struct PoolTests {
  @Test func perHostLimitHolds() async throws {
    try await withServer(configure: { $0.maximumConnectionsPerHost = 3 }) { session, server in
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<60 { group.addTask { _ = try await session.data(from: server.url("/bytes?n=10000")) } }
        try await group.waitForAll()
      }
      #expect(server.connectionCount <= 3)
      #expect(server.requestCount == 60)
    }
  }

  @Test func totalLimitHoldsOverHosts() async throws {
    let servers = try (0..<4).map { _ in try LoopbackServer(routes: ServerRoute.standard()) }
    defer { for server in servers { server.shutdown() } }
    try await withSession(ports: servers.map { $0.port }, configure: { $0.maximumConnections = 2 }) { session in
      try await withThrowingTaskGroup(of: Void.self) { group in
        for index in 0..<40 {
          let url = servers[index % 4].url("/hello")
          group.addTask { try await session.expect("Hello, world!", from: url) }
        }
        try await group.waitForAll()
      }
      #expect(servers.reduce(0) { $0 + $1.requestCount } == 40)
      // A server hears of a connection's end a moment later.
      #expect(await eventually { servers.reduce(0) { $0 + $1.openConnectionCount } <= 2 })
      #expect(try #require(await session.poolStatistics().closes["evicted"]) > 0)
    }
  }

  @Test func busyOriginKeepsNobodyWaitingForEver() async throws {
    let go = try Latch()
    let busy = try LoopbackServer(routes: [
      ServerRoute(nil, "/first") { _, connection in
        _ = try connection.stall(until: go)
        try connection.respond()
      },
      ServerRoute(nil, "/next") { _, connection in try connection.respond() },
    ])
    defer { busy.shutdown() }
    let other = try LoopbackServer(routes: [
      ServerRoute(nil, "/") { _, connection in try connection.respond(body: Array("\(busy.requestCount)".utf8)) }
    ])
    defer { other.shutdown() }
    try await withSession(ports: [busy.port, other.port], configure: { $0.maximumConnections = 1 }) { session in
      var tasks = [Task { _ = try await session.data(from: busy.url("/first")) }]
      #expect(await eventually { busy.requestCount == 1 })
      for _ in 0..<60 { tasks.append(Task { _ = try await session.data(from: busy.url("/next")) }) }
      #expect(await eventually { await session.poolStatistics().waits == 61 })
      let last = Task { try await session.data(from: other.url("/")).0 }
      #expect(await eventually { await session.poolStatistics().waits == 62 })
      go.release()
      let before = try #require(Int(String(decoding: try await last.value, as: UTF8.self)))
      #expect(before <= 16)
      for task in tasks { try await task.value }
      #expect(busy.requestCount == 61)
    }
  }

  /// `/first`, which is answered when the latch opens.
  private static func held(until go: Latch) -> ServerRoute {
    ServerRoute(nil, "/first") { _, connection in
      _ = try connection.stall(until: go)
      try connection.respond()
    }
  }

  @Test func waitersAreServedInOrder() async throws {
    let go = try Latch()
    try await withServer(
      [
        Self.held(until: go),
        ServerRoute(nil, "/next") { _, connection in try connection.respond() },
      ], configure: { $0.maximumConnectionsPerHost = 1 }
    ) { session, server in
      var tasks = [Task { _ = try await session.data(from: server.url("/first")) }]
      #expect(await eventually { server.requestCount == 1 })
      for index in 0..<10 {
        tasks.append(Task { _ = try await session.data(from: server.url("/next?\(index)")) })
        #expect(await eventually { await session.poolStatistics().waits == index + 2 })
      }
      go.release()
      for task in tasks { try await task.value }
      #expect(server.recordedRequests.dropFirst().map { $0.target } == (0..<10).map { "/next?\($0)" })
    }
  }

  /// swift-corelibs-foundation #5445: a task that had waited for its turn, and was redirected then, never ended there.
  @Test func waitersMayBeRedirected() async throws {
    let go = try Latch()
    try await withServer(
      [
        Self.held(until: go)
      ] + ServerRoute.standard(), configure: { $0.maximumConnectionsPerHost = 1 }
    ) { session, server in
      let first = Task { _ = try await session.data(from: server.url("/first")) }
      #expect(await eventually { server.requestCount == 1 })
      let waiting = (0..<10).map { _ in Task { try await session.text(server.url("/redirect?to=/hello")).0 } }
      #expect(await eventually { await session.poolStatistics().waits == 11 })
      go.release()
      try await first.value
      for task in waiting { #expect(try await task.value == "Hello, world!") }
      #expect(server.requestCount == 21 && server.connectionCount == 1)
    }
  }

  /// The priority of a task is that of its requests among those that wait.
  @Test func waitersAreServedByPriority() async throws {
    let go = try Latch()
    try await withServer(
      [
        Self.held(until: go),
        ServerRoute(nil, "/next") { _, connection in try connection.respond() },
      ], configure: { $0.maximumConnectionsPerHost = 1 }
    ) { session, server in
      let first = session.dataTask(with: try Request(server.url("/first")))
      first.resume()
      #expect(await eventually { server.requestCount == 1 })
      var tasks = [first]
      let priorities = [SessionTask.lowPriority, 0.4, SessionTask.defaultPriority, 0.6, SessionTask.highPriority]
      for (index, priority) in priorities.enumerated() {
        let task = session.dataTask(with: try Request(server.url("/next?\(priority)")))
        task.priority = priority
        task.resume()
        tasks.append(task)
        #expect(await eventually { await session.poolStatistics().waits == index + 2 })
      }
      go.release()
      let all = tasks
      #expect(await eventually { all.allSatisfy { $0.response?.statusCode == 200 && $0.state == .completed } })
      let order = [0.6, SessionTask.highPriority, SessionTask.defaultPriority, SessionTask.lowPriority, 0.4]
      #expect(server.recordedRequests.dropFirst().map { $0.target } == order.map { "/next?\($0)" })
    }
  }

  @Test func tooManyWaitersIsAnError() async throws {
    try await withScript(
      [[.readHead, .stall(nil)]],
      configure: {
        $0.maximumConnectionsPerHost = 1
        $0.maximumWaitingRequests = 1
      }
    ) { session, server in
      let first = Task { try await session.data(from: server.url()) }
      #expect(await eventually { server.recordedRequests.count == 1 })
      let second = Task { try await session.data(from: server.url()) }
      #expect(await eventually { await session.poolStatistics().waits == 2 })
      let error = try await failure { try await session.data(from: server.url()) }
      #expect(error.code == .tooManyWaiters)
      #expect(error.phase == .poolWait)
      for task in [second, first] {
        task.cancel()
        _ = await task.result
      }
    }
  }

  /// A request waits for the connection that is opened for it, too.
  @Test(arguments: [0, Int.min]) func nobodyMayWaitForAnOpening(_ limit: Int) async throws {
    try await withServer(configure: { $0.maximumWaitingRequests = limit }) { session, server in
      try await expectFailure(.tooManyWaiters) { try await session.data(from: server.url("/hello")) }
      #expect(server.requestCount == 0)
    }
  }

  /// What was being opened for a request that gave up keeps nobody from the last place, whether that one came before or after.
  @Test(arguments: [false, true]) func openingOfARequestThatGaveUpYields(_ isWaiting: Bool) async throws {
    let full = try FullListener()
    let deadURL = "http://127.0.0.1:\(full.port)/"
    try await withServer(configure: {
      $0.maximumConnections = 1
      $0.connectTimeout = .seconds(600)
    }) { session, server in
      let dead = Task { try await session.data(from: deadURL) }
      #expect(await eventually { await session.poolStatistics().waits == 1 })
      if !isWaiting { dead.cancel() }
      let answer = Task { try await session.text(server.url("/hello")).1.statusCode }
      if isWaiting {
        #expect(await eventually { await session.poolStatistics().waits == 2 })
        dead.cancel()
      }
      let timer = Task {
        try await Task.sleep(for: .seconds(50))
        answer.cancel()
      }
      let status = try? await answer.value
      #expect(status == 200)
      timer.cancel()
      dead.cancel()
      _ = await dead.result
    }
    withExtendedLifetime(full) {}
  }

  /// An opening that is stuck, of a request that gave up, keeps no other request to the same host waiting: another server may be behind the name.
  @Test func stuckOpeningOfARequestThatGaveUpIsReplaced() async throws {
    let identity = try TestIdentity.server()
    try await withScript(
      [[.waitForClose], [.startTLS(identity), .readHead, .send(reply("2")), .waitForClose]],
      configure: {
        $0.maximumConnectionsPerHost = 1
        $0.tlsTimeout = .seconds(60)
      }
    ) { session, server in
      let url = "https://localhost:\(server.port)/"
      var short = try Request(url)
      short.totalTimeout = .milliseconds(2_500)
      let error = try await failure { try await session.data(for: short) }
      #expect(error.code == .timedOut)
      short.totalTimeout = .seconds(50)
      #expect(try await session.data(for: short).0 == Data("2".utf8))
    }
  }

  /// A failed connection fails one waiter, and the others get one of their own.
  @Test func waitersOutliveABadConnection() async throws {
    try await withScript(
      [
        [.readHead, .send("nonsense\r\n\r\n"), .waitForClose],
        [.readHead, .send(reply("2")), .readHead, .send(reply("3")), .waitForClose],
      ], configure: { $0.maximumConnectionsPerHost = 1 }
    ) { session, server in
      let tasks = (0..<3).map { _ in Task { try await session.text(server.url()).0 } }
      var answers: [String] = []
      for task in tasks {
        switch await task.result {
        case .success(let text): answers.append(text)
        case .failure(let error): answers.append("\((error as? SessionError)?.code.rawValue ?? "?")")
        }
      }
      #expect(answers.sorted() == ["2", "3", "badResponse"])
    }
  }

  @Test func manyRequestsOverBothSchemes() async throws {
    for isSecure in [false, true] {
      try await withServer(isSecure: isSecure) { session, server in
        try await withThrowingTaskGroup(of: Bool.self) { group in
          for index in 0..<100 {
            group.addTask {
              let size = index * 997
              let (body, _) = try await session.data(from: server.url("/bytes?n=\(size)"))
              return body.count == size && PatternBody.matches(body, from: 0)
            }
          }
          for try await isRight in group { #expect(isRight) }
        }
        #expect(server.connectionCount <= 6)
      }
    }
  }
}
