import LupineBase
import LupineSession
import LupineTesting
import Testing

/// A data task that becomes a download: from then on delegates hear of the download.
@Suite(.timeLimit(.minutes(5))) struct BecomingDownloadTests {
  private final class Listener: SessionDataDelegate, SessionDownloadDelegate {
    /// The handles that the callbacks came with.
    struct Told: Sendable {
      var download: DownloadTask?
      var measured: SessionTask?
      var completed: SessionTask?
    }

    let handledCallbacks: CallbackSet = [.response, .becameDownload, .metrics, .completed]
    let told = Locked(Told())

    func session(
      _ session: Session, dataTask: DataTask, didReceive response: Response,
      completionHandler: @escaping @Sendable (ResponseDisposition) -> Void
    ) {
      completionHandler(.becomeDownload)
    }

    func session(_ session: Session, dataTask: DataTask, didBecome downloadTask: DownloadTask) {
      told.withLock { $0.download = downloadTask }
    }

    func session(_ session: Session, task: SessionTask, didFinishCollecting metrics: TaskMetrics) {
      told.withLock { $0.measured = task }
    }

    func session(_ session: Session, task: SessionTask, didCompleteWithError error: SessionError?) {
      told.withLock { $0.completed = task }
    }
  }

  /// Nothing more is said of the data task: the metrics, too, are the download's.
  @Test func metricsAreToldOfTheDownload() async throws {
    try await withServer { session, server in
      let listener = Listener()
      let data = session.dataTask(with: try Request(server.url("/bytes?n=1000")))
      data.delegate = listener
      data.resume()
      #expect(await eventually { listener.told.withLock { $0.completed != nil } })
      let told = listener.told.withLock { $0 }
      let download = try #require(told.download)
      #expect(told.measured === download && told.completed === download)
    }
  }
}
