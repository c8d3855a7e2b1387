internal import Dispatch
public import Foundation

extension Notification.Name {
  /// A task of a manager began, or goes on. Object: the task; posted on the manager's `completionQueue`, after the fact.
  ///
  /// Source: `AFNetworkingTaskDidResumeNotification`.
  public static let taskDidResume = Notification.Name("com.alamofire.networking.task.resume")

  /// A running task of a manager was suspended. Object: the task; posted on the manager's `completionQueue`, after the fact.
  ///
  /// Source: `AFNetworkingTaskDidSuspendNotification`.
  public static let taskDidSuspend = Notification.Name("com.alamofire.networking.task.suspend")

  /// A task of a manager is over, and its handler was called. Object: the task; what came of it is under the keys of `TaskNotificationKey`; posted
  /// on the manager's `completionQueue`.
  ///
  /// Source: `AFNetworkingTaskDidCompleteNotification`.
  public static let taskDidComplete = Notification.Name("com.alamofire.networking.task.complete")

  /// The session of a manager is invalid: its last task is over. Object: the session; posted on the session's delegate queue.
  ///
  /// Source: `AFURLSessionDidInvalidateNotification`.
  public static let sessionDidInvalidate = Notification.Name("com.alamofire.networking.session.invalidate")

  /// A download has its place. Object: the task; posted on the session's delegate queue.
  ///
  /// Source: `AFURLSessionDownloadTaskDidMoveFileSuccessfullyNotification`.
  public static let downloadTaskDidMoveFile = Notification.Name(
    "com.alamofire.networking.session.download.file-manager-succeed")

  /// A download could not be put into its place. Object: the task; the error is under `TaskNotificationKey.error`; posted on the session's delegate
  /// queue.
  ///
  /// Source: `AFURLSessionDownloadTaskDidFailToMoveFileNotification`.
  public static let downloadTaskDidFailToMoveFile = Notification.Name(
    "com.alamofire.networking.session.download.file-manager-error")
}

extension DispatchQueue {
  /// Where notifications are posted whose handlers are called on `queue`; nil: the main queue. One at a time, even if that is concurrent: a task that
  /// seems to end before it begins would be counted for ever.
  static func forNotifications(on queue: DispatchQueue?) -> DispatchQueue {
    serial("lupine.notifications", on: queue ?? .main)
  }

  /// A queue whose blocks run on `queue`, one at a time even if that is concurrent.
  static func serial(_ label: String, on queue: DispatchQueue) -> DispatchQueue {
    queue === DispatchQueue.main ? .main : DispatchQueue(label: label, target: queue)
  }
}

/// Keys of `Notification.userInfo`.
public enum TaskNotificationKey {
  /// The body, a `Data`; not of a download that has its place. Source: `AFNetworkingTaskDidCompleteResponseDataKey`.
  public static let responseData = "com.alamofire.networking.complete.finish.responsedata"
  /// What the serializer made of the body. Source: `AFNetworkingTaskDidCompleteSerializedResponseKey`.
  public static let serializedResponse = "com.alamofire.networking.task.complete.serializedresponse"
  /// The serializer, `any ResponseSerializer`. Source: `AFNetworkingTaskDidCompleteResponseSerializerKey`.
  public static let responseSerializer = "com.alamofire.networking.task.complete.responseserializer"
  /// Where the download is, a `URL`. Source: `AFNetworkingTaskDidCompleteAssetPathKey`.
  public static let assetPath = "com.alamofire.networking.task.complete.assetpath"
  /// The error, `any Error`. Source: `AFNetworkingTaskDidCompleteErrorKey`.
  public static let error = "com.alamofire.networking.task.complete.error"
  /// When what happened, a `TaskMetrics`. Source: `AFNetworkingTaskDidCompleteSessionTaskMetrics`.
  public static let metrics = "com.alamofire.networking.complete.sessiontaskmetrics"
}
