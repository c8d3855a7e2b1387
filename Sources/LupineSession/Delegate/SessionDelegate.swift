public import FoundationEssentials

/// Hears of a session as a whole. Every method is called on the session's delegate queue, one at a time.
///
/// Each method has a default implementation, which does what the session would do without a delegate; that of a task's own delegate leaves it to
/// the session's. Say in `handledCallbacks` which methods you implement: the others then cost nothing.
public protocol SessionDelegate: AnyObject, Sendable {
  /// Which callbacks the delegate wants. Default all.
  var handledCallbacks: CallbackSet { get }

  /// A server has shown its certificates, or asks for one of ours; the handshake waits. Default: what the configuration says.
  ///
  /// The session's delegate alone is asked, and not the delegate of a task: a connection belongs to no task.
  ///
  /// A delegate that handles this gives its session connections, TLS sessions and cached responses of `https` URLs of its own, in memory only: nothing
  /// that it decided reaches another one.
  ///
  /// A completion handler that is dropped without a call rejects: the server is not trusted, or gets no certificate. The same goes for connections
  /// that are opened when the session has let go of its delegate.
  func session(
    _ session: Session, didReceive challenge: ConnectionChallenge,
    completionHandler: @escaping @Sendable (ConnectionChallengeDisposition) -> Void)

  /// The session was invalidated, and its last task has completed. Nothing is called after it.
  ///
  /// - Parameter error: nil: the session was invalidated by its owner.
  func session(_ session: Session, didBecomeInvalidWithError error: SessionError?)
}

extension SessionDelegate {
  /// All.
  public var handledCallbacks: CallbackSet { .all }

  /// Does what the configuration says.
  public func session(
    _ session: Session, didReceive challenge: ConnectionChallenge,
    completionHandler: @escaping @Sendable (ConnectionChallengeDisposition) -> Void
  ) {
    completionHandler(.performDefaultHandling)
  }

  /// Does nothing.
  public func session(_ session: Session, didBecomeInvalidWithError error: SessionError?) {}
}

/// A delegate that may come to handle `.sessionChallenge` during the life of its session; the session reads `handledCallbacks` for every new
/// connection, and is flushed when that changes.
package protocol LateTrustDelegate: SessionDelegate {}

/// What becomes of a task whose `earliestBeginDate` has come.
public enum DelayedRequestDisposition: Sendable {
  /// Send the request as it is.
  case continueLoading
  /// Send another one instead.
  case useNewRequest(Request)
  /// Cancel the task.
  case cancel
}

/// Hears of the tasks of a session, or of the one task that it was given to. Called on the session's delegate queue, one call at a time, in
/// the order of events of each task. The delegate of a task is asked instead of the session's; what it leaves out of `handledCallbacks`, or has
/// no method for, goes to the session's, as in URLSession.
///
/// A completion handler must be called once, from any thread; calls after the first are ignored. One that is dropped without a call counts
/// as the default, so that no task hangs.
public protocol SessionTaskDelegate: SessionDelegate {
  /// A task was made. That of an `async` call has not begun, and begins when this has returned: `earliestBeginDate` and `delegate` can be set here. One that
  /// begins with its maker's `resume()` may have begun.
  func session(_ session: Session, didCreateTask task: SessionTask)

  /// The `earliestBeginDate` of a task has come. Default: the request is sent as it is.
  func session(
    _ session: Session, task: SessionTask, willBeginDelayedRequest request: Request,
    completionHandler: @escaping @Sendable (DelayedRequestDisposition) -> Void)

  /// There is no network, and `SessionConfiguration.waitsForConnectivity` says to wait for one. At most once a task.
  func session(_ session: Session, taskIsWaitingForConnectivity task: SessionTask)

  /// A 1xx response other than 100 (RFC 9110 15.2).
  func session(_ session: Session, task: SessionTask, didReceiveInformationalResponse response: Response)

  /// A redirect that the session would follow. Answer with the request to send, changed or not, or with nil to make the 3xx response the
  /// answer. Default: follow.
  func session(
    _ session: Session, task: SessionTask, willPerformHTTPRedirection response: Response, newRequest request: Request,
    completionHandler: @escaping @Sendable (Request?) -> Void)

  /// A server answered 401, with a challenge that can be answered: the strongest first. Default: the credential of the request, its URL or the
  /// storage is sent; without one, the 401 response is the answer. Not asked again about a nonce that was stale.
  func session(
    _ session: Session, task: SessionTask, didReceive challenge: AuthenticationChallenge,
    completionHandler: @escaping @Sendable (ChallengeDisposition) -> Void)

