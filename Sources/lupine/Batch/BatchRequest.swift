internal import HTTPTypes
internal import LupineBase
internal import LupineRules
internal import LupineSession

/// Why a line makes no request; becomes the `error` of its result.
struct BatchRefusal: Error, Sendable, Equatable {
  var code = "badRequest"
  var message: String

  init(_ message: String, code: String = "badRequest") {
    self.message = message
    self.code = code
  }
}

/// One line of standard input: a request and what its session must be like.
struct BatchRequest: Sendable {
  /// What decides which session carries a request: requests with equal settings share connections. Paths are compared as the system does, byte by byte.
  struct SessionKey: Hashable, Sendable {
    @ByteExact var caFile: String? = nil
    var insecure = false
    var pins: Set<[UInt8]> = []
    @ByteExact var clientCertificate: String? = nil
    @ByteExact var clientKey: String? = nil
    var resolve: [String: String] = [:]
    @ByteExact var unixSocket: String? = nil
    var jar = BatchJars.Choice.none
    /// A directory.
    @ByteExact var cache: String? = nil
  }

  /// The body goes into a file instead of the result.
  struct File: Sendable {
    var path: String
    /// What an earlier attempt left.
    var resumeData: ResumeData?
  }

  var request: Request
  var sessionKey: SessionKey
  var file: File?

  init(_ json: JSONValue) throws(BatchRefusal) {
    guard case .object = json else { throw BatchRefusal("a request is an object, not \(json.kind)") }
    let fields = BatchFields(json)
    try fields.refuseOthers(than: Self.names, of: "a request")
    guard let url = try fields.string("url") else { throw BatchRefusal("\"url\" is missing") }
    let method = try fields.string("method") ?? "GET"
    guard let parsedMethod = HTTPRequest.Method(method) else { throw BatchRefusal("\"method\" is no token: \(method)") }
    do throws(SessionError) {
      request = try Request(url, method: parsedMethod)
    } catch {
      throw BatchRefusal(error.message, code: error.code.rawValue)
    }
    sessionKey = try Self.sessionKey(fields)
    let headers = try Self.headers(fields)
    request.expectsContinue = headers.contains { $0.asksForContinue }
    request.fields = HTTPFields(headers.filter { !$0.asksForContinue })
    if let parts = try fields.objects("multipart") {
      try addForm(parts, fields)
    } else {
      request.body = try Self.body(fields)
    }
    request.sensitiveFields = try Self.secrets(fields)
    try addTrailers(fields)
    file = try Self.file(fields)
    request.credential = try Self.credential(fields)
    request.proxy = try Self.proxy(fields)
    try applyLimits(fields)
  }

  /// Every member that a request may have.
  static let names: Set<String> = [
    "id", "method", "url", "headers", "body", "bodyBase64", "bodyFile", "multipart", "chunked", "followRedirects",
    "maxRedirects", "auth", "timeout", "compressed", "maxBodyBytes", "caFile", "insecure", "clientCert", "clientKey",
    "pins", "outputFile", "resumeFrom", "resolve", "unixSocket", "cache", "proxy", "noProxy", "cookies", "cookieFile",
    "secrets", "trailers",
  ]

