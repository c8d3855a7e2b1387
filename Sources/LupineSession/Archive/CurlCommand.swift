internal import HTTPTypes
internal import LupineBase
internal import LupineRules
internal import LupineWire

extension Request {
  /// The same request as a command for a shell, with curl (7.61 or later; 7.84 for a SOCKS proxy on a Unix-domain socket): method, URL, fields, body,
  /// redirects, decoding, timeouts, and what the configuration says of TLS, of proxies and of where to connect.
  ///
  /// Every argument is quoted for POSIX shells, whatever bytes it holds; control characters never appear as they are, but for line ends at
  /// the end of a path or a password, which no shell takes otherwise. A body that cannot be written down, because a program makes it, or
  /// such a part of one, is read from the command's standard input, and a comment says so.
  ///
  /// - Parameters:
  ///   - redactingSecrets: leave out credentials and cookies, in fields, URLs and options; the body is written as it is. Default true.
  ///   - configuration: that of the session that would send the request.
  public func curlCommand(
    redactingSecrets: Bool = true, configuration: SessionConfiguration = SessionConfiguration()
  ) -> String {
    var command = CurlCommand(request: self, configuration: configuration, redacts: redactingSecrets)
    return command.text()
  }
}

/// Puts a command together.
struct CurlCommand {
  let request: Request
  let configuration: SessionConfiguration
  let redacts: Bool
  var options: [String] = []
  /// What is piped into curl.
  private var source: String?
  var comments: [String] = []

  init(request: Request, configuration: SessionConfiguration, redacts: Bool) {
    self.request = request
    self.configuration = configuration
    self.redacts = redacts
  }

  mutating func text() -> String {
    addMethod()
    addFields()
    addCookies()
    addCredential()
    addBody()
    addRedirects()
    addTimeouts()
    addConnection()
    addProxy()
    addTLS()
    let location = request.parsedURL.identity
    let url = redacts ? SecretText.redacted(url: location) : location
    if url.utf8.contains(where: { "[]{}".utf8.contains($0) }) { options.append("--globoff") }
    if hasDotSegments { options.append("--path-as-is") }
    options.append(ShellQuoting.argument(url))
    var text = (source.map { "\($0) | " } ?? "") + environment + "curl " + options.joined(separator: " ")
    for comment in comments { text += "\n# \(comment)" }
    return text
  }

  mutating func add(_ option: String, _ value: String) {
    options.append(option)
    options.append(ShellQuoting.argument(value))
  }

  // MARK: The request

  private var hasBody: Bool {
    if case .none = request.body { false } else { true }
  }

  private var hasTrailers: Bool { hasBody && request.options.hasTrailers }

  private var method: String { request.method.rawValue }

  /// A method that gives its body a meaning announces an empty one (RFC 9110 8.6).
  private var announcesEmptyBody: Bool { !hasBody && RequestFraming.withoutBody(method) == .length(0) }

  /// Whether the method is named, not inferred from the body.
  private var namesMethod = false

  private mutating func addMethod() {
    if method == "HEAD", !hasBody { return options.append("--head") }
    if method != (hasBody || announcesEmptyBody ? "POST" : "GET") { nameMethod() }
    if method == "HEAD" { comments.append("curl waits for a body behind the answer; the request itself does not") }
  }

  private mutating func nameMethod() {
    namesMethod = true
    add("--request", method)
  }

  /// Whether curl would send another path.
  private var hasDotSegments: Bool {
    request.parsedURL.path.split(separator: "/").contains { segment in
      [".", ".."].contains(segment.lowercased().replacing("%2e", with: "."))
    }
  }

  func isSensitive(_ name: HTTPField.Name) -> Bool {
    request.sensitiveFields.contains(name) || configuration.sensitiveFields.contains(name)
  }

  private func contains(_ name: HTTPField.Name) -> Bool {
    request.fields.contains(name) || configuration.additionalFields.contains(name)
  }

  /// Fields that are written, and that the request drops when a redirect leaves the origin, but curl does not.
  private var keptFields: [String] = []

  private mutating func addField(_ field: HTTPField) {
    let name = field.name.rawName
    if field.name == .contentLength, field.value == "0", !hasBody, !announcesEmptyBody {
      return add("--header", "\(name): 0")
    }
    // curl frames the body itself, and an expectation or an announcement among the fields is not sent beside ours.
    guard field.name != .contentLength, field.name != .transferEncoding,
      !request.expectsContinue || field.name != .expect, !hasTrailers || field.name != .trailer
    else { return }
    let value =
      redacts
      ? SecretText.redacted(field: name, value: field.value, isSensitive: isSensitive(field.name)) : field.value
    // Without a value curl would leave the field out; a semicolon sends it empty.
    add("--header", value.isEmpty ? "\(name);" : "\(name): \(value)")
    // These two curl drops as well.
    guard field.name != .authorization, field.name != .cookie, !keptFields.contains(name) else { return }
    let isDropped = OriginRule.strips(name, .sensitive, isMarkedSensitive: isSensitive(field.name))
    if isDropped { keptFields.append(name) }
  }

