import FoundationEssentials
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// Whoever keeps what it began, and is held by what is called at the end, goes then. Delegates are in `LettingGoTests`.
@Suite(.timeLimit(.minutes(5))) struct OwnerTests {
  enum Kind: CaseIterable, Sendable {
    /// A download task whose completion handler holds the owner.
    case download, cancelledDownload, downloadThatNeverBegan
    /// The closure that cancels a reception, whose completion holds the owner.
    case reception, cancelledReception
    /// A handle on a reception, whose closures hold the owner.
    case listedReception
    /// A handle on a transfer, whose progress is shown by the owner.
    case upload, asynchronousDownload, failedUpload, failedDownload
  }

  private final class Owner: SessionTaskDelegate {
    let handledCallbacks: CallbackSet = .createdTask
    let task = Locked<SessionTask?>(nil)
    let stop = Locked<(@Sendable () -> Void)?>(nil)
    private let ends: Locked<Int>

    init(_ ends: Locked<Int>) { self.ends = ends }

    func session(_ session: Session, didCreateTask task: SessionTask) { self.task.withLock { $0 = task } }
    func show() {}
    func end() { ends.withLock { $0 += 1 } }
  }

  private final class Weak: @unchecked Sendable {
    weak var owner: Owner?
  }

  @Test(arguments: Kind.allCases) func anOwnerThatKeepsWhatItBeganGoes(_ kind: Kind) async throws {
    let go = try Latch()
    try await withServer(ServerRoute.standard(latch: go)) { session, server in
      let weak = Weak()
      let ends = Locked(0)
      let path =
        switch kind {
        case .listedReception: "/slow"
        case .failedDownload: "/status?code=404"
        default: "/bytes?n=1000"
        }
      try await begin(kind, Request(server.url(path)), session, weak, ends)
      go.release()
      #expect(await eventually { ends.withLock { $0 } == 1 })
      #expect(await eventually(seconds: 20) { weak.owner == nil })
      #expect(ends.withLock { $0 } == 1)
    }
  }

  /// Apart, so that nothing is held when this returns.
  private func begin(_ kind: Kind, _ request: Request, _ session: Session, _ weak: Weak, _ ends: Locked<Int>)
    async throws
  {
    let owner = Owner(ends)
    weak.owner = owner
    switch kind {
    case .download, .cancelledDownload, .downloadThatNeverBegan:
      let task = session.downloadTask(with: request) { _ in owner.end() }
      owner.task.withLock { $0 = task }
      if kind != .downloadThatNeverBegan { task.resume() }
      if kind != .download { task.cancel() }
    case .reception, .cancelledReception:
      let stop = session.receive(request, onBody: { _ in }, completion: { _ in owner.end() })
      owner.stop.withLock { $0 = stop }
      if kind == .cancelledReception { stop() }
    case .listedReception:
      session.receive(
        request, onResponse: { _ in owner.show() }, onBody: { _ in owner.show() }, completion: { _ in owner.end() })
      let task = try #require(session.allTasks.first)
      owner.task.withLock { $0 = task }
    case .upload, .failedUpload:
      var request = request
      if kind == .failedUpload { request.totalTimeout = .nanoseconds(1) }
      _ = try? await session.upload(for: request, from: Data([1]), delegate: owner) { _ in owner.show() }
      owner.end()
    case .asynchronousDownload, .failedDownload:
      let file = try? await session.download(for: request, delegate: owner) { _, _ in owner.show() }
      if let file { try FileManager.default.removeItem(atPath: file.path) }
      #expect((file != nil) == (kind == .asynchronousDownload))
      #expect(owner.task.withLock { $0?.state } == .completed)
      owner.end()
    }
  }
}
