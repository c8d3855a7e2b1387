internal import HTTPTypes
internal import LupineCommandLine
internal import LupineRules
internal import LupineSession
internal import LupineWire

/// Everything that is decided before a byte leaves: the request, and the session's configuration.
struct FetchPlan: Sendable {
  var request: Request
  var configuration: SessionConfiguration
  /// What follows the body.
  private var trailers = HTTPFields()

  init(
    target: Target, payload options: PayloadOptions, connection: ConnectionOptions,
    authentication: AuthenticationOptions
  ) throws {
    var items: [RequestItem]
    let payload: Payload
    do {
      items = try target.items.map { try RequestItem($0) }
      items += try options.headers.map { try RequestItem(header: $0) }
      try Self.checkCount(items.count { $0.isField }, of: "header fields")
      payload = try Payload(items, options: options)
    } catch let error as System.Failure {
      // An item whose file cannot be read makes as little sense as one that is none.
      throw CommandFailure.misuse(error.description)
    }
    let query = items.compactMap { item -> (name: String, value: String)? in
      if case .query(let name, let value) = item { (name, value) } else { nil }
    }
    request = try Request(Target.adding(query, to: target.url))
    let method = target.method ?? (payload.hasBody ? "POST" : "GET")
    guard let parsedMethod = HTTPRequest.Method(method) else {
      throw CommandFailure.misuse("\"\(method)\" is no method")
    }
    request.method = parsedMethod
    request.body = payload.body
    configuration = try Self.configuration(connection)
    request.redirects = Self.redirects(connection)
    var defaults = payload.fields
    for item in items { try apply(item, &defaults, formType: payload.formType) }
    for field in defaults { request.fields.append(field) }
    request.credential = try authentication.credential(ofURL: request.parsedURL.credentials)
  }

  /// Names of the fields that are secrets besides the known ones, in lower case.
  var secretNames: Set<String> { Set(request.sensitiveFields.map { $0.canonicalName }) }

  /// Marks fields as secrets: of the names that `--secret` gives.
  mutating func mark(secrets names: [String]) throws(CommandFailure) {
    for text in names {
      guard let name = HTTPField.Name(text) else {
        throw .misuse("--secret \(BatchRefusal.quoted(nameIn: text)) is no name for a header field")
      }
      request.sensitiveFields.insert(name)
    }
  }

  /// Announces fields that follow the body, each as `name:value`. Secrets are marked before.
  mutating func announce(trailers texts: [String]) throws(CommandFailure) {
    try Self.checkCount(texts.count, of: "fields after --trailer")
    for text in texts {
      guard let colon = text.utf8.firstIndex(of: UInt8(ascii: ":")) else {
        throw .misuse("--trailer \(BatchRefusal.quoted(nameIn: text)) is not of the form name:value")
      }
      trailers.append(try Self.field(String(text[..<colon]), String(text[text.utf8.index(after: colon)...])))
    }
    if !texts.isEmpty, case .none = request.body { throw .misuse("--trailer needs a body, which it follows") }
    // A command for curl is not made of what would not be sent.
    if let refusal = request.announce(trailers) { throw .misuse("--trailer: \(refusal)") }
  }

  /// Has them sent. Apart from their announcement, as a command for curl shows the body as it is without them.
  mutating func sendTrailers() {
    guard !trailers.isEmpty else { return }
    let fields = trailers
    request.body = request.body.withTrailers { fields }
  }

  /// Refuses framing fields of the user's that contradict the body, as whoever writes the head does: a command for curl is not made of what would not be
  /// sent.
  func checkFraming() throws(CommandFailure) {
    let method = request.method.rawValue
    let framing = request.body.framing(of: method, hasTrailers: !trailers.isEmpty)
    // Before trailers the length that is so is left out.
    let length = trailers.isEmpty ? nil : request.body.knownLength.map { String($0) }
    do throws(WireError) {
      var head = try RequestHeadBuilder(method: method, target: "/", framing: framing)
      for field in request.fields where field.name == .contentLength || field.name == .transferEncoding {
        if field.name == .contentLength, field.value == length { continue }
        try head.append(field.name.rawName, field.value)
      }
    } catch {
      throw .misuse("the request would break HTTP framing: \(error)")
    }
  }

