import LupineBase
import LupineEngine
import LupineIO
import LupineSimulation
import LupineWire
import Testing

/// What a request that the engine itself sends again has of its first attempt: its place, and a body that nobody asked for yet.
@Suite(.timeLimit(.minutes(1))) struct RepetitionTests {
  private static let empty = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

  /// A request with a body that can be had once only; `begun` counts how often it was asked for.
  private func once(
    method: String, _ begun: Locked<Int>, expectsContinue: Bool = false, behind bytes: [UInt8] = []
  ) throws -> TransferRequest {
    let stream = StreamBody(length: 3, isReplayable: false) { channel in
      begun.withLock { $0 += 1 }
      channel.write([1, 2, 3]) { _ in channel.finish() }
    }
    let length = Int64(bytes.count + 3)
    let plain = try request(
      host: "h", port: 80, method: method, framing: .length(length),
      body: bytes.isEmpty ? .stream(stream) : .segments([.bytes(bytes), .stream(stream)], length: length))
    guard expectsContinue else { return plain }
    let head = plain.head.dropLast(2) + Array("Expect: 100-continue\r\n\r\n".utf8)
    return TransferRequest(
      key: plain.key, method: method, head: Array(head), headWithoutExpectation: plain.head, context: RequestContext(),
      body: plain.body)
  }

  /// Makes a connection that has served.
  private func serve(_ drive: Drive) throws {
    drive.start(try request(host: "h", port: 80))
    drive.settle()
    _ = drive.receive(0)
    drive.send(0, Self.empty)
    drive.settle()
    #expect(drive.outcomes.count == 1)
  }

  /// The body was held back when the connection died: there is still one.
  @Test func aBodyThatWasHeldBackIsNotSpent() throws {
    let drive = try Drive()
    try serve(drive)
    let begun = Locked(0)
    drive.start(try once(method: "PUT", begun, expectsContinue: true))
    drive.settle()
    #expect(drive.received(0).hasPrefix("PUT /"))
    drive.servers[0].close()
    drive.settle()
    try #require(drive.servers.count == 2)
    #expect(drive.received(1).hasPrefix("PUT /"))
    drive.send(1, "HTTP/1.1 100 Continue\r\n\r\n")
    drive.settle()
    #expect(drive.receive(1) == [1, 2, 3])
    drive.send(1, Self.empty)
    drive.settle()
    #expect(drive.outcomes.last?.failure == nil && drive.outcomes.last?.status == 200)
    #expect(begun.withLock { $0 } == 1)
    drive.end()
  }

  /// Whoever reads nothing does not see the answer: the time to wait for one stands still, and the body stays where it is.
  @Test(arguments: [417, 401]) func aBodyIsHeldBackWhileNobodyReads(_ status: Int) throws {
    let drive = try Drive()
    let begun = Locked(0)
    let transfer = drive.start(try once(method: "PUT", begun, expectsContinue: true))
    drive.settle()
    #expect(drive.received(0).hasPrefix("PUT /"))
    transfer.pause()
    drive.send(0, "HTTP/1.1 \(status) No\r\nContent-Length: 0\r\n\r\n")
    drive.engine.world.now = drive.engine.world.now.advanced(byNanoseconds: 5_000_000_000)
    drive.settle()
    #expect(begun.withLock { $0 } == 0 && drive.received(0) == "")
    transfer.resume()
    drive.settle()
    guard status == 417 else {
      #expect(begun.withLock { $0 } == 0 && drive.outcomes.last?.status == 401)
      return drive.end()
    }
    // Without the expectation the body goes at once.
    let last = drive.servers.count - 1
    let again = drive.received(last)
    #expect(again.hasPrefix("PUT /") && !again.contains("Expect:") && begun.withLock { $0 } == 1)
    drive.send(last, Self.empty)
    drive.settle()
    #expect(drive.outcomes.last?.failure == nil && drive.outcomes.last?.status == 200)
    drive.end()
  }

  /// Once somebody was asked for it, it is.
  @Test(arguments: [[], [UInt8](repeating: 0, count: 9)]) func aBodyThatHasBegunIsSpent(_ bytes: [UInt8]) throws {
    let drive = try Drive()
    try serve(drive)
    let begun = Locked(0)
    drive.start(try once(method: "PUT", begun, behind: bytes))
    drive.settle()
    #expect(drive.received(0).hasPrefix("PUT /"))
    drive.servers[0].close()
    drive.settle()
    #expect(drive.servers.count == 1)
    guard case .closedBeforeResponse? = drive.outcomes.last?.failure?.error else {
      Issue.record("\(drive.outcomes)")
      return
    }
    #expect(begun.withLock { $0 } == 1)
    drive.end()
  }

  /// Whoever was admitted once is not turned away because others wait by now.
  @Test func aRepetitionIsNotRefusedAPlace() throws {
    var configuration = PoolConfiguration()
    configuration.limits.perHost = 1
    configuration.limits.waiters = 1
    let drive = try Drive(configuration)
    try serve(drive)
    drive.start(try request(host: "h", port: 80, target: "/a"))
    drive.start(try request(host: "h", port: 80, target: "/b"))
    drive.settle()
    #expect(drive.received(0).hasPrefix("GET /a"))
    drive.servers[0].close()
    drive.settle()
    #expect(drive.outcomes.count == 1, "\(drive.outcomes)")
    try #require(drive.servers.count == 2)
    for target in ["/b", "/a"] {
      #expect(drive.received(1).hasPrefix("GET \(target)"))
      drive.send(1, Self.empty)
      drive.settle()
    }
    #expect(drive.outcomes.count == 3)
    #expect(drive.outcomes.allSatisfy { $0.failure == nil })
    drive.end()
  }

  /// An answer that was given up is no first byte of the next one.
  @Test func theFirstByteIsWaitedForAnew() throws {
    let drive = try Drive()
    let plain = try request(host: "h", port: 80, method: "POST", framing: .length(1), body: .bytes([1]))
    let head = plain.head.dropLast(2) + Array("Expect: 100-continue\r\n\r\n".utf8)
    var deadlines = Deadlines()
    deadlines.firstByte = 100_000_000
    drive.start(
      TransferRequest(
        key: plain.key, method: "POST", head: Array(head), headWithoutExpectation: plain.head,
        context: RequestContext(), body: plain.body, deadlines: deadlines))
    drive.settle()
    #expect(drive.received(0).hasPrefix("POST /"))
    drive.pass(milliseconds: 60)
    drive.send(0, "HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n")
    drive.settle()
    #expect(drive.received(drive.servers.count - 1).hasPrefix("POST /"))
    drive.pass(milliseconds: 99)
    #expect(drive.outcomes.isEmpty)
    drive.pass(milliseconds: 1)
    guard case .deadline(.firstByte)? = drive.outcomes.last?.failure?.error else {
      Issue.record("\(drive.outcomes)")
      return
    }
    drive.end()
  }

  /// That all was sent once says nothing of the second time.
  @Test func theTimeForSendingBeginsAnew() throws {
    let drive = try Drive()
    try serve(drive)
    let count = 1_000_000
    let plain = try request(
      host: "h", port: 80, method: "PUT", framing: .length(Int64(count)),
      body: .bytes([UInt8](repeating: 1, count: count)))
    var deadlines = Deadlines()
    deadlines.send = 100_000_000
    drive.start(
      TransferRequest(
        key: plain.key, method: "PUT", head: plain.head, context: RequestContext(), body: plain.body,
        deadlines: deadlines))
    drive.settle()
    var taken = 0
    while case let read = drive.receive(0).count, read > 0 {
      taken += read
      drive.settle()
    }
    #expect(taken > count)
    drive.servers[0].close()
    drive.settle()
    try #require(drive.servers.count == 2)
    drive.pass(milliseconds: 100)
    guard case .deadline(.send)? = drive.outcomes.last?.failure?.error else {
      Issue.record("\(drive.outcomes)")
      return
    }
    drive.end()
  }
}
