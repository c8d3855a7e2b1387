internal import LupineBase
internal import LupineEngine
package import LupineRules

/// When what happened in a task: one entry for each request that was sent, redirects included.
public struct TaskMetrics: Sendable {
  /// The requests in the order in which they were sent.
  public var transactions: [TransactionMetrics] = []
  /// From the start of the task to its end.
  public var duration: Duration = .zero

  /// No metrics yet.
  public init() {}

  init(transactions: [TransactionMetrics], duration: Duration) {
    self.transactions = transactions
    self.duration = duration
  }
}

/// When what happened in one exchange. Instants are nanoseconds on the monotonic clock; nil: it did not happen, as with `connectStart` on a
/// reused connection.
public final class TransactionMetrics: Sendable {
  private let record: TransferMetrics
  package let url: ParsedURL?
  /// The method.
  public let method: String

  /// No metrics: for transports that keep none.
  public init() {
    record = TransferMetrics()
    url = nil
    method = ""
  }

  /// Instants for transports that bring their own.
  public struct Times: Sendable {
    /// See the properties of the same names.
    public var fetchStart: Int64 = 0
    /// See the property of the same name.
    public var connectStart: Int64?
    /// See the property of the same name.
    public var connectEnd: Int64?
    /// See the property of the same name.
    public var requestStart: Int64?
    /// See the property of the same name.
    public var requestEnd: Int64?
    /// See the property of the same name.
    public var responseStart: Int64?
    /// See the property of the same name.
    public var responseEnd: Int64?

    /// None but `fetchStart`, which is 0.
    public init() {}
  }

  /// Metrics of a transport that keeps its own time.
  public init(method: String, times: Times) {
    var record = TransferMetrics()
    record.createdAt = Instant(nanoseconds: times.fetchStart)
    record.sendStart = times.requestStart.map { Instant(nanoseconds: $0) }
    record.sendEnd = times.requestEnd.map { Instant(nanoseconds: $0) }
    record.firstByteAt = times.responseStart.map { Instant(nanoseconds: $0) }
    record.endAt = times.responseEnd.map { Instant(nanoseconds: $0) }
    record.connection = ConnectionInformation(
      connectStart: times.connectStart.map { Instant(nanoseconds: $0) },
      connectEnd: times.connectEnd.map { Instant(nanoseconds: $0) })
    self.record = record
    url = nil
    self.method = method
  }

  init(_ record: TransferMetrics, url: ParsedURL, method: String) {
    self.record = record
    self.url = url
    self.method = method
  }

  /// The times of opening; of a reused connection they belong to an earlier exchange.
  private var opening: OpeningTimes? { record.reusedConnection ? nil : record.connection?.opening }

  /// The URL, without userinfo and fragment.
  public var urlString: String { url?.requestString ?? "" }
  /// The task asked for a connection.
  public var fetchStart: Int64 { record.createdAt.nanoseconds }
  /// The lookup of the host began.
  public var resolveStart: Int64? { opening?.resolveStart?.nanoseconds }
  /// The lookup ended.
  public var resolveEnd: Int64? { opening?.resolveEnd?.nanoseconds }
  /// Connecting began.
  public var connectStart: Int64? { opening?.connectStart?.nanoseconds }
  /// TCP was up.
  public var connectEnd: Int64? { opening?.connectEnd?.nanoseconds }
  /// The TLS handshake began.
  public var secureConnectionStart: Int64? { opening?.tlsStart?.nanoseconds }
  /// TLS was up.
  public var secureConnectionEnd: Int64? { opening?.tlsEnd?.nanoseconds }
  /// The request was given a connection and began to be sent.
  public var requestStart: Int64? { record.sendStart?.nanoseconds }
  /// The last byte of the request was handed to the socket.
  public var requestEnd: Int64? { record.sendEnd?.nanoseconds }
  /// The first byte of a response arrived.
  public var responseStart: Int64? { record.firstByteAt?.nanoseconds }
  /// The exchange ended.
  public var responseEnd: Int64? { record.endAt?.nanoseconds }

  /// Whether the connection had served another request before.
  public var isReusedConnection: Bool { record.reusedConnection }
  /// Times the request was sent again because a reused connection had died.
  public var retryCount: Int { record.retries }
  /// Bytes of the request head.
  public var requestHeaderBytes: Int { record.requestHeadBytes }
  /// Bytes of the request body, chunk framing left out.
  public var requestBodyBytes: Int64 { record.requestBodyBytes }
  /// Bytes of the response body as they came, chunk framing left out.
  public var responseBodyBytes: Int64 { record.responseBodyBytes }
  /// Bytes of the response body after content decoding.
  public var responseDecodedBytes: Int64 { record.responseDecodedBytes }
  /// "address:port" of the peer.
  public var remoteAddress: String? { record.connection?.remoteAddress }
  /// "address:port" of this end.
  public var localAddress: String? { record.connection?.localAddress }
  /// "TLSv1.3" or "TLSv1.2"; nil for plaintext.
  public var tlsVersion: String? { record.connection?.tlsVersion }
  /// OpenSSL's name of the cipher.
  public var tlsCipher: String? { record.connection?.tlsCipher }
  /// Whether the TLS session was resumed.
  public var isTLSResumed: Bool { record.connection?.tlsResumed ?? false }

  /// The phases that happened, in order, with their lengths.
  public var phases: [(name: String, duration: Duration)] {
    func span(_ name: String, _ start: Int64?, _ end: Int64?) -> (name: String, duration: Duration)? {
      guard let start, let end else { return nil }
      return (name, .nanoseconds(end - start))
    }
    let waitEnd = resolveStart ?? connectStart ?? requestStart
    return [
      span("wait", fetchStart, waitEnd.map { max($0, fetchStart) }), span("resolve", resolveStart, resolveEnd),
      span("connect", connectStart, connectEnd), span("tls", secureConnectionStart, secureConnectionEnd),
      span("send", requestStart, requestEnd), span("firstByte", requestEnd, responseStart),
      span("receive", responseStart, responseEnd), span("total", fetchStart, responseEnd),
    ].compactMap { $0 }
  }
}
