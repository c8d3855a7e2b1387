public import HTTPTypes
public import Logging
package import LupineEngine
package import LupineIO
public import LupineWire

/// How a `Session` behaves. A value: a session keeps the copy it was made with.
public struct SessionConfiguration: Sendable {
  /// A configuration with every default, as documented at each property.
  public init() {}

  /// The defaults; the same as `init()`.
  public static var `default`: SessionConfiguration { SessionConfiguration() }

  /// The defaults, but everything that a session learns stays with it and goes with it, save what the process learns of hosts: addresses, for
  /// at most 30 s, and of which family those are that answer. With engines of its own (`engine = .own` or `.several`) a session shares the latter with nobody either.
  public static var ephemeral: SessionConfiguration {
    var configuration = SessionConfiguration()
    configuration.cookieStorage = CookieStorage()
    configuration.credentialStorage = CredentialStorage()
    configuration.sharesTLSSessions = false
    return configuration
  }

  // MARK: Connections

  /// Connections to one origin, opening ones included. Default 6, as in URLSession. Less than 1 is 1. A request relies on none that has been opening for
  /// a second without moving, for others that gave up: another one is opened beside it, or at a limit in its place.
  ///
  /// To a proxy that forwards `http` requests, whose connections serve all origins, it is 32 unless this is more, or less than 6.
  public var maximumConnectionsPerHost = 6
  /// Connections of the session in all. Default 256. Less than 1 is 1. Where they are all in use, every sixteenth response makes room for an origin that
  /// has none, so that a busy one keeps nobody waiting for ever. Idle ones make room at once, and so do those that are being opened for requests
  /// that gave up. Of several engines each has an even part of them: see `EngineChoice.several`.
  public var maximumConnections = 256
  /// Requests that may wait for a connection, those for which one is being opened among them; one more fails with `.tooManyWaiters`. Default 10,000. So with 0, or
  /// less, no connection is ever opened, and every request fails: how long they wait is for `poolWaitTimeout` to say. Of several engines each has an even part of them.
  public var maximumWaitingRequests = 10_000
  /// How long an unused connection is kept. Default 60 s. One whose server says in `Keep-Alive: timeout=` that it keeps it for less goes a second before
  /// that, but not before it has been unused for a second.
  public var connectionIdleTimeout: Duration = .seconds(60)
  /// How old a connection may be to take a new request; nil is unlimited. Default nil.
  public var connectionLifetime: Duration?
  /// How many requests a connection may serve; nil is unlimited. Less than 1 is 1. Default nil.
  public var maximumUsesPerConnection: Int?

  /// Whether TLS sessions are resumed that other sessions of the process began with the same policy, and theirs of this one: by a session that is
  /// resumed a server knows its client again. Default true; false in `ephemeral`.
  public var sharesTLSSessions = true

  // MARK: Time

  /// How long nothing may move in either direction. Default 60 s, as `timeoutIntervalForRequest` of URLSession. Waiting for a connection that others
  /// keep busy does not count: `poolWaitTimeout` bounds that.
  public var timeoutIntervalForRequest: Duration = .seconds(60)
  /// How long a task may take in all, redirects included. Default 7 days, as `timeoutIntervalForResource` of URLSession.
  public var timeoutIntervalForResource: Duration = .seconds(604_800)
  /// Waiting for a connection; nil is unlimited. Default nil.
  public var poolWaitTimeout: Duration?
  /// Resolving a host: the origin's, a proxy's, and the origin's for a SOCKS proxy that is given addresses. Default 10 s.
  public var resolveTimeout: Duration = .seconds(10)
  /// How old the addresses of a host may be that a connection is made to. What name servers answer is kept for the whole process, for 30 s (and that a host has
  /// no address for 2 s): a session can take less than that, not more. Default 30 s. With zero, or less, the host is looked up for every connection,
  /// together with whoever has it looked up at that moment. At most 16 addresses of an answer are kept, from both families.
  public var dnsCacheTimeout: Duration = .seconds(30)
  /// Establishing a connection, over all addresses. Default 10 s. A refused one fails at once.
  public var connectTimeout: Duration = .seconds(10)
  /// What a proxy is told and answers, from its socket to the way to the origin: its TLS, SOCKS, CONNECT; also resolving the origin
  /// for a SOCKS proxy that is given addresses. Default 10 s.
  public var proxyTimeout: Duration = .seconds(10)
  /// The TLS handshake. Default 10 s.
  public var tlsTimeout: Duration = .seconds(10)
  /// How long whoever decides about trust or a client certificate may take; the time of the handshake stands still meanwhile. Default 60 s.
  public var trustDecisionTimeout: Duration = .seconds(60)
  /// From the first to the last byte of a request; nil is unlimited. Default nil.
  public var sendTimeout: Duration?
  /// From the last byte of a request to the first of its response; nil is unlimited. Default nil.
  public var firstByteTimeout: Duration?
  /// How long a request that expects 100 (Continue) holds back its body. Default 1 s (RFC 9110 10.1.1 asks for a limit).
  public var continueTimeout: Duration = .seconds(1)

