internal import LupineBase
internal import Synchronization

/// Attempts: a task whose delegate makes its requests may be sent again, as if it had just begun. See `RepeatingTaskDelegate`.
extension TaskRun {
  /// Asks for the request of an attempt, and goes on with it.
  func prepare(
    _ request: Request, _ observer: TaskCallbacks, _ repeater: any RepeatingTaskDelegate,
    _ next: @escaping @Sendable (TaskRun) -> Void
  ) {
    guard let wait = waitForAnswer() else { return }
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

  /// Whether somebody is asked if the task is to be sent again: then it goes on, or ends, with the answer.
  func mayRepeat(after failure: SessionError?) -> Bool {
    guard let observer, let repeater = observer.repeater, let consumer = consumer as? DelegateConsumer,
      consumer.download == nil
    else { return false }
    let response = state.withLock { $0.response }
    guard failure != nil || (response?.statusCode ?? 0) >= 400 else { return false }
    guard let wait = waitForAnswer() else { return true }
    var described = failure
    described?.response = response ?? failure?.response
    observer.mayRepeat(after: described, repeater) { [self] isWanted in
      answered(wait) {
        guard isWanted else { return self.finish(failure) }
        self.receivedBytes.store(0, ordering: .relaxed)
        self.state.withLock { $0.connectivityWaits = 0 }
        self.prepare(self.state.withLock { $0.first } ?? self.request, observer, repeater) { $0.beginRepeated() }
      }
    }
    return true
  }
}
