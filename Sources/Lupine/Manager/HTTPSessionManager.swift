public import Foundation
public import LupineSession
internal import LupineBase
internal import LupineRules
internal import Synchronization

/// Told that a request was answered: the task, and the value of the body, nil where there is none.
public typealias SuccessHandler = @Sendable (DataTask, (any Sendable)?) -> Void
/// Told that a request failed: the task, nil if there was no request to be made; a `SessionError`, or a `SerializationError` with response, body and value.
public typealias FailureHandler = @Sendable (DataTask?, any Error) -> Void

/// A client of an API: paths below a base URL, parameters put into requests, values made of responses. Made to be subclassed, one class for one API.
///
/// Source: `AFHTTPSessionManager`.
open class HTTPSessionManager: SessionManager, @unchecked Sendable {
  private let base: BaseURL?
  private let maker: LockedStorage<RequestMaker>

  /// What paths are relative to, as text; nil: every URL is absolute. A path that does not end in a slash was given one.
  public var baseURL: String? { base?.text }

  /// Makes a manager with a session of its own.
  ///
  /// - Parameters:
  ///   - baseURL: what paths are relative to (RFC 3986 section 5.2), with a slash added to its path unless it ends in one; a query after it is no part of
  ///     that. Default nil.
  ///   - configuration: of the session.
  /// - Throws: `SessionError`: `.badURL`; and as `SessionManager.init(configuration:)`.
  public init(baseURL: String? = nil, configuration: SessionConfiguration = .default) throws(SessionError) {
    base = if let baseURL { try BaseURL(baseURL) } else { nil }
    maker = LockedStorage(RequestMaker(HTTPRequestSerializer()))
    try super.init(configuration: configuration)
  }

  /// Makes another manager like this one: base URL, configuration, serializers, decoder, security policy, interceptors and retry policy; not hooks and queues, and
  /// with a session of its own. Source: `-copyWithZone:`.
  ///
  /// - Throws: as `init(baseURL:configuration:)`.
  public convenience init(copying other: HTTPSessionManager) throws(SessionError) {
    try self.init(baseURL: other.baseURL, configuration: other.sessionConfiguration)
    requestSerializer = other.requestSerializer
    core.settings.copyRules(of: other.core.settings)
  }

  /// Decodes JSON for the `async` verbs (`get(_:as:)` and the like). Default a plain `JSONDecoder` of this manager's own, of which a copy of the manager gets
  /// another one with the same settings.
  ///
  /// Set it up before it is given here, and leave it alone afterwards: calls use it at the same time, on any thread, those of the manager's copies too.
  public var decoder: JSONDecoder {
    get { core.settings.ownDecoder }
    set { core.settings.exchange(\.decoder, newValue) }
  }

  /// What makes requests of methods, URLs and parameters; of a copy, so that a change is one of later requests. Default `HTTPRequestSerializer()`.
  ///
  /// To change a part of it, as in `requestSerializer.base.setValue(…)`, is to read it and to set it: what another thread sets in between is lost. Where
  /// several change it, see `updateRequestSerializer(_:)`.
  public var requestSerializer: any HTTPRequestSerializing {
    get { maker.withLock { $0 }.serializer }
    set {
      let new = RequestMaker(newValue)
      // The former one is let go of outside the lock: it may hold the last reference to something that asks the manager when it goes.
      let former = maker.withLock { maker in
        defer { maker = new }
        return maker
      }
      withExtendedLifetime(former) {}
    }
  }

  /// Changes the request serializer as it is at that moment: of changes that several threads make in this way none is lost. Any thread.
  ///
  /// - Parameter change: changes a copy, which then takes the place of the serializer; called under no lock, at once, and once more with the new one
  ///   whenever another thread was faster.
  /// - Throws: what `change` throws; nothing is changed then.
  ///
  /// Source: the barrier of AFNetworking's `setValue:forHTTPHeaderField:`.
  public func updateRequestSerializer<Failure: Error>(
    _ change: (inout any HTTPRequestSerializing) throws(Failure) -> Void
  ) throws(Failure) {
    while true {
      let former = maker.withLock { $0 }
      var serializer = former.serializer
      try change(&serializer)
      let new = RequestMaker(serializer)
      let isCurrent = maker.withLock { maker in
        guard maker === former else { return false }
        maker = new
        return true
      }
      withExtendedLifetime(former) {}
      if isCurrent { return }
    }
  }

