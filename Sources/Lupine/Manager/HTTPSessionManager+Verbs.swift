public import LupineSession

/// The verbs with handlers: each begins its task at once and returns it, nil if no request could be made. See
/// `dataTask(method:_:parameters:headers:…)` for what is common to all.
extension HTTPSessionManager {
  /// GET. Source: `GET:parameters:headers:progress:success:failure:`.
  ///
  /// - Parameter progress: of the response.
  @discardableResult
  public func get(
    _ url: String, parameters: (any Sendable)? = nil, headers: [String: String]? = nil,
    responseSerializer: (any ResponseSerializer)? = nil, timeout: Duration? = nil, progress: TaskProgressHandler? = nil,
    success: SuccessHandler?, failure: FailureHandler? = nil
  ) -> DataTask? {
    begun(
      dataTask(
        method: .get, url, parameters: parameters, headers: headers, responseSerializer: responseSerializer,
        timeout: timeout, downloadProgress: progress, success: success, failure: failure))
  }

  /// HEAD; there is no value. Source: `HEAD:parameters:headers:success:failure:`.
  @discardableResult
  public func head(
    _ url: String, parameters: (any Sendable)? = nil, headers: [String: String]? = nil,
    responseSerializer: (any ResponseSerializer)? = nil, timeout: Duration? = nil,
    success: (@Sendable (DataTask) -> Void)?, failure: FailureHandler? = nil
  ) -> DataTask? {
    begun(
      dataTask(
        method: .head, url, parameters: parameters, headers: headers, responseSerializer: responseSerializer,
        timeout: timeout, success: { task, _ in success?(task) }, failure: failure))
  }

  /// POST. Source: `POST:parameters:headers:progress:success:failure:`.
  ///
  /// - Parameter progress: of the request.
  @discardableResult
  public func post(
    _ url: String, parameters: (any Sendable)? = nil, headers: [String: String]? = nil,
    responseSerializer: (any ResponseSerializer)? = nil, timeout: Duration? = nil, progress: TaskProgressHandler? = nil,
    success: SuccessHandler?, failure: FailureHandler? = nil
  ) -> DataTask? {
    begun(
      dataTask(
        method: .post, url, parameters: parameters, headers: headers, responseSerializer: responseSerializer,
        timeout: timeout, uploadProgress: progress, success: success, failure: failure))
  }

  /// PUT. Source: `PUT:parameters:headers:success:failure:`.
  ///
  /// - Parameter progress: of the request.
  @discardableResult
  public func put(
    _ url: String, parameters: (any Sendable)? = nil, headers: [String: String]? = nil,
    responseSerializer: (any ResponseSerializer)? = nil, timeout: Duration? = nil, progress: TaskProgressHandler? = nil,
    success: SuccessHandler?, failure: FailureHandler? = nil
  ) -> DataTask? {
    begun(
      dataTask(
        method: .put, url, parameters: parameters, headers: headers, responseSerializer: responseSerializer,
        timeout: timeout, uploadProgress: progress, success: success, failure: failure))
  }

  /// PATCH. Source: `PATCH:parameters:headers:success:failure:`.
  ///
  /// - Parameter progress: of the request.
  @discardableResult
  public func patch(
    _ url: String, parameters: (any Sendable)? = nil, headers: [String: String]? = nil,
    responseSerializer: (any ResponseSerializer)? = nil, timeout: Duration? = nil, progress: TaskProgressHandler? = nil,
    success: SuccessHandler?, failure: FailureHandler? = nil
  ) -> DataTask? {
    begun(
      dataTask(
        method: .patch, url, parameters: parameters, headers: headers, responseSerializer: responseSerializer,
        timeout: timeout, uploadProgress: progress, success: success, failure: failure))
  }

  /// DELETE; parameters go into the query unless the serializer is told otherwise. Source: `DELETE:parameters:headers:success:failure:`.
  @discardableResult
  public func delete(
    _ url: String, parameters: (any Sendable)? = nil, headers: [String: String]? = nil,
    responseSerializer: (any ResponseSerializer)? = nil, timeout: Duration? = nil,
    success: SuccessHandler?, failure: FailureHandler? = nil
  ) -> DataTask? {
    begun(
      dataTask(
        method: .delete, url, parameters: parameters, headers: headers, responseSerializer: responseSerializer,
        timeout: timeout, success: success, failure: failure))
  }

  func begun<Task: DataTask>(_ task: Task?) -> Task? {
    task?.resume()
    return task
  }
}
