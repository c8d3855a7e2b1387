import Foundation
import LupineBase
import LupineSession
import LupineTesting
import Testing

/// What a task holds goes when it is over: its delegate may hold the task, and in the usual case does.
@Suite(.timeLimit(.minutes(5))) struct LettingGoTests {
  enum Kind: CaseIterable, Sendable {
    case data, handler, upload, download, becomesDownload, cancelledBeforeItBegins, asynchronous
    /// The delegate wants to hear nothing.
    case silent
  }

  private final class Keeper: SessionDataDelegate, SessionDownloadDelegate {
    let tasks = Locked<[SessionTask]>([])
    let handledCallbacks: CallbackSet
    private let becomesDownload: Bool

    init(_ kind: Kind) {
      handledCallbacks = kind == .silent ? [] : .all
      becomesDownload = kind == .becomesDownload
    }

    func keep(_ task: SessionTask) { tasks.withLock { $0.append(task) } }

    func session(_ session: Session, didCreateTask task: SessionTask) { keep(task) }

    func session(
      _ session: Session, dataTask: DataTask, didReceive response: Response,
      completionHandler: @escaping @Sendable (ResponseDisposition) -> Void
    ) {
      completionHandler(becomesDownload ? .becomeDownload : .allow)
    }

    func session(_ session: Session, dataTask: DataTask, didBecome downloadTask: DownloadTask) {
      keep(downloadTask)
      downloadTask.delegate = self
    }

    func session(_ session: Session, downloadTask: DownloadTask, didFinishDownloadingTo path: String) {}
  }

  private final class Weak: @unchecked Sendable {
    weak var keeper: Keeper?
  }

  @Test(arguments: Kind.allCases) func aDelegateThatKeepsItsTaskGoes(_ kind: Kind) async throws {
    try await withServer { session, server in
      let weak = Weak()
      try await begin(kind, Request(server.url("/bytes?n=1000")), session, weak)
      #expect(await eventually { weak.keeper == nil })
    }
  }

  /// Apart, so that nothing is held when this returns.
  private func begin(_ kind: Kind, _ request: Request, _ session: Session, _ weak: Weak) async throws {
    let keeper = Keeper(kind)
    weak.keeper = keeper
    let task: SessionTask
    switch kind {
    case .asynchronous:
      _ = try await session.data(for: request, delegate: keeper)
      let count = keeper.tasks.withLock { $0.count }
      #expect(count == 1)
      return
    case .data, .becomesDownload, .cancelledBeforeItBegins, .silent: task = session.dataTask(with: request)
    case .handler: task = session.dataTask(with: request) { _ in }
    case .upload: task = session.uploadTask(with: request, from: Data([1]))
    case .download: task = session.downloadTask(with: request)
    }
    task.delegate = keeper
    keeper.keep(task)
    if kind == .cancelledBeforeItBegins { task.cancel() } else { task.resume() }
  }

  /// Whoever follows the data task hears of the download that it became, to its end.
  @Test func progressOfATaskThatBecameADownloadEnds() async throws {
    let go = try Latch()
    try await withServer([
      ServerRoute(nil, "/file") { _, connection in
        try connection.begin(framing: .length(1000))
        try connection.write(PatternBody.bytes(400))
        _ = try connection.stall(until: go)
        try connection.write(PatternBody.bytes(600, from: 400))
        try connection.finish()
      }
    ]) { session, server in
      let keeper = Keeper(.becomesDownload)
      let task = session.dataTask(with: try Request(server.url("/file")))
      task.delegate = keeper
      let updates = task.progressUpdates
      task.resume()
      var counts: [Int64] = []
      for await progress in updates {
        counts.append(progress.countOfBytesReceived)
        if progress.countOfBytesReceived == 400 { go.release() }
      }
      #expect(counts.last == 1000)
    }
  }
}
