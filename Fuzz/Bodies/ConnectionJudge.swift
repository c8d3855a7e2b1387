internal import LupineEngine
internal import LupineRules
internal import LupineSimulation
internal import LupineWire

/// Compares what the requests of a `ConnectionRun` were given with what the servers sent, as `ResponseParser` reads it.
struct ConnectionJudge {
  /// What one request may be told, by the bytes that were sent after it and before the next.
  private struct Reading {
    var status: Int?
    var codings: [String] = []
    var body: [UInt8] = []
    var error: WireError?
    /// The response ended, and what then says of the connection.
    var verdict: ReuseVerdict?
    var taken = 0
  }

  private struct Attempt {
    let server: ConnectionServer
    let head: RequestReader.Head
    let reading: Reading
    let sent: Int
    let place: Int
  }

  private let run: ConnectionRun
  private var attempts: [[Attempt]]

  init(_ run: ConnectionRun) {
    self.run = run
    attempts = run.exchanges.map { _ in [] }
    for server in run.servers where server.wasAlwaysReading { note(server) }
    for number in attempts.indices { attempts[number].sort { $0.place < $1.place } }
  }

  func judge() {
    let isCertain = run.servers.allSatisfy(\.wasAlwaysReading)
    for exchange in run.exchanges {
      let attempts = attempts[exchange.number]
      judgeRepetition(exchange, attempts)
      guard isCertain else { continue }
      guard let last = attempts.last else {
        precondition(exchange.failure != nil, "request \(exchange.number) was answered, and never sent")
        continue
      }
      judge(exchange, last)
    }
  }

  /// Reads the connection as its requests cut it into responses, and checks that it was right to use it so often.
  private mutating func note(_ server: ConnectionServer) {
    let requests = server.requests
    for (index, request) in requests.enumerated() {
      let isLast = index + 1 == requests.count
      let end = isLast ? server.sent.count : requests[index + 1].sentBefore
      precondition(index > 0 || request.sentBefore == 0, "bytes that came before any request were let pass")
      let piece = server.sent[request.sentBefore..<end]
      guard run.exchanges.indices.contains(request.head.number) else { preconditionFailure("a request of nobody") }
      let reading = read(piece, run.exchanges[request.head.number].isHead, ended: isLast && server.hasEnded)
      if !isLast {
        precondition(request.isComplete, "a connection was used again before the request on it was complete")
        precondition(reading.verdict == .reusable, "a connection was used again after \(reading)")
        precondition(reading.taken == piece.count, "a connection was used again with bytes that nobody asked for")
      }
      attempts[request.head.number].append(
        Attempt(server: server, head: request.head, reading: reading, sent: piece.count, place: request.place))
    }
  }

  private func read(_ bytes: ArraySlice<UInt8>, _ isHead: Bool, ended: Bool) -> Reading {
    var parser = ResponseParser(limits: run.limits, leniency: run.leniency)
    parser.begin(RequestContext(isHead: isHead))
    var reading = Reading()
    let input = Array(bytes)
    do throws(WireError) {
      while reading.verdict == nil {
        switch try parser.next(input.span, &reading.taken) {
        case .needMore:
          guard ended else { return reading }
          _ = try parser.finish()
          reading.verdict = parser.reuseVerdict
        case .informational, .trailers: break
        case .head(let head, _):
          reading.status = head.status
          reading.codings = head.fields.values(.contentEncoding)
        case .body(let range): reading.body += input[range]
        case .end: reading.verdict = parser.reuseVerdict
        }
      }
    } catch {
      reading.error = error
    }
    return reading
  }

  /// Nothing but an idempotent request is sent again, except that a 417 takes back an expectation.
  private func judgeRepetition(_ exchange: ConnectionExchange, _ attempts: [Attempt]) {
    var others = attempts
    if let first = others.first, first.head.expectsContinue, first.reading.status == 417 { others.removeFirst() }
    precondition(
      others.count <= (exchange.isIdempotent ? RetryRule.maximumAttempts : 1),
      "request \(exchange.number) was sent again")
    for attempt in others.dropLast() {
      precondition(attempt.sent == 0, "request \(exchange.number) was sent again although it had been answered")
    }
  }

  private func judge(_ exchange: ConnectionExchange, _ attempt: Attempt) {
    let reading = attempt.reading
    if let status = exchange.status {
      precondition(status == reading.status, "request \(exchange.number): status \(status), not as in \(reading)")
    }
    let isDecoded = exchange.decodes && !reading.codings.isEmpty && !exchange.isHead
    if !isDecoded {
      precondition(reading.body.starts(with: exchange.body), "request \(exchange.number) has bytes of another response")
    }
    guard let failure = exchange.failure else {
      precondition(exchange.status != nil, "request \(exchange.number) ended without a status")
      guard !exchange.discards else { return }
      precondition(reading.verdict != nil, "request \(exchange.number) ended before its response: \(reading)")
      if isDecoded { return judgeDecoding(exchange, reading) }
      precondition(reading.body == exchange.body, "request \(exchange.number) has not all of its response")
      return
    }
    switch failure.error {
    case .wire: precondition(reading.error != nil, "request \(exchange.number): \(failure), but \(reading)")
    case .closedBeforeResponse:
      precondition(attempt.server.hasEnded, "request \(exchange.number): \(failure), but the server had not ended")
    case .content, .contentCoding: precondition(isDecoded, "request \(exchange.number): \(failure) without a coding")
    case .tls, .resolve, .file, .fileShrank, .fileChanged, .bodyProducer, .bodyLength, .tooManyWaiters, .poolClosed:
      preconditionFailure("request \(exchange.number): \(failure), of which there was no question")
    default: break
    }
  }

  private func judgeDecoding(_ exchange: ConnectionExchange, _ reading: Reading) {
    guard let codings = try? ContentCodings.parse(reading.codings) else {
      precondition(reading.body == exchange.body, "request \(exchange.number): an unknown coding passes as it came")
      return
    }
    var output: [UInt8] = []
    do {
      var decoder = try ContentDecoder(codings: codings, limits: DecodeLimits(maximumOutput: nil))
      var offset = 0
      _ = try decoder.decode(reading.body.span, &offset) { bytes in
        for index in bytes.indices { output.append(bytes[index]) }
        return true
      }
      try decoder.finish()
    } catch {
      preconditionFailure("request \(exchange.number) ended well, but its body does not decode: \(error)")
    }
    precondition(output == exchange.body, "request \(exchange.number) was decoded into something else")
  }
}
