internal import LupineBase
internal import LupineEngine
internal import LupineIO
internal import LupineRules
internal import LupineWire

/// One request of a simulation, its caller, and what came of it.
final class SimulatedExchange: TransferHandler {
  /// What the server said that it would send.
  struct Promise {
    var status = 200
    var bodyLength = 0
    /// The response, with its end, has been given to the network, and nothing in it is wrong.
    var isWhole = false
    /// The end of the connection is the end of the body: nobody can tell that something is missing.
    var endsWithConnection = false
  }

  unowned let simulation: Simulation
  let number: Int
  let caller: SimulatedCaller
  private(set) var transfer: Transfer?
  /// What is to happen once it has ended.
  var next: SimulatedExchange?

  var promise: Promise?
  /// How often a server saw its head, and how often one refused its expectation.
  var sightings = 0
  var refusals = 0
  private(set) var status: Int?
  private(set) var received = 0
  private(set) var hasEnded = false
  private(set) var isCancelled = false
  private var sincePause = 0
  private var startedAt = Instant(nanoseconds: 0)

  init(_ simulation: Simulation, number: Int, caller: SimulatedCaller) {
    self.simulation = simulation
    self.number = number
    self.caller = caller
  }

  func start() {
    startedAt = simulation.now
    let transfer = Transfer(request(), handler: self, createdAt: simulation.now)
    self.transfer = transfer
    simulation.note(.start, number, caller.host)
    simulation.engine.start(transfer, in: simulation.pool)
    guard let wait = caller.cancelsAfter else { return }
    simulation.after(wait) { [unowned self] in
      guard !hasEnded, let transfer = self.transfer else { return }
      isCancelled = true
      simulation.note(.cancel, number, 0)
      simulation.engine.cancel(transfer)
    }
  }

  private func request() -> TransferRequest {
    let (body, framing) = body()
    var fields: [(name: String, value: String)] = [("Host", "h\(caller.host)")]
    if caller.kind == .keyedPost { fields.append(("Idempotency-Key", "\(number)")) }
    let plain = head(fields, framing)
    let expecting = caller.kind == .expecting ? head(fields + [("Expect", "100-continue")], framing) : nil
    return TransferRequest(
      key: simulation.keys[caller.host], method: caller.method, head: expecting ?? plain,
      headWithoutExpectation: expecting == nil ? nil : plain,
      context: RequestContext(isHead: caller.kind == .head), body: body, hasIdempotencyKey: caller.kind == .keyedPost,
      deadlines: caller.deadlines, decodesContent: caller.decodes, priority: caller.priority)
  }

  private func head(_ fields: [(name: String, value: String)], _ framing: RequestFraming) -> [UInt8] {
    var head: [UInt8] = []
    do throws(WireError) {
      try RequestEncoder.head(
        method: caller.method, target: "/\(number)", fields: fields, framing: framing, into: &head)
    } catch {
      simulation.fail("request \(number) cannot be written: \(error)")
    }
    return head
  }

  private func body() -> (RequestBody, RequestFraming) {
    let length = caller.bodyLength
    func stream(_ range: Range<Int>, length: Int64?, isReplayable: Bool) -> StreamBody {
      let maker = LoopConfined(self)
      return StreamBody(length: length, isReplayable: isReplayable) { channel in
        maker.onLoop.produce(range, into: channel)
      }
    }
    func bytes(_ range: Range<Int>) -> [UInt8] { Material.bytes(number, range, .request) }
    switch caller.kind {
    case .get, .head, .delete: return (.none, .none)
    case .post, .keyedPost, .expecting: return (.bytes(bytes(0..<length)), .length(Int64(length)))
    case .stream:
      return (
        .stream(stream(0..<length, length: Int64(length), isReplayable: true)), .length(Int64(length))
      )
    case .chunks: return (.stream(stream(0..<length, length: nil, isReplayable: false)), .chunked)
    case .segments:
      let cut = length / 3
      let rest = stream(cut..<length, length: Int64(length - cut), isReplayable: false)
      return (
        .segments([.bytes(bytes(0..<cut)), .stream(rest)], length: Int64(length)), .length(Int64(length))
      )
    }
  }

  /// Writes the next chunk of a body, now and then late.
  private func produce(_ range: Range<Int>, into channel: BodyChannel) {
    let size = min(range.count, simulation.numbers.within(1...8000))
    if range.isEmpty {
      channel.finish()
    } else if caller.producerFails, simulation.numbers.chance(30) {
      channel.fail(ProducerFailure())
    } else {
      let piece = range.prefix(size)
      let rest = range.dropFirst(size)
      let maker = LoopConfined(self)
      let wait = simulation.numbers.chance(70) ? 0 : Int64(simulation.numbers.mostlySmall(300)) * 1_000_000
      channel.write(Material.bytes(number, piece, .request)) { isWanted in
        guard isWanted else { return }
        let exchange = maker.onLoop
        if wait == 0 { return exchange.produce(rest, into: channel) }
        exchange.simulation.after(wait) { exchange.produce(rest, into: channel) }
      }
    }
  }