  /// Sets whom to trust; see `SessionManager.setSecurityPolicy(_:)`.
  ///
  /// Without a base URL any policy may be set, for URLs that are absolute (AFNetworking refuses that).
  ///
  /// - Throws: `SecurityPolicyError`: what that of `SessionManager` throws, and `.insecureBaseURL` for a policy that pins where the base URL is not https:
  ///   nothing would be pinned. Source: the exception "Invalid Security Policy".
  open override func setSecurityPolicy(_ policy: SecurityPolicy) throws(SecurityPolicyError) {
    if let base, !base.isSecure, case let mode = policy.policy(forHost: base.host).pinningMode, mode != .none {
      throw SecurityPolicyError(
        .insecureBaseURL,
        message:
          "a security policy with the mode .\(mode) can only be applied with a secure base URL, not \(base.publicText)"
      )
    }
    try super.setSecurityPolicy(policy)
  }

  // MARK: URLs

  /// The absolute URL of a path or URL.
  ///
  /// With the base `http://example.com/v1/`: `foo` is `/v1/foo`, `/foo` is `/foo`, `foo?a=b` is `/v1/foo?a=b`, another URL is itself, and an empty text is the
  /// base.
  ///
  /// - Throws: `SessionError` with `.badURL`.
  public func absoluteURL(_ url: String) throws(SessionError) -> String {
    guard let base else { return url }
    return try base.resolve(url)
  }

  // MARK: Requests

  /// The request of a call: headers are set last, and take the place of what the serializer set.
  ///
  /// - Parameter timeout: how long nothing may move, not how long all of it may take: see `HTTPRequestSerializer.totalTimeout`. Default nil: the serializer's,
  ///   then the session's.
  /// - Throws: `SessionError` with `.badURL` or `.badRequest`; what the serializer throws.
  open func request(
    _ method: HTTPRequest.Method, _ url: String, parameters: (any Sendable)? = nil, headers: [String: String]? = nil,
    timeout: Duration? = nil
  ) throws -> Request {
    var request = try maker.withLock { $0 }.request(method, url, base, parameters)
    if headers != nil || timeout != nil { try finish(&request, headers, timeout) }
    return request
  }

  /// The request of a form; see `request(_:_:parameters:headers:timeout:)`. Parameters become its first parts.
  ///
  /// A `Content-Type` among the headers that does not name the form's boundary is left out: nobody could tell the parts apart (RFC 7578 section 4.1).
  open func multipartRequest(
    _ method: HTTPRequest.Method, _ url: String, parameters: (any Sendable)? = nil, headers: [String: String]? = nil,
    timeout: Duration? = nil, constructingBody construct: (inout MultipartFormData) throws -> Void
  ) throws -> Request {
    var request = try requestSerializer.multipartRequest(
      method: method.rawValue, url: try absoluteURL(url), parameters: parameters, constructing: construct)
    try finish(&request, headers, timeout, boundary: Self.boundary(of: request))
    return request
  }

  /// The boundary of a form with parts, as its Content-Type has it.
  private static func boundary(of request: Request) -> String? {
    if case .none = request.body { return nil }
    return request.fields[.contentType].flatMap { MediaType($0)?["boundary"] }
  }

  private func finish(
    _ request: inout Request, _ headers: [String: String]?, _ timeout: Duration?, boundary: String? = nil
  ) throws(SessionError) {
    if let timeout { request.timeoutInterval = timeout }
    for (name, value) in headers ?? [:] {
      guard let field = HTTPField.Name(name), HTTPField.isValidValue(value) else {
        throw SessionError(
          .badRequest, phase: .prepare, message: "the header \(String(reflecting: name)) cannot be sent",
          failingURL: request.urlString)
      }
      if let boundary, field == .contentType, MediaType(value)?["boundary"] != boundary { continue }
      request.fields[field] = value
    }
  }
}
