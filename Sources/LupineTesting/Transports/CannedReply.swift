public import LupineSession
internal import LupineWire

/// What a `CannedTransport` answers.
public struct CannedReply: Sendable {
  /// The status. Default 200.
  public var status = 200
  /// The reason phrase. Default none.
  public var reason = ""
  /// The fields, in this order and case. `Content-Length` is added if the body is at hand and neither it, `Transfer-Encoding` nor
  /// `Content-Encoding` is named.
  public var fields: ServerFields = [:]
  /// The body in the pieces in which it arrives, as a transport hands them on: with the content codings taken off that `Content-Encoding`
  /// names. A `Content-Length` beside it is that of the coded body, and compared with nothing.
  public var chunks: [[UInt8]] = []
  /// Fields after the body.
  public var trailers: ServerFields = [:]
  /// Interim responses (1xx) before the final one.
  public var informational: [(status: Int, fields: ServerFields)] = []
  /// Time before the response begins, from when the request's body was read and the route's closure, if there is one, has returned. Default none.
  public var delay: Duration = .zero
  /// Time before each piece of the body. Default none.
  public var chunkDelay: Duration = .zero
  /// How the exchange ends after all that: nil is well.
  public var failure: SessionError?
  /// The exchange ends without a response: with `failure`, or never, until a deadline passes or it is cancelled.
  public var hasResponse = true
  /// The exchange does not end after its body: until a deadline passes, or it is cancelled.
  public var stalls = false

  /// An empty 200.
  public init() {}

  /// A response with a body in one piece.
  public init(status: Int = 200, fields: ServerFields = [:], body: [UInt8] = []) {
    self.status = status
    self.fields = fields
    chunks = body.isEmpty ? [] : [body]
  }

  /// A response with a text.
  public static func text(_ text: String, status: Int = 200, fields: ServerFields = [:]) -> CannedReply {
    with(text, "text/plain; charset=utf-8", status, fields)
  }

  /// A response with JSON, given as its text.
  public static func json(_ text: String, status: Int = 200, fields: ServerFields = [:]) -> CannedReply {
    with(text, "application/json", status, fields)
  }

  /// A redirect.
  public static func redirect(to location: String, status: Int = 302) -> CannedReply {
    CannedReply(status: status, fields: ["Location": location])
  }

  /// No response, but an error.
  public static func failure(_ code: SessionError.Code, phase: SessionError.Phase = .connect) -> CannedReply {
    var reply = CannedReply()
    reply.hasResponse = false
    reply.failure = SessionError(
      code, phase: phase, message: "the reply of the test says so", requestBytesSent: phase.mayHaveSent)
    return reply
  }

  /// No response at all: a deadline passes, or somebody cancels.
  public static var silence: CannedReply {
    var reply = CannedReply()
    reply.hasResponse = false
    reply.stalls = true
    return reply
  }

  private static func with(_ text: String, _ type: String, _ status: Int, _ fields: ServerFields) -> CannedReply {
    var fields = fields
    if fields.first("Content-Type") == nil { fields.append("Content-Type", type) }
    return CannedReply(status: status, fields: fields, body: Array(text.utf8))
  }

  // MARK: Playing

  /// The steps of this reply, or of its refusal if it is none that HTTP could carry.
  func steps(for request: TransportRequest) -> [ExchangeStep] {
    var steps: [ExchangeStep] = delay > .zero ? [.wait(delay)] : []
    do throws(WireError) {
      if hasResponse { steps += try responseSteps(request.method) }
    } catch {
      return [
        .end(
          ExchangePlayer.error(
            .badResponse, .receive, "a canned reply is no HTTP response: \(error)", request, underlying: error))
      ]
    }
    if let length = contradictedLength(request.method) {
      return [
        .end(
          ExchangePlayer.error(
            .badResponse, .receive, "a canned reply announces \(length) bytes of body and has another number", request))
      ]
    }
    if var failure {
      if failure.failingURL == nil { failure.failingURL = request.urlString }
      return steps + [.end(failure)]
    }
    // What has no response has no good end either.
    return stalls || !hasResponse ? steps : steps + [.end(nil)]
  }

  private var bodyLength: Int { chunks.reduce(0) { $0 + $1.count } }
  /// The length that is announced is that of the coded body, which is not here.
  private var isCoded: Bool { fields.first("Content-Encoding") != nil }
  private var isToBeComplete: Bool { failure == nil && !stalls }

  /// The length that the fields announce, where it is not that of the body, and the reply is to be complete.
  private func contradictedLength(_ method: String) -> String? {
    guard hasResponse, isToBeComplete, !isCoded, method != "HEAD", status != 304,
      let announced = fields.first("Content-Length"), announced != String(bodyLength)
    else { return nil }
    return announced
  }

  private func responseSteps(_ method: String) throws(WireError) -> [ExchangeStep] {
    var steps: [ExchangeStep] = []
    for interim in informational {
      let head = try ResponseHead(status: interim.status, fields: interim.fields.pairs)
      guard head.isInformational else { throw WireError(.invalidStatusCode, at: 9) }
      steps.append(.informational(head))
    }
    let head = try ResponseHead(status: status, reason: reason, fields: completeFields)
    guard !head.isInformational else { throw WireError(.invalidStatusCode, at: 9) }
    steps.append(.head(head, framing(of: head, method)))
    for chunk in chunks {
      if chunkDelay > .zero { steps.append(.wait(chunkDelay)) }
      steps.append(.body(chunk))
    }
    if !trailers.isEmpty { steps.append(.trailers(try FieldSection(trailers.pairs))) }
    return steps
  }

  /// As on the network (RFC 9112 section 6.3): what stands above it, a cache for one, goes by it.
  private func framing(of head: ResponseHead, _ method: String) -> BodyFraming {
    if method == "HEAD" || hasNoContent { return .none }
    if !trailers.isEmpty || fields.has("Transfer-Encoding", token: "chunked") { return .chunked }
    let announced = head.fields.first(.contentLength).flatMap { Int64($0) }
    let length = isCoded && isToBeComplete ? Int64(bodyLength) : announced
    return length.map { .length($0) } ?? .untilClose
  }

  private var hasNoContent: Bool { status == 204 || status == 304 }

  private var completeFields: [(name: String, value: String)] {
    var pairs = fields.pairs
    if !hasNoContent, isToBeComplete, !isCoded, trailers.isEmpty, fields.first("Content-Length") == nil,
      fields.first("Transfer-Encoding") == nil
    {
      pairs.append(("Content-Length", String(bodyLength)))
    }
    return pairs
  }
}

extension ServerFields {
  var pairs: [(name: String, value: String)] { map { ($0.name, $0.value) } }

  init(pairs: [(name: String, value: String)]) {
    self.init(pairs.map { Field($0.name, $0.value) })
  }
}
