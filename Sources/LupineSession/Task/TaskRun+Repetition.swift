internal import LupineBase
internal import Synchronization

/// Attempts: a task whose delegate makes its requests may be sent again, as if it had just begun. See `RepeatingTaskDelegate`.
extension TaskRun {
  /// Asks for the request of an attempt, and goes on with it.
  ///
  /// - Parameter outOfTime: what the task ends with if its time is over before the answer.
  func prepare(
    _ request: Request, _ observer: TaskCallbacks, _ repeater: any RepeatingTaskDelegate,
    outOfTime: (@Sendable (TaskRun) -> Void)?, _ next: @escaping @Sendable (TaskRun) -> Void
  ) {
    guard let wait = waitForAnswer() else { return }
    if let outOfTime { endWaiting(wait, outOfTime) }
    observer.prepare(request, repeater) { [self] result in
      answered(wait) {
        switch result {
        case .success(let request):
          self.begin(with: request)
          next(self)
        case .failure(let error): self.finish(error)
        }
      }
    }
  }

  /// Whether somebody is asked if the task is to be sent again: then it goes on, or ends, with the answer. If its time is over before that, it ends with
  /// what the attempt brought; if it is over already, nobody is asked.
  func mayRepeat(after failure: SessionError?) -> Bool {
    guard let observer, let repeater = observer.repeater, let consumer = consumer as? DelegateConsumer,
      consumer.download == nil, failure?.code != .cancelled
    else { return false }
    let response = state.withLock { $0.response }
    guard failure != nil || (response?.statusCode ?? 0) >= 400, nanosecondsLeft > 0 else { return false }
    guard let wait = waitForAnswer() else { return true }
    let giveUp: @Sendable (TaskRun) -> Void = { $0.finish(failure) }
    endWaiting(wait, giveUp)
    var described = failure
    described?.response = response ?? failure?.response
    observer.mayRepeat(after: described, repeater) { [self] isWanted in
      answered(wait) {
        guard isWanted else { return self.finish(failure) }
        self.prepare(
          self.state.withLock { $0.first } ?? self.request, observer, repeater, outOfTime: giveUp
        ) { run in
          // Not before there is a request to send: until then the task may end with what the attempt brought.
          run.receivedBytes.store(0, ordering: .relaxed)
          let authentication = run.state.withLock { state in
            state.connectivityWaits = 0
            return state.authentication
          }
          authentication?.startOver()
          repeater.forgetData()
          run.beginRepeated()
        }
      }
    }
    return true
  }
}
