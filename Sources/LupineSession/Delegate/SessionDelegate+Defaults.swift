public import FoundationEssentials

// What a delegate has no method for. The delegate of a task leaves it to the session's; that one does what the session would do without a delegate.

extension SessionTaskDelegate {
  /// The session's delegate, where this is a task's own that was asked, and that one wants the callback. Whom delegates of others' making ask in
  /// turn does what it would without a delegate: one that passes everything on would be asked by those it passes it to.
  fileprivate func sessions<Delegate>(_ session: Session, _ callback: CallbackSet, _ type: Delegate.Type) -> Delegate? {
    guard session.takeAsked(self), let delegate = session.delegate, delegate !== self,
      delegate.handledCallbacks.contains(callback)
    else { return nil }
    return delegate as? Delegate
  }

  private func sessions(_ session: Session, _ callback: CallbackSet) -> (any SessionTaskDelegate)? {
    sessions(session, callback, (any SessionTaskDelegate).self)
  }

  /// Leaves it to the session's delegate; else does nothing.
  public func session(_ session: Session, didCreateTask task: SessionTask) {
    sessions(session, .createdTask)?.session(session, didCreateTask: task)
  }

  /// Leaves it to the session's delegate; else sends the request as it is.
  public func session(
    _ session: Session, task: SessionTask, willBeginDelayedRequest request: Request,
    completionHandler: @escaping @Sendable (DelayedRequestDisposition) -> Void
  ) {
    guard let other = sessions(session, .willBeginDelayed) else { return completionHandler(.continueLoading) }
    other.session(session, task: task, willBeginDelayedRequest: request, completionHandler: completionHandler)
  }

  /// Leaves it to the session's delegate; else does nothing.
  public func session(_ session: Session, taskIsWaitingForConnectivity task: SessionTask) {
    sessions(session, .waitingForConnectivity)?.session(session, taskIsWaitingForConnectivity: task)
  }

  /// Leaves it to the session's delegate; else does nothing.
  public func session(_ session: Session, task: SessionTask, didReceiveInformationalResponse response: Response) {
    sessions(session, .informationalResponse)?
      .session(session, task: task, didReceiveInformationalResponse: response)
  }

  /// Leaves it to the session's delegate; else follows.
  public func session(
    _ session: Session, task: SessionTask, willPerformHTTPRedirection response: Response, newRequest request: Request,
    completionHandler: @escaping @Sendable (Request?) -> Void
  ) {
    guard let other = sessions(session, .redirection) else { return completionHandler(request) }
    other.session(
      session, task: task, willPerformHTTPRedirection: response, newRequest: request,
      completionHandler: completionHandler)
  }

  /// Leaves it to the session's delegate; else sends what the request, its URL or the storage has.
  public func session(
    _ session: Session, task: SessionTask, didReceive challenge: AuthenticationChallenge,
    completionHandler: @escaping @Sendable (ChallengeDisposition) -> Void
  ) {
    guard let other = sessions(session, .taskChallenge) else { return completionHandler(.performDefaultHandling) }
    other.session(session, task: task, didReceive: challenge, completionHandler: completionHandler)
  }

  /// Leaves it to the session's delegate; else has none.
  public func session(
    _ session: Session, task: SessionTask,
    needNewBodyStream completionHandler: @escaping @Sendable (BodyStream?) -> Void
  ) {
    guard let other = sessions(session, .needNewBodyStream) else { return completionHandler(nil) }
    other.session(session, task: task, needNewBodyStream: completionHandler)
  }

  /// Leaves it to the session's delegate; else does nothing.
  public func session(
    _ session: Session, task: SessionTask, didSendBodyData bytesSent: Int64, totalBytesSent: Int64,
    totalBytesExpectedToSend: Int64?
  ) {
    sessions(session, .sentBodyData)?.session(
      session, task: task, didSendBodyData: bytesSent, totalBytesSent: totalBytesSent,
      totalBytesExpectedToSend: totalBytesExpectedToSend)
  }

  /// Leaves it to the session's delegate; else does nothing.
  public func session(_ session: Session, task: SessionTask, didFinishCollecting metrics: TaskMetrics) {
    sessions(session, .metrics)?.session(session, task: task, didFinishCollecting: metrics)
  }

  /// Leaves it to the session's delegate; else does nothing.
  public func session(_ session: Session, task: SessionTask, didCompleteWithError error: SessionError?) {
    sessions(session, .completed)?.session(session, task: task, didCompleteWithError: error)
  }
}

extension SessionDataDelegate {
  private func sessions(_ session: Session, _ callback: CallbackSet) -> (any SessionDataDelegate)? {
    sessions(session, callback, (any SessionDataDelegate).self)
  }

  /// Leaves it to the session's delegate; else receives the body.
  public func session(
    _ session: Session, dataTask: DataTask, didReceive response: Response,
    completionHandler: @escaping @Sendable (ResponseDisposition) -> Void
  ) {
    guard let other = sessions(session, .response) else { return completionHandler(.allow) }
    other.session(session, dataTask: dataTask, didReceive: response, completionHandler: completionHandler)
  }

  /// Leaves it to the session's delegate; else does nothing.
  public func session(_ session: Session, dataTask: DataTask, didBecome downloadTask: DownloadTask) {
    sessions(session, .becameDownload)?.session(session, dataTask: dataTask, didBecome: downloadTask)
  }

  /// Leaves it to the session's delegate; else does nothing.
  public func session(_ session: Session, dataTask: DataTask, didReceive data: Data) {
    sessions(session, .receivedData)?.session(session, dataTask: dataTask, didReceive: data)
  }

  /// Leaves it to the session's delegate; else stores as proposed.
  public func session(
    _ session: Session, dataTask: DataTask, willCacheResponse proposedResponse: CachedResponse,
    completionHandler: @escaping @Sendable (CachedResponse?) -> Void
  ) {
    guard let other = sessions(session, .willCacheResponse) else { return completionHandler(proposedResponse) }
    other.session(
      session, dataTask: dataTask, willCacheResponse: proposedResponse, completionHandler: completionHandler)
  }
}

extension SessionDownloadDelegate {
  private func sessions(_ session: Session, _ callback: CallbackSet) -> (any SessionDownloadDelegate)? {
    sessions(session, callback, (any SessionDownloadDelegate).self)
  }

  /// Leaves it to the session's delegate; else does nothing: the file is removed.
  public func session(_ session: Session, downloadTask: DownloadTask, didFinishDownloadingTo path: String) {
    sessions(session, .finishedDownload)?.session(session, downloadTask: downloadTask, didFinishDownloadingTo: path)
  }

  /// Leaves it to the session's delegate; else does nothing.
  public func session(
    _ session: Session, downloadTask: DownloadTask, didWriteData bytesWritten: Int64, totalBytesWritten: Int64,
    totalBytesExpectedToWrite: Int64?
  ) {
    sessions(session, .wroteData)?.session(
      session, downloadTask: downloadTask, didWriteData: bytesWritten, totalBytesWritten: totalBytesWritten,
      totalBytesExpectedToWrite: totalBytesExpectedToWrite)
  }

  /// Leaves it to the session's delegate; else does nothing.
  public func session(
    _ session: Session, downloadTask: DownloadTask, didResumeAtOffset fileOffset: Int64, expectedTotalBytes: Int64?
  ) {
    sessions(session, .resumedAtOffset)?.session(
      session, downloadTask: downloadTask, didResumeAtOffset: fileOffset, expectedTotalBytes: expectedTotalBytes)
  }
}
