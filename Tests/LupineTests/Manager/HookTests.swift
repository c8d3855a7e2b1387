import Foundation
import Lupine
import LupineBase
import LupineTestSupport
import LupineTesting
import Testing

/// Hooks whose occasion has to be made: no network, and bytes of a file.
@Suite(.timeLimit(.minutes(5))) struct HookTests {
  /// No network for so many requests, then the real one.
  private final class Unplugged: Transport {
    private final class Nothing: TransportExchange {
      func cancel() {}
      func setPaused(_ state: PauseState) {}
      func discardBody() {}
    }

    private let left: Locked<Int>
    private let network: NetworkTransport

    init(failures: Int, _ network: NetworkTransport) {
      left = Locked(failures)
      self.network = network
    }

    func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
      let isPlugged = left.withLock { left in
        left -= 1
        return left < 0
      }
      if isPlugged { return network.start(request, receiver) }
      let exchange = Nothing()
      receiver.end(
        SessionError(.notConnected, phase: .connect, message: "no network"), metrics: TransactionMetrics(),
        of: exchange)
      return exchange
    }

    func invalidate(cancelling: Bool) { network.invalidate(cancelling: cancelling) }
  }

  /// What is awaited begins behind the hook that hears of its task, as nobody else could say when it may; it is a task of the session before that.
  @Test func taskWasCreatedBeforeItBegan() async throws {
    let folder = try ScratchFolder()
    try await withManager(ServerRoute.api()) { manager, server in
      let told = Recorder<SessionTask.State>()
      manager.taskWasCreated = { _, task in told.add(task.state) }
      let request = try manager.request(.put, "anything")
      let serializer = HTTPResponseSerializer()
      let calls: [@Sendable () async throws -> Void] = [
        { _ = try await manager.response(for: request, serializer: serializer) },
        { _ = try await manager.download(for: request, to: folder.file("file")) },
        { _ = try await manager.upload(for: request, from: Data("body".utf8), serializer: serializer) },
      ]
      for call in calls {
        manager.session.delegateQueue.suspend()
        let running = Task { try await call() }
        let isTask = await eventually { manager.session.allTasks.count == 1 }
        manager.session.delegateQueue.resume()
        try await running.value
        #expect(isTask)
        // It leaves the list a moment after it was told to be over, and is not the next one.
        #expect(await eventually { manager.session.allTasks.isEmpty })
        manager.session.delegateQueue.suspend()
        let cancelled = Task { try await call() }
        let isAgain = await eventually { manager.session.allTasks.count == 1 }
        let task = manager.session.allTasks.first
        cancelled.cancel()
        // A call that is not yet where it can be cancelled hears of it when it comes there.
        let isOver = await eventually { task?.state == .completed }
        manager.session.delegateQueue.resume()
        let error = await #expect(throws: SessionError.self) { try await cancelled.value }
        #expect(isAgain && isOver && error?.code == .cancelled)
        #expect(await eventually { manager.session.allTasks.isEmpty })
      }
      #expect(told.values == [.suspended, .completed, .suspended, .completed, .suspended, .completed])
      #expect(server.requestCount == 3)
    }
  }

  /// The session may end before what is awaited has begun, as when the hook itself ends it: the call ends with it.
  @Test func theSessionMayEndBeforeTheTaskBegins() async throws {
    let folder = try ScratchFolder()
    // Several times, as the hook is to run before the call goes on, too.
    for index in 0..<40 {
      let isUpload = index.isMultiple(of: 2)
      try await withManager(ServerRoute.api()) { manager, server in
        manager.taskWasCreated = { session, _ in session.invalidateAndCancel() }
        let request = try manager.request(.put, "anything")
        let error = await #expect(throws: SessionError.self) {
          if isUpload {
            _ = try await manager.upload(for: request, from: Data("body".utf8), serializer: HTTPResponseSerializer())
          } else {
            _ = try await manager.download(for: request, to: folder.file("file"))
          }
        }
        #expect(error?.code == .cancelled && server.requestCount == 0)
      }
    }
  }

  /// A task that waits for a network tells so, once, and goes on; an `async` call too.
  @Test func taskIsWaitingForConnectivity() async throws {
    let network = try NetworkTransport(SessionConfiguration())
    for isAsync in [false, true] {
      let transport = Unplugged(failures: 2, network)
      try await withManager(configure: {
        $0.transport = transport
        $0.waitsForConnectivity = true
      }) { manager, server in
        manager.responseSerializer = HTTPResponseSerializer()
        let told = Recorder<SessionTask.State>()
        manager.taskIsWaitingForConnectivity = { session, task in
          if session === manager.session { told.add(task.state) }
        }
        if isAsync {
          let data = try await manager.get("hello", as: Data.self)
          #expect(data == Data("Hello, world!".utf8))
        } else {
          let end = await ended { manager.get("hello", success: $0, failure: $1) }
          #expect(end.value as? Data == Data("Hello, world!".utf8))
        }
        #expect(told.values == [.running])
        network.invalidate(cancelling: false)
      }
    }
  }

  /// The hook hears of every byte of a download: what was added, and how far that is.
  @Test func downloadTaskDidWriteData() async throws {
    let folder = try ScratchFolder()
    try await withManager { manager, server in
      let told = Recorder<[Int64]>()
      manager.downloadTaskDidWriteData = { _, _, count, total, expected in told.add([count, total, expected ?? -1]) }
      let request = try manager.request(.get, "bytes?n=300000")
      let end = await downloaded {
        manager.downloadTask(with: request, destination: { _, _ in folder.file("file") }, completion: $0)
      }
      #expect(end.error == nil)
      let steps = told.values
      #expect(steps.last?[1] == 300_000 && steps.allSatisfy { $0[2] == 300_000 })
      #expect(steps.reduce(0) { $0 + $1[0] } == 300_000)
      #expect(zip(steps, steps.dropFirst()).allSatisfy { $0[1] + $1[0] == $1[1] })
    }
  }
}