  /// The body has to be sent, for the first time or again, after a redirect that keeps the method or a challenge, and cannot be made from the request.
  /// Answer with the body. Default nil: the task fails with `.requestBodyFailed`. Where that is not wanted, leave `.needNewBodyStream` out of
  /// `handledCallbacks`: then the redirect is the answer, and a challenge ends the task with `.bodyNotReplayable`, which has the 401 response.
  func session(
    _ session: Session, task: SessionTask,
    needNewBodyStream completionHandler: @escaping @Sendable (BodyStream?) -> Void)

  /// Body bytes were handed to the network.
  ///
  /// - Parameters:
  ///   - bytesSent: since the last call.
  ///   - totalBytesSent: of this request; it begins anew where the body has to be sent again.
  ///   - totalBytesExpectedToSend: nil if the body has no known length.
  func session(
    _ session: Session, task: SessionTask, didSendBodyData bytesSent: Int64, totalBytesSent: Int64,
    totalBytesExpectedToSend: Int64?)

  /// When what happened, for every request of the task; just before its completion.
  func session(_ session: Session, task: SessionTask, didFinishCollecting metrics: TaskMetrics)

  /// The task is over: the last call for it. Not called for a task with a completion handler, nor for an `async` call.
  ///
  /// - Parameter error: nil: the response is complete, whatever its status.
  func session(_ session: Session, task: SessionTask, didCompleteWithError error: SessionError?)
}

/// What becomes of a response whose head has arrived.
public enum ResponseDisposition: Sendable, Hashable {
  /// Receive the body.
  case allow
  /// Cancel the task.
  case cancel
  /// Write the body to a file: the task goes on as a download.
  case becomeDownload
}

/// Hears of data and upload tasks without a completion handler. See `SessionTaskDelegate` for queue, order and completion handlers.
public protocol SessionDataDelegate: SessionTaskDelegate {
  /// The head of the final response. The body waits for the answer. Default: allow.
  func session(
    _ session: Session, dataTask: DataTask, didReceive response: Response,
    completionHandler: @escaping @Sendable (ResponseDisposition) -> Void)

  /// The disposition was `.becomeDownload`: the task goes on as this one, which has the same identifier. Nothing more is said of the data task.
  func session(_ session: Session, dataTask: DataTask, didBecome downloadTask: DownloadTask)

  /// Body bytes, decoded. While a delegate is behind, the next call brings what has gathered, and the socket is not read past 256 KiB of it (the high one of
  /// `SessionConfiguration.bodyWatermarks`).
  func session(_ session: Session, dataTask: DataTask, didReceive data: Data)

  /// A complete response may be stored (RFC 9111 3). Answer with what is to be stored, changed or not, or with nil to store nothing,
  /// and to forget what a cache has of the URL.
  /// Called for data tasks with a delegate, if the configuration has a `responseCache`, and again for a `responseStore`; behind the data, and not for a task
  /// that was cancelled or became a download. Default: store as proposed.
  func session(
    _ session: Session, dataTask: DataTask, willCacheResponse proposedResponse: CachedResponse,
    completionHandler: @escaping @Sendable (CachedResponse?) -> Void)
}

/// Hears of download tasks without a completion handler; of `async` downloads the bytes, not the file. See `SessionTaskDelegate` for queue, order and completion handlers.
public protocol SessionDownloadDelegate: SessionTaskDelegate {
  /// The body is complete, in a temporary file. Move it away before you return: what is still there then is removed.
  func session(_ session: Session, downloadTask: DownloadTask, didFinishDownloadingTo path: String)

  /// Body bytes were written.
  ///
  /// - Parameters:
  ///   - bytesWritten: since the last call.
  ///   - totalBytesWritten: with those of earlier attempts, if the download was resumed.
  ///   - totalBytesExpectedToWrite: nil if the length is not known.
  func session(
    _ session: Session, downloadTask: DownloadTask, didWriteData bytesWritten: Int64, totalBytesWritten: Int64,
    totalBytesExpectedToWrite: Int64?)

  /// The server goes on where an earlier attempt ended. If everything was there already, so that no data is written, both numbers are its length.
  func session(
    _ session: Session, downloadTask: DownloadTask, didResumeAtOffset fileOffset: Int64, expectedTotalBytes: Int64?)
}
