internal import LupineBase
internal import LupineEngine
internal import LupineIO
internal import LupineRules

/// The server's side of one connection of a simulation: reads requests, answers them in pieces, and breaks what the seed has it break.
final class SimulatedServer {
  unowned let simulation: Simulation
  let identifier: Int
  let host: Int
  let end: FarEnd
  private(set) var isEstablished = false
  private(set) var isOver = false

  private var reader = RequestReader()
  private var isReading = true
  private var unsent: [UInt8] = []
  /// The request under way, and how much of its body has come.
  private var request: RequestReader.Head?
  private var bodyBytes = 0
  private var requestIsComplete = true
  private var answerIsPlanned = false
  /// The answer under way: nil before the first, and once one has been sent.
  private var answer: SimulatedAnswer?
  private var answerIsWritten = false
  /// Nobody may send another request here, and why.
  private var poison: String?
  /// The next request finds a server that has just gone.
  private var diesOnNextRequest = false
  private(set) var served = 0

  init(_ simulation: Simulation, identifier: Int, host: Int, end: FarEnd) {
    self.simulation = simulation
    self.identifier = identifier
    self.host = host
    self.end = end
  }

  private var faults: Int { simulation.settings.faults }

  // MARK: Connecting

  func accept() {
    guard !isOver, !isEstablished else { return }
    simulation.note(.accept, identifier, host)
    end.accept()
    isEstablished = true
    // A server that speaks, or leaves, before it was asked.
    if simulation.numbers.chance(faults / 10) {
      after(Int64(simulation.numbers.mostlySmall(500)) * 1_000_000) { server in
        guard server.request == nil else { return }
        if server.simulation.numbers.chance(50) { server.close() } else { server.spoil() }
      }
    }
  }

  func refuse() {
    simulation.note(.refuse, identifier, host)
    close()
  }

  private func after(_ nanoseconds: Int64, _ body: @escaping (SimulatedServer) -> Void) {
    simulation.after(nanoseconds) { [unowned self] in
      if !isOver { body(self) }
    }
  }

  // MARK: Each step

  /// Sends and reads what can be; whether the client may have something to do now.
  func serve() -> Bool {
    guard isEstablished, !isOver else {
      if !isOver, end.isHungUp { leave() }
      return false
    }
    var moved = flush()
    guard isReading else {
      if end.isHungUp { leave() }
      return moved
    }
    var events: [RequestReader.Event] = []
    end.receive { bytes in
      moved = true
      reader.read(bytes) { events.append($0) }
    }
    for event in events where !isOver { handle(event) }
    if end.clientIsGone, !isOver { leave() }
    return moved
  }

  private func flush() -> Bool {
    guard !unsent.isEmpty else { return false }
    let count = end.send(unsent.span)
    unsent.removeFirst(count)
    if unsent.isEmpty, answerIsWritten { answerSent() }
    return count > 0
  }

  private func leave() {
    simulation.note(.gone, identifier, 0)
    isOver = true
    end.close()
  }

  func close() {
    guard !isOver else { return }
    simulation.note(.close, identifier, unsent.count)
    isOver = true
    end.close()
  }

  /// Sends what looks like a response, which nobody asked for.
  private func spoil() {
    guard !end.isHalfClosed else { return }
    simulation.note(.surplus, identifier, 0)
    simulation.totals.surplus += 1
    poison = "bytes that nobody asked for"
    unsent += Array("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nEVIL!".utf8)
    _ = flush()
  }

  // MARK: Requests

  private func handle(_ event: RequestReader.Event) {
    switch event {
    case .malformed(let text): simulation.fail("connection \(identifier): no request: \(text)")
    case .head(let head): begin(head)
    case .body(let bytes):
      guard let request else { return }
      simulation.note(.upload, request.number, bytes.count)
      let own = Material.bytes(request.number, bodyBytes..<bodyBytes + bytes.count, .request)
      guard bytes == own else {
        let index = zip(bytes, own).prefix { $0 == $1 }.count
        return simulation.fail("request \(request.number): byte \(bodyBytes + index) of its upload is not its own")
      }
      bodyBytes += bytes.count
    case .end:
      requestIsComplete = true
      guard let request, request.hasBody else { return }
      simulation.note(.uploaded, request.number, bodyBytes)
      if !answerIsPlanned { plan(request) }
    }
  }