  private struct ProducerFailure: Error {}

  func leave() {
    transfer = nil
    next = nil
  }

  // MARK: What the engine reports

  private func check(_ isRight: Bool, _ what: @autoclosure () -> String) {
    if !isRight { simulation.fail("request \(number): \(what())") }
  }

  func transfer(_ transfer: Transfer, didReceiveInformational head: ResponseHead) {
    simulation.note(.informational, number, head.status)
    check(!hasEnded && status == nil, "an interim response out of place")
  }

  func transfer(_ transfer: Transfer, didReceive head: ResponseHead, framing: BodyFraming) {
    simulation.note(.head, number, head.status)
    check(!hasEnded && status == nil, "two heads")
    check(head.fields.first(named: "X-Number") == "\(number)", "the head of another response")
    check(head.status == promise?.status, "status \(head.status) instead of \(String(describing: promise))")
    status = head.status
    if caller.discards { transfer.discard() }
  }

  func transfer(_ transfer: Transfer, didReceiveBody bytes: Span<UInt8>) {
    simulation.note(.body, number, bytes.count)
    check(!hasEnded && status != nil && !caller.discards, "a body out of place")
    let gzip = isGzipPassed
    for index in bytes.indices where !gzip {
      guard bytes[index] == Material.byte(number, received + index, .response) else {
        check(false, "byte \(received + index) of its body is not its own")
        break
      }
    }
    received += bytes.count
    if transfer.isPaused {
      sincePause += bytes.count
      check(sincePause <= LoopContext.readBufferSize, "\(sincePause) bytes after a pause")
    } else if simulation.numbers.chance(caller.pauses) {
      pause(transfer)
    }
  }

  /// The body passes as it came, coded.
  private var isGzipPassed: Bool { promise?.bodyLength == -1 }

  private func pause(_ transfer: Transfer) {
    sincePause = 0
    simulation.note(.pause, number, 0)
    simulation.totals.pauses += 1
    transfer.pause()
    simulation.after(Int64(simulation.numbers.mostlySmall(2000)) * 1_000_000) { [unowned self] in
      guard !hasEnded else { return }
      simulation.note(.resume, number, 0)
      simulation.engine.later { [unowned self] in self.transfer?.resume() }
    }
  }

  func transfer(_ transfer: Transfer, didReceiveTrailers trailers: FieldSection) {
    simulation.note(.trailers, number, trailers.count)
    check(!hasEnded && status != nil, "trailers out of place")
  }

  func transfer(_ transfer: Transfer, didSendBodyBytes count: Int) {
    check(!hasEnded, "sent after its end")
  }

  func transfer(_ transfer: Transfer, didEndWith failure: TransferFailure?) {
    check(!hasEnded, "completed twice")
    hasEnded = true
    // Timers may be late by the turn that is under way.
    let lasted = simulation.now.nanoseconds(since: startedAt)
    check(caller.deadlines.total.map { lasted <= $0 + 1_000_000 } ?? true, "it ended after its time was over")
    simulation.ended(self, failure, transfer.metrics)
    if let failure { judge(failure, transfer.metrics) } else { judgeSuccess() }
    guard let next else { return }
    if next.caller.pause == 0 { return next.start() }
    simulation.after(next.caller.pause) { next.start() }
  }

  // MARK: Whether it should have ended so

  private func judgeSuccess() {
    check(status != nil, "ended well without a status")
    guard let promise, !caller.discards, caller.kind != .head else { return }
    if promise.endsWithConnection {
      check(promise.bodyLength < 0 || received <= promise.bodyLength, "\(received) bytes of \(promise.bodyLength)")
      return
    }
    check(promise.isWhole, "ended well, but its response did not")
    check(promise.bodyLength < 0 || received == promise.bodyLength, "\(received) bytes of \(promise.bodyLength)")
  }

  private func judge(_ failure: TransferFailure, _ metrics: TransferMetrics) {
    check(simulation.settings.faults > 0, "failed where nothing goes wrong: \(failure)")
    switch failure.error {
    case .cancelled: check(isCancelled, "cancelled by nobody")
    case .io, .closedBeforeResponse:
      let isSilent = metrics.responseBytes == 0 && status == nil
      let mayRepeat =
        caller.isRepeatable && metrics.reusedConnection && metrics.retries + 1 < RetryRule.maximumAttempts
      check(!(isSilent && mayRepeat), "not sent again although its connection had only died of age: \(failure)")
    case .bodyProducer: check(caller.producerFails, "its body was whole")
    case .tooManyWaiters, .unsolicitedBytes, .wire, .content, .resolve, .connect, .deadline, .bodyDeadline: break
    default: check(false, "of this there was no question: \(failure)")
    }
  }
}