  /// Wait for a network instead of failing with `.notConnected` when there is none, until `timeoutIntervalForResource` has passed. Default
  /// false. See `SessionTaskDelegate.session(_:taskIsWaitingForConnectivity:)`.
  public var waitsForConnectivity = false

  // MARK: Messages

  /// Fields for every request that does not set them itself. Default none. `Host` is for a request alone to set: here it is not sent.
  public var additionalFields = HTTPFields()
  /// Names of fields that are secrets besides the known ones, which `Request.sensitiveFields` has: they are dropped when a redirect leaves the origin.
  /// Default none.
  public var sensitiveFields: Set<HTTPField.Name> = []
  /// The `User-Agent` of requests that set none; nil sends none.
  public var userAgent: String? = "Lupine/0.1"
  /// The `Accept` of requests that set none; nil sends none. Default `*/*`.
  public var accept: String? = "*/*"
  /// Offer gzip and deflate, and decode them. Default true. A request with an `Accept-Encoding` of its own gets the body as it came.
  public var acceptsCompressedContent = true
  /// Decoded bytes of a body for each byte of it that came, counted where more than 1 MiB is decoded; a body beyond that fails with
  /// `.cannotDecodeContent`. nil is unlimited. Default 100, which few bodies come near but those made to exhaust a client. One gzip or deflate coding
  /// gives at most about 1,032 (zlib's own bound), so that 1,100 accepts each of them, and still not a bomb within another. Less than 1 is 1. A request may say otherwise.
  public var maximumDecompressionRatio: Int? = 100
  /// Content codings of a body, one upon the other, that are undone; one with more fails with `.cannotDecodeContent`. Each takes about 75 KB while the body
  /// comes. Default 5, where servers use one. Less than 1 is 1, more than 16 is 16.
  public var maximumContentCodings = 5
  /// Bytes that `data(for:)` buffers before it fails with `.bodyTooLarge`, counted after decoding. Of a body whose `Content-Length` says more, 64 KiB at most
  /// are received. Default 256 MiB.
  public var maximumBufferedBodySize = 256 * 1024 * 1024
  /// What is received of a body that is announced to be too large: it may say why.
  package static let excessLimit = 64 << 10
  /// Bytes of a body that nobody wants, as of a redirect, of a challenge that is answered or of a proxy's 407, that are received so that its connection
  /// can serve again; one with more is closed. Default 64 KiB. With 0, or less, only an empty body keeps its connection.
  public var maximumDrainedBodySize = 64 * 1024
  /// How long such a body is received before its connection is closed; the request that follows a redirect or a challenge waits meanwhile, and what a
  /// proxy sends has `proxyTimeout`. Default 50 ms. More is worth it where a new connection takes longer than that; with zero, or less, what has not come
  /// yet is not waited for.
  public var drainTimeout: Duration = .milliseconds(50)
  /// How far the two sides of a body that is streamed may be apart. A session is not made (`.badRequest`) with a low one above the high one.
  public var bodyWatermarks = BodyWatermarks()
  /// Whether and how far redirects are followed.
  public var redirects = RedirectConfiguration()
  /// Limits on what a server may send; see `WireLimits`.
  public var wireLimits = WireLimits()
  /// Deviations from RFC 9112 that are accepted. Default none.
  public var leniency: WireLeniency = []

  // MARK: Cookies

