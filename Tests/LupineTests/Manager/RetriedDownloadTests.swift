import Dispatch
import Foundation
import Lupine
import LupineBase
import LupineTesting
import LupineWire
import Testing

/// A task that is sent again, and becomes a download only then.
@Suite(.timeLimit(.minutes(1))) struct RetriedDownloadTests {
  /// Answers 503, then 200, with bodies that are more than anybody takes at once; notes how it is paused.
  private final class LargeTransport: Transport {
    private final class Exchange: TransportExchange {
      let number: Int
      let pauses: Recorder<String>

      init(_ number: Int, _ pauses: Recorder<String>) {
        self.number = number
        self.pauses = pauses
      }

      func cancel() {}
      func discardBody() {}
      func setPaused(_ state: PauseState) {
        pauses.add("\(number) \(state.isPaused ? "paused" : "goes on")")
      }
    }

    let pauses = Recorder<String>()
    private let started = Locked(0)
    private let queue = DispatchQueue(label: "test.transport")
    private let isRead: Latch
    private let heads: [ResponseHead]

    init(isRead: Latch) throws {
      self.isRead = isRead
      heads = try [503, 200].map { try ResponseHead(status: $0, fields: [("Content-Length", "4194304")]) }
    }

    func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
      let number = started.withLock { started in
        started += 1
        return started
      }
      let exchange = Exchange(number, pauses)
      queue.async { [self] in
        let body = [UInt8](repeating: 0x61, count: 4 << 20)
        receiver.receive(head: heads[min(number, 2) - 1], framing: .length(Int64(body.count)), of: exchange)
        receiver.receive(body: body.span, of: exchange)
        // The delegate reads all of the first body before its end comes.
        if number == 1 { _ = isRead.wait(seconds: 60) }
        receiver.end(nil, metrics: TransactionMetrics(), of: exchange)
      }
      return exchange
    }
  }

  /// The pauses of the attempt before are no word on those of the file.
  @Test func aFileThatIsBehindStopsTheTransport() async throws {
    let isRead = try Latch()
    let transport = try LargeTransport(isRead: isRead)
    let folder = try ScratchFolder()
    try await withManager([], configure: { $0.transport = transport }) { manager, _ in
      var policy = RetryPolicy()
      policy.baseDelay = .zero
      manager.retryPolicy = policy
      manager.dataTaskDidReceiveResponse = { _, _, response in response.statusCode == 200 ? .becomeDownload : .allow }
      manager.dataTaskDidReceiveData = { _, _, _ in isRead.release() }
      manager.downloadTaskDidFinishDownloading = { _, _, _ in folder.file("body") }
      let request = try Request("http://a.example/large")
      let end = await ended { manager.dataTask(with: request, completion: $0) }
      #expect(end.error == nil && folder.names == ["body"])
      // Once for the delegate's decision, and once because somebody is behind.
      #expect(transport.pauses.values.count { $0 == "1 paused" } >= 2)
      #expect(transport.pauses.values.count { $0 == "2 paused" } >= 2)
    }
  }
}
