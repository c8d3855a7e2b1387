internal import LupineBase
internal import LupineSession
internal import Synchronization

/// The delegate of one task of a manager, as far as it passes questions on to the manager's hooks. By itself it is the delegate of an `async` call.
///
/// `@unchecked`, because it has a subclass: whatever can change is behind a lock, in both.
class HookedTaskDelegate: SessionTaskDelegate, @unchecked Sendable {
  let settings: ManagerSettings
  private let refusal = LockedStorage<(any Error)?>(nil)

  init(_ settings: ManagerSettings) { self.settings = settings }

  /// Nil: no hook that concerns such a call is set, so that it needs no delegate.
  static func forAsyncCall(_ settings: ManagerSettings) -> HookedTaskDelegate? {
    settings.values.withLock { $0.hooks.asyncCallbacks.isEmpty } ? nil : HookedTaskDelegate(settings)
  }

  func hook<Value: Sendable>(_ read: (SessionManagerHooks) -> Value) -> Value { settings.hook(read) }

  var handledCallbacks: CallbackSet { hook { $0.asyncCallbacks } }

  /// What a task ends with: the error of the handler that gave up a challenge, if it did.
  func explained(_ error: SessionError) -> any Error {
    if error.code == .cancelled, let refusal = refusal.withLock({ $0 }) { return refusal }
    return settings.explained(error)
  }

  func session(_ session: Session, didCreateTask task: SessionTask) { hook { $0.taskWasCreated }?(session, task) }

  func session(
    _ session: Session, task: SessionTask, willBeginDelayedRequest request: Request,
    completionHandler: @escaping @Sendable (DelayedRequestDisposition) -> Void
  ) {
    completionHandler(hook { $0.taskWillBeginDelayedRequest }?(session, task, request) ?? .continueLoading)
  }

  func session(_ session: Session, taskIsWaitingForConnectivity task: SessionTask) {
    hook { $0.taskIsWaitingForConnectivity }?(session, task)
  }

  func session(_ session: Session, task: SessionTask, didReceiveInformationalResponse response: Response) {
    hook { $0.taskDidReceiveInformationalResponse }?(session, task, response)
  }

  func session(
    _ session: Session, task: SessionTask, willPerformHTTPRedirection response: Response, newRequest request: Request,
    completionHandler: @escaping @Sendable (Request?) -> Void
  ) {
    guard let hook = hook({ $0.taskWillPerformHTTPRedirection }) else { return completionHandler(request) }
    completionHandler(hook(session, task, response, request))
  }

  func session(
    _ session: Session, task: SessionTask, didReceive challenge: AuthenticationChallenge,
    completionHandler: @escaping @Sendable (ChallengeDisposition) -> Void
  ) {
    guard let handler = hook({ $0.authenticationChallengeHandler }) else {
      return completionHandler(.performDefaultHandling)
    }
    switch handler(session, task, challenge, completionHandler) {
    case .handledLater: break
    case .credential(let credential): completionHandler(.useCredential(credential))
    case .disposition(let disposition): completionHandler(disposition)
    case .error(let error):
      refusal.withLock { $0 = error }
      completionHandler(.cancelAuthenticationChallenge)
    }
  }

  func session(
    _ session: Session, task: SessionTask,
    needNewBodyStream completionHandler: @escaping @Sendable (BodyStream?) -> Void
  ) {
    completionHandler(hook { $0.taskNeedNewBodyStream }?(session, task))
  }

  func session(
    _ session: Session, task: SessionTask, didSendBodyData bytesSent: Int64, totalBytesSent: Int64,
    totalBytesExpectedToSend: Int64?
  ) {
    hook { $0.taskDidSendBodyData }?(session, task, bytesSent, totalBytesSent, totalBytesExpectedToSend)
  }

  func session(_ session: Session, task: SessionTask, didFinishCollecting metrics: TaskMetrics) {
    hook { $0.taskDidFinishCollectingMetrics }?(session, task, metrics)
  }

  func session(_ session: Session, task: SessionTask, didCompleteWithError error: SessionError?) {}
}