  /// Where cookies are kept; nil: they are neither sent nor kept. Default `CookieStorage.shared`.
  public var cookieStorage: CookieStorage? = .shared
  /// Whether requests get the cookies of the storage, unless they have a `Cookie` field of their own. Default true.
  public var setsCookies = true
  /// Whose cookies are accepted; nil leaves it to the storage. Default nil.
  public var cookieAcceptPolicy: CookieAcceptPolicy?

  // MARK: Credentials

  /// Where credentials are found for challenges of servers and HTTP proxies, and kept; nil: nowhere. Default `CredentialStorage.shared`.
  public var credentialStorage: CredentialStorage? = .shared
  /// What is answered, and when.
  public var authentication = AuthenticationConfiguration()

  // MARK: Cache

  /// Where responses are kept to be used again (RFC 9111); nil: nowhere. Default nil, unlike URLSession's.
  ///
  /// Those of `https` URLs are kept in memory only, and for the session alone, where its delegate handles `.sessionChallenge`, as by default it does. Of a
  /// `transport` that is not a `NetworkTransport` itself, the `tls` given here says whose responses are used.
  public var responseCache: ResponseCache?
  /// How requests that do not say so themselves use the cache. Default `.useProtocolCachePolicy`. Without a `responseCache` it means nothing, but for
  /// `.returnCacheDataDontLoad`, by which requests fail then.
  public var requestCachePolicy = RequestCachePolicy.useProtocolCachePolicy
  /// Whether a request for what another one of the session is about to store waits for that one instead of being sent too. It then waits for as
  /// long as its own deadlines let it: `timeoutIntervalForRequest` while nothing of the other's response comes (`.timedOut` in phase `poolWait`), and
  /// `timeoutIntervalForResource` for everything (phase `total`). For a delegate that is asked about storing (`willCacheResponse`) it waits one second.
  /// Default false.
  public var mergesCacheMisses = false

  // MARK: Where to

  /// Trust, versions and client identity of TLS connections.
  public var tls = TLSConfiguration()
  /// Addresses to use instead of resolving, as `curl --resolve`: from "host:port" to "address:port" (IPv6 in brackets). Hosts may be spelt in every way that
  /// a URL may, both ports are needed, and a session is not made (`.badRequest`) with what cannot be read, or with two addresses for one host that is spelt
  /// in two ways. The URL's host still decides `Host`, SNI and the certificate check. Default none.
  public var nameOverrides: [String: String] = [:]
  /// Which requests go through which proxy. Default what the environment says; a request may say otherwise. Without effect with
  /// `unixSocketPath`.
  public var proxy = ProxyConfiguration.environment
  /// Connect to this Unix-domain socket, whatever the URL's host is. A leading "@" names an abstract socket.
  public var unixSocketPath: String?
  /// The address of this machine that connections are made from, those to proxies too: IPv4 or IPv6 (with or without brackets, with its zone if it is
  /// link-local), without port; the system chooses the port. Then only addresses of its family are connected to; a host that has none, and an address that
  /// this machine lacks or has no port left of, fail the request with `.cannotConnect`. A session is not made (`.badRequest`) with what is no address: names of interfaces are none.
  /// Without effect with `unixSocketPath`. nil leaves it to the system's routes. Default nil.
  public var localAddress: String?

  /// What requests are for that do not say it themselves: a mark on their packets. Default `.default`: none.
  public var networkServiceType = NetworkServiceType.default
  /// Whether connections may be made over a mobile network. Default true. Where not, each connection is preceded by a look at the kernel's route to the address:
  /// addresses that are reached over a cellular interface are left out, and if none is left the request fails with `.cellularAccessRefused`, or waits
  /// (`waitsForConnectivity`). An interface is cellular as for `NetworkReachabilityManager`: by what the kernel says of its kind and hardware, and else by its
  /// name; one that is not known for what it is counts as none.
  public var allowsCellularAccess = true
  /// Whether the kernel probes connections on which nothing moves, and when; nil: it does not. Default nil, as in URLSession.
  public var tcpKeepAlive: TCPKeepAlive?
  /// Tests name the interface of a route here; nil is the kernel.
  package var routes: (@Sendable (SocketAddress) -> NetworkInterface?)?

  // MARK: Files

