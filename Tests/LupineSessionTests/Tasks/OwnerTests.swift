import LupineBase
import LupineSession
import LupineTesting
import Testing

/// Whoever keeps what it began, and is held by what is called at the end, goes then. Delegates are in `LettingGoTests`.
@Suite(.timeLimit(.minutes(5))) struct OwnerTests {
  enum Kind: CaseIterable, Sendable {
    /// A download task whose completion handler holds the owner.
    case download, cancelledDownload, downloadThatNeverBegan
    /// The closure that cancels a reception, whose completion holds the owner.
    case reception, cancelledReception
  }

  private final class Owner: Sendable {
    let task = Locked<DownloadTask?>(nil)
    let stop = Locked<(@Sendable () -> Void)?>(nil)
    private let ends: Locked<Int>

    init(_ ends: Locked<Int>) { self.ends = ends }

    func end() { ends.withLock { $0 += 1 } }
  }

  private final class Weak: @unchecked Sendable {
    weak var owner: Owner?
  }

  @Test(arguments: Kind.allCases) func anOwnerThatKeepsWhatItBeganGoes(_ kind: Kind) async throws {
    try await withServer { session, server in
      let weak = Weak()
      let ends = Locked(0)
      try begin(kind, Request(server.url("/bytes?n=1000")), session, weak, ends)
      #expect(await eventually { ends.withLock { $0 } == 1 })
      #expect(await eventually(seconds: 20) { weak.owner == nil })
      #expect(ends.withLock { $0 } == 1)
    }
  }

  /// Apart, so that nothing is held when this returns.
  private func begin(_ kind: Kind, _ request: Request, _ session: Session, _ weak: Weak, _ ends: Locked<Int>) {
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
    }
  }
}
