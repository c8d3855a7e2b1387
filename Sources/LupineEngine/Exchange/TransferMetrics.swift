package import LupineBase
package import LupineRules

/// When each phase of a request began and ended, on the monotonic clock, and what was moved. Nil: the phase did not happen.
///
/// Without references, so that writing to it can call nothing, and a transfer needs no check of exclusive access to it.
package struct TransferRecord: Sendable {
  /// A connection was asked for, or the task began that asked at once.
  package var createdAt = Instant(nanoseconds: 0)
  /// A connection was assigned.
  package var assignedAt: Instant?
  package var sendStart: Instant?
  package var sendEnd: Instant?
  /// Of the response; interim ones (1xx) come before it.
  package var firstByteAt: Instant?
  package var endAt: Instant?

  /// Whether the connection had served another request before.
  package var reusedConnection = false
  /// Times that the request was sent again: a reused connection had died, 417 refused its expectation, or a proxy answered with 407.
  package var retries = 0
  package var requestHeadBytes = 0
  package var requestBodyBytes: Int64 = 0
  /// Of the final head; 0 before it came.
  package var responseStatus = 0
  /// HTTP/1.x of the final head.
  package var responseMinorVersion = 1
  /// Bytes of all heads, the empty lines and interim responses included.
  package var responseHeadBytes: Int64 = 0
  /// Every byte of the response that was read, chunk framing and trailers included, TLS left out.
  package var responseBytes: Int64 = 0
  /// Body bytes as they came over the wire, chunk framing left out.
  package var responseBodyBytes: Int64 = 0
  /// Body bytes after content decoding.
  package var responseDecodedBytes: Int64 = 0

  package init() {}
}

/// What a transfer gathers about itself, and hands over at its end as it is: of a small request a copy of it, and an object for the copy, would be a
/// part of the cost.
///
/// `@unchecked`: the transfer's loop alone writes it, and nobody after the end; others see it from then on.
package final class TransferReport: @unchecked Sendable {
  package let url: ParsedURL?
  package let method: String
  /// A transfer made it, by the clock of its loop.
  private let isOfTransfer: Bool
  // Read by others through what stands below: a stored property that other modules see is checked for exclusive access at every use.
  var record: TransferRecord
  /// What is known of the connection that it was given.
  var connection: ConnectionInformation?
  var past: [TransferMetrics]

  package init(_ metrics: TransferMetrics, url: ParsedURL?, method: String) {
    self.url = url
    self.method = method
    isOfTransfer = false
    record = metrics.record
    connection = metrics.connection
    past = metrics.earlier
  }

  init(url: ParsedURL?, method: String, createdAt: Instant) {
    self.url = url
    self.method = method
    isOfTransfer = true
    record = TransferRecord()
    record.createdAt = createdAt
    past = []
  }

  /// Of the last attempt.
  package var lastRecord: TransferRecord { record }
  // Parts of it, as the whole is a large value to copy.
  package var retries: Int { record.retries }
  /// Nil before the end, and of what a cache or a transport of others has made: their times are no times of the task.
  package var endedAt: Instant? { isOfTransfer ? record.endAt : nil }
  /// Oldest first.
  package var earlierAttempts: [TransferMetrics] { past }
  package var metrics: TransferMetrics { TransferMetrics(record, connection: connection, earlier: past) }
}

/// What is known of a request: the record of its last attempt, the connection of that, and the attempts before.
@dynamicMemberLookup
package struct TransferMetrics: Sendable {
  package var record: TransferRecord
  package var connection: ConnectionInformation?
  /// The attempts before this one, oldest first: empty but for retries.
  package var earlier: [TransferMetrics]

  package init(
    _ record: TransferRecord = TransferRecord(), connection: ConnectionInformation? = nil,
    earlier: [TransferMetrics] = []
  ) {
    self.record = record
    self.connection = connection
    self.earlier = earlier
  }

  package subscript<Value>(dynamicMember path: WritableKeyPath<TransferRecord, Value>) -> Value {
    get { record[keyPath: path] }
    set { record[keyPath: path] = newValue }
  }
}

/// What is known of a connection; shared by all requests that it serves.
package final class ConnectionInformation: Sendable {
  package let remoteAddress: String?
  package let localAddress: String?
  package let tlsVersion: String?
  package let tlsCipher: String?
  package let tlsResumed: Bool
  /// DER certificates as the peer sent them, leaf first.
  package let peerCertificates: [[UInt8]]
  package let opening: OpeningTimes
  /// The addresses are those of a proxy.
  package let isProxied: Bool

  package init(
    remoteAddress: String?, localAddress: String?, tlsVersion: String?, tlsCipher: String?, tlsResumed: Bool,
    peerCertificates: [[UInt8]], opening: OpeningTimes, isProxied: Bool = false
  ) {
    self.remoteAddress = remoteAddress
    self.localAddress = localAddress
    self.tlsVersion = tlsVersion
    self.tlsCipher = tlsCipher
    self.tlsResumed = tlsResumed
    self.peerCertificates = peerCertificates
    self.opening = opening
    self.isProxied = isProxied
  }
}

/// When the steps of opening a connection began and ended.
package struct OpeningTimes: Sendable {
  package var resolveStart: Instant?
  package var resolveEnd: Instant?
  package var connectStart: Instant?
  package var connectEnd: Instant?
  /// TCP to the proxy was up, and it was told where to.
  package var proxyStart: Instant?
  /// The way to the origin was free.
  package var proxyEnd: Instant?
  package var tlsStart: Instant?
  package var tlsEnd: Instant?

  package init() {}
}
