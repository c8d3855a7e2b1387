public import Dispatch
public import Foundation
public import HTTPTypes
internal import LupineBase
public import LupineSession
internal import Synchronization

/// A client of an API whose requests are operations of one queue: they can wait for one another, and be paused.
///
/// Base URL, serializers, security policy, interceptors and retry policy are those of an `HTTPSessionManager`, which makes the connections. Settings
/// hold for operations made after them. Any thread. Operations hold what they need: the manager may go before they are over.
///
/// Source: `AFHTTPRequestOperationManager`.
public final class HTTPRequestOperationManager: Sendable {
  /// Called when a request could not be made (then the operation is nil), or has failed.
  public typealias Failure = @Sendable (HTTPRequestOperation?, any Error) -> Void

  /// Base URL, serializers, security policy, session; and `completionQueue` and `completionGroup` of the operations.
  public let sessionManager: HTTPSessionManager
  /// Where operations run. Its concurrency is not limited by default; the session's connections are, 6 to a host.
  public let operationQueue = OperationQueue()
  private let credentialStorage = LockedStorage<Credential?>(nil)

  /// Makes a manager with a session of its own, whose response serializer is `JSONResponseSerializer()`.
  ///
  /// - Parameters:
  ///   - baseURL: what URLs are relative to; a slash is added to its path unless it ends in one. Default nil.
  ///   - configuration: of the session; without a `credentialStorage` nobody is asked for credentials but `credential`.
  /// - Throws: `SessionError`, as `HTTPSessionManager` does.
  public init(baseURL: String? = nil, configuration: SessionConfiguration = .default) throws(SessionError) {
    sessionManager = try HTTPSessionManager(baseURL: baseURL, configuration: configuration)
  }

  /// Makes a manager whose operations ask as `sessionManager` does: one that exists, a subclass of yours, or a copy of another manager's
  /// (`HTTPSessionManager(copying: other.sessionManager)`). Its hooks, but for `connectionChallengeHandler`, are not asked for operations: those have
  /// `setRedirection`, `setChallenge` and their kin.
  public init(sessionManager: HTTPSessionManager) {
    self.sessionManager = sessionManager
  }

  // MARK: Settings

  /// What URLs are relative to; nil: every URL is absolute.
  public var baseURL: String? { sessionManager.baseURL }

  /// What makes requests of methods, URLs and parameters. Default `HTTPRequestSerializer()`.
  public var requestSerializer: any HTTPRequestSerializing {
    get { sessionManager.requestSerializer }
    set { sessionManager.requestSerializer = newValue }
  }

  /// What makes values of bodies. Default `JSONResponseSerializer()`.
  public var responseSerializer: any ResponseSerializer {
    get { sessionManager.responseSerializer }
    set { sessionManager.responseSerializer = newValue }
  }

  /// Whom to trust.
  public var securityPolicy: SecurityPolicy { sessionManager.securityPolicy }

  /// Sets whom to trust.
  ///
  /// - Throws: `SecurityPolicyError`, as `HTTPSessionManager` does.
  public func setSecurityPolicy(_ policy: SecurityPolicy) throws(SecurityPolicyError) {
    try sessionManager.setSecurityPolicy(policy)
  }

  /// Who is asking. Default nil.
  public var credential: Credential? {
    get { credentialStorage.withLock { $0 } }
    set { credentialStorage.withLock { $0 = newValue } }
  }

  /// Where handlers are called and notifications are posted. Default nil: the main queue, which a program has to run.
  public var completionQueue: DispatchQueue? {
    get { sessionManager.completionQueue }
    set { sessionManager.completionQueue = newValue }
  }

  /// A group that operations are in from their end until their handlers have returned. Default nil.
  public var completionGroup: DispatchGroup? {
    get { sessionManager.completionGroup }
    set { sessionManager.completionGroup = newValue }
  }

  /// Watches the network, once somebody tells it to start; nothing here depends on it. Default `NetworkReachabilityManager.shared`.
  public var reachabilityManager: NetworkReachabilityManager {
    get { sessionManager.reachabilityManager }
    set { sessionManager.reachabilityManager = newValue }
  }

  // MARK: Operations

  /// Makes an operation with these settings; it is not in the queue. Source: `HTTPRequestOperationWithRequest:success:failure:`.
  public func operation(
    with request: Request, success: HTTPRequestOperation.Success? = nil, failure: HTTPRequestOperation.Failure? = nil
  ) -> HTTPRequestOperation {
    let operation = HTTPRequestOperation(request: request, session: sessionManager.session)
    operation.adopt(sessionManager.core)
    operation.responseSerializer = responseSerializer
    operation.credential = credential
    operation.completionQueue = completionQueue
    operation.completionGroup = completionGroup
    operation.setCompletion(success: success, failure: failure)
    return operation
  }

