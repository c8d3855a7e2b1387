public import LupineSession

/// The verbs with handlers: each begins its task at once and returns it, nil if no request could be made. See
/// `dataTask(method:_:parameters:headers:…)` for what is common to all.
extension HTTPSessionManager {
  /// GET. Source: `GET:parameters:headers:progress:success:failure:`.
  ///
  /// - Parameter timeout: how long nothing may move, not how long all of it may take: see `HTTPRequestSerializer.totalTimeout`. Default nil: the serializer's,
  ///   then the session's.
  /// - Parameter progress: of the response.
  @discardableResult
  public func get(
    _ url: String, parameters: (any Sendable)? = nil, headers: [String: String]? = nil,
    responseSerializer: (any ResponseSerializer)? = nil, timeout: Duration? = nil, progress: TaskProgressHandler? = nil,
    success: SuccessHandler?, failure: FailureHandler? = nil
  ) -> DataTask? {
    begun(.get, url, parameters, headers, responseSerializer, timeout, progress, success, failure)
  }

  /// HEAD; there is no value. Source: `HEAD:parameters:headers:success:failure:`.
  ///
  /// - Parameter timeout: how long nothing may move, not how long all of it may take: see `HTTPRequestSerializer.totalTimeout`. Default nil: the serializer's,
  ///   then the session's.
  @discardableResult
  public func head(
    _ url: String, parameters: (any Sendable)? = nil, headers: [String: String]? = nil,
    responseSerializer: (any ResponseSerializer)? = nil, timeout: Duration? = nil,
    success: (@Sendable (DataTask) -> Void)?, failure: FailureHandler? = nil
  ) -> DataTask? {
    begun(
      .head, url, parameters, headers, responseSerializer, timeout, nil, { task, _ in success?(task) }, failure)
  }

  /// POST. Source: `POST:parameters:headers:progress:success:failure:`.
  ///
  /// - Parameter timeout: how long nothing may move, not how long all of it may take: see `HTTPRequestSerializer.totalTimeout`. Default nil: the serializer's,
  ///   then the session's.
  /// - Parameter progress: of the request.
  @discardableResult
  public func post(
    _ url: String, parameters: (any Sendable)? = nil, headers: [String: String]? = nil,
    responseSerializer: (any ResponseSerializer)? = nil, timeout: Duration? = nil, progress: TaskProgressHandler? = nil,
    success: SuccessHandler?, failure: FailureHandler? = nil
  ) -> DataTask? {
    begun(.post, url, parameters, headers, responseSerializer, timeout, progress, success, failure)
  }

  /// PUT. Source: `PUT:parameters:headers:success:failure:`.
  ///
  /// - Parameter timeout: how long nothing may move, not how long all of it may take: see `HTTPRequestSerializer.totalTimeout`. Default nil: the serializer's,
  ///   then the session's.
  /// - Parameter progress: of the request.
  @discardableResult
  public func put(
    _ url: String, parameters: (any Sendable)? = nil, headers: [String: String]? = nil,
    responseSerializer: (any ResponseSerializer)? = nil, timeout: Duration? = nil, progress: TaskProgressHandler? = nil,
    success: SuccessHandler?, failure: FailureHandler? = nil
  ) -> DataTask? {
    begun(.put, url, parameters, headers, responseSerializer, timeout, progress, success, failure)
  }

  /// PATCH. Source: `PATCH:parameters:headers:success:failure:`.
  ///
  /// - Parameter timeout: how long nothing may move, not how long all of it may take: see `HTTPRequestSerializer.totalTimeout`. Default nil: the serializer's,
  ///   then the session's.
  /// - Parameter progress: of the request.
  @discardableResult
  public func patch(
    _ url: String, parameters: (any Sendable)? = nil, headers: [String: String]? = nil,
    responseSerializer: (any ResponseSerializer)? = nil, timeout: Duration? = nil, progress: TaskProgressHandler? = nil,
    success: SuccessHandler?, failure: FailureHandler? = nil
  ) -> DataTask? {
    begun(.patch, url, parameters, headers, responseSerializer, timeout, progress, success, failure)
  }

  /// DELETE; parameters go into the query unless the serializer is told otherwise. Source: `DELETE:parameters:headers:success:failure:`.
  ///
  /// - Parameter timeout: how long nothing may move, not how long all of it may take: see `HTTPRequestSerializer.totalTimeout`. Default nil: the serializer's,
  ///   then the session's.
  @discardableResult
  public func delete(
    _ url: String, parameters: (any Sendable)? = nil, headers: [String: String]? = nil,
    responseSerializer: (any ResponseSerializer)? = nil, timeout: Duration? = nil,
    success: SuccessHandler?, failure: FailureHandler? = nil
  ) -> DataTask? {
    begun(.delete, url, parameters, headers, responseSerializer, timeout, nil, success, failure)
  }

  /// Begins the task of a verb. Progress is that of the response for GET, and of the request for the others.
  private func begun(
    _ method: HTTPRequest.Method, _ url: String, _ parameters: (any Sendable)?, _ headers: [String: String]?,
    _ serializer: (any ResponseSerializer)?, _ timeout: Duration?, _ progress: TaskProgressHandler?,
    _ success: SuccessHandler?, _ failure: FailureHandler?
  ) -> DataTask? {
    let isOfResponse = method == .get
    let task = dataTask(
      method: method, url, parameters: parameters, headers: headers, responseSerializer: serializer, timeout: timeout,
      uploadProgress: isOfResponse ? nil : progress, downloadProgress: isOfResponse ? progress : nil, success: success,
      failure: failure)
    task?.resume()
    return task
  }
}
