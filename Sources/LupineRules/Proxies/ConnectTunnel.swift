internal import LupineBase
package import LupineWire

/// What a proxy answered to CONNECT when it opened no tunnel. It is the proxy's word, never the origin's: anybody on the way to a proxy in the
/// clear can write it.
package struct TunnelRefusal: Equatable, Sendable {
  package let status: Int
  package let reason: String
  package let fields: FieldSection

  init(_ head: ResponseHead) {
    status = head.status
    reason = head.reason
    fields = head.fields
  }
}

/// Why CONNECT opened no tunnel.
package enum TunnelError: Error, Sendable {
  /// Any status but 2xx, and a 407 that cannot be answered.
  case refused(TunnelRefusal)
  /// The answer breaks HTTP/1.1 or a limit.
  case wire(WireError)
  /// The request would break it: a host or one of the extra fields.
  case badRequest(WireError)
  /// The credentials cannot be sent; the text holds no secret.
  case credentials(String)
  /// The proxy hung up before it answered.
  case closed
}

/// The client's side of CONNECT (RFC 9110 section 9.3.6), pure.
///
///     asking -> established                  2xx: what follows its head belongs to the tunnel
///     asking -> answering -> asking          407 that can be answered: its body is read, then the request goes out again, on the same
///                                            connection if its framing allows that, else on another, or if the proxy hangs up unannounced
///     asking -> failed                       anything else
///
/// Invariants: the body of a 407 is read up to `discardLimit` and shown to nobody; not a byte behind an answer is taken; CONNECT goes out
/// at most `1 + ProxyAuthentication.maximumRounds` times, and once more for each that found the proxy gone.
package struct ConnectTunnel: ~Copyable, Sendable {
  package enum Step: Equatable, Sendable {
    case needMore
    /// Send this on the same connection.
    case send([UInt8])
    /// Connect to the proxy again, and send this.
    case reconnect([UInt8])
    case established
  }

  /// Bytes of the body of a 407 that are read to keep the connection.
  private let discardLimit: Int
  private var parser: ResponseParser
  private var authentication: ProxyAuthentication
  private let authority: String
  private let fields: [(name: String, value: String)]
  private var isAnswering = false
  private var isEstablished = false
  /// The request went out on the connection of a 407, and nothing has come since: the proxy may have closed it behind its answer.
  private var isResent = false
  private var discarded = 0
  /// What the proxy wants of the next request in the place of the nonce that it accepted.
  package private(set) var nextNonce: String?

  /// - Parameters:
  ///   - authority: `host:port`, an IPv6 address in brackets.
  ///   - fields: besides `Host` and `Proxy-Authorization`.
  ///   - leniency: what a proxy's answers may do that RFC 9112 does not allow.
  ///   - discardLimit: bytes of the body of a 407 that are read to keep the connection.
  package init(
    authority: String, fields: [(name: String, value: String)], authentication: ProxyAuthentication, limits: WireLimits,
    leniency: WireLeniency = [], discardLimit: Int = 64 * 1024
  ) {
    self.discardLimit = discardLimit
    self.authority = authority
    self.fields = fields
    self.authentication = authentication
    parser = ResponseParser(limits: limits, leniency: leniency)
  }

  /// What the proxy accepted; nil: it did not want to know who is asking.
  package var accepted: ChallengeAnswer? { isEstablished ? authentication.sent : nil }

  /// The request, to begin with.
  package mutating func request() throws(TunnelError) -> [UInt8] {
    isAnswering = false
    discarded = 0
    parser.begin(RequestContext(isConnect: true))
    let field: String?
    do {
      field = try authentication.field(method: "CONNECT", target: authority)
    } catch {
      throw .credentials("\(error)")
    }
    var fields = [(name: "Host", value: authority)] + fields
    if let field { fields.append(("Proxy-Authorization", field)) }
    var head: [UInt8] = []
    do throws(WireError) {
      try RequestEncoder.head(method: "CONNECT", target: authority, fields: fields, into: &head)
    } catch {
      throw .badRequest(error)
    }
    return head
  }

  /// Takes bytes of the proxy from `offset` on, and moves it past them.
  package mutating func receive(_ input: Span<UInt8>, _ offset: inout Int) throws(TunnelError) -> Step {
    if offset < input.count { isResent = false }
    while true {
      switch try next(input, &offset) {
      case .needMore: return .needMore
      case .informational, .trailers: break
      case .head(let head, let framing):
        if (200..<300).contains(head.status) {
          isEstablished = true
          if authentication.sent?.nonce != nil { nextNonce = head.fields.proxyNextNonce }
        } else {
          guard head.status == 407, authentication.challenged(by: head.fields.proxyChallenges) else {
            throw .refused(TunnelRefusal(head))
          }
          isAnswering = true
          if framing == .untilClose { return .reconnect(try request()) }
        }
      case .body(let range):
        discarded += range.count
        if discarded > discardLimit { return .reconnect(try request()) }
      case .end:
        if isEstablished { return .established }
        let isReusable = parser.reuseVerdict == .reusable
        let head = try request()
        isResent = isReusable
        return isReusable ? .send(head) : .reconnect(head)
      }
    }
  }

  /// Whether the proxy may be gone without a fault of anybody's (RFC 9112 section 9.5), so that `finish` asks it anew.
  package var mayBeGone: Bool { isAnswering || isResent }

  /// The proxy hung up.
  package mutating func finish() throws(TunnelError) -> Step {
    guard mayBeGone else { throw .closed }
    isResent = false
    return .reconnect(try request())
  }

  private mutating func next(_ input: Span<UInt8>, _ offset: inout Int) throws(TunnelError) -> ResponseEvent {
    do throws(WireError) {
      return try parser.next(input, &offset)
    } catch {
      throw .wire(error)
    }
  }
}

extension FieldSection {
  /// The values of `Proxy-Authenticate`, in wire order.
  package var proxyChallenges: [[UInt8]] { rawValues(named: "proxy-authenticate") }

  /// The nonce that a proxy wants next (RFC 7616 section 3.8).
  package var proxyNextNonce: String? {
    AuthenticationInfo.nextNonce(rawValues(named: "proxy-authentication-info"))
  }
}
