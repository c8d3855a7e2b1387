package import LupineIO
package import LupineRules
package import LupineTLS
package import LupineWire

/// Why a transfer failed; by whose fault, from the bottom up.
package enum EngineError: Error, Sendable {
  // The peer misbehaved.
  /// The response breaks HTTP/1.1.
  case wire(WireError)
  /// The body breaks its content coding or a limit on decoding.
  case content(DecodeError)
  /// The list of content codings is too long.
  case contentCoding(ContentCodingRefusal)
  /// The connection ended before a response.
  case closedBeforeResponse
  /// Bytes came where none may.
  case unsolicitedBytes
  // The peer and we cannot agree.
  case tls(TLSError)
  // The environment failed.
  case resolve(ResolveError)
  /// Every address was tried.
  case connect(ConnectError)
  /// Nothing can be reached from the local address that was asked for: no address is of its family, or, with an error, the machine lacks it or has no port of it left.
  case localAddress(String, ConnectError?)
  /// Every address is reached over a mobile network, and those are not allowed.
  case cellular(interface: String)
  case io(IOError)
  /// The proxy on the way was of no use.
  case proxy(ProxyFailure)
  /// A file that was to be sent could not be read or was shorter than said.
  case file(IOError)
  case fileShrank(expected: Int64, actual: Int64)
  /// A file that was to be sent has another size than it must have.
  case fileChanged(expected: Int64, actual: Int64)
  // The caller misused us, or stopped.
  case bodyProducer(any Error)
  case bodyLength(expected: Int64, actual: Int64)
  case cancelled
  case tooManyWaiters(limit: Int)
  case poolClosed
  // Time.
  case deadline(TransferPhase)
  /// The same while all had been sent that the producer of the body had given, and nothing had been answered: nobody but the producer was
  /// waited for.
  case bodyDeadline(DeadlineLimit)

  var isDeadline: Bool {
    switch self {
    case .deadline, .bodyDeadline: true
    default: false
    }
  }
}

/// A failed transfer: the error, what was under way, and whether any byte of the request had left.
package final class TransferFailure: Error, Sendable {
  package let error: EngineError
  package let phase: TransferPhase
  package let requestBytesSent: Bool

  package init(error: EngineError, phase: TransferPhase, requestBytesSent: Bool) {
    self.error = error
    self.phase = phase
    self.requestBytesSent = requestBytesSent
  }
}