  private mutating func addFields() {
    for field in request.fields.joiningCookies { addField(field) }
    for field in configuration.additionalFields.joiningCookies
    where !request.fields.contains(field.name) && field.name != .host {
      addField(field)
    }
    if !contains(.accept), configuration.accept != "*/*" {
      add("--header", configuration.accept.map { $0.isEmpty ? "Accept;" : "Accept: \($0)" } ?? "Accept:")
    }
    if !contains(.userAgent) {
      add("--header", configuration.userAgent.map { $0.isEmpty ? "User-Agent;" : "User-Agent: \($0)" } ?? "User-Agent:")
    }
    guard !contains(.acceptEncoding) else { return }
    if contains(.range) {
      add("--header", "Accept-Encoding: identity")
    } else if request.acceptsCompressedContent ?? configuration.acceptsCompressedContent {
      add("--header", "Accept-Encoding: \(ContentCodings.acceptEncoding)")
      options.append("--compressed")
    }
  }

  /// What the storage has for the URL; what it has for the targets of redirects is no part of the command. What redirects set curl keeps only where it is
  /// told to, and would send in a second field beside one that is written.
  private mutating func addCookies() {
    guard request.handlesCookies, configuration.setsCookies, let storage = configuration.cookieStorage else { return }
    let redirects = request.redirects ?? configuration.redirects
    let keepsMore =
      redirects.isEnabled && redirects.limit > 0
      && (configuration.cookieAcceptPolicy ?? storage.acceptPolicy) != .never
    var isWritten = contains(.cookie)
    // A field of the caller's stands in their place.
    if !isWritten,
      let cookies = storage.field(for: CookieContext(url: request.parsedURL, mainDocument: request.mainDocument))
    {
      add("--header", "Cookie: " + (redacts ? SecretText.redacted(field: "Cookie", value: cookies) : cookies))
      isWritten = true
    }
    guard keepsMore else { return }
    guard isWritten else { return add("--cookie", "") }
    comments.append("curl keeps no cookies that redirects set; the request itself does")
  }

  /// The credential that the request names; what a storage would add is no part of the command.
  private mutating func addCredential() {
    guard !contains(.authorization), let credential = request.namedCredential else { return }
    if let token = credential.token {
      return add("--oauth2-bearer", redacts ? SecretText.mark : token)
    }
    options.append(
      credential.schemes == .digest ? "--digest" : credential.schemes == .basic ? "--basic" : "--anyauth")
    add("--user", redacts ? SecretText.mark : "\(credential.user ?? ""):\(credential.password ?? "")")
  }

  // MARK: The body

  /// A longer text is piped in: systems limit the length of one argument.
  private static let argumentLimit = 100_000
  /// From this length on curl asks for 100 (Continue) on its own.
  private static let expectationLimit = 1_000_000

  private mutating func addBody() {
    guard hasBody || announcesEmptyBody else { return }
    if !contains(.contentType) { add("--header", "Content-Type:") }
    if request.expectsContinue {
      add("--header", "Expect: 100-continue")
      if configuration.continueTimeout != .seconds(1) {
        add("--expect100-timeout", seconds(configuration.continueTimeout))
      }
    } else if request.body.knownLength.map({ $0 >= Self.expectationLimit }) ?? true {
      add("--header", "Expect:")
    }
    switch request.body {
    case .none: add("--data-binary", "")
    case .bytes(let bytes): addBytes(bytes)
    case .file(let path, let offset, let length): addFile(path, offset, length)
    case .stream(let length, _, _): addStream(length)
    case .segments(let segments): addSegments(segments)
    }
    if hasTrailers {
      let names = request.trailerNames.map(\.rawName).joined(separator: ", ")
      comments.append("curl sends no trailer fields; the request itself has \(names) behind its body")
    }
  }

  private mutating func addBytes(_ bytes: [UInt8]) {
    guard bytes.count <= Self.argumentLimit, ShellQuoting.isPrintable(bytes), !bytes.contains(0) else {
      source = "printf \(ShellQuoting.printfFormat(bytes))"
      return add("--data-binary", "@-")
    }
    // "@" would name a file.
    add(bytes.first == UInt8(ascii: "@") ? "--data-raw" : "--data-binary", String(decoding: bytes, as: UTF8.self))
  }

