import Foundation
import Lupine
import LupineBase
import LupineTesting
import Testing

/// Hooks whose occasion has to be made: no network, and bytes of a file.
@Suite struct HookTests {
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
