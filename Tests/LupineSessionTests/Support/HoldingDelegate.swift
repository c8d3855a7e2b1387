import FoundationEssentials
import LupineBase
import LupineSession
import LupineTesting

/// Takes each piece, and holds the delegate queue until it may go on.
final class HoldingDelegate: SessionDataDelegate {
  private let go: Latch
  let taken = Locked<[UInt8]>([])
  let hasEnded = Locked(false)

  init(until go: Latch) { self.go = go }

  func session(_ session: Session, dataTask: DataTask, didReceive data: Data) {
    taken.withLock { $0 += Array(data) }
    _ = go.wait(seconds: 60)
  }

  func session(_ session: Session, task: SessionTask, didCompleteWithError error: SessionError?) {
    hasEnded.withLock { $0 = true }
  }
}