  private mutating func addFile(_ path: String, _ offset: Int64, _ length: Int64?) {
    let path = Self.named(path)
    guard offset > 0 || length != nil else { return add("--data-binary", "@\(path)") }
    source = Self.part(of: path, offset, length)
    add("--data-binary", "@-")
  }

  /// A file of the name "-" is not standard input, nor is any that begins so an option.
  private static func named(_ path: String) -> String { path.utf8.first == UInt8(ascii: "-") ? "./\(path)" : path }

  private static func part(of path: String, _ offset: Int64, _ length: Int64?) -> String {
    let tail = "tail -c +\(max(0, offset).addingReportingOverflow(1).partialValue) \(ShellQuoting.argument(path))"
    return tail + (length.map { " | head -c \($0)" } ?? "")
  }

  /// Pieces in memory and files are put together by the shell, with its standard input where a stream is. It could not tell where one of several
  /// ends: then the whole body is piped in.
  private mutating func addSegments(_ segments: [Request.Body.Segment]) {
    let streams = segments.count { $0.body.hasStream }
    guard streams <= 1 else { return addStream(request.body.knownLength) }
    let commands = segments.map { segment -> String in
      switch segment {
      case .bytes(let bytes): "printf \(ShellQuoting.printfFormat(bytes))"
      case .file(let path, let offset, let length, _):
        Self.part(of: Self.named(path), offset, length)
      case .stream: "cat"
      }
    }
    guard !commands.isEmpty else { return add("--data-binary", "") }
    source = "{ " + commands.joined(separator: "; ") + "; }"
    guard streams > 0 else { return add("--data-binary", "@-") }
    addInput(request.body.knownLength)
    comments.append("a part of the body is a stream: pipe it into this command")
  }

  private mutating func addStream(_ length: Int64?) {
    addInput(length)
    let stream = length.map { "a stream of \($0) bytes" } ?? "a stream, sent in chunks"
    comments.append("the body is \(stream): pipe it into this command")
  }

  /// Sends what is piped into curl: with its length, for which curl reads all of it first, or in chunks.
  private mutating func addInput(_ length: Int64?) {
    guard length == nil else { return add("--data-binary", "@-") }
    if method == "POST" { nameMethod() }
    add("--upload-file", "-")
  }

  // MARK: How

  private mutating func addRedirects() {
    let redirects = request.redirects ?? configuration.redirects
    guard redirects.isEnabled else { return }
    options.append("--location")
    add("--max-redirs", "\(redirects.limit)")
    let isSecure = request.parsedURL.scheme == .https
    add("--proto-redir", isSecure && !redirects.allowsDowngrade ? "=https" : "=http,https")
    keepBody()
    if !keptFields.isEmpty, redirects.limit > 0 {
      let fields = keptFields.joined(separator: ", ")
      comments.append("curl repeats \(fields) after a redirect to another origin; the request itself does not")
    }
    let becomesGet = [301, 302, 303].filter { RedirectRule.method(after: $0, method) != method }
    guard namesMethod, !becomesGet.isEmpty else { return }
    let statuses = becomesGet.map { "\($0)" }.joined(separator: ", ")
    comments.append("curl repeats \(method) after every redirect; the request itself becomes GET after \(statuses)")
  }

  /// To curl a request with data is a POST, whatever method is named: behind 301, 302 and 303 it would go on with that method and without the data.
  private mutating func keepBody() {
    guard namesMethod, hasBody || announcesEmptyBody else { return }
    for status in [301, 302, 303] where RedirectRule.method(after: status, method) == method {
      options.append("--post\(status)")
    }
  }

  private mutating func addTimeouts() {
    let defaults = SessionConfiguration()
    if let total = request.totalTimeout ?? changed(\.timeoutIntervalForResource, defaults) {
      add("--max-time", seconds(total))
    }
    if let idle = request.timeoutInterval ?? changed(\.timeoutIntervalForRequest, defaults) {
      add("--speed-limit", "1")
      // curl counts whole seconds here.
      add("--speed-time", "\((max(1, idle.saturatedNanoseconds) - 1) / 1_000_000_000 + 1)")
    }
    if let connect = changed(\.connectTimeout, defaults) { add("--connect-timeout", seconds(connect)) }
  }

  private func changed(
    _ path: KeyPath<SessionConfiguration, Duration>, _ defaults: SessionConfiguration
  ) -> Duration? {
    configuration[keyPath: path] == defaults[keyPath: path] ? nil : configuration[keyPath: path]
  }