  /// Makes a request, and an operation of it, which is put into the queue.
  ///
  /// - Parameters:
  ///   - method: of the request.
  ///   - url: absolute, or relative to `baseURL`.
  ///   - parameters: go where the request serializer puts them: into the query of GET, HEAD and DELETE, into the body of others.
  ///   - success: called with the operation and the value.
  ///   - failure: called with the operation and its error; without an operation if no request could be made.
  /// - Returns: the operation; nil if no request could be made.
  @discardableResult
  public func enqueue(
    _ method: HTTPRequest.Method, _ url: String, parameters: (any Sendable)? = nil,
    success: HTTPRequestOperation.Success? = nil, failure: Failure? = nil
  ) -> HTTPRequestOperation? {
    enqueue(success, failure) { try sessionManager.request(method, url, parameters: parameters) }
  }

  /// Makes a form, and an operation of it, which is put into the queue; see `enqueue(_:_:parameters:success:failure:)`.
  ///
  /// - Parameters:
  ///   - parameters: become the first parts.
  ///   - constructingBody: adds parts; called once, before this returns. What it throws goes to `failure`.
  @discardableResult
  public func enqueue(
    _ method: HTTPRequest.Method, _ url: String, parameters: (any Sendable)? = nil,
    constructingBody: (inout MultipartFormData) throws -> Void, success: HTTPRequestOperation.Success? = nil,
    failure: Failure? = nil
  ) -> HTTPRequestOperation? {
    enqueue(success, failure) {
      try sessionManager.multipartRequest(method, url, parameters: parameters, constructingBody: constructingBody)
    }
  }

  /// POSTs a form; see `enqueue(_:_:parameters:constructingBody:success:failure:)`. Source:
  /// `POST:parameters:constructingBodyWithBlock:success:failure:`.
  @discardableResult
  public func post(
    _ url: String, parameters: (any Sendable)? = nil, constructingBody: (inout MultipartFormData) throws -> Void,
    success: HTTPRequestOperation.Success? = nil, failure: Failure? = nil
  ) -> HTTPRequestOperation? {
    enqueue(
      .post, url, parameters: parameters, constructingBody: constructingBody, success: success, failure: failure)
  }

  /// GET; see `enqueue(_:_:parameters:success:failure:)`.
  @discardableResult
  public func get(
    _ url: String, parameters: (any Sendable)? = nil, success: HTTPRequestOperation.Success? = nil,
    failure: Failure? = nil
  ) -> HTTPRequestOperation? { enqueue(.get, url, parameters: parameters, success: success, failure: failure) }

  /// HEAD; see `enqueue(_:_:parameters:success:failure:)`. There is no value.
  @discardableResult
  public func head(
    _ url: String, parameters: (any Sendable)? = nil, success: HTTPRequestOperation.Success? = nil,
    failure: Failure? = nil
  ) -> HTTPRequestOperation? { enqueue(.head, url, parameters: parameters, success: success, failure: failure) }

  /// POST; see `enqueue(_:_:parameters:success:failure:)`.
  @discardableResult
  public func post(
    _ url: String, parameters: (any Sendable)? = nil, success: HTTPRequestOperation.Success? = nil,
    failure: Failure? = nil
  ) -> HTTPRequestOperation? { enqueue(.post, url, parameters: parameters, success: success, failure: failure) }

  /// PUT; see `enqueue(_:_:parameters:success:failure:)`.
  @discardableResult
  public func put(
    _ url: String, parameters: (any Sendable)? = nil, success: HTTPRequestOperation.Success? = nil,
    failure: Failure? = nil
  ) -> HTTPRequestOperation? { enqueue(.put, url, parameters: parameters, success: success, failure: failure) }

  /// PATCH; see `enqueue(_:_:parameters:success:failure:)`.
  @discardableResult
  public func patch(
    _ url: String, parameters: (any Sendable)? = nil, success: HTTPRequestOperation.Success? = nil,
    failure: Failure? = nil
  ) -> HTTPRequestOperation? { enqueue(.patch, url, parameters: parameters, success: success, failure: failure) }

  /// DELETE; see `enqueue(_:_:parameters:success:failure:)`.
  @discardableResult
  public func delete(
    _ url: String, parameters: (any Sendable)? = nil, success: HTTPRequestOperation.Success? = nil,
    failure: Failure? = nil
  ) -> HTTPRequestOperation? { enqueue(.delete, url, parameters: parameters, success: success, failure: failure) }

  private func enqueue(
    _ success: HTTPRequestOperation.Success?, _ failure: Failure?, _ request: () throws -> Request
  ) -> HTTPRequestOperation? {
    let made: Request
    do {
      made = try request()
    } catch {
      (completionQueue ?? .main).async { failure?(nil, error) }
      return nil
    }
    // None where nobody is to be told: an operation that has handlers holds the session until they were called.
    var told: HTTPRequestOperation.Failure?
    if let failure { told = { operation, error in failure(operation, error) } }
    let operation = operation(with: made, success: success, failure: told)
    operationQueue.addOperation(operation)
    return operation
  }
}
