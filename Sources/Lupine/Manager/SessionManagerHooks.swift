public import Foundation
public import LupineSession

/// What a manager asks and tells besides its completion handlers: one slot each; nil, the default of all, clears it.
///
/// They are properties of the manager: `manager.taskDidComplete = { … }`. All run on the session's delegate queue. Whether a task asks about challenges,
/// redirects, new bodies, responses, what may be stored and delayed beginnings, and tells of metrics, 1xx responses, waiting and what was sent, is decided when it
/// begins: a hook that is set costs that task a hop to the queue, one that is not costs nothing. Which closure is called then, and whether there still is
/// one, is looked up when the call is due. Of those of the end, of received data, of what an upload sends and of download tasks nothing is decided before that.
///
/// The `async` calls of a manager that give a value tell and ask what concerns the exchange (`task…`, but for `taskDidComplete`). How they end is their
/// result, and `callDidComplete` is told of it, as it is of every task's. `async` downloads and uploads are tasks.
///
/// Operations (`HTTPRequestOperation`) have handlers of their own in the place of these, but for `connectionChallengeHandler`.
///
/// Source: the block setters of `AFURLSessionManager`, and the delegate methods that it leaves unhandled.
public struct SessionManagerHooks: Sendable {
  // MARK: Session

  /// The session is invalid, its last task over. Source: `setSessionDidBecomeInvalidBlock:`.
  public var sessionDidBecomeInvalid: (@Sendable (Session, SessionError?) -> Void)?

  /// A server has shown its certificates, or asks for one of ours. Decides alone: the security policy is asked only if the answer is the default
  /// handling. Setting it closes idle connections. Source: `setSessionDidReceiveAuthenticationChallengeBlock:`.
  public var connectionChallengeHandler:
    (
      @Sendable (Session, ConnectionChallenge, @escaping @Sendable (ConnectionChallengeDisposition) -> Void) ->
        ConnectionChallengeAnswer
    )?

  // MARK: Calls

  /// A call is over, `async` or with handlers: the one place to count and to note failures in. The request as the call was made with it; the response if one
  /// came; what the call throws, or its handler is given, nil if it succeeded. So a status that is not acceptable and a body that is no value are errors
  /// here, as they are none to `taskDidComplete`. When what happened is in `Response.metrics`, and without a response in `SessionError.metrics`.
  ///
  /// A body that is handed out as it arrives (`bytes(for:)`) is told of when it is: what goes wrong later is its reader's.
  ///
  /// Told once for a call, however often it was sent, also of one that was cancelled; not of one for which no request can be made, nor of operations. It may
  /// come before or after the call returns or its handler is called. Looked up when a call is over; but an `async` call that gives a value, and began when neither
  /// this nor another hook of it, no interceptor and no retry policy was set, tells nobody. Unset, it costs a call nothing. Source: `EventMonitor` of Alamofire,
  /// `request(_:didParseResponse:)`.
  ///
  /// What a request or an error is described as has no credentials; their fields and bodies may hold some.
  public var callDidComplete: (@Sendable (Request, Response?, (any Error)?) -> Void)?

  // MARK: Tasks

  /// A task was made. That of an `async` call begins when this has returned; one that begins with its maker's `resume()` may have begun. Source: `didCreateTask`, unhandled by AFNetworking.
  public var taskWasCreated: (@Sendable (Session, SessionTask) -> Void)?

  /// A server answered 401. Unset: what the request, its URL or the storage have is sent. Source: `setAuthenticationChallengeHandler:`.
  public var authenticationChallengeHandler:
    (
      @Sendable (Session, SessionTask, AuthenticationChallenge, @escaping @Sendable (ChallengeDisposition) -> Void) ->
        AuthenticationChallengeAnswer
    )?

  /// A redirect that would be followed; the request to send instead, or nil: the 3xx becomes the response. Source:
  /// `setTaskWillPerformHTTPRedirectionBlock:`.
  public var taskWillPerformHTTPRedirection: (@Sendable (Session, SessionTask, Response, Request) -> Request?)?

  /// The body has to be sent, perhaps again, and cannot be made from the request. Source: `setTaskNeedNewBodyStreamBlock:`.
  public var taskNeedNewBodyStream: (@Sendable (Session, SessionTask) -> BodyStream?)?

  /// Body bytes were sent: since the last call, in all, and of how many (nil: not known). Source: `setTaskDidSendBodyDataBlock:`.
  public var taskDidSendBodyData:
    (
      @Sendable (
        Session, SessionTask, _ bytesSent: Int64, _ totalBytesSent: Int64, _ totalBytesExpectedToSend: Int64?
      ) -> Void
    )?

