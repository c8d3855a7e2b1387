package import LupineIO
package import LupineRules
public import LupineWire

/// Carries exchanges, one request and its response each. The network is the default; tests bring their own.
///
/// A transport is told everything that a request says, and reports what arrives to a receiver, serially and in the order of the wire, on a
/// thread of its own. It must not wait inside a call, and must call `end` exactly once, as the last call, whatever happens.
public protocol Transport: Sendable {
  /// Begins an exchange and returns at once. Any thread.
  func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange
  /// The session was invalidated. With `cancelling`, whatever is under way ends with `.cancelled`; otherwise it goes on, and what is kept
  /// beyond it is let go. Exchanges may still begin behind that: of tasks that were made before, and, with `cancelling`, of such as are cancelled at once.
  /// Any thread.
  func invalidate(cancelling: Bool)
}

extension Transport {
  /// Does nothing: there is nothing to let go.
  public func invalidate(cancelling: Bool) {}
}

/// An exchange under way. Every method may be called from any thread and does nothing after the end.
public protocol TransportExchange: AnyObject, Sendable {
  /// The head of the request as it goes over the wire, for verbose output and logs; empty if the transport has none. It holds secrets.
  var requestHead: [UInt8] { get }
  /// Gives up; `end` follows with `.cancelled`.
  func cancel()
  /// Stops reading from the socket, after what has been read already, or goes on. A state older than one that was given before is ignored.
  func setPaused(_ state: PauseState)
  /// The body is of no interest: it is dropped, within limits, so that the connection can be kept.
  func discardBody()
}

/// An exchange that knows how far its request has gone.
package protocol SendingExchange: TransportExchange {
  /// Whether the request of the current attempt has been handed to the network with its last byte, that of its trailers included. Asked where the
  /// receiver is told, and nowhere else.
  var hasSentRequest: Bool { get }
}

extension TransportExchange {
  /// None.
  public var requestHead: [UInt8] { [] }
}

/// Takes what arrives. Called on the transport's thread; must not wait.
public protocol TransportReceiver: AnyObject, Sendable {
  /// An interim response (1xx) other than 100.
  func receive(informational head: ResponseHead, of exchange: any TransportExchange)
  /// The final head.
  func receive(head: ResponseHead, framing: BodyFraming, of exchange: any TransportExchange)
  /// Body bytes, decoded; the span is valid during the call.
  func receive(body bytes: Span<UInt8>, of exchange: any TransportExchange)
  /// Fields after the body.
  func receive(trailers: FieldSection, of exchange: any TransportExchange)
  /// So many more bytes of the request body have been handed to the network. Less than none: they are sent again, from the first.
  func sent(bodyBytes count: Int, of exchange: any TransportExchange)
  /// The end: nil when the response is complete.
  func end(_ failure: SessionError?, metrics: TransactionMetrics, of exchange: any TransportExchange)
}

/// A receiver that takes bytes of a body in a pipe, and never sees them.
package protocol PipeReceiver: TransportReceiver {
  /// Where the next bytes may go instead of being shown, if they need no decoding; nil: they are shown. Asked before each read that may.
  func pipe(for exchange: any TransportExchange) -> BodyPipe?
  /// So many body bytes are in the pipe, behind all that were shown. As `receive(body:of:)` otherwise.
  func receive(piped count: Int, of exchange: any TransportExchange)
}

/// One request as a transport sees it: fields complete, in the order in which they are sent.
public struct TransportRequest: Sendable {
  /// The method.
  public var method: String
  /// Scheme, host, port and target.
  package var url: ParsedURL { composition.url }
  var composition: ComposedFields
  /// All fields but the framing ones, `Host` included.
  public var fields: [(name: String, value: String)] { composition.pairs }
  /// The body.
  public var body: Request.Body
  /// Hold the body back until the server says 100 (Continue).
  public var expectsContinue: Bool
  /// Decode the content codings that `Accept-Encoding` offers.
  public var decodesContent: Bool
  /// How urgent the request is among those that wait for a connection to the same origin: 0 to 1, as in URLSession. Default 0.5. The
  /// network tells three classes apart: below, at and above 0.5; what is no number counts as 0.5.
  public var priority: Float = 0.5
  /// What the request is for; its packets are marked so. Default `.default`.
  public var networkServiceType = NetworkServiceType.default
  /// Whether it may go over a mobile network. Default true.
  public var allowsCellularAccess = true
  let idleNanoseconds: Int64
  var totalNanoseconds: Int64
  /// How long nothing may move.
  public var idleTimeout: Duration { .nanoseconds(idleNanoseconds) }
  /// What is left of the time for the whole task.
  public var totalTimeout: Duration { .nanoseconds(totalNanoseconds) }

  /// The absolute URL, without userinfo and fragment.
  public var urlString: String { url.requestString }
  /// The request target in origin form (RFC 9112 3.2.1).
  public var target: String { url.target }
  /// "http" or "https".
  public var scheme: String { url.scheme.text }
  /// The host, as it stands in the URL: an IPv6 address in brackets.
  public var host: String { url.host.bracketed }
  /// The port, also where the URL names none.
  public var port: Int { Int(url.port) }
  /// The path, percent-encoded, at least "/".
  public var path: String { url.path }
  /// The query without its "?"; nil is no query.
  public var query: String? { url.query }
}
