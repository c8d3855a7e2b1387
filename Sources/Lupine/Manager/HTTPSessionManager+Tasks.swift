internal import Foundation
public import LupineSession

extension HTTPSessionManager {
  /// Makes the task of a request; it begins with `resume()`.
  ///
  /// - Parameters:
  ///   - url: a path below the base, or an absolute URL.
  ///   - parameters: for the request serializer. Default nil.
  ///   - headers: in the place of what the serializer sets. Default nil.
  ///   - responseSerializer: for this task alone. Default nil: the manager's.
  ///   - timeout: how long nothing may move, not how long all of it may take: see `HTTPRequestSerializer.totalTimeout`. Default nil: the serializer's, then the
  ///     session's.
  ///   - uploadProgress: told on the delegate queue, or `progressQueue`.
  ///   - downloadProgress: likewise.
  ///   - success: called on `completionQueue`; this or `failure`, once.
  ///   - failure: likewise, also if no request can be made.
  /// - Returns: the task; nil if no request can be made.
  ///
  /// Source: `dataTaskWithHTTPMethod:URLString:parameters:headers:uploadProgress:downloadProgress:success:failure:`.
  public func dataTask(
    method: HTTPRequest.Method, _ url: String, parameters: (any Sendable)? = nil, headers: [String: String]? = nil,
    responseSerializer: (any ResponseSerializer)? = nil, timeout: Duration? = nil,
    uploadProgress: TaskProgressHandler? = nil, downloadProgress: TaskProgressHandler? = nil,
    success: SuccessHandler?, failure: FailureHandler? = nil
  ) -> DataTask? {
    do {
      let request = try request(method, url, parameters: parameters, headers: headers, timeout: timeout)
      return dataTask(request, responseSerializer, uploadProgress, downloadProgress, .call(success, failure))
    } catch {
      refuse(error, failure)
      return nil
    }
  }

  /// Tells of a request that cannot be made: where handlers are called, after this returns.
  func refuse(_ error: any Error, _ failure: FailureHandler?) {
    guard let failure else { return }
    core.complete { failure(nil, error) }
  }
}
