/// One connection of a `LoopbackServer`, as its handler sees it: it reads the rest of the request and writes the response.
///
/// It lives on the connection's own thread and is used only while the handler runs; its calls block.
/// A call that fails because the peer went away throws `LoopbackError.peerClosed` or `.peerReset`; let it pass.
public final class ServerConnection {
  /// How the body of the response under way is framed.
  public enum Framing: Equatable, Sendable {
    /// With `Content-Length`.
    case length(Int)
    /// With `Transfer-Encoding: chunked`; each `write` is one chunk. For a client of HTTP/1.0, which knows no chunks (RFC 9112 6.1), as `untilClose`.
    case chunked
    /// By the end of the connection.
    case untilClose
  }

  /// Connections count from 1 in the order of acceptance.
  public let number: Int
  /// What TLS negotiated; nil on plaintext.
  public let tls: TLSSummary?

  let stream: ConnectionStream
  var reader = RequestReader()
  var request: ServerRequest
  private let bodyLimit: Int
  private var output: [UInt8] = []
  private var outgoing: Framing?
  private var remaining = 0
  private var bodyIsSuppressed = false
  private var continueIsOwed = false
  /// What `readBody` returned where the request holds less of it.
  private var wholeBody: [UInt8]?

  /// Told of a body as soon as it has been read: a client that has its answer must find its request recorded.
  var onBodyEnd: ((ServerRequest) -> Void)?

  /// Whether a complete response was written for this request.
  private(set) var responseIsComplete = false
  /// Whether the connection is closed after this response.
  private(set) var closes = false
  /// Whether the handler took the connection over: nothing more is done to it.
  private(set) var isAborted = false

  init(_ stream: ConnectionStream, number: Int, bodyLimit: Int, first request: ServerRequest, reader: RequestReader) {
    self.stream = stream
    self.number = number
    self.bodyLimit = bodyLimit
    self.request = request
    self.reader = reader
    tls = stream.tlsSummary
    begin(request, reader)
  }

  /// Goes on to the next request of the connection.
  func begin(_ request: ServerRequest, _ reader: RequestReader) {
    self.request = request
    self.reader = reader
    self.request.bodyIsComplete = reader.isAtEnd
    outgoing = nil
    wholeBody = nil
    responseIsComplete = false
    // A client of HTTP/1.0 is told nothing before the response (RFC 9110 10.1.1).
    continueIsOwed =
      !reader.isAtEnd && request.version != "HTTP/1.0" && request.fields.has("Expect", token: "100-continue")
    closes =
      request.fields.has("Connection", token: "close")
      || request.version == "HTTP/1.0" && !request.fields.has("Connection", token: "keep-alive")
  }

  // MARK: Reading the request

  /// The next bytes of the request's body, as they arrived, with chunked coding removed; nil at its end.
  ///
  /// Sends `100 Continue` first when the client waits for it. Throws `malformedRequest` when the framing is broken, and `misuse` where the client
  /// waits for 100 and the response has begun: nothing informational comes behind it (RFC 9110 15.2).
  public func readBodyPart() throws(LoopbackError) -> [UInt8]? {
    try withBodyPart { $0.map { Array($0) } }
  }

  /// The next part without a copy.
  func withBodyPart<Result>(_ use: (ArraySlice<UInt8>?) -> Result) throws(LoopbackError) -> Result {
    if continueIsOwed, !reader.isAtEnd {
      guard outgoing == nil else {
        throw .misuse("the response was begun before the body that waits for 100 was asked for")
      }
      try sendInformational(100)
    }
    guard let part = try reader.nextPart(stream, trailers: &request.trailers) else {
      request.bodyIsComplete = true
      onBodyEnd?(request)
      return use(nil)
    }
    let result = use(part)
    request.bodyLength += part.count
    let room = bodyLimit - request.body.count
    if room > 0 { request.body += part.prefix(room) }
    reader.consumed(part.count, stream)
    request.bodyIsComplete = reader.framing == .length(0)
    if request.bodyIsComplete { onBodyEnd?(request) }
    return result
  }

