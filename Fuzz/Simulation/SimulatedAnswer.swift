internal import LupineBase

/// A response as a server will send it, with what is wrong with it, and what the server does afterwards.
struct SimulatedAnswer {
  enum Ending {
    case stays, closes, halfCloses, resets, diesOnNextRequest
    case closesWhenIdle(Int64)
    case spoilsWhenIdle(Int64)
  }

  private enum Framing { case length, chunks, untilClose, none }
  private enum Fault { case none, cut, malformed, surplus }

  private(set) var bytes: [UInt8] = []
  /// Where it is cut into pieces that are sent one after another; the last is its end.
  private(set) var cuts: [Int] = []
  private(set) var promise = SimulatedExchange.Promise()
  private(set) var ending = Ending.stays
  /// It never ends as a response should.
  private(set) var isBroken = false
  private(set) var isLate = false
  private(set) var isSilent = false
  /// No other request may follow on its connection, and why.
  private(set) var poison: String?
  private var lastCut: Int?

  init(
    _ numbers: inout SeededNumbers, _ settings: SimulationSettings, _ caller: SimulatedCaller,
    _ request: RequestReader.Head, status: Int?
  ) {
    let faults = settings.faults
    let status = status ?? [200, 200, 200, 200, 201, 204, 304, 404, 503][numbers.below(9)]
    var framing: Framing = [.length, .length, .length, .chunks, .chunks, .untilClose][numbers.below(6)]
    if request.method == "HEAD" || status == 204 || status == 304 { framing = .none }
    let body = Material.bytes(request.number, 0..<numbers.mostlySmall(settings.longestBody), .response)
    let isCoded = framing != .none && numbers.chance(15)
    let sent = framing == .none ? [] : isCoded ? Material.gzip(body) : body
    promise.status = status
    promise.bodyLength = isCoded && !caller.decodes ? -1 : framing == .none ? 0 : body.count
    promise.endsWithConnection = framing == .untilClose

    let isMalformed = numbers.chance(faults / 6)
    if isMalformed {
      isBroken = true
      poison = "a response that is none"
    }
    for _ in 0..<(numbers.chance(10) ? numbers.within(1...2) : 0) {
      text("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
    }
    let isOld = framing == .length && numbers.chance(5)
    text(isMalformed && numbers.chance(50) ? "HTTP/1.1 2x0 OK\r\n" : "HTTP/1.\(isOld ? 0 : 1) \(status) \r\n")
    text("X-Number: \(request.number)\r\n")
    let saysClose = numbers.chance(8)
    if saysClose { text("Connection: close\r\n") }
    if isCoded { text("Content-Encoding: gzip\r\n") }
    if isMalformed { text("Content-Length: 1\r\nContent-Length: 2\r\n") }
    switch framing {
    case .none: text(request.method == "HEAD" ? "Content-Length: 77\r\n\r\n" : "\r\n")
    case .length:
      if !isMalformed { text("Content-Length: \(sent.count)\r\n") }
      text("\r\n")
      bytes += sent
    case .chunks:
      text("Transfer-Encoding: chunked\r\n\r\n")
      chunk(sent, &numbers)
    case .untilClose:
      text("\r\n")
      bytes += sent
    }
    if framing == .untilClose { poison = "a body that ends with the connection" }
    if saysClose || isOld { poison = "a response that ends the connection" }
    decideEnding(framing, &numbers, faults)
    cut(&numbers)
  }

  private mutating func text(_ line: String) { bytes += Array(line.utf8) }

  private mutating func chunk(_ body: [UInt8], _ numbers: inout SeededNumbers) {
    var rest = body[...]
    while !rest.isEmpty {
      let piece = rest.prefix(numbers.within(1...max(1, body.count)))
      text("\(String(piece.count, radix: 16))\r\n")
      bytes += piece
      text("\r\n")
      rest = rest.dropFirst(piece.count)
    }
    text(numbers.chance(20) ? "0\r\nX-Trailer: 1\r\n\r\n" : "0\r\n\r\n")
  }

  private mutating func decideEnding(_ framing: Framing, _ numbers: inout SeededNumbers, _ faults: Int) {
    isLate = numbers.chance(faults / 5)
    isSilent = numbers.chance(faults / 10)
    let wait = Int64(numbers.mostlySmall(3000)) * 1_000_000
    if isBroken || isSilent {
      ending = [.stays, .closes, .halfCloses][numbers.below(3)]
    } else if framing != .none, numbers.chance(faults / 3) {
      truncate(framing, &numbers)
    } else if framing == .untilClose {
      ending = numbers.chance(50) ? .closes : .halfCloses
    } else if numbers.chance(faults / 3) {
      surplus(&numbers)
    } else if poison != nil {
      ending = numbers.chance(50) ? .closes : .stays
    } else if numbers.chance(3 + faults / 2) {
      ending =
        [.closesWhenIdle(wait), .diesOnNextRequest, .spoilsWhenIdle(wait), .closes][
          numbers.below(faults == 0 ? 1 : 4)]
    }
  }

  /// Something of the end is missing.
  private mutating func truncate(_ framing: Framing, _ numbers: inout SeededNumbers) {
    bytes.removeLast(1 + numbers.mostlySmall(bytes.count - 1))
    isBroken = true
    poison = "a response that was cut off"
    ending = [.closes, .halfCloses, .resets, .stays][numbers.below(4)]
  }

  /// A second response follows the first.
  private mutating func surplus(_ numbers: inout SeededNumbers) {
    // Both come together: were there a while between, the next request could be on its way, and nobody could tell them apart.
    lastCut = bytes.count - 1
    text("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nEVIL!")
    poison = "more than the response"
    ending = numbers.chance(70) ? .stays : .closes
  }

  private mutating func cut(_ numbers: inout SeededNumbers) {
    var places: Set<Int> = [bytes.count]
    let limit = lastCut ?? bytes.count - 1
    for _ in 0..<numbers.mostlySmall(6) where limit > 0 { places.insert(numbers.within(1...limit)) }
    cuts = places.sorted()
  }
}
