/// A task's own delegate that makes the request of each attempt, and may have a data or upload task sent again instead of ending. For managers, whose
/// interceptors and retry policies it carries.
///
/// A task whose `handledCallbacks` has `.repetition` asks `prepare` when it begins (after `earliestBeginDate`), and before it is sent again. It asks
/// `mayRepeatAfter` on the delegate queue behind everything that the attempt brought, when that failed or its response has a status of 400 or above; not
/// when the task was cancelled, and not for what goes into a file. The time for the whole task goes on meanwhile, and ends either question with it: before the first
/// exchange the task fails with `.timedOut`, later it ends with what the last attempt brought. When it is over nobody is asked.
package protocol RepeatingTaskDelegate: SessionTaskDelegate {
  /// Whether the answer to `prepare` may take time. Default true; false spares the timer that would end the wait.
  var takesTimeToPrepare: Bool { get }

  /// The request to send; a failure ends the task.
  func session(
    _ session: Session, task: SessionTask, prepare request: Request,
    completionHandler: @escaping @Sendable (Result<Request, SessionError>) -> Void)

  /// Whether the task is sent again instead of ending. Wait before the answer.
  ///
  /// - Parameter error: nil: the response is complete.
  func session(
    _ session: Session, task: SessionTask, mayRepeatAfter error: SessionError?,
    completionHandler: @escaping @Sendable (Bool) -> Void)

  /// The task is sent again, and ends no more with what the attempt before brought. Called before anything of the next one comes, by the thread that has
  /// answered `prepare`. Default: nothing.
  func forgetData()
}

extension RepeatingTaskDelegate {
  package var takesTimeToPrepare: Bool { true }
  package func forgetData() {}
}

extension CallbackSet {
  /// `RepeatingTaskDelegate`.
  package static let repetition = CallbackSet(rawValue: 1 << 19)
}
