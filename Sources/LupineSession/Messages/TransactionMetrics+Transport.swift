internal import LupineBase
internal import LupineEngine
internal import LupineIO
internal import LupineRules

extension TransactionMetrics {
  /// Instants of a transport that keeps its own time: nanoseconds on a clock whose origin does not matter, `Times.now` for the clock of all
  /// other metrics.
  public struct Times: Sendable {
    /// See the properties of the same names.
    public var fetchStart: Int64 = 0
    /// See the property of the same name.
    public var resolveStart: Int64?
    /// See the property of the same name.
    public var resolveEnd: Int64?
    /// See the property of the same name.
    public var connectStart: Int64?
    /// See the property of the same name.
    public var connectEnd: Int64?
    /// See the property of the same name.
    public var secureConnectionStart: Int64?
    /// See the property of the same name.
    public var secureConnectionEnd: Int64?
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

    /// The monotonic clock.
    public static var now: Int64 { EventLoop.monotonicNow().nanoseconds }
  }

  /// How much a transport moved.
  public struct Counts: Sendable {
    /// See `TransactionMetrics.requestHeaderBytes`.
    public var requestHeaderBytes = 0
    /// See `TransactionMetrics.requestBodyBytes`.
    public var requestBodyBytes: Int64 = 0
    /// See `TransactionMetrics.responseHeaderBytes`.
    public var responseHeaderBytes: Int64 = 0
    /// See `TransactionMetrics.responseBodyBytes`.
    public var responseBodyBytes: Int64 = 0
    /// See `TransactionMetrics.responseDecodedBytes`.
    public var responseDecodedBytes: Int64 = 0

    /// Nothing.
    public init() {}
  }

  /// What a transport knows of its connection.
  public struct Connection: Sendable {
    /// See `TransactionMetrics.isReusedConnection`.
    public var isReused = false
    /// See `TransactionMetrics.remoteAddress`.
    public var remoteAddress: String?
    /// See `TransactionMetrics.localAddress`.
    public var localAddress: String?
    /// See `TransactionMetrics.tlsVersion`.
    public var tlsVersion: String?
    /// See `TransactionMetrics.tlsCipher`.
    public var tlsCipher: String?
    /// See `TransactionMetrics.isTLSResumed`.
    public var isTLSResumed = false

    /// Nothing.
    public init() {}
  }

  /// No metrics: for transports that keep none.
  public init() {
    self.init(TransferMetrics(), url: nil, method: "")
  }

  /// Metrics of a transport that keeps its own time.
  public init(method: String, times: Times) {
    self.init(Self.record(times, Counts(), Connection(), status: nil), url: nil, method: method)
  }

  /// Metrics of an exchange that a transport carried out.
  ///
  /// - Parameter statusCode: of the final head; nil if none came.
  public init(
    _ request: TransportRequest, statusCode: Int?, times: Times, counts: Counts = Counts(),
    connection: Connection = Connection()
  ) {
    self.init(
      Self.record(times, counts, connection, status: statusCode), url: request.url.withoutUserinfo,
      method: request.method)
  }

  private static func record(
    _ times: Times, _ counts: Counts, _ connection: Connection, status: Int?
  ) -> TransferMetrics {
    func instant(_ nanoseconds: Int64?) -> Instant? { nanoseconds.map { Instant(nanoseconds: $0) } }
    var record = TransferMetrics()
    record.createdAt = Instant(nanoseconds: times.fetchStart)
    record.sendStart = instant(times.requestStart)
    record.sendEnd = instant(times.requestEnd)
    record.firstByteAt = instant(times.responseStart)
    record.endAt = instant(times.responseEnd)
    record.reusedConnection = connection.isReused
    record.responseStatus = status ?? 0
    record.requestHeadBytes = counts.requestHeaderBytes
    record.requestBodyBytes = counts.requestBodyBytes
    record.responseHeadBytes = counts.responseHeaderBytes
    record.responseBodyBytes = counts.responseBodyBytes
    record.responseDecodedBytes = counts.responseDecodedBytes
    var opening = OpeningTimes()
    opening.resolveStart = instant(times.resolveStart)
    opening.resolveEnd = instant(times.resolveEnd)
    opening.connectStart = instant(times.connectStart)
    opening.connectEnd = instant(times.connectEnd)
    opening.tlsStart = instant(times.secureConnectionStart)
    opening.tlsEnd = instant(times.secureConnectionEnd)
    record.connection = ConnectionInformation(
      remoteAddress: connection.remoteAddress, localAddress: connection.localAddress,
      tlsVersion: connection.tlsVersion, tlsCipher: connection.tlsCipher, tlsResumed: connection.isTLSResumed,
      peerCertificates: [], opening: opening)
    return record
  }
}