  /// Adds a field; one that the user gives takes the place of a default.
  private mutating func apply(_ item: RequestItem, _ defaults: inout HTTPFields, formType: String?) throws {
    switch item {
    case .header(let name, let value):
      var field = try Self.field(name, value)
      if field.name == .contentType, let formType {
        field = HTTPField(name: field.name, value: try Payload.type(field.value, ofForm: formType))
      }
      defaults[field.name] = nil
      if field.asksForContinue {
        request.expectsContinue = true
      } else if !field.value.isEmpty {
        request.fields.append(field)
      } else if field.name == .userAgent {
        configuration.userAgent = nil
      } else if field.name == .accept {
        configuration.accept = nil
      } else if field.name == .acceptEncoding {
        request.acceptsCompressedContent = false
      } else if field.name == .expect {
        request.expectsContinue = false
      }
    case .emptyHeader(let name):
      let field = try Self.field(name, "")
      defaults[field.name] = nil
      request.fields.append(field)
    default: break
    }
  }

  /// `HTTPFields` ends the process where there are too many.
  private static func checkCount(_ count: Int, of fields: String) throws(CommandFailure) {
    guard count <= BatchLine.fieldLimit else {
      throw .misuse("\(count) \(fields): a request has at most \(BatchLine.fieldLimit)")
    }
  }

  private static func field(_ name: String, _ value: String) throws(CommandFailure) -> HTTPField {
    do throws(BatchRefusal) {
      return try HTTPField.written(name, value)
    } catch {
      throw .misuse(error.message)
    }
  }

  /// A file that is missing is better told before anything else than by the TLS handshake.
  private static func checkReadable(_ path: String) throws(CommandFailure) {
    do throws(System.Failure) {
      try FileSystem.checkReadable(path)
    } catch {
      throw .misuse(error.description)
    }
  }

  /// A certificate without its key is better told by the name of the option that is missing.
  private static func checkHoldsKey(_ path: String) throws(CommandFailure) {
    guard !FileSystem.isPipe(path) else {
      throw .misuse(
        "\(path) is a pipe, and is read once, for the certificate; name the file of the key with --key FILE")
    }
    guard FileSystem.size(path) != nil, let bytes = try? System.contents(of: path, limit: 1 << 20) else { return }
    let lines = bytes.split(whereSeparator: { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") })
    let isKey = lines.contains { line in
      let end = line.reversed().drop { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
      return line.starts(with: "-----BEGIN ".utf8) && end.starts(with: "PRIVATE KEY-----".utf8.reversed())
    }
    guard !isKey else { return }
    throw .misuse("\(path) holds no private key in PEM; name its file with --key FILE")
  }

  private static func redirects(_ options: ConnectionOptions) -> RedirectConfiguration {
    guard options.follow || options.maxRedirects != nil else { return .disabled }
    var redirects = RedirectConfiguration()
    if let limit = options.maxRedirects { redirects.limit = limit }
    return redirects
  }

  private static func configuration(_ options: ConnectionOptions) throws(CommandFailure) -> SessionConfiguration {
    for path in [options.cacert, options.cert, options.key].compactMap({ $0 }) { try checkReadable(path) }
    var configuration = SessionConfiguration()
    // A jar for this run, so that a redirect after signing in works; `--session` brings another.
    configuration.cookieStorage = CookieStorage()
    configuration.userAgent = "lupine/0.1"
    configuration.acceptsCompressedContent = options.compressed
    configuration.unixSocketPath = options.unixSocket
    if let file = options.cacert { configuration.tls.roots = .file(file) }
    configuration.tls.verifiesServer = !options.insecure
    configuration.tls.publicKeyPins = try Pins.read(options.pin)
    if let certificate = options.cert {
      if options.key == nil { try checkHoldsKey(certificate) }
      configuration.tls.clientIdentity = TLSConfiguration.ClientIdentity(
        certificatePath: certificate, privateKeyPath: options.key ?? certificate,
        passphrase: try options.passphraseSource.map { source throws(CommandFailure) in try CredentialText.read(source)
        }
      )
    }
    configuration.nameOverrides = try NameOverrides.read(options.resolve)
    if let text = options.interface { configuration.localAddress = try LocalAddress.read(text) }
    if let timeout = options.timeout {
      let limit = Duration.seconds(timeout)
      configuration.timeoutIntervalForResource = limit
      configuration.timeoutIntervalForRequest = limit
      // The whole is limited; a phase may take all of it.
      configuration.limitOpening(to: .seconds(timeout * 2 + 1))
    }
    if let timeout = options.connectTimeout { configuration.limitOpening(to: .seconds(timeout)) }
    return configuration
  }
}

extension SessionConfiguration {
  /// How long each phase of opening a connection may take.
  fileprivate mutating func limitOpening(to limit: Duration) {
    resolveTimeout = limit
    connectTimeout = limit
    tlsTimeout = limit
    proxyTimeout = limit
  }
}
