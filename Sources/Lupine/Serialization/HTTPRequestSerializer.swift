public import Foundation
internal import HTTPTypes
internal import LupineRules
public import LupineSession

/// Puts parameters into the query of GET, HEAD and DELETE requests, and into the body of others as a form; adds headers and settings.
///
/// A value: copies share nothing, and can be used on any thread.
///
/// Source: `AFHTTPRequestSerializer`. One of its settings has no counterpart, as it would have no effect: pipelining, because this stack sends one
/// request at a time on a connection.
public struct HTTPRequestSerializer: HTTPRequestSerializing {
  /// The fields that every request gets unless it has them; made when they are set, not for each request.
  var fields: HTTPFields { didSet { encodedFields = EncodedFields() } }
  /// Their encoded form, which the requests share that get just these.
  private var encodedFields = EncodedFields()
  /// Headers that cannot be sent, in lower case; requests are refused for them.
  var refusedHeaders: Set<String> = []

  /// The encoding of form bodies and of text in multipart bodies. Escaping is always that of UTF-8. Default UTF-8.
  public var stringEncoding: String.Encoding = .utf8
  /// Methods, in upper case, whose parameters go into the URL. Default GET, HEAD and DELETE. The method of a request is upper-cased for the
  /// comparison.
  public var methodsEncodingParametersInURL: Set<String> {
    get { methodsInURL.names }
    set { methodsInURL = MethodSet(names: newValue) }
  }
  private var methodsInURL = MethodSet(names: ["GET", "HEAD", "DELETE"])
  /// How arrays and booleans are written. Default: as AFNetworking does.
  public var queryEncoding = QueryEncoding()
  /// Makes the encoder of each model in a query, a form's body or among the fields of a form with files, whose names, dates and data it decides; nil is
  /// `JSONEncoder()`. What is no model, as a date in a dictionary, goes by its description all the same. Called at most once for a request. Default nil.
  public var makeEncoder: (@Sendable () -> JSONEncoder)?
  /// Writes the query instead, for the URL and for form bodies; not called without parameters. Nil is "no query"; what it throws, `serialize`
  /// throws. Default nil.
  public var queryStringSerialization: (@Sendable (Request, any Sendable) throws -> String?)?

  /// `Request.timeoutInterval` of requests, how long nothing may move; nil leaves it alone, so that the session's holds. Default nil.
  public var timeoutInterval: Duration?
  /// `Request.totalTimeout` of requests, how long all of it may take, redirects included: a call that takes longer fails with `.timedOut`. Of calls that are
  /// repeated see `RequestInterceptor`. Nil leaves it alone, so that the session's `timeoutIntervalForResource` holds. Default nil.
  public var totalTimeout: Duration?
  /// `Request.handlesCookies` of requests; nil leaves it alone. Default nil.
  public var handlesCookies: Bool?

  /// `Request.cachePolicy` of requests; nil leaves it to the session. Default nil.
  public var cachePolicy: RequestCachePolicy?
  /// `Request.networkServiceType` of requests: how their packets are marked; nil leaves it alone, so that the session's holds. Default nil.
  public var networkServiceType: NetworkServiceType?
  /// `Request.allowsCellularAccess` of requests: whether they may go over a mobile network; nil leaves it alone. Default nil.
  public var allowsCellularAccess: Bool?

  /// A serializer with `Accept-Language` and `User-Agent` of this process, and AFNetworking's defaults.
  public init() {
    fields = DefaultHeaders.fields
  }

  /// Itself.
  public var base: HTTPRequestSerializer {
    get { self }
    set { self = newValue }
  }

  /// A copy of `request` with the headers it lacks, and with `parameters` in its query, or in its body as a form.
  ///
  /// A request whose method takes a body gets one, also without parameters, and `Content-Type: application/x-www-form-urlencoded` unless it has
  /// one. The settings (timeout, cookies and the like) are applied by `request(method:url:parameters:)` alone.
  ///
  /// - Throws: `SerializationError` with `.requestSerializationFailed`; what `queryStringSerialization` throws.
  public func serialize(_ request: Request, parameters: (any Sendable)?) throws -> Request {
    var request = request
    try addHeaders(to: &request)
    if encodesInURL(request.method) {
      try addQuery(of: parameters, to: &request)
      return request
    }
    let query = try parameters.flatMap { try self.query($0, for: request) }
    if !request.fields.contains(.contentType) { request.fields[.contentType] = "application/x-www-form-urlencoded" }
    request.body = .bytes(try encoded(query ?? ""))
    return request
  }

