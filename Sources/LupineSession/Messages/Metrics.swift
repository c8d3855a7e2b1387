public import FoundationEssentials
internal import LupineBase
internal import LupineEngine
internal import LupineIO
package import LupineRules

/// When what happened in a task, as `URLSessionTaskMetrics`: one entry for each exchange, redirects, rounds of authentication and retries included,
/// and also what a cache answered or what found no connection; of attempts that `waitsForConnectivity` has the task wait after, the last in a row.
public struct TaskMetrics: Sendable {
  /// The requests in the order in which they were sent.
  public var transactions: [TransactionMetrics] {
    get { list.all }
    set { list = TransactionList(newValue) }
  }
  private var list = TransactionList()
  /// From the start of the task to its end.
  public var duration: Duration = .zero
  /// Redirects that were followed.
  public var redirectCount = 0
  /// When the task started, in nanoseconds on the monotonic clock, the clock of every instant here.
  public var start: Int64 = 0

  /// No metrics yet.
  public init() {}

  /// - Parameter transactions: those that a transport tried again on its own hold their earlier attempts, which get entries of their own here.
  init(transactions: consuming TransactionList, start: Instant, end: Instant, redirectCount: Int) {
    if transactions.hasRetries {
      transactions = TransactionList(transactions.all.flatMap { $0.earlierAttempts + [$0] })
    }
    list = transactions
    duration = .nanoseconds(end.nanoseconds(since: start))
    self.start = start.nanoseconds
    self.redirectCount = redirectCount
  }

  /// The wall clock's time at `start`. Worked out when it is asked for, so that a task that nobody asks reads no second clock.
  public var startDate: Date { WallClock.date(ofMonotonic: start) }
}

/// The transactions of a task, without an array as long as there is one.
enum TransactionList: Sendable {
  case none
  case one(TransactionMetrics)
  case several([TransactionMetrics])

  init() { self = .none }

  init(_ all: [TransactionMetrics]) { self = .several(all) }

  var all: [TransactionMetrics] {
    switch self {
    case .none: []
    case .one(let only): [only]
    case .several(let all): all
    }
  }

  mutating func append(_ transaction: TransactionMetrics) {
    switch self {
    case .none: self = .one(transaction)
    case .one(let first): self = .several([first, transaction])
    case .several(var list):
      // The only reference: nothing is copied.
      self = .none
      list.append(transaction)
      self = .several(list)
    }
  }

  /// Whether the last of them sent anything.
  var lastHasLeft: Bool {
    switch self {
    case .none: false
    case .one(let only): only.hasLeft
    case .several(let all): all.last?.hasLeft ?? false
    }
  }

  mutating func removeLast() {
    switch self {
    case .none, .one: self = .none
    case .several(var list):
      self = .none
      list.removeLast()
      self = .several(list)
    }
  }

  /// When the last of them ended.
  var endedAt: Instant? {
    switch self {
    case .none: nil
    case .one(let only): only.endedAt
    case .several(let all): all.last?.endedAt
    }
  }

  var hasRetries: Bool {
    switch self {
    case .none: false
    case .one(let only): only.isRetry
    case .several(let all): all.contains { $0.isRetry }
    }
  }
}

/// When what happened in one exchange. Instants are nanoseconds on the monotonic clock; nil: it did not happen, as with `connectStart` on a
/// reused connection. `date(of:)` makes them dates.
public struct TransactionMetrics: Sendable {
  /// Where a response came from, as `ResourceFetchType` of URLSession.
  public enum FetchType: Sendable, Hashable {
    /// The transport.
    case networkLoad
    /// The cache, without a word to the server, or after it had failed.
    case localCache
    /// The cache, after the server had confirmed it: the times are those of the question.
    case validatedCache
  }

  private let report: TransferReport
  package var url: ParsedURL? { report.url }
  /// The method.
  public var method: String { report.method }
  /// Where the response came from.
  public let fetchType: FetchType

  init(_ report: TransferReport, fetchType: FetchType = .networkLoad) {
    self.report = report
    self.fetchType = fetchType
  }

  init(_ record: TransferMetrics, url: ParsedURL?, method: String, fetchType: FetchType = .networkLoad) {
    self.init(TransferReport(record, url: url, method: method), fetchType: fetchType)
  }

