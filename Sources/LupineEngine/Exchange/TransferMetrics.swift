package import LupineBase

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
