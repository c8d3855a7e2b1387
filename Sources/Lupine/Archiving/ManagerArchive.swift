public import LupineSession

/// What of a manager can be written down: base URL, serializers and security policy.
///
/// Not the configuration of its session, which has storages, a logger and a transport; not hooks, interceptors and queues, which are code; no credentials: the
/// base URL is without its userinfo, and see `HTTPRequestSerializer.encode(to:)`.
///
/// Source: `NSSecureCoding` of `AFHTTPSessionManager` and `AFHTTPRequestOperationManager`.
public struct ManagerArchive: Sendable, Codable {
  /// What paths are relative to.
  public var baseURL: String?
  /// What makes requests.
  public var requestSerializer: any HTTPRequestSerializing
  /// What makes values of responses.
  public var responseSerializer: any ResponseSerializer
  /// Whom to trust.
  public var securityPolicy: SecurityPolicy

  private enum CodingKeys: String, CodingKey {
    case baseURL, requestSerializer, responseSerializer, securityPolicy
  }

  /// What a manager has now.
  public init(_ manager: HTTPSessionManager) throws(SessionError) {
    baseURL = if let text = manager.baseURL { try BaseURL(text).publicText } else { nil }
    requestSerializer = manager.requestSerializer
    responseSerializer = manager.responseSerializer
    securityPolicy = manager.securityPolicy
  }

  /// Reads an archive. Serializers that are not of this module have to be among the decoder's `SerializerTypes`.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    let path = container.codingPath
    baseURL = try container.decodeIfPresent(String.self, forKey: .baseURL)
    requestSerializer = try container.decode(ArchivedSerializer.self, forKey: .requestSerializer)
      .value(as: (any HTTPRequestSerializing).self, at: path)
    responseSerializer = try container.decode(ArchivedSerializer.self, forKey: .responseSerializer)
      .value(as: (any ResponseSerializer).self, at: path)
    securityPolicy = try container.decode(SecurityPolicy.self, forKey: .securityPolicy)
  }

  /// Writes an archive.
  ///
  /// - Throws: `EncodingError` for a serializer that cannot be archived.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    let path = encoder.codingPath
    try container.encodeIfPresent(baseURL, forKey: .baseURL)
    try container.encode(ArchivedSerializer(requestSerializer, at: path), forKey: .requestSerializer)
    try container.encode(ArchivedSerializer(responseSerializer, at: path), forKey: .responseSerializer)
    try container.encode(securityPolicy, forKey: .securityPolicy)
  }
}

extension HTTPSessionManager {
  /// Makes a manager of an archive, with a session of its own.
  ///
  /// - Parameter configuration: of the session.
  /// - Throws: `SessionError` as `init(baseURL:configuration:)`; `SecurityPolicyError` as `setSecurityPolicy(_:)`.
  public convenience init(archive: ManagerArchive, configuration: SessionConfiguration = .default) throws {
    try self.init(baseURL: archive.baseURL, configuration: configuration)
    requestSerializer = archive.requestSerializer
    responseSerializer = archive.responseSerializer
    try setSecurityPolicy(archive.securityPolicy)
  }
}

extension HTTPRequestOperationManager {
  /// Makes a manager of an archive, which `ManagerArchive(manager.sessionManager)` makes of one; see the same of `HTTPSessionManager`.
  public convenience init(archive: ManagerArchive, configuration: SessionConfiguration = .default) throws {
    self.init(sessionManager: try HTTPSessionManager(archive: archive, configuration: configuration))
  }
}
