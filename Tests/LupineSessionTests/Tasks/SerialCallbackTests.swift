import Dispatch
import FoundationEssentials
import LupineSession
import LupineTestSupport
import LupineTesting
import Synchronization
import Testing

/// A delegate's callbacks come one at a time, whatever the queue would allow.
@Suite(.timeLimit(.minutes(5))) struct SerialCallbackTests {
  private final class BusyDelegate: SessionDataDelegate {
    let handledCallbacks: CallbackSet = .all
    let inside = Atomic(0)
    let overlaps = Atomic(0)
    let completed = Atomic(0)

    /// Long enough for another one to begin.
    private func takeTime() {
      if inside.add(1, ordering: .acquiringAndReleasing).oldValue > 0 { overlaps.add(1, ordering: .relaxed) }
      let end = DispatchTime.now() + .microseconds(300)
      while DispatchTime.now() < end {}
      inside.subtract(1, ordering: .acquiringAndReleasing)
    }

    func session(_ session: Session, didCreateTask task: SessionTask) { takeTime() }

    func session(_ session: Session, dataTask: DataTask, didReceive data: Data) { takeTime() }

    func session(_ session: Session, task: SessionTask, didFinishCollecting metrics: TaskMetrics) { takeTime() }

    func session(_ session: Session, task: SessionTask, didCompleteWithError error: SessionError?) {
      takeTime()
      completed.add(1, ordering: .relaxed)
    }
  }

  @Test func onAConcurrentQueue() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let delegate = BusyDelegate()
    let queue = DispatchQueue(label: "test.concurrent", attributes: .concurrent)
    let session = try Session(SessionConfiguration(), delegate: delegate, delegateQueue: queue)
    defer { session.invalidateAndCancel() }
    for _ in 0..<40 { session.dataTask(with: try Request(server.url("/hello"))).resume() }
    #expect(await eventually { delegate.completed.load(ordering: .relaxed) == 40 })
    #expect(delegate.overlaps.load(ordering: .relaxed) == 0)
  }
}
