public import FoundationEssentials
internal import HTTPTypes
internal import LupineRules

/// Why a request failed: what happened, to which URL, in which phase, and whether the server may have seen the request.
///
/// Compare `code`; the set of codes may grow. `description` never holds credentials, and control bytes of the peer's are escaped.
public struct SessionError: Error, Sendable {
  /// What happened. Extensible: treat an unknown code like `.unknown`.
  public struct Code: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// A stable name, fit for logs and for matching across processes.
    public var rawValue: String

    /// Makes a code; the known ones are static members.
    public init(rawValue: String) {
      self.rawValue = rawValue
    }

    /// The stable name.
    public var description: String { rawValue }

    /// The URL cannot be read, or is not one that can be fetched.
    public static let badURL = Code(rawValue: "badURL")
    /// Method, field or body would break the framing of the message; nothing of this exchange was sent, which may be one behind a redirect or a challenge.
    public static let badRequest = Code(rawValue: "badRequest")
    /// The host has no address, or the resolver failed.
    public static let cannotFindHost = Code(rawValue: "cannotFindHost")
    /// Every address refused or failed.
    public static let cannotConnect = Code(rawValue: "cannotConnect")
    /// There is no network: no address can be reached, or no name server; of a proxy that is on the way likewise. See
    /// `SessionConfiguration.waitsForConnectivity`.
    public static let notConnected = Code(rawValue: "notConnected")
    /// Every address of the host is reached over a mobile network, and the request may not use one.
    public static let cellularAccessRefused = Code(rawValue: "cellularAccessRefused")
    /// What should be a proxy is none: its URL cannot be read, or a SOCKS proxy is given a token.
    public static let badProxy = Code(rawValue: "badProxy")
    /// The proxy cannot be used: its name has no address, nobody answers there, its TLS fails, it breaks its protocol or hangs up. Where no network leads to it,
    /// the error is `notConnected`.
    public static let proxyFailed = Code(rawValue: "proxyFailed")
    /// The proxy does not connect to the origin; of an HTTP proxy see `proxyRefusal`. No request has left.
    public static let proxyRefused = Code(rawValue: "proxyRefused")
    /// The proxy wants to know who is asking, and there are no credentials, or they are wrong. Of requests in absolute form the proxy's 407 is the
    /// answer instead.
    public static let proxyAuthenticationRequired = Code(rawValue: "proxyAuthenticationRequired")
    /// TLS failed for a reason other than trust: its handshake or, in a later phase, what came encrypted behind it. A server that hangs up during the
    /// handshake is `connectionLost`, which time may heal.
    public static let secureConnectionFailed = Code(rawValue: "secureConnectionFailed")
    /// The server's certificate is not trusted: expired, unknown issuer, wrong host, revoked, pinned otherwise.
    public static let serverCertificateUntrusted = Code(rawValue: "serverCertificateUntrusted")
    /// The connection ended or was reset while the request was under way; or during the TLS handshake before it, in phase `tls`.
    public static let connectionLost = Code(rawValue: "connectionLost")
    /// The response breaks HTTP/1.1 (RFC 9112), or exceeds a limit of `SessionConfiguration.wireLimits`; the message says which.
    public static let badResponse = Code(rawValue: "badResponse")
    /// The response ended before its body was complete.
    public static let truncatedResponse = Code(rawValue: "truncatedResponse")
    /// The body breaks its content coding, or a limit on decoding.
    public static let cannotDecodeContent = Code(rawValue: "cannotDecodeContent")
    /// A deadline passed; `phase` says which.
    public static let timedOut = Code(rawValue: "timedOut")
    /// The task was cancelled.
    public static let cancelled = Code(rawValue: "cancelled")
    /// More redirects than the limit.
    public static let tooManyRedirects = Code(rawValue: "tooManyRedirects")
    /// A redirect leads where it may not: from https to http, to another scheme, or nowhere. The 3xx response is in `response`.
    public static let redirectRefused = Code(rawValue: "redirectRefused")
    /// The body is larger than `SessionConfiguration.maximumBufferedBodySize`, or than the limit that was given; or a line of it is.
    public static let bodyTooLarge = Code(rawValue: "bodyTooLarge")
    /// The body of the request failed: its producer threw, or it did not have the length that was announced. What it threw is `underlying`; of a body that
    /// passes that of another response on, the `SessionError` of the other request.
    public static let requestBodyFailed = Code(rawValue: "requestBodyFailed")
    /// Fields behind the body of the request that cannot be sent there, or that `Request.trailerNames` does not have; in phase `prepare` nothing of this
    /// exchange was sent, which may be one behind a redirect or a challenge, in phase `send` the request was not sent in full.
    public static let badTrailers = Code(rawValue: "badTrailers")
    /// A file of the body has another size than when it was added; the request was not sent in full.
    public static let fileChanged = Code(rawValue: "fileChanged")
    /// The body has to be sent again, to answer a challenge, and can be sent only once; nobody makes a new one. The 401 response is in `response`.
    /// See `Request.Body.stream` and `SessionTaskDelegate`.
    public static let bodyNotReplayable = Code(rawValue: "bodyNotReplayable")
    /// There are credentials, and they cannot be sent: a colon in a user name for Basic, a control character, a hash function that OpenSSL
    /// lacks, a stream whose hash the server wants, a user or a password above 255 bytes for a SOCKS proxy.
    public static let cannotAuthenticate = Code(rawValue: "cannotAuthenticate")
    /// Resume data that cannot be read, or that is of another URL.
    public static let badResumeData = Code(rawValue: "badResumeData")
    /// A file could not be read or written; for downloads `underlying` is a `FileFailure`.
    public static let fileFailed = Code(rawValue: "fileFailed")
    /// Nothing is stored for the request, or there is no cache, and its `cachePolicy` forbids to load it.
    public static let notInCache = Code(rawValue: "notInCache")
    /// More requests wait for a connection than `SessionConfiguration.maximumWaitingRequests`.
    public static let tooManyWaiters = Code(rawValue: "tooManyWaiters")
    /// The session was invalidated, or the engine that it uses was shut down (`Session.shutDownSharedEngine()`).
    public static let sessionInvalidated = Code(rawValue: "sessionInvalidated")
    /// The operating system refused something; `underlying` says what.
    public static let system = Code(rawValue: "system")
    /// Anything else.
    public static let unknown = Code(rawValue: "unknown")
  }

  /// What was under way when it happened.
  public struct Phase: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// A stable name.
    public var rawValue: String

    /// Makes a phase; the known ones are static members.
    public init(rawValue: String) {
      self.rawValue = rawValue
    }

    /// The stable name.
    public var description: String { rawValue }

    /// Before anything was done: the request itself is at fault.
    public static let prepare = Phase(rawValue: "prepare")
    /// Waiting for a connection of the pool.
    public static let poolWait = Phase(rawValue: "poolWait")
    /// Resolving the host.
    public static let resolve = Phase(rawValue: "resolve")
    /// Connecting.
    public static let connect = Phase(rawValue: "connect")
    /// Talking to a proxy.
    public static let proxy = Phase(rawValue: "proxy")
    /// The TLS handshake.
    public static let tls = Phase(rawValue: "tls")
    /// Sending the request.
    public static let send = Phase(rawValue: "send")
    /// Waiting for 100 (Continue).
    public static let awaitContinue = Phase(rawValue: "awaitContinue")
    /// Waiting for the first byte of the response.
    public static let firstByte = Phase(rawValue: "firstByte")
    /// Receiving the response.
    public static let receive = Phase(rawValue: "receive")
    /// The request as a whole.
    public static let total = Phase(rawValue: "total")
    /// Answering a challenge.
    public static let authentication = Phase(rawValue: "authentication")
    /// Following a redirect.
    public static let redirect = Phase(rawValue: "redirect")
    /// Writing a file.
    public static let file = Phase(rawValue: "file")
  }

  /// Behind one reference: an error is the rarer half of many results, and should not make them large.
  private struct Contents: Sendable {
    var code: Code
    var phase: Phase
    var message: String
    var failingURL: String?
    var requestBytesSent: Bool
    var response: Response?
    var partialBody: [UInt8]?
    var metrics: TaskMetrics?
    var requestHead: [UInt8] = []
    var sensitiveFields: Set<HTTPField.Name> = []
    var redirects: [Response.Redirect] = []
    var resumeData: ResumeData?
    var underlying: (any Error)?
  }

  private final class Box: Sendable {
    let contents: Contents

    init(_ contents: Contents) {
      self.contents = contents
    }
  }

  private var box: Box

  private subscript<Value>(_ path: WritableKeyPath<Contents, Value>) -> Value {
    get { box.contents[keyPath: path] }
    set {
      var contents = box.contents
      contents[keyPath: path] = newValue
      box = Box(contents)
    }
  }

  /// What happened.
  public var code: Code {
    get { self[\.code] }
    set { self[\.code] = newValue }
  }
  /// What was under way.
  public var phase: Phase {
    get { self[\.phase] }
    set { self[\.phase] = newValue }
  }
  /// One sentence for people: facts, numbers and what to do, without secrets.
  public var message: String {
    get { self[\.message] }
    set { self[\.message] = newValue }
  }
  /// The URL of the request that failed, after redirects; without userinfo.
  public var failingURL: String? {
    get { self[\.failingURL] }
    set { self[\.failingURL] = newValue }
  }
  /// Whether any byte of the request had left: if not, it is safe to send it again whatever its method.
  public var requestBytesSent: Bool {
    get { self[\.requestBytesSent] }
    set { self[\.requestBytesSent] = newValue }
  }
  /// The response whose body failed, or the redirect that was refused.
  public var response: Response? {
    get { self[\.response] }
    set { self[\.response] = newValue }
  }
  /// Body bytes that had arrived before the failure, for requests that buffer them.
  public var partialBody: [UInt8]? {
    get { self[\.partialBody] }
    set { self[\.partialBody] = newValue }
  }
  /// When what happened until then, for every request of the task; nil if the task never began.
  public var metrics: TaskMetrics? {
    get { self[\.metrics] }
    set { self[\.metrics] = newValue }
  }
  /// The head of the request that failed, as it was sent; empty if none was. It holds secrets and is not part of `description`.
  public var requestHead: [UInt8] {
    get { self[\.requestHead] }
    set { self[\.requestHead] = newValue }
  }
  /// See `Response.sensitiveFields`.
  var sensitiveFields: Set<HTTPField.Name> {
    get { self[\.sensitiveFields] }
    set { self[\.sensitiveFields] = newValue }
  }
  /// See `Response.redirects`; also where no response came.
  var redirects: [Response.Redirect] {
    get { self[\.redirects] }
    set { self[\.redirects] = newValue }
  }
  /// What a download that failed or was cancelled can go on from; nil if it has to start again.
  public var resumeData: ResumeData? {
    get { self[\.resumeData] }
    set { self[\.resumeData] = newValue }
  }
  /// The typed error of the floor below, or of the caller's own body sequence.
  public var underlying: (any Error)? {
    get { self[\.underlying] }
    set { self[\.underlying] = newValue }
  }

  /// Makes an error.
  public init(
    _ code: Code, phase: Phase, message: String, failingURL: String? = nil, requestBytesSent: Bool = false,
    response: Response? = nil, underlying: (any Error)? = nil
  ) {
    box = Box(
      Contents(
        code: code, phase: phase, message: message, failingURL: failingURL, requestBytesSent: requestBytesSent,
        response: response, underlying: underlying))
  }
}

extension SessionError: LocalizedError {
  /// The message: what `localizedDescription` of Foundation says. Logs are better off with `description`, which has code, phase and URL too.
  public var errorDescription: String? { message }
}

extension SessionError: CustomStringConvertible {
  /// `code (phase): message [url]`.
  public var description: String {
    "\(code) (\(phase)): \(message)" + (failingURL.map { " [\(Self.shown(url: $0))]" } ?? "")
  }

  /// A URL as a message may have it: without userinfo, and without the values of parameters that are known to carry credentials.
  package static func shown(url: String) -> String { SecretText.redacted(url: url) }
}
