import Glibc
import LupineBase
import LupineIO
import LupineSession
import LupineTesting
import Testing

@Suite(.timeLimit(.minutes(2))) struct ExecutorTests {
  /// A task that prefers the engine's executor goes on where completions are called, and works as any other.
  @Test func tasksMayRunOnTheEngine() async throws {
    try await withServer { session, server in
      let request = try Request(server.url("/hello"))
      let engine = try await thread { done in session.data(for: request) { _ in done() } }
      let executor = try #require(session.engineExecutor)
      let threads = try await withTaskExecutorPreference(executor) {
        try await withThrowingTaskGroup(of: UInt.self) { group in
          for _ in 0..<20 {
            group.addTask {
              let (data, _) = try await session.data(for: request)
              #expect(!data.isEmpty)
              return currentThread()
            }
          }
          return try await group.reduce(into: Set<UInt>()) { $0.insert($1) }
        }
      }
      #expect(threads == [engine])
    }
  }

  /// What waits on the engine's thread goes on there: no other thread has a part in it, which would have to wake the engine.
  @Test func tasksOnTheEngineAreResumedByIt() async throws {
    try await withServer(configure: { $0.engine = .own }) { session, server in
      let request = try Request(server.url("/hello"))
      let loop = try #require(session.engineExecutor as? EventLoop)
      let wakeUps = try await withTaskExecutorPreference(loop) {
        try await withThrowingTaskGroup(of: Void.self) { group in
          // Asked on the loop, so that what wakes it to begin is not counted.
          let before = loop.wakeUps
          for _ in 0..<20 {
            group.addTask { for _ in 0..<50 { _ = try await session.data(for: request) } }
          }
          try await group.waitForAll()
          return loop.wakeUps - before
        }
      }
      #expect(wakeUps == 0)
    }
  }

  @Test func anotherTransportHasNone() throws {
    var configuration = SessionConfiguration()
    configuration.transport = NoTransport()
    #expect(try Session(configuration).engineExecutor == nil)
  }

  private func thread(_ begin: (@escaping @Sendable () -> Void) -> Void) async throws -> UInt {
    await withCheckedContinuation { continuation in begin { continuation.resume(returning: currentThread()) } }
  }
}

private struct NoTransport: Transport {
  func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
    fatalError("not used")
  }
}

private func currentThread() -> UInt { pthread_self() }