  /// A request with every member, for `--help`.
  static let form = """
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

  private static func file(_ fields: BatchFields) throws(BatchRefusal) -> File? {
    let text = try fields.string("resumeFrom")
    guard let path = try fields.string("outputFile") else {
      guard text == nil else { throw BatchRefusal("\"resumeFrom\" needs \"outputFile\"") }
      return nil
    }
    guard let text else { return File(path: path) }
    guard let bytes = Base64.decode(text) else { throw BatchRefusal("\"resumeFrom\" is not Base64") }
    do throws(SessionError) {
      return File(path: path, resumeData: try ResumeData(bytes))
    } catch {
      throw BatchRefusal(error.message, code: error.code.rawValue)
    }
  }

  /// No message repeats a value: they are secrets.
  static func credential(_ fields: BatchFields) throws(BatchRefusal) -> Credential? {
    var members = try fields.strings("auth")
    guard !members.isEmpty else { return nil }
    let name = members.removeValue(forKey: "type") ?? "any"
    guard let type = AuthenticationType(rawValue: name) else {
      throw BatchRefusal("\"auth.type\" is any, basic, digest or bearer")
    }
    let token = members.removeValue(forKey: "token")
    let user = members.removeValue(forKey: "user")
    let password = members.removeValue(forKey: "password")
    guard members.isEmpty else { throw BatchRefusal("\"auth\" has type, user, password and token, and nothing else") }
    if type == .bearer {
      guard let token, user == nil, password == nil else {
        throw BatchRefusal("\"auth\" of type bearer has a \"token\", and neither user nor password")
      }
      return .bearer(token, persistence: .none)
    }
    guard let user, token == nil else { throw BatchRefusal("\"auth\" of type \(name) has a \"user\", and no token") }
    return CredentialText.credential(user: user, password: password ?? "", type)
  }

  private mutating func applyLimits(_ fields: BatchFields) throws(BatchRefusal) {
    var redirects = RedirectConfiguration()
    redirects.isEnabled = try fields.boolean("followRedirects") ?? true
    if let limit = try fields.integer("maxRedirects") { redirects.limit = limit }
    request.redirects = redirects
    if let seconds = try fields.seconds("timeout") { request.totalTimeout = .seconds(seconds) }
    request.acceptsCompressedContent = try fields.boolean("compressed")
    request.maximumBufferedBodySize = try fields.integer("maxBodyBytes")
  }

  private static func sessionKey(_ fields: BatchFields) throws(BatchRefusal) -> SessionKey {
    var key = SessionKey()
    key.caFile = try fields.string("caFile")
    key.insecure = try fields.boolean("insecure") ?? false
    key.pins = try pins(fields)
    key.clientCertificate = try fields.string("clientCert")
    key.clientKey = try fields.string("clientKey")
    key.unixSocket = try fields.string("unixSocket")
    key.resolve = try fields.strings("resolve")
    key.jar = try jar(fields)
    key.cache = try fields.string("cache")
    if key.clientKey != nil, key.clientCertificate == nil { throw BatchRefusal("\"clientKey\" needs \"clientCert\"") }
    return key
  }

  private static func secrets(_ fields: BatchFields) throws(BatchRefusal) -> Set<HTTPField.Name> {
    var secrets: Set<HTTPField.Name> = []
    for value in try fields.array("secrets") ?? [] {
      guard let name = value.string.flatMap({ HTTPField.Name($0) }) else {
        throw BatchRefusal("\"secrets\" is an array of names of header fields")
      }
      secrets.insert(name)
    }
    return secrets
  }

  private static func pins(_ fields: BatchFields) throws(BatchRefusal) -> Set<[UInt8]> {
    var pins: [String] = []
    for value in try fields.array("pins") ?? [] {
      guard let pin = value.string else { throw BatchRefusal("\"pins\" is an array of strings") }
      pins.append(pin)
    }
    do throws(CommandFailure) {
      return try Pins.read(pins)
    } catch {
      throw BatchRefusal("\"pins\": \(error.message)")
    }
  }

  /// A file implies that cookies are wanted.
  private static func jar(_ fields: BatchFields) throws(BatchRefusal) -> BatchJars.Choice {
    let wantsCookies = try fields.boolean("cookies")
    guard let path = try fields.string("cookieFile") else { return wantsCookies == true ? .shared : .none }
    guard wantsCookies != false else { throw BatchRefusal("\"cookieFile\" needs \"cookies\"") }
    return .file(ByteExact(wrappedValue: FileSystem.resolved(path)))
  }

  /// In their order and case, duplicates included.
  static func headers(_ fields: BatchFields, _ member: String = "headers") throws(BatchRefusal) -> HTTPFields {
    var headers = HTTPFields()
    for pair in try fields.array(member) ?? [] {
      guard let parts = pair.array, parts.count == 2, let name = parts[0].string, let value = parts[1].string else {
        throw BatchRefusal("\"\(member)\" is an array of [name, value] pairs of strings")
      }
      do throws(CommandFailure) {
        headers.append(try FetchPlan.field(name, value))
      } catch {
        throw BatchRefusal(error.message)
      }
    }
    return headers
  }

  private static func body(_ fields: BatchFields) throws(BatchRefusal) -> Request.Body {
    let isChunked = try fields.boolean("chunked") ?? false
    let text = try fields.string("body")
    let base64 = try fields.string("bodyBase64")
    let file = try fields.string("bodyFile")
    guard [text, base64, file].count(where: { $0 != nil }) <= 1 else {
      throw BatchRefusal("\"body\", \"bodyBase64\" and \"bodyFile\" exclude each other")
    }
    if let file { return isChunked ? chunked([.file(path: file)]) : .file(path: file) }
    var bytes = text.map { Array($0.utf8) }
    if let base64 {
      bytes = Base64.decode(base64)
      if bytes == nil { throw BatchRefusal("\"bodyBase64\" is not Base64") }
    }
    if isChunked { return chunked([.bytes(bytes ?? [])]) }
    return bytes.map { .bytes($0) } ?? .none
  }

  /// Takes the place of any Content-Type given.
  private mutating func addForm(_ parts: [[String: String]], _ fields: BatchFields) throws(BatchRefusal) {
    for name in ["body", "bodyBase64", "bodyFile"] where try fields.string(name) != nil {
      throw BatchRefusal("\"multipart\" and another body exclude each other")
    }
    var form = FormParts()
    for part in parts { try Self.add(part, to: &form) }
    guard !parts.isEmpty else { throw BatchRefusal("\"multipart\" has no part") }
    let body = form.body
    request.fields[.contentType] = form.contentType
    request.body =
      try fields.boolean("chunked") == true
      ? .stream(length: nil, isReplayable: body.isReplayable) { body.makeStream() } : body
  }

  /// They follow the body, which goes in chunks then. Secrets are marked before.
  private mutating func addTrailers(_ fields: BatchFields) throws(BatchRefusal) {
    let trailers = try Self.headers(fields, "trailers")
    guard !trailers.isEmpty else { return }
    if case .none = request.body { throw BatchRefusal("\"trailers\" need a body, which they follow") }
    if try fields.boolean("chunked") == false {
      throw BatchRefusal("\"trailers\" follow a body in chunks, and \"chunked\" is false")
    }
    if let length = request.fields[.contentLength], length != request.body.knownLength.map({ String($0) }) {
      throw BatchRefusal("\"trailers\" follow a body in chunks, and \"headers\" has another Content-Length than it")
    }
    if let refusal = request.announce(trailers) { throw BatchRefusal("\"trailers\": \(refusal)") }
    request.body = request.body.withTrailers { trailers }
  }

  private static func add(_ part: [String: String], to form: inout FormParts) throws(BatchRefusal) {
    var rest = part
    guard let name = rest.removeValue(forKey: "name") else {
      throw BatchRefusal("a part of \"multipart\" has a \"name\"")
    }
    let value = rest.removeValue(forKey: "value")
    let path = rest.removeValue(forKey: "file")
    let (fileName, type) = (rest.removeValue(forKey: "fileName"), rest.removeValue(forKey: "type"))
    guard rest.isEmpty, (value == nil) != (path == nil), path != nil || fileName == nil && type == nil, path != "-"
    else {
      throw BatchRefusal(
        "a part of \"multipart\" has \"name\" and \"value\", or \"name\", \"file\" and perhaps \"fileName\" and \"type\""
      )
    }
    guard let path else { return form.add(name: name, value: Array((value ?? "").utf8)) }
    do {
      try form.add(name: name, path: path, fileName: fileName, type: type)
    } catch {
      throw BatchRefusal((error as? CommandFailure)?.message ?? "\(error)", code: "fileFailed")
    }
  }

  private static func chunked(_ segments: [SegmentedBody.Segment]) -> Request.Body {
    .stream(length: nil, isReplayable: true) { BodyStream(SegmentedBody(segments)) }
  }
}

/// Typed access to the members of a request; null is as good as missing.
struct BatchFields {
  private let json: JSONValue

  init(_ json: JSONValue) {
    self.json = json
  }

  /// Refuses a member that nobody reads: without a word a misspelt one would make another request.
  func refuseOthers(than names: Set<String>, of object: String) throws(BatchRefusal) {
    guard case .object(let members) = json, let other = members.first(where: { !names.contains($0.name) }) else {
      return
    }
    throw BatchRefusal("\"\(other.name.prefix(64))\" is no member of \(object)")
  }

  private func value(_ name: String) -> JSONValue? {
    json[name].flatMap { $0 == .null ? nil : $0 }
  }

  private func typed<Value>(
    _ name: String, _ kind: String, _ read: (JSONValue) -> Value?
  ) throws(BatchRefusal) -> Value? {
    guard let value = value(name) else { return nil }
    guard let result = read(value) else { throw BatchRefusal("\"\(name)\" must be \(kind), not \(value.kind)") }
    return result
  }

  func string(_ name: String) throws(BatchRefusal) -> String? { try typed(name, "a string") { $0.string } }

  func boolean(_ name: String) throws(BatchRefusal) -> Bool? { try typed(name, "a boolean") { $0.boolean } }

  func array(_ name: String) throws(BatchRefusal) -> [JSONValue]? { try typed(name, "an array") { $0.array } }

  func integer(_ name: String) throws(BatchRefusal) -> Int? {
    guard let number = try typed(name, "a number", { $0.number }) else { return nil }
    guard let value = Int(exactly: number), value >= 0 else {
      throw BatchRefusal("\"\(name)\" must be an integer from 0 on")
    }
    return value
  }

  func seconds(_ name: String) throws(BatchRefusal) -> Double? {
    guard let number = try typed(name, "a number", { $0.number }) else { return nil }
    guard number > 0, number < 1e9 else { throw BatchRefusal("\"\(name)\" must be a number of seconds above 0") }
    return number
  }

  /// An object; its members are read as those of the request are.
  func object(_ name: String) throws(BatchRefusal) -> BatchFields? {
    guard let value = value(name) else { return nil }
    guard case .object = value else { throw BatchRefusal("\"\(name)\" must be an object, not \(value.kind)") }
    return BatchFields(value)
  }

  /// An object of strings.
  func strings(_ name: String) throws(BatchRefusal) -> [String: String] {
    try value(name).map { value throws(BatchRefusal) in try strings(of: value, name) } ?? [:]
  }

  /// An array of objects of strings.
  func objects(_ name: String) throws(BatchRefusal) -> [[String: String]]? {
    guard let array = try array(name) else { return nil }
    var result: [[String: String]] = []
    for element in array { result.append(try strings(of: element, "\(name)[\(result.count)]")) }
    return result
  }

  private func strings(of value: JSONValue, _ name: String) throws(BatchRefusal) -> [String: String] {
    guard case .object(let members) = value else {
      throw BatchRefusal("\"\(name)\" must be an object, not \(value.kind)")
    }
    var result: [String: String] = [:]
    for member in members {
      guard let text = member.value.string else {
        throw BatchRefusal("\"\(name)\" maps strings to strings; \"\(member.name)\" is \(member.value.kind)")
      }
      result[member.name] = text
    }
    return result
  }
}
