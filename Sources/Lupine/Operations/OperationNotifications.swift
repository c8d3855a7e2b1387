public import Foundation

extension Notification.Name {
  /// An operation began, or goes on after a pause. Object: the `HTTPRequestOperation`; posted on its `completionQueue`, after the fact.
  ///
  /// Source: `AFNetworkingOperationDidStartNotification`.
  public static let operationDidStart = Notification.Name("com.alamofire.networking.operation.start")

  /// An operation is over, or was paused while it ran. Object: the `HTTPRequestOperation`; posted on its `completionQueue`, after the fact.
  ///
  /// Source: `AFNetworkingOperationDidFinishNotification`.
  public static let operationDidFinish = Notification.Name("com.alamofire.networking.operation.finish")
}
