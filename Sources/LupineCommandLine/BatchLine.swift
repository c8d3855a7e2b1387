package import HTTPTypes
package import LupineRules
package import LupineSession

/// What one line of a batch asks for: a request, and what its session must be like. It is only read here: whoever carries it out opens the files that it
/// names.
package struct BatchLine: Sendable {
  /// What decides which session carries the request, as it was written.
  package struct Settings: Sendable, Equatable {
    package var caFile: String?
    package var insecure = false
    package var pins: [String] = []
    package var clientCertificate: String?
    package var clientKey: String?
    package var resolve: [String: String] = [:]
    package var unixSocket: String?
    package var cookies = Cookies.none
    /// A directory.
    package var cache: String?
  }

  /// Which jar the request uses.
  package enum Cookies: Sendable, Equatable {
    case none
    case shared
    /// A `cookies.txt`.
    case file(path: String)
  }

  package enum Body: Sendable, Equatable {
    case none
    case bytes([UInt8])
    case file(path: String)
    /// A multipart form, whose `Content-Type` takes the place of any given.
    case form([Part])
  }

  /// A part of a form.
  package enum Part: Sendable, Equatable {
    case value(name: String, String)
    /// - `fileName`: nil: its own. `type`: nil: by its extension.
    case file(name: String, path: String, fileName: String?, type: String?)
  }

  /// The body of the response goes into a file instead of the result.
  package struct File: Sendable {
    package var path: String
    /// What an earlier attempt left.
    package var resumeData: ResumeData?
  }

  /// Bytes of a line.
  package static let lengthLimit = 64 << 20
  /// JSON values of a line, each of which takes far more memory than its two bytes of text.
  package static let valueLimit = 100_000
  /// Fields of the request, and of a CONNECT. `HTTPFields` ends the process where there are too many; servers refuse far fewer.
  package static let fieldLimit = 1_000

  /// Without its body.
  package let request: Request
  package let settings: Settings
  package let body: Body
  /// Whether the body is sent in chunks instead of with its length.
  package let isChunked: Bool
  /// What follows the body, which is sent in chunks then. The request announces them.
  package let trailers: HTTPFields
  package let file: File?

  /// Reads a line as JSON.
  package static func json(_ bytes: [UInt8]) throws(JSONError) -> JSONValue {
    try JSONReader.read(bytes, valueLimit: valueLimit)
  }

  /// - Parameter inheritedExceptions: what is reached without a proxy that the line names, unless it says that too.
  /// - Throws: `BatchRefusal`, which names the member; no message repeats a value that may be a secret.
  package init(_ json: JSONValue, inheritedExceptions: @autoclosure () -> String) throws(BatchRefusal) {
    guard case .object = json else { throw BatchRefusal("a request is an object, not \(json.kind)") }
    let fields = BatchFields(json)
    try fields.refuseOthers(than: Self.names, of: "a request")
    var request = try Self.request(fields)
    settings = try Self.settings(fields)
    let headers = try Self.headers(fields)
    request.expectsContinue = headers.contains { $0.asksForContinue }
    request.fields = HTTPFields(headers.filter { !$0.asksForContinue })
    body = try Self.body(fields)
    isChunked = try fields.boolean("chunked") ?? false
    request.sensitiveFields = try Self.secrets(fields)
    trailers = try Self.trailers(fields, of: body, &request)
    file = try Self.file(fields)
    request.credential = try Self.credential(fields)
    request.proxy = try Self.proxy(fields, inheritedExceptions)
    try Self.applyLimits(fields, &request)
    self.request = request
  }

  /// Every member that a request may have.
  package static let names: Set<String> = [
    "id", "method", "url", "headers", "body", "bodyBase64", "bodyFile", "multipart", "chunked", "followRedirects",
    "maxRedirects", "auth", "timeout", "compressed", "maxBodyBytes", "caFile", "insecure", "clientCert", "clientKey",
    "pins", "outputFile", "resumeFrom", "resolve", "unixSocket", "cache", "proxy", "noProxy", "cookies", "cookieFile",
    "secrets", "trailers",
  ]

  /// A request with every member, for `--help`.
  package static let form = """
      {"id": 1, "method": "POST", "url": "https://example.com/", "headers": [["X-A", "1"]], "secrets": ["X-A"],
       "body": "text" | "bodyBase64": "…" | "bodyFile": "path", "chunked": false,
       "trailers": [["X-Sum", "7"]],
       "multipart": [{"name": "a", "value": "text"}, {"name": "b", "file": "path", "fileName": "f", "type": "a/b"}],
       "followRedirects": true, "maxRedirects": 20, "timeout": 30.5, "compressed": true,
       "auth": {"type": "any", "user": "…", "password": "…"} | "auth": {"type": "bearer", "token": "…"},
       "maxBodyBytes": 268435456, "caFile": "ca.pem", "insecure": false, "pins": ["sha256/…"],
       "clientCert": "cert.pem", "clientKey": "key.pem",
       "resolve": {"example.com:443": "127.0.0.1:8443"}, "unixSocket": "path",
       "proxy": {"url": "http://proxy:3128", "tunnel": false, "auth": {…}, "headers": []}, "noProxy": "localhost,10.0.0.0/8",
       "cookies": false, "cookieFile": "cookies.txt", "outputFile": "path", "resumeFrom": "…", "cache": "directory"}
    """

  private static func request(_ fields: BatchFields) throws(BatchRefusal) -> Request {
    guard let url = try fields.string("url") else { throw BatchRefusal("\"url\" is missing") }
    let method = try fields.string("method") ?? "GET"
    guard let parsedMethod = HTTPRequest.Method(method) else {
      throw BatchRefusal("\"method\" is no token: \(BatchRefusal.quoted(method))")
    }
    do throws(SessionError) {
      return try Request(url, method: parsedMethod)
    } catch {
      throw BatchRefusal("\"url\": \(error.message)", code: error.code.rawValue)
    }
  }

  private static func applyLimits(_ fields: BatchFields, _ request: inout Request) throws(BatchRefusal) {
    var redirects = RedirectConfiguration()
    redirects.isEnabled = try fields.boolean("followRedirects") ?? true
    if let limit = try fields.integer("maxRedirects") { redirects.limit = limit }
    request.redirects = redirects
    if let seconds = try fields.seconds("timeout") { request.totalTimeout = .seconds(seconds) }
    request.acceptsCompressedContent = try fields.boolean("compressed")
    request.maximumBufferedBodySize = try fields.integer("maxBodyBytes")
  }

  private static func settings(_ fields: BatchFields) throws(BatchRefusal) -> Settings {
    var settings = Settings()
    settings.caFile = try fields.filePath("caFile")
    settings.insecure = try fields.boolean("insecure") ?? false
    for value in try fields.array("pins") ?? [] {
      guard let pin = value.string else { throw BatchRefusal("\"pins\" is an array of strings") }
      settings.pins.append(pin)
    }
    settings.clientCertificate = try fields.filePath("clientCert")
    settings.clientKey = try fields.filePath("clientKey")
    settings.unixSocket = try fields.filePath("unixSocket")
    settings.resolve = try fields.strings("resolve")
    settings.cookies = try cookies(fields)
    settings.cache = try fields.filePath("cache")
    guard settings.clientKey == nil || settings.clientCertificate != nil else {
      throw BatchRefusal("\"clientKey\" needs \"clientCert\"")
    }
    return settings
  }

  /// A file implies that cookies are wanted.
  private static func cookies(_ fields: BatchFields) throws(BatchRefusal) -> Cookies {
    let wantsCookies = try fields.boolean("cookies")
    guard let path = try fields.filePath("cookieFile") else { return wantsCookies == true ? .shared : .none }
    guard wantsCookies != false else { throw BatchRefusal("\"cookieFile\" needs \"cookies\"") }
    return .file(path: path)
  }

  private static func file(_ fields: BatchFields) throws(BatchRefusal) -> File? {
    let text = try fields.string("resumeFrom")
    guard let path = try fields.filePath("outputFile") else {
      guard text == nil else { throw BatchRefusal("\"resumeFrom\" needs \"outputFile\"") }
      return nil
    }
    guard let text else { return File(path: path) }
    guard let bytes = Base64.decode(text) else { throw BatchRefusal("\"resumeFrom\" is not Base64") }
    do throws(SessionError) {
      return File(path: path, resumeData: try ResumeData(bytes))
    } catch {
      throw BatchRefusal("\"resumeFrom\": \(error.message)", code: error.code.rawValue)
    }
  }
}
