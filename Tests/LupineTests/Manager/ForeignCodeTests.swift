import Foundation
import LupineBase
import LupineTestSupport
import LupineTesting
import Synchronization
import Testing

@testable import Lupine

/// Code of somebody else's that asks the manager which calls it: it must not be called under a lock of the manager's.
@Suite(.timeLimit(.minutes(2))) struct ForeignCodeTests {
  private struct Asking: HTTPResponseSerializing {
    let manager: HTTPSessionManager
    let asked: Recorder<Bool>
    private var own = ResponseValidation()

    init(_ manager: HTTPSessionManager, _ asked: Recorder<Bool>) {
      self.manager = manager
      self.asked = asked
    }

    var validation: ResponseValidation {
      get {
        asked.add(manager.completionQueue == nil)
        return own
      }
      set { own = newValue }
    }

    func serialize(_ response: Response?, data: Data?) throws -> Data { data ?? Data() }
  }

  @Test func aSerializerMayAskWhileItIsSet() throws {
    let manager = try HTTPSessionManager()
    let asked = Recorder<Bool>()
    manager.responseSerializer = Asking(manager, asked)
    #expect(asked.values.allSatisfy { $0 } && !asked.values.isEmpty)
    manager.responseSerializer = JSONResponseSerializer()
    manager.session.invalidateAndCancel()
  }

  /// A task that is cancelled ends the question of an interceptor, whose handler of that looks at the same task.
  @Test func aQuestionThatEndsMayLookAtItsTask() async throws {
    try await withManager { manager, server in
      let (isAsking, isEnded) = try (Latch(), Latch())
      let delegate = Locked<(any AttemptingDelegate)?>(nil)
      let isFree = Locked(false)
      manager.interceptors = [
        ClosureInterceptor(adapt: { request, _ in
          try await withTaskCancellationHandler {
            isAsking.release()
            try await Task.sleep(for: .seconds(60))
            return request
          } onCancel: {
            // Another thread, as whoever waits for a lock that he has himself may be told of it in other ways.
            let looked = DispatchSemaphore(value: 0)
            let asked = delegate.withLock { $0 }
            Thread.detachNewThread {
              _ = asked?.attempts.withLock { $0.count }
              looked.signal()
            }
            let isInTime = looked.wait(timeout: .now() + 5) == .success
            isFree.withLock { $0 = isInTime }
            isEnded.release()
          }
        })
      ]
      let task = manager.dataTask(with: try Request(server.url("/hello"))) { _, _, _ in }
      delegate.withLock { $0 = task.delegate as? any AttemptingDelegate }
      #expect(delegate.withLock { $0 != nil })
      task.resume()
      #expect(await eventually { isAsking.isReleased })
      task.cancel()
      #expect(await eventually { isEnded.isReleased })
      #expect(isFree.withLock { $0 })
    }
  }
}