  var record: TransferMetrics { report.metrics }
  private var last: TransferRecord { report.lastRecord }

  /// The times of opening; of a reused connection they belong to an earlier exchange.
  private var opening: OpeningTimes? { record.reusedConnection ? nil : record.connection?.opening }

  /// The attempts of the transport before this one, oldest first: `retryCount` of them.
  public var earlierAttempts: [TransactionMetrics] {
    record.earlier.map { TransactionMetrics($0, url: url, method: method) }
  }

  /// Whether a server may have seen the request: it was answered, or an attempt before it was given a connection. What the cache answers with has a status
  /// of its own.
  var hasLeft: Bool {
    (isLocal ? last.sendStart != nil : last.responseStatus != 0)
      || report.earlierAttempts.contains { $0.sendStart != nil }
  }

  /// Whether the cache has answered without the server.
  var isLocal: Bool { if case .localCache = fetchType { true } else { false } }

  fileprivate var isRetry: Bool { report.retries > 0 }

  fileprivate var endedAt: Instant? { report.endedAt }

  // MARK: What

  /// The URL, without userinfo and fragment; empty if the transport did not say.
  public var urlString: String { url?.requestString ?? "" }
  /// The status of the response; nil if none came.
  public var statusCode: Int? { record.responseStatus == 0 ? nil : record.responseStatus }
  /// "http/1.1" or "http/1.0", as the response said; nil if none came.
  public var networkProtocolName: String? {
    record.responseStatus == 0 ? nil : record.responseMinorVersion == 0 ? "http/1.0" : "http/1.1"
  }

  // MARK: When

  /// The task asked for a connection; of the first transaction of a task that had nothing to wait for, the task began.
  public var fetchStart: Int64 { record.createdAt.nanoseconds }
  /// The lookup of the host began. This and the instants up to `secureConnectionEnd` are those of the connection: where it was being opened
  /// for another request already, they may be before `fetchStart`; where it was opened in the turn of the engine's loop in which the task
  /// asked, by less than that turn, as the engine reads its clock once a turn.
  public var resolveStart: Int64? { opening?.resolveStart?.nanoseconds }
  /// The lookup ended.
  public var resolveEnd: Int64? { opening?.resolveEnd?.nanoseconds }
  /// Connecting began.
  public var connectStart: Int64? { opening?.connectStart?.nanoseconds }
  /// TCP was up.
  public var connectEnd: Int64? { opening?.connectEnd?.nanoseconds }
  /// TCP to the proxy was up, and its TLS, SOCKS or CONNECT began; nil without a proxy, and for one in the clear that forwards.
  public var proxyStart: Int64? { opening?.proxyStart?.nanoseconds }
  /// The way to the origin was free.
  public var proxyEnd: Int64? { opening?.proxyEnd?.nanoseconds }
  /// The TLS handshake began.
  public var secureConnectionStart: Int64? { opening?.tlsStart?.nanoseconds }
  /// TLS was up.
  public var secureConnectionEnd: Int64? { opening?.tlsEnd?.nanoseconds }
  /// The request was given a connection and began to be sent. This and what follows is never before `fetchStart`.
  public var requestStart: Int64? { sinceStart(last.sendStart) }
  /// The last byte of the request was handed to the socket.
  public var requestEnd: Int64? { sinceStart(last.sendEnd) }
  /// The first byte of the response arrived; interim ones (1xx) come before it.
  public var responseStart: Int64? { sinceStart(last.firstByteAt) }
  /// The exchange ended.
  public var responseEnd: Int64? { sinceStart(last.endAt) }

  /// The engine notes the beginning of its turn, and a request may be made later in that turn. Here, because nobody may ask.
  private func sinceStart(_ instant: Instant?) -> Int64? { instant.map { max($0, last.createdAt).nanoseconds } }

  /// The wall clock's time at an instant of these metrics.
  public func date(of instant: Int64) -> Date { WallClock.date(ofMonotonic: instant) }

  // MARK: How

