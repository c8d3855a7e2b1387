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
public struct TransactionMetrics: Sendable {
  package var url: ParsedURL?
  /// The URL, without userinfo and fragment.
  public var urlString: String { url?.requestString ?? "" }
  /// The method.
  public var method = ""
  /// The task asked for a connection.
  public var fetchStart: Int64 = 0
  /// The lookup of the host began.
  public var resolveStart: Int64?
  /// The lookup ended.
  public var resolveEnd: Int64?
  /// Connecting began.
  public var connectStart: Int64?
  /// TCP was up.
  public var connectEnd: Int64?
  /// The TLS handshake began.
  public var secureConnectionStart: Int64?
  /// TLS was up.
  public var secureConnectionEnd: Int64?
  /// The request was given a connection and began to be sent.
  public var requestStart: Int64?
  /// The last byte of the request was handed to the socket.
  public var requestEnd: Int64?
  /// The first byte of a response arrived.
  public var responseStart: Int64?
  /// The exchange ended.
  public var responseEnd: Int64?

  /// Whether the connection had served another request before.
  public var isReusedConnection = false
  /// Times the request was sent again because a reused connection had died.
  public var retryCount = 0
  /// Bytes of the request head.
  public var requestHeaderBytes = 0
  /// Bytes of the request body, chunk framing left out.
  public var requestBodyBytes: Int64 = 0
  /// Bytes of the response body as they came, chunk framing left out.
  public var responseBodyBytes: Int64 = 0
  /// Bytes of the response body after content decoding.
  public var responseDecodedBytes: Int64 = 0
  /// "address:port" of the peer.
  public var remoteAddress: String?
  /// "address:port" of this end.
  public var localAddress: String?
  /// "TLSv1.3" or "TLSv1.2"; nil for plaintext.
  public var tlsVersion: String?
  /// OpenSSL's name of the cipher.
  public var tlsCipher: String?
  /// Whether the TLS session was resumed.
  public var isTLSResumed = false

  /// No metrics yet.
  public init() {}

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