  private func begin(_ head: RequestReader.Head) {
    simulation.note(.request, identifier, head.number)
    guard let exchange = simulation.exchange(head.number) else { return }
    exchange.sightings += 1
    if let poison { simulation.fail("request \(head.number) was sent on connection \(identifier) after \(poison)") }
    if !requestIsComplete || answer != nil {
      simulation.fail("request \(head.number) was sent on connection \(identifier) before the exchange on it was over")
    }
    if head.method != exchange.caller.method || host != exchange.caller.host {
      simulation.fail("request \(head.number) came as \(head.method) to host \(host)")
    }
    let mayCome = exchange.caller.isRepeatable ? RetryRule.maximumAttempts : 1
    if exchange.sightings > mayCome + exchange.refusals {
      simulation.fail("\(head.method) \(head.number) was sent \(exchange.sightings) times")
    }
    served += 1
    if served > simulation.settings.limits.uses {
      simulation.fail("connection \(identifier) served \(served) requests")
    }
    request = head
    bodyBytes = 0
    requestIsComplete = !head.hasBody
    answerIsPlanned = false
    // Who has hung up asked before, and may have been answered elsewhere.
    guard !end.isHungUp else { return }
    guard !diesOnNextRequest else {
      simulation.totals.resets += 1
      return close()
    }
    if head.hasBody, simulation.numbers.chance(faults / 3) { stopReading() }
    if head.expectsContinue { return expect(head) }
    if !head.hasBody || simulation.numbers.chance(faults / 5) { plan(head) }
  }

  private func stopReading() {
    isReading = false
    guard simulation.numbers.chance(80) else { return }
    after(Int64(simulation.numbers.mostlySmall(4000)) * 1_000_000) { $0.isReading = true }
  }

  private func expect(_ head: RequestReader.Head) {
    switch simulation.numbers.below(faults == 0 ? 6 : 10) {
    case 0...2: after(delay()) { $0.write(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)) }
    // The client does not wait for ever.
    case 3, 4: break
    case 5:
      simulation.exchange(head.number)?.refusals += 1
      plan(head, status: 417)
    default: plan(head, status: [401, 413, 200][simulation.numbers.below(3)])
    }
  }

  // MARK: Answers

  private func delay() -> Int64 {
    Int64(simulation.numbers.mostlySmall(simulation.settings.latency)) * 1_000_000
  }

  private func plan(_ head: RequestReader.Head, status: Int? = nil) {
    guard let exchange = simulation.exchange(head.number) else { return }
    answerIsPlanned = true
    let answer = SimulatedAnswer(&simulation.numbers, simulation.settings, exchange.caller, head, status: status)
    self.answer = answer
    answerIsWritten = false
    exchange.promise = answer.promise
    if let reason = answer.poison { poison = reason }
    var wait = delay()
    if answer.isLate { wait += Int64(simulation.numbers.within(500...8000)) * 1_000_000 }
    guard !answer.isSilent else { return }
    var start = 0
    for (index, cut) in answer.cuts.enumerated() {
      let piece = Array(answer.bytes[start..<cut])
      let isLast = index + 1 == answer.cuts.count
      after(wait) { server in
        server.answerIsWritten = isLast
        server.write(piece)
      }
      wait += delay()
      start = cut
    }
  }

  private func write(_ bytes: [UInt8]) {
    guard !end.isHalfClosed else { return }
    simulation.note(.send, identifier, bytes.count)
    unsent += bytes
    if !flush(), unsent.isEmpty, answerIsWritten { answerSent() }
  }

  /// The network has the whole answer, or what there is of it.
  private func answerSent() {
    guard let answer, let request else { return }
    answerIsWritten = false
    simulation.note(.sent, identifier, request.number)
    if !answer.isBroken, let exchange = simulation.exchange(request.number), !end.isHungUp {
      exchange.promise?.isWhole = true
    }
    self.answer = answer.isBroken ? answer : nil
    switch answer.ending {
    case .stays: break
    case .closes: close()
    case .halfCloses:
      simulation.note(.halfClose, identifier, 0)
      end.halfClose()
    case .resets:
      // To close with bytes unread resets; a client that sends nothing more is not reset.
      simulation.note(.reset, identifier, 0)
      simulation.totals.resets += 1
      isReading = false
      after(delay()) { $0.close() }
    case .closesWhenIdle(let wait):
      let served = served
      after(wait) { server in
        if server.served == served { server.close() }
      }
    case .spoilsWhenIdle(let wait):
      let served = served
      after(wait) { server in
        // Only who reads knows that no request is on its way.
        if server.served == served, server.requestIsComplete, server.isReading { server.spoil() }
      }
    case .diesOnNextRequest: diesOnNextRequest = true
    }
  }
}