  /// The task is over; its handler is on its way. The error is the session's own. Source: `setTaskDidCompleteBlock:`.
  public var taskDidComplete: (@Sendable (Session, SessionTask, SessionError?) -> Void)?

  /// When what happened, just before the end. Source: `setTaskDidFinishCollectingMetricsBlock:`.
  public var taskDidFinishCollectingMetrics: (@Sendable (Session, SessionTask, TaskMetrics) -> Void)?

  /// A 1xx response other than 100. Source: `didReceiveInformationalResponse`, unhandled by AFNetworking.
  public var taskDidReceiveInformationalResponse: (@Sendable (Session, SessionTask, Response) -> Void)?

  /// There is no network, and the task waits for one. Source: `taskIsWaitingForConnectivity`, unhandled by AFNetworking.
  public var taskIsWaitingForConnectivity: (@Sendable (Session, SessionTask) -> Void)?

  /// The `earliestBeginDate` of a task has come. Source: `willBeginDelayedRequest`, unhandled by AFNetworking.
  public var taskWillBeginDelayedRequest: (@Sendable (Session, SessionTask, Request) -> DelayedRequestDisposition)?

  // MARK: Data tasks

  /// The head of the final response. Source: `setDataTaskDidReceiveResponseBlock:`.
  public var dataTaskDidReceiveResponse: (@Sendable (Session, DataTask, Response) -> ResponseDisposition)?

  /// The answer to `dataTaskDidReceiveResponse` was `.becomeDownload`: the task goes on as this one. Its file goes where
  /// `downloadTaskDidFinishDownloading` says; without that it is removed. Source: `setDataTaskDidBecomeDownloadTaskBlock:`.
  public var dataTaskDidBecomeDownloadTask: (@Sendable (Session, DataTask, DownloadTask) -> Void)?

  /// Body bytes, after they were added to what the handler gets. Source: `setDataTaskDidReceiveDataBlock:`.
  public var dataTaskDidReceiveData: (@Sendable (Session, DataTask, Data) -> Void)?

  /// A response may be stored: what to store, or nil for nothing. Source: `setDataTaskWillCacheResponseBlock:`.
  public var dataTaskWillCacheResponse: (@Sendable (Session, DataTask, CachedResponse) -> CachedResponse?)?

  // MARK: Download tasks

  /// A download is whole, in a temporary file, and its status acceptable: where to move it. Asked before the destination of the task, which is
  /// asked if this is nil. Source: `setDownloadTaskDidFinishDownloadingBlock:`.
  public var downloadTaskDidFinishDownloading: (@Sendable (Session, DownloadTask, URL) -> URL?)?

  /// Bytes were written: since the last call, in all, and of how many (nil: not known). Source: `setDownloadTaskDidWriteDataBlock:`.
  public var downloadTaskDidWriteData:
    (
      @Sendable (
        Session, DownloadTask, _ bytesWritten: Int64, _ totalBytesWritten: Int64, _ totalBytesExpectedToWrite: Int64?
      ) -> Void
    )?

  /// The server goes on where an earlier attempt ended: offset, and length of the whole (nil: not known; the offset: all was there already). Source: `setDownloadTaskDidResumeBlock:`.
  public var downloadTaskDidResume: (@Sendable (Session, DownloadTask, Int64, Int64?) -> Void)?

  /// None.
  public init() {}

  /// What is set of what every task may call.
  var exchangeCallbacks: CallbackSet {
    var set: CallbackSet = []
    if authenticationChallengeHandler != nil { set.insert(.taskChallenge) }
    if taskWillPerformHTTPRedirection != nil { set.insert(.redirection) }
    if taskNeedNewBodyStream != nil { set.insert(.needNewBodyStream) }
    if taskDidSendBodyData != nil { set.insert(.sentBodyData) }
    if taskDidFinishCollectingMetrics != nil { set.insert(.metrics) }
    if taskDidReceiveInformationalResponse != nil { set.insert(.informationalResponse) }
    if taskIsWaitingForConnectivity != nil { set.insert(.waitingForConnectivity) }
    if taskWillBeginDelayedRequest != nil { set.insert(.willBeginDelayed) }
    return set
  }

  /// What is set of what `async` calls may call.
  var asyncCallbacks: CallbackSet {
    taskWasCreated == nil ? exchangeCallbacks : exchangeCallbacks.union(.createdTask)
  }

  /// What is set of what data tasks may call besides.
  var dataCallbacks: CallbackSet {
    var set: CallbackSet = []
    if dataTaskDidReceiveResponse != nil {
      // It may turn the task into a download.
      set.formUnion([.response, .becameDownload, .finishedDownload, .wroteData, .resumedAtOffset])
    }
    if dataTaskWillCacheResponse != nil { set.insert(.willCacheResponse) }
    return set
  }
}
