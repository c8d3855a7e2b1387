internal import Foundation
internal import LupineBase
internal import Synchronization
public import LupineSession

/// The verbs as `async` calls. They go straight to the session and make the value on the executor of the process: no queue is passed, and no notification
/// posted; hooks that concern the exchange are called if set. Cancelling the task cancels the request.
///
/// `as:` says what is wanted, and may be left out where it follows from the context:
/// - `Data`: the body as it is, of any media type;
/// - `JSONValue`: the body as JSON, `.null` for an empty one;
/// - `EmptyResponse`: nothing, whatever the body;
/// - any other `Decodable`: the body as JSON, decoded by the manager's `decoder`.
///
/// Errors are `SessionError`, and `SerializationError` for a status that is not acceptable or a body that is not what was asked for. Which statuses are
/// acceptable is up to the manager's response serializer; if that is a `JSONResponseSerializer`, its media types are those of JSON here, and it reads each
/// `JSONValue`. Otherwise a `JSONValue` is an array or an object, and not a fragment.
extension HTTPSessionManager {
  /// Fetches with any method and gives value and response.
  ///
  /// - Parameter timeout: how long nothing may move, not how long all of it may take: see `HTTPRequestSerializer.totalTimeout`. Default nil: the serializer's,
  ///   then the session's.
  @concurrent
  public func response<Value: Decodable & Sendable>(
    _ method: HTTPRequest.Method, _ url: String, as type: Value.Type = Value.self,
    parameters: (any Sendable)? = nil, headers: [String: String]? = nil, timeout: Duration? = nil
  ) async throws -> (Value, Response) {
    let request = try request(method, url, parameters: parameters, headers: headers, timeout: timeout)
    return try await value(of: request, as: type)
  }

  /// GET.
  ///
  /// - Parameter timeout: how long nothing may move, not how long all of it may take: see `HTTPRequestSerializer.totalTimeout`. Default nil: the serializer's,
  ///   then the session's.
  @concurrent
  public func get<Value: Decodable & Sendable>(
    _ url: String, as type: Value.Type = Value.self, parameters: (any Sendable)? = nil,
    headers: [String: String]? = nil, timeout: Duration? = nil
  ) async throws -> Value {
    try await response(.get, url, as: type, parameters: parameters, headers: headers, timeout: timeout).0
  }

  /// HEAD; gives the response.
  ///
  /// - Parameter timeout: how long nothing may move, not how long all of it may take: see `HTTPRequestSerializer.totalTimeout`. Default nil: the serializer's,
  ///   then the session's.
  @concurrent
  public func head(
    _ url: String, parameters: (any Sendable)? = nil, headers: [String: String]? = nil, timeout: Duration? = nil
  ) async throws -> Response {
    try await response(.head, url, as: Data.self, parameters: parameters, headers: headers, timeout: timeout).1
  }

  /// POST.
  ///
  /// - Parameter timeout: how long nothing may move, not how long all of it may take: see `HTTPRequestSerializer.totalTimeout`. Default nil: the serializer's,
  ///   then the session's.
  @concurrent
  public func post<Value: Decodable & Sendable>(
    _ url: String, as type: Value.Type = Value.self, parameters: (any Sendable)? = nil,
    headers: [String: String]? = nil, timeout: Duration? = nil
  ) async throws -> Value {
    try await response(.post, url, as: type, parameters: parameters, headers: headers, timeout: timeout).0
  }

  /// PUT.
  ///
  /// - Parameter timeout: how long nothing may move, not how long all of it may take: see `HTTPRequestSerializer.totalTimeout`. Default nil: the serializer's,
  ///   then the session's.
  @concurrent
  public func put<Value: Decodable & Sendable>(
    _ url: String, as type: Value.Type = Value.self, parameters: (any Sendable)? = nil,
    headers: [String: String]? = nil, timeout: Duration? = nil
  ) async throws -> Value {
    try await response(.put, url, as: type, parameters: parameters, headers: headers, timeout: timeout).0
  }