  /// Whether the connection had served another request before.
  public var isReusedConnection: Bool { record.reusedConnection }
  /// Times the request was sent again: because a reused connection had died, because 417 refused its expectation, because a proxy wanted to
  /// know who is asking (407), or because a 304 spoke of something else than what the cache had asked about.
  public var retryCount: Int { record.retries }
  /// Whether a proxy is on the way.
  public var isProxyConnection: Bool { record.connection?.isProxied ?? false }
  /// "address:port" of the peer: the proxy, if there is one.
  public var remoteAddress: String? { record.connection?.remoteAddress }
  /// "address:port" of this end.
  public var localAddress: String? { record.connection?.localAddress }
  /// "TLSv1.3" or "TLSv1.2"; nil for plaintext.
  public var tlsVersion: String? { record.connection?.tlsVersion }
  /// OpenSSL's name of the cipher.
  public var tlsCipher: String? { record.connection?.tlsCipher }
  /// Whether the TLS session was resumed.
  public var isTLSResumed: Bool { record.connection?.tlsResumed ?? false }

  // MARK: How much

  /// Bytes of the request head.
  public var requestHeaderBytes: Int { record.requestHeadBytes }
  /// Bytes of the request body, chunk framing left out.
  public var requestBodyBytes: Int64 { record.requestBodyBytes }
  /// Bytes of all response heads, interim ones included.
  public var responseHeaderBytes: Int64 { record.responseHeadBytes }
  /// Bytes of the response body as they came, chunk framing left out.
  public var responseBodyBytes: Int64 { record.responseBodyBytes }
  /// Bytes of the response body after content decoding.
  public var responseDecodedBytes: Int64 { record.responseDecodedBytes }

  // MARK: Phases

  /// A part of an exchange.
  public struct Phase: Sendable, Hashable {
    /// `wait` (for a connection), `resolve`, `connect`, `proxy`, `tls`, `send`, `firstByte`, `receive`, or `total`.
    public var name: String
    /// Nanoseconds on the monotonic clock.
    public var start: Int64
    /// Not before `start`.
    public var end: Int64
    /// From start to end.
    public var duration: Duration { .nanoseconds(end - start) }
  }

  /// The phases that happened, in order, and `total` at last. What happened before the exchange was asked for is left out of them, so that
  /// their lengths together never exceed the whole.
  ///
  /// A phase that did not come to its end lasts until the next began, or the exchange ended: of a request that was answered before it had
  /// gone in full, `send` lasts until the first byte of the response. What came while a request was being sent in full is not counted
  /// twice: `receive` begins where `send` ends.
  public var phases: [Phase] {
    func phase(_ name: String, _ start: Int64?, _ end: Int64?) -> Phase? {
      guard let start, let end else { return nil }
      let begin = max(start, fetchStart)
      return Phase(name: name, start: begin, end: max(begin, end))
    }
    let unanswered = responseStart == nil && statusCode == nil ? responseEnd : nil
    return [
      phase("wait", fetchStart, resolveStart ?? connectStart ?? requestStart ?? unanswered),
      phase("resolve", resolveStart, resolveEnd ?? unanswered),
      phase("connect", connectStart, connectEnd ?? unanswered),
      phase("proxy", proxyStart, proxyEnd ?? unanswered),
      phase("tls", secureConnectionStart, secureConnectionEnd ?? unanswered),
      phase("send", requestStart, requestEnd ?? responseStart ?? unanswered),
      phase("firstByte", requestEnd, responseStart ?? unanswered),
      phase("receive", responseStart.map { max($0, requestEnd ?? $0) }, responseEnd),
      phase("total", fetchStart, responseEnd),
    ].compactMap { $0 }
  }
}

/// Relates the monotonic clock to the wall clock.
enum WallClock {
  /// The wall clock's seconds at the origin of the monotonic one.
  private static let origin = Locked<Double?>(nil)

  /// Equal instants give equal dates, and their distances are kept, until the wall clock is set by more than 50 ms.
  static func date(ofMonotonic nanoseconds: Int64) -> Date {
    let measured = Date().timeIntervalSince1970 - Double(EventLoop.monotonicNow().nanoseconds) / 1e9
    let base = origin.withLock { origin -> Double in
      if let known = origin, (known - measured).magnitude < 0.05 { return known }
      origin = measured
      return measured
    }
    return Date(timeIntervalSince1970: base + Double(nanoseconds) / 1e9)
  }
}
