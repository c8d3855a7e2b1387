/// Which callbacks a delegate wants; read once for each task. Outside the set the default is taken at once, with no hop to the delegate queue.
///
/// Swift cannot ask whether a protocol's default implementation is overridden; this is how a delegate says so.
public struct CallbackSet: OptionSet, Sendable, Hashable {
  /// The bits.
  public let rawValue: UInt32

  /// Makes a set of its bits.
  public init(rawValue: UInt32) {
    self.rawValue = rawValue
  }

  /// `session(_:didBecomeInvalidWithError:)`.
  public static let becameInvalid = CallbackSet(rawValue: 1 << 0)
  /// `session(_:didReceive:completionHandler:)`.
  public static let sessionChallenge = CallbackSet(rawValue: 1 << 1)
  /// `session(_:didCreateTask:)`.
  public static let createdTask = CallbackSet(rawValue: 1 << 2)
  /// `session(_:task:willBeginDelayedRequest:completionHandler:)`.
  public static let willBeginDelayed = CallbackSet(rawValue: 1 << 3)
  /// `session(_:taskIsWaitingForConnectivity:)`.
  public static let waitingForConnectivity = CallbackSet(rawValue: 1 << 4)
  /// `session(_:task:didReceiveInformationalResponse:)`.
  public static let informationalResponse = CallbackSet(rawValue: 1 << 5)
  /// `session(_:task:willPerformHTTPRedirection:newRequest:completionHandler:)`.
  public static let redirection = CallbackSet(rawValue: 1 << 6)
  /// `session(_:task:didReceive:completionHandler:)`.
  public static let taskChallenge = CallbackSet(rawValue: 1 << 7)
  /// `session(_:task:needNewBodyStream:)`.
  public static let needNewBodyStream = CallbackSet(rawValue: 1 << 8)
  /// `session(_:task:didSendBodyData:totalBytesSent:totalBytesExpectedToSend:)`.
  public static let sentBodyData = CallbackSet(rawValue: 1 << 9)
  /// `session(_:task:didFinishCollecting:)`.
  public static let metrics = CallbackSet(rawValue: 1 << 10)
  /// `session(_:task:didCompleteWithError:)`.
  public static let completed = CallbackSet(rawValue: 1 << 11)
  /// `session(_:dataTask:didReceive:completionHandler:)`.
  public static let response = CallbackSet(rawValue: 1 << 12)
  /// `session(_:dataTask:didBecome:)`.
  public static let becameDownload = CallbackSet(rawValue: 1 << 13)
  /// `session(_:dataTask:didReceive:)`.
  public static let receivedData = CallbackSet(rawValue: 1 << 14)
  /// `session(_:dataTask:willCacheResponse:completionHandler:)`.
  public static let willCacheResponse = CallbackSet(rawValue: 1 << 15)
  /// `session(_:downloadTask:didFinishDownloadingTo:)`.
  public static let finishedDownload = CallbackSet(rawValue: 1 << 16)
  /// `session(_:downloadTask:didWriteData:totalBytesWritten:totalBytesExpectedToWrite:)`.
  public static let wroteData = CallbackSet(rawValue: 1 << 17)
  /// `session(_:downloadTask:didResumeAtOffset:expectedTotalBytes:)`.
  public static let resumedAtOffset = CallbackSet(rawValue: 1 << 18)

  /// Every callback, present and future.
  public static let all = CallbackSet(rawValue: .max)

  static let sessionCallbacks: CallbackSet = [.becameInvalid, .sessionChallenge]
  static let dataCallbacks: CallbackSet = [.response, .becameDownload, .receivedData, .willCacheResponse]
  static let downloadCallbacks: CallbackSet = [.finishedDownload, .wroteData, .resumedAtOffset]
}
