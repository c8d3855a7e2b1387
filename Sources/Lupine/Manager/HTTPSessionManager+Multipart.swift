public import LupineSession

/// Forms with files: the body is sent as it is read, and again after a redirect or a challenge if every part can be.
extension HTTPSessionManager {
  /// POSTs a form, begun at once. Source: `POST:parameters:headers:constructingBodyWithBlock:progress:success:failure:`.
  ///
  /// - Parameters:
  ///   - parameters: become the first parts.
  ///   - constructingBody: adds parts; called once, before this returns. What it throws goes to `failure`.
  ///   - progress: of the request.
  ///   - timeout: how long nothing may move, not how long all of it may take: see `HTTPRequestSerializer.totalTimeout`. Default nil: the
  ///     serializer's, then the session's.
  /// - Returns: the task; nil if no request can be made.
  @discardableResult
  public func post(
    _ url: String, parameters: (any Sendable)? = nil, headers: [String: String]? = nil,
    responseSerializer: (any ResponseSerializer)? = nil, timeout: Duration? = nil,
    constructingBody: (inout MultipartFormData) throws -> Void, progress: TaskProgressHandler? = nil,
    success: SuccessHandler?, failure: FailureHandler? = nil
  ) -> UploadTask? {
    begun(
      .post, url, parameters, headers, responseSerializer, timeout, constructingBody, progress, success, failure)
  }

  /// PUTs a form; see the POST.
  ///
  /// - Parameter timeout: how long nothing may move, not how long all of it may take: see `HTTPRequestSerializer.totalTimeout`. Default nil: the serializer's,
  ///   then the session's.
  @discardableResult
  public func put(
    _ url: String, parameters: (any Sendable)? = nil, headers: [String: String]? = nil,
    responseSerializer: (any ResponseSerializer)? = nil, timeout: Duration? = nil,
    constructingBody: (inout MultipartFormData) throws -> Void, progress: TaskProgressHandler? = nil,
    success: SuccessHandler?, failure: FailureHandler? = nil
  ) -> UploadTask? {
    begun(
      .put, url, parameters, headers, responseSerializer, timeout, constructingBody, progress, success, failure)
  }

  /// PATCHes with a form; see the POST.
  ///
  /// - Parameter timeout: how long nothing may move, not how long all of it may take: see `HTTPRequestSerializer.totalTimeout`. Default nil: the serializer's,
  ///   then the session's.
  @discardableResult
  public func patch(
    _ url: String, parameters: (any Sendable)? = nil, headers: [String: String]? = nil,
    responseSerializer: (any ResponseSerializer)? = nil, timeout: Duration? = nil,
    constructingBody: (inout MultipartFormData) throws -> Void, progress: TaskProgressHandler? = nil,
    success: SuccessHandler?, failure: FailureHandler? = nil
  ) -> UploadTask? {
    begun(
      .patch, url, parameters, headers, responseSerializer, timeout, constructingBody, progress, success, failure)
  }

  /// Makes the task of a form; it begins with `resume()`.
  ///
  /// - Parameter timeout: how long nothing may move, not how long all of it may take: see `HTTPRequestSerializer.totalTimeout`. Default nil: the serializer's,
  ///   then the session's.
  public func uploadTask(
    method: HTTPRequest.Method, _ url: String, parameters: (any Sendable)? = nil, headers: [String: String]? = nil,
    responseSerializer: (any ResponseSerializer)? = nil, timeout: Duration? = nil,
    constructingBody: (inout MultipartFormData) throws -> Void, progress: TaskProgressHandler? = nil,
    success: SuccessHandler?, failure: FailureHandler? = nil
  ) -> UploadTask? {
    do {
      let request = try multipartRequest(
        method, url, parameters: parameters, headers: headers, timeout: timeout, constructingBody: constructingBody)
      return streamedTask(request, responseSerializer, progress, .call(success, failure))
    } catch {
      refuse(error, failure)
      return nil
    }
  }

  private func begun(
    _ method: HTTPRequest.Method, _ url: String, _ parameters: (any Sendable)?, _ headers: [String: String]?,
    _ serializer: (any ResponseSerializer)?, _ timeout: Duration?,
    _ constructingBody: (inout MultipartFormData) throws -> Void, _ progress: TaskProgressHandler?,
    _ success: SuccessHandler?, _ failure: FailureHandler?
  ) -> UploadTask? {
    let task = uploadTask(
      method: method, url, parameters: parameters, headers: headers, responseSerializer: serializer, timeout: timeout,
      constructingBody: constructingBody, progress: progress, success: success, failure: failure)
    task?.resume()
    return task
  }

  // MARK: async

  /// POSTs a form; see `get(_:as:…)` for what `as:` may be.
  ///
  /// - Parameter timeout: how long nothing may move, not how long all of it may take: see `HTTPRequestSerializer.totalTimeout`. Default nil: the serializer's,
  ///   then the session's.
  /// - Parameter progress: of the request, told on the delegate queue, or `progressQueue`; with one, the call is a task, with its notifications. Default nil.
  @concurrent
  public func post<Value: Decodable & Sendable>(
    _ url: String, as type: Value.Type = Value.self, parameters: (any Sendable)? = nil,
    headers: [String: String]? = nil, timeout: Duration? = nil, progress: TaskProgressHandler? = nil,
    constructingBody: @Sendable (inout MultipartFormData) throws -> Void
  ) async throws -> Value {
    try await form(.post, url, type, parameters, headers, timeout, progress, constructingBody)
  }

  /// PUTs a form.
  ///
  /// - Parameter timeout: how long nothing may move, not how long all of it may take: see `HTTPRequestSerializer.totalTimeout`. Default nil: the serializer's,
  ///   then the session's.
  @concurrent
  public func put<Value: Decodable & Sendable>(
    _ url: String, as type: Value.Type = Value.self, parameters: (any Sendable)? = nil,
    headers: [String: String]? = nil, timeout: Duration? = nil, progress: TaskProgressHandler? = nil,
    constructingBody: @Sendable (inout MultipartFormData) throws -> Void
  ) async throws -> Value {
    try await form(.put, url, type, parameters, headers, timeout, progress, constructingBody)
  }

  /// PATCHes with a form.
  ///
  /// - Parameter timeout: how long nothing may move, not how long all of it may take: see `HTTPRequestSerializer.totalTimeout`. Default nil: the serializer's,
  ///   then the session's.
  @concurrent
  public func patch<Value: Decodable & Sendable>(
    _ url: String, as type: Value.Type = Value.self, parameters: (any Sendable)? = nil,
    headers: [String: String]? = nil, timeout: Duration? = nil, progress: TaskProgressHandler? = nil,
    constructingBody: @Sendable (inout MultipartFormData) throws -> Void
  ) async throws -> Value {
    try await form(.patch, url, type, parameters, headers, timeout, progress, constructingBody)
  }

  private func form<Value: Decodable & Sendable>(
    _ method: HTTPRequest.Method, _ url: String, _ type: Value.Type, _ parameters: (any Sendable)?,
    _ headers: [String: String]?, _ timeout: Duration?, _ progress: TaskProgressHandler?,
    _ constructingBody: @Sendable (inout MultipartFormData) throws -> Void
  ) async throws -> Value {
    let request = try multipartRequest(
      method, url, parameters: parameters, headers: headers, timeout: timeout, constructingBody: constructingBody)
    guard let progress else { return try await value(of: request, as: type).0 }
    return try await upload(streamed: request, serializer: reader(of: type), progress: progress).0
  }
}
