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
  public var methodsEncodingParametersInURL: Set<String> = ["GET", "HEAD", "DELETE"]
  /// How arrays and booleans are written. Default: as AFNetworking does.
  public var queryEncoding = QueryEncoding()
  /// Writes the query instead, for the URL and for form bodies; not called without parameters. Nil is "no query"; what it throws, `serialize`
  /// throws. Default nil.
  public var queryStringSerialization: (@Sendable (Request, any Sendable) throws -> String?)?

  /// `Request.timeoutInterval` of requests; nil leaves it alone, so that the session's holds. Default nil.
  public var timeoutInterval: Duration?
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
    var request = try addingHeaders(request)
    let query = try parameters.flatMap { try self.query($0, for: request) }
    guard !encodesInURL(request) else {
      if let query { try append(query, to: &request) }
      return request
    }
    if !request.fields.contains(.contentType) { request.fields[.contentType] = "application/x-www-form-urlencoded" }
    request.body = .bytes(try encoded(query ?? ""))
    return request
  }

  /// Whether parameters of a request go into its URL.
  func encodesInURL(_ request: Request) -> Bool {
    let method = request.method.rawValue
    return methodsEncodingParametersInURL.contains(method)
      || methodsEncodingParametersInURL.contains(method.uppercased())
  }

  /// A copy with the headers that it lacks.
  func addingHeaders(_ original: Request) throws(SerializationError) -> Request {
    if let refusedHeader = refusedHeaders.min() {
      throw SerializationError(
        .requestSerializationFailed, message: "A header cannot be sent: \(String(reflecting: refusedHeader)).",
        failingURL: original.urlString)
    }
    var request = original
    guard !request.fields.isEmpty else {
      request.fields = fields
      request.encodedFields = encodedFields
      return request
    }
    for field in fields where !original.fields.contains(field.name) { request.fields.append(field) }
    return request
  }

  /// Method, URL and settings.
  func bareRequest(method: String, url: String) throws(SessionError) -> Request {
    guard let method = HTTPRequest.Method(method) else {
      throw SessionError(.badRequest, phase: .prepare, message: "the method is no token")
    }
    return applyingSettings(try Request(url, method: method))
  }

  /// A copy with the settings.
  func applyingSettings(_ original: Request) -> Request {
    var request = original
    if let timeoutInterval { request.timeoutInterval = timeoutInterval }
    if let handlesCookies { request.handlesCookies = handlesCookies }
    if let cachePolicy { request.cachePolicy = cachePolicy }
    if let networkServiceType { request.networkServiceType = networkServiceType }
    if let allowsCellularAccess { request.allowsCellularAccess = allowsCellularAccess }
    return request
  }

  private func query(_ parameters: any Sendable, for request: Request) throws -> String? {
    if let queryStringSerialization { return try queryStringSerialization(request, parameters) }
    return try queryString(from: parameters, encoding: queryEncoding)
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