  /// PATCH.
  ///
  /// - Parameter timeout: how long nothing may move, not how long all of it may take: see `HTTPRequestSerializer.totalTimeout`. Default nil: the serializer's,
  ///   then the session's.
  @concurrent
  public func patch<Value: Decodable & Sendable>(
    _ url: String, as type: Value.Type = Value.self, parameters: (any Sendable)? = nil,
    headers: [String: String]? = nil, timeout: Duration? = nil
  ) async throws -> Value {
    try await response(.patch, url, as: type, parameters: parameters, headers: headers, timeout: timeout).0
  }

  /// DELETE.
  ///
  /// - Parameter timeout: how long nothing may move, not how long all of it may take: see `HTTPRequestSerializer.totalTimeout`. Default nil: the serializer's,
  ///   then the session's.
  @concurrent
  public func delete<Value: Decodable & Sendable>(
    _ url: String, as type: Value.Type = Value.self, parameters: (any Sendable)? = nil,
    headers: [String: String]? = nil, timeout: Duration? = nil
  ) async throws -> Value {
    try await response(.delete, url, as: type, parameters: parameters, headers: headers, timeout: timeout).0
  }

  /// One exchange, and the value of its body. Part of its caller: an asynchronous function of its own would need a frame and changes of executor.
  @inline(__always)
  func value<Value: Decodable & Sendable>(
    of request: Request, as type: Value.Type
  ) async throws -> (Value, Response) {
    guard isPlain else { return try await told(request) { try value(of: $0, $1) } }
    let (data, response) = try await exchange(request)
    return (try value(of: data, response), response)
  }

  // What almost every response is, is seen without a serializer: that has sets to look into, and an error to make room for.
  private func value<Value: Decodable & Sendable>(of data: Data, _ response: Response) throws -> Value {
    let status = response.statusCode
    let (decoder, isAcceptable) = core.settings.values.withLock { ($0.decoder, $0.isAcceptableJSON(status)) }
    if !BodyReader<Value>.isUndecoded, isAcceptable, response.isPlainJSON {
      return try PlainJSON.decode(data, response, decoder)
    }
    return try reader(of: Value.self).serialize(response, data: data)
  }

  func reader<Value: Decodable & Sendable>(of type: Value.Type) -> BodyReader<Value> {
    core.settings.values.withLock { BodyReader<Value>(json: $0.json, decoder: $0.decoder) }
  }
}

/// Chooses the serializer that makes a value of the type that a caller names.
struct BodyReader<Value: Decodable & Sendable>: ResponseSerializer {
  let json: JSONResponseSerializer
  let decoder: JSONDecoder

  /// Whether the value is what has come, or what JSON says, and nothing that a decoder makes of it. An optional means the same: the body is there.
  static var isUndecoded: Bool {
    Value.self == Data.self || Value.self == JSONValue.self || Value.self == Data?.self || Value.self == JSONValue?.self
  }

  func serialize(_ response: Response?, data: Data?) throws -> Value {
    if Self.isUndecoded { return try serializeUndecoded(response, data) }
    return try DecodableResponseSerializer<Value>(validation: json.validation, decoder: decoder)
      .serialize(response, data: data)
  }

  // Out of line, for the metadata of `Value?`, which every call would look for otherwise.
  @inline(never)
  private func serializeUndecoded(_ response: Response?, _ data: Data?) throws -> Value {
    if Value.self == Data.self || Value.self == Data?.self {
      var serializer = HTTPResponseSerializer()
      serializer.acceptableStatusCodes = json.acceptableStatusCodes
      if let value = try serializer.serialize(response, data: data) as? Value { return value }
    }
    if let value = (try json.serialize(response, data: data) ?? .null) as? Value { return value }
    preconditionFailure("\(Value.self) is none of these types")
  }
}