  /// Seconds with milliseconds, at least one of them: 0 would be no limit.
  private func seconds(_ duration: Duration) -> String {
    let milliseconds = max(1, duration.saturatedNanoseconds / 1_000_000)
    let fraction = String(milliseconds % 1_000)
    let whole = "\(milliseconds / 1_000)"
    return milliseconds % 1_000 == 0
      ? whole : "\(whole)." + String(repeating: "0", count: 3 - fraction.count) + fraction
  }

  // MARK: Where to

  private mutating func addConnection() {
    if let path = configuration.unixSocketPath {
      if path.utf8.first == UInt8(ascii: "@") {
        add("--abstract-unix-socket", String(path.unicodeScalars.dropFirst()))
      } else {
        add("--unix-socket", path)
      }
    }
    // To curl an address in brackets is the name of an interface or a host.
    if let local = configuration.localAddress { add("--interface", local.filter { $0 != "[" && $0 != "]" }) }
    for (key, address) in configuration.nameOverrides.sorted(by: { $0.key < $1.key }) {
      // curl looks for the spelling that it brings the URL's host into.
      let name = (try? URLReader.readEndpoint(key)).map { "\($0.host.bracketed):\($0.port)" } ?? key
      let (port, target) = (Self.port(name), Self.port(address))
      if let port, port == target {
        // The address of --resolve has no port.
        add("--resolve", "\(name):\(address.dropLast(port.utf8.count + 1))")
      } else {
        add("--connect-to", "\(name):\(address)")
      }
    }
  }

  private static func port(_ endpoint: String) -> Substring? {
    endpoint.lastIndex(of: ":").map { endpoint[endpoint.index(after: $0)...] }
  }

  // MARK: TLS

  private var environment: String {
    configuration.tls.keyLogPath.map { "SSLKEYLOGFILE=\(ShellQuoting.argument($0)) " } ?? ""
  }

  private mutating func addTLS() {
    let tls = configuration.tls
    // curl would speak HTTP/2 where the server does.
    if request.parsedURL.scheme == .https { options.append("--http1.1") }
    addTrust(tls, "--")
    if tls.minimumVersion == .tls13 { options.append("--tlsv1.3") }
    if tls.maximumVersion == .tls12 { add("--tls-max", "1.2") }
    if !tls.allowsResumption { options.append("--no-sessionid") }
  }

  /// Whom to trust, and what to show; what is for proxies begins otherwise.
  mutating func addTrust(_ tls: TLSConfiguration, _ prefix: String) {
    switch tls.roots {
    case .system: break
    case .file(let path): add("\(prefix)cacert", path)
    case .directory(let path): add("\(prefix)capath", path)
    case .certificates(let certificates):
      comments.append(
        "trusts \(certificates.count) certificates in memory: write them to a PEM file, and name it with \(prefix)cacert"
      )
    }
    if !tls.additionalRoots.isEmpty {
      comments.append(
        "trusts \(tls.additionalRoots.count) certificates in memory as well: write all roots to one PEM file, and name it with \(prefix)cacert"
      )
    }
    if !tls.verifiesServer { options.append("\(prefix)insecure") }
    if let identity = tls.clientIdentity {
      if let certificate = identity.certificatePath, let key = identity.privateKeyPath {
        // A colon would begin a passphrase; a backslash takes that meaning away. By bytes: with a mark behind it a colon is another character.
        let escaped = certificate.utf8.flatMap {
          $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: "\\") ? [UInt8(ascii: "\\"), $0] : [$0]
        }
        add("\(prefix)cert", String(decoding: escaped, as: UTF8.self))
        if key != certificate { add("\(prefix)key", key) }
      } else {
        comments.append(
          "shows a certificate in memory: write it and its key to PEM files, and name them with \(prefix)cert and \(prefix)key"
        )
      }
      if let passphrase = identity.passphrase { add("\(prefix)pass", redacts ? SecretText.mark : passphrase) }
    }
    if !tls.publicKeyPins.isEmpty {
      let pins = tls.publicKeyPins.map { "sha256//" + Base64.encode($0) }.sorted()
      add("\(prefix)pinnedpubkey", pins.joined(separator: ";"))
      if tls.verifiesServer {
        comments.append(
          "curl compares \(prefix)pinnedpubkey with the key of the first certificate alone; the request itself takes any key of the chain"
        )
      }
    }
    if let path = tls.revocationListPath { add("\(prefix)crlfile", path) }
  }
}

extension HTTPFields {
  /// With one `Cookie` field, as they are sent.
  var joiningCookies: HTTPFields {
    guard self[fields: .cookie].count > 1 else { return self }
    var joined = HTTPFields()
    for field in self where field.name != .cookie || !joined.contains(.cookie) {
      var field = field
      if field.name == .cookie { field.value = self[values: .cookie].reduce("") { $0.followedBy(cookies: $1) } }
      joined.append(field)
    }
    return joined
  }
}