  /// A directory for unfinished downloads, which are kept in `lupine-<user>` below it, a folder that is made for its owner alone; nil is `TMPDIR`
  /// or `/tmp`. On the file system of the destinations, downloads that go on need no copy at the end. Default nil.
  public var temporaryDirectory: String?

  // MARK: The rest

  /// Which engine carries the session. Default `.shared`. A session is not made (`.badRequest`) with a number of engines that is none; see `EngineChoice.several`.
  public var engine: EngineChoice = .shared
  /// Told complete responses once the delegate agrees; nothing is read from it, see `responseCache`. Default nil. Data tasks with a delegate only.
  public var responseStore: (any ResponseStore)?
  /// Where the session says what it does, at level `debug`; nil, the default, is silent. Secrets are never logged: no fields, and of URLs neither a user
  /// nor the values of parameters that carry tokens.
  ///
  /// - Each request, those after redirects and challenges too: method and URL, as it begins.
  /// - Each task when it is over, before whoever waits for it is told: `task answered` with the metadata `status`, or `task failed` with `error` and `phase` (see
  ///   `SessionError`), and `status` if there was a response. Of both `task`, `method` and `url` of the last request, `bytes` (of the body as it was handed
  ///   on), `milliseconds` (the whole task), `requests` (exchanges: those that found no connection, and those of a cache, too) and `reused` (whether the last one went over a connection that had served
  ///   before).
  public var logger: Logger?
  /// The transport; nil is the network. Tests put their own here. It decides itself whom to trust: the delegate's `.sessionChallenge` is not asked.
  public var transport: (any Transport)?

  /// Which engine carries a session: an engine is one thread with its connections.
  public enum EngineChoice: Hashable, Sendable {
    /// The process-wide engine, started when first needed; `Session.shutDownSharedEngine()` ends it.
    case shared
    /// An engine of the session's own, shut down with it.
    case own
    /// So many engines of the session's own, 1 to 64, all shut down with it: for more requests than one processor carries. One is the same as `own`.
    ///
    /// All connections to one place (host and port, or a proxy, with all that is asked of a connection) are on one engine, for as long as there is the
    /// session; a place that is asked for first goes to the engine that was given fewest places so far, however many connections and requests these have. With `spreading` (default: false) those to each place are divided
    /// among the engines, and the requests for it take turns, each engine as many as it has connections: for much traffic to few places. A request that is begun on an engine's thread, as
    /// in a completion, stays there if a connection of that engine idles that no other one is about to take, which spares a hop. An engine makes its own handshakes and, with a delegate that decides about
    /// trust, asks for itself.
    ///
    /// Limits are totals of the session. `maximumConnections` and `maximumWaitingRequests` are divided into even parts, one for each engine, the first engines having
    /// one more where they do not come out even, and there are no more engines than either allows. So an engine that has more to do than others reaches its part before
    /// the session reaches its total: with 256 connections and four engines, one place has at most 64 without spreading, whatever `maximumConnectionsPerHost`
    /// says, and `.tooManyWaiters` comes at 2,500 of 10,000 that wait for places of one engine. With spreading `maximumConnectionsPerHost` is divided too: 6 over four engines are 2, 2, 1
    /// and 1, from another engine on for each place, and one that may have fewer connections than there are engines has as many engines as connections. So are the 32
    /// of a proxy that forwards, which is one place. Where the process has no descriptor left, an engine that has a connection to open closes idle ones of its own alone: if
    /// it has none, the request fails, though other engines may have some.
    ///
    /// Completions of `data(for:completion:)` and progress closures of different requests run at the same time then, each on its engine's thread.
    case several(Int, spreading: Bool = false)
  }
}

/// Whether and how far redirects are followed (RFC 9110 15.4).
public struct RedirectConfiguration: Hashable, Sendable {
  /// Whether redirects are followed at all; otherwise the 3xx response is the answer. Default true.
  public var isEnabled = true
  /// Redirects of one task, also where a download begins anew; one that is sent again after a failure may follow as many again. Default 20.
  public var limit = 20
  /// Whether an https URL may redirect to an http one. Default false: `.redirectRefused`.
  public var allowsDowngrade = false

  /// The defaults.
  public init() {}

  /// Follows none.
  public static var disabled: RedirectConfiguration {
    var configuration = RedirectConfiguration()
    configuration.isEnabled = false
    return configuration
  }
}
