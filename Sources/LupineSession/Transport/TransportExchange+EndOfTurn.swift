internal import LupineEngine
internal import LupineIO

extension TransportExchange {
  /// Runs `work`, which resumes a task, together with what else the engine's turn resumes: see `EventLoop.atEndOfTurn`. At once with another
  /// transport.
  ///
  /// - Parameter priority: of the task that waits.
  func atEndOfTurn(priority: TaskPriority, _ work: @escaping @Sendable () -> Void) {
    // A consumer sees the exchange through its task, which knows the engine.
    guard let loop = (self as? TaskRun)?.session.turningLoop else {
      work()
      return
    }
    loop.atEndOfTurn(priority: priority, work)
  }
}