  /// Reads the rest of the body and returns all of it, whatever the recording limit. Further calls return the same.
  public func readBody() throws(LoopbackError) -> [UInt8] {
    if let wholeBody { return wholeBody }
    var body = request.body
    if request.bodyLength > body.count { throw .misuse("part of the body was read and not kept") }
    while let part = try readBodyPart() { body += part }
    if request.body.count < body.count { wholeBody = body }
    return body
  }

  /// How many bytes of the request's body were read so far.
  public var bodyLength: Int { request.bodyLength }

  /// The trailers of a chunked request, once its body was read.
  public var requestTrailers: ServerFields { request.trailers }

  // MARK: Writing the response

  /// Sends an informational response, for example 103 with `Link` fields. 100 is sent by `readBodyPart` by itself.
  ///
  /// A client of HTTP/1.0, which knows none, is sent nothing (RFC 9110 15.2).
  public func sendInformational(_ status: Int, fields: ServerFields = [:]) throws(LoopbackError) {
    guard request.version != "HTTP/1.0" else { return }
    if status == 100 { continueIsOwed = false }
    appendHead(status, nil, fields)
    append("\r\n")
    try flush()
  }

  /// Sends a whole response, with `Content-Length`, in one send if it is small.
  ///
  /// For a HEAD request, 204 and 304 the body is left out. A 304 announces the length of a body that is given, as that of the 200 in whose
  /// place it comes, and else none.
  public func respond(
    _ status: Int = 200, reason: String? = nil, fields: ServerFields = [:], body: [UInt8] = []
  ) throws(LoopbackError) {
    try begin(status, reason: reason, fields: fields, framing: .length(body.count))
    try write(body)
    try finish()
  }

  /// Sends a whole response with a text body; the media type is `text/plain` unless the fields name one.
  public func respond(
    _ status: Int = 200, reason: String? = nil, fields: ServerFields = [:], text: String
  ) throws(LoopbackError) {
    var fields = fields
    if fields.first("Content-Type") == nil { fields.append("Content-Type", "text/plain; charset=utf-8") }
    try respond(status, reason: reason, fields: fields, body: Array(text.utf8))
  }

  /// Begins a response whose body follows in `write` calls, ended by `finish`. The head leaves with the first bytes of the body.
  ///
  /// A 204 is sent without framing fields (RFC 9112 6.1, RFC 9110 8.6), and a 304 without a length of 0, which would be that of the 200 in
  /// whose place it comes.
  public func begin(
    _ status: Int = 200, reason: String? = nil, fields: ServerFields = [:], framing: Framing
  ) throws(LoopbackError) {
    guard outgoing == nil else { throw .misuse("a response was begun already") }
    let framing = framing == .chunked && request.version == "HTTP/1.0" ? .untilClose : framing
    if framing == .untilClose { closes = true }
    if continueIsOwed { closes = true }  // the client may or may not send its body now
    appendHead(status, reason, fields)
    switch framing {
    case .length(let length) where status != 204 && (status != 304 || length > 0):
      append("Content-Length: \(length)\r\n")
      remaining = length
    case .chunked where status != 204: append("Transfer-Encoding: chunked\r\n")
    case .length, .chunked, .untilClose: break
    }
    if closes {
      append("Connection: close\r\n")
    } else if request.version == "HTTP/1.0" {
      append("Connection: keep-alive\r\n")
    }
    append("\r\n")
    bodyIsSuppressed = request.method == "HEAD" || status == 204 || status == 304
    outgoing = framing
  }

  /// Writes a part of the body, framed as begun: one chunk if chunked. Throws `misuse` past the announced length.
  public func write(_ bytes: some Collection<UInt8>) throws(LoopbackError) {
    guard let outgoing else { throw .misuse("no response was begun") }
    guard !bodyIsSuppressed, !bytes.isEmpty else { return }
    switch outgoing {
    case .length:
      guard bytes.count <= remaining else { throw .misuse("more body than announced") }
      remaining -= bytes.count
      try sendBehindOutput(bytes, suffix: [])
    case .chunked:
      append(String(bytes.count, radix: 16) + "\r\n")
      try sendBehindOutput(bytes, suffix: [0x0D, 0x0A])
    case .untilClose:
      try sendBehindOutput(bytes, suffix: [])
    }
  }