  /// Whether parameters of a method's requests go into their URL.
  func encodesInURL(_ method: HTTPRequest.Method) -> Bool {
    let name = method.rawValue
    return methodsInURL.contains(name) || methodsInURL.contains(name.uppercased())
  }

  /// Puts parameters into the query of a request.
  func addQuery(of parameters: (any Sendable)?, to request: inout Request) throws {
    guard let parameters, let query = try query(parameters, for: request) else { return }
    try append(query, to: &request)
  }

  /// Adds the headers that a request lacks.
  func addHeaders(to request: inout Request) throws(SerializationError) {
    if !refusedHeaders.isEmpty { throw refusal(request) }
    guard !request.fields.isEmpty else {
      request.fields = fields
      request.encodedFields = encodedFields
      return
    }
    let own = request.fields
    for field in fields where !own.contains(field.name) { request.fields.append(field) }
  }

  private func refusal(_ request: Request) -> SerializationError {
    SerializationError(
      .requestSerializationFailed,
      message: "A header cannot be sent: \(String(reflecting: refusedHeaders.min() ?? "")).",
      failingURL: request.urlString)
  }

  /// Method, URL and settings.
  func bareRequest(method: String, url: String) throws(SessionError) -> Request {
    guard let method = HTTPRequest.Method(method) else {
      throw SessionError(.badRequest, phase: .prepare, message: "the method is no token")
    }
    var request = try Request(url, method: method)
    applySettings(to: &request)
    return request
  }

  /// Whether `applySettings(to:)` does anything.
  var hasSettings: Bool {
    timeoutInterval != nil || totalTimeout != nil || handlesCookies != nil || cachePolicy != nil
      || networkServiceType != nil || allowsCellularAccess != nil
  }

  func applySettings(to request: inout Request) {
    if let timeoutInterval { request.timeoutInterval = timeoutInterval }
    if let totalTimeout { request.totalTimeout = totalTimeout }
    if let handlesCookies { request.handlesCookies = handlesCookies }
    if let cachePolicy { request.cachePolicy = cachePolicy }
    if let networkServiceType { request.networkServiceType = networkServiceType }
    if let allowsCellularAccess { request.allowsCellularAccess = allowsCellularAccess }
  }

  private func query(_ parameters: any Sendable, for request: Request) throws -> String? {
    if let queryStringSerialization { return try queryStringSerialization(request, parameters) }
    return try queryString(from: parameters, encoding: queryEncoding, by: builder)
  }

  /// What makes the parameters of one request fields.
  var builder: ParameterTreeBuilder {
    var builder = ParameterTreeBuilder(booleans: queryEncoding.booleans)
    if let makeEncoder { builder.encoder = JSONTreeBuilder.once(makeEncoder) }
    return builder
  }

  private func append(_ query: String, to request: inout Request) throws(SerializationError) {
    do {
      request.parsedURL = try request.parsedURL.appendingQuery(query)
    } catch {
      throw SerializationError(
        .requestSerializationFailed, message: "The query cannot be sent: \(error).", failingURL: request.urlString,
        underlying: error)
    }
  }

  /// Text in the encoding of bodies.
  func encoded(_ query: String) throws(SerializationError) -> [UInt8] {
    if stringEncoding == .utf8 { return Array(query.utf8) }
    guard let data = query.data(using: stringEncoding) else {
      throw SerializationError(
        .requestSerializationFailed, message: "The parameters cannot be written in the encoding \(stringEncoding).")
    }
    return [UInt8](data)
  }
}

/// Methods by name.
private struct MethodSet: Sendable {
  let names: Set<String>
  /// Known ahead, because almost every request asks for it: a look into the set hashes the name each time.
  private let hasGET: Bool

  init(names: Set<String>) {
    self.names = names
    hasGET = names.contains("GET")
  }

  func contains(_ name: String) -> Bool { name == "GET" ? hasGET : names.contains(name) }
}