  /// Ends the response, with trailers if it is chunked.
  public func finish(trailers: ServerFields = [:]) throws(LoopbackError) {
    guard let outgoing else { throw .misuse("no response was begun") }
    if outgoing == .chunked, !bodyIsSuppressed {
      append("0\r\n")
      for field in trailers { append(field) }
      append("\r\n")
    }
    try flush()
    responseIsComplete = true
    if case .length = outgoing, !bodyIsSuppressed, remaining > 0 { closes = true }
  }

  /// Sends what `begin` and `write` hold back.
  public func flush() throws(LoopbackError) {
    try stream.send(output)
    output.removeAll(keepingCapacity: true)
  }

  // MARK: Faults

  /// Sends bytes as they are, outside of any framing. What they mean for the connection is the caller's business.
  public func sendRaw(_ bytes: [UInt8]) throws(LoopbackError) {
    try flush()
    try stream.send(bytes)
    responseIsComplete = true
  }

  /// Sends text as it is, outside of any framing.
  public func sendRaw(_ text: String) throws(LoopbackError) { try sendRaw(Array(text.utf8)) }

  /// Closes the connection once this response is complete; before `begin`, the response says so.
  public func closeAfterResponse() { closes = true }

  /// Closes the connection now, with a reset (RST) if wanted, else in order. The handler should return after it.
  public func abort(reset: Bool = false) {
    isAborted = true
    if reset {
      stream.armReset()
    } else {
      stream.finishSending()
    }
    stream.close()
  }

  /// Waits until the latch opens, the peer hangs up or the server is shut down; nil waits for the latter two.
  /// What was written before is sent first.
  @discardableResult
  public func stall(until latch: Latch?) throws(LoopbackError) -> StallEnd {
    try flush()
    return stream.stall(latch)
  }

  // MARK: The bytes of a response

  private func appendHead(_ status: Int, _ reason: String?, _ fields: ServerFields) {
    append("HTTP/1.1 ")
    append(String(status))
    append(" ")
    append(reason ?? Self.reason(status))
    append("\r\n")
    for field in fields { append(field) }
  }

  private func append(_ field: ServerFields.Field) {
    append(field.name)
    append(": ")
    append(field.value)
    append("\r\n")
  }

  private func append(_ text: String) { output += text.utf8 }

  private func sendBehindOutput(_ bytes: some Collection<UInt8>, suffix: [UInt8]) throws(LoopbackError) {
    if output.count + bytes.count <= 32 * 1024 {
      output += bytes
      output += suffix
      if outgoing != .length(bytes.count) { try flush() }  // a whole response leaves with `finish`
    } else {
      try stream.send(output, more: true)
      output.removeAll(keepingCapacity: true)
      try stream.send(bytes, more: !suffix.isEmpty)
      output += suffix
      try flush()
    }
  }

  static func reason(_ status: Int) -> String {
    switch status {
    case 100: "Continue"
    case 101: "Switching Protocols"
    case 103: "Early Hints"
    case 200: "OK"
    case 201: "Created"
    case 204: "No Content"
    case 206: "Partial Content"
    case 301: "Moved Permanently"
    case 302: "Found"
    case 303: "See Other"
    case 304: "Not Modified"
    case 307: "Temporary Redirect"
    case 308: "Permanent Redirect"
    case 400: "Bad Request"
    case 401: "Unauthorized"
    case 404: "Not Found"
    case 405: "Method Not Allowed"
    case 413: "Content Too Large"
    case 416: "Range Not Satisfiable"
    case 417: "Expectation Failed"
    case 500: "Internal Server Error"
    case 503: "Service Unavailable"
    default: "Status \(status)"
    }
  }
}
