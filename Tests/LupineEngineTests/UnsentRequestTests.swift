import LupineIO
import LupineSimulation
import LupineTLS
import LupineWire
import Testing

@testable import LupineEngine

/// A server that does not take what it is sent: nothing counts as sent that waits here, with TLS as without.
@Suite(.timeLimit(.minutes(1))) struct UnsentRequestTests {
  private static let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
  /// More than a socket keeps for its peer.
  private static let longTarget = "/" + String(repeating: "a", count: 1 << 20)

  /// A connection that has been used once and is idle, in the clear or with TLS.
  private final class Client {
    let drive: Drive
    private let secure: SecureDrive?

    init(isSecure: Bool) throws {
      secure = isSecure ? try SecureDrive { _ in } : nil
      drive = try secure?.drive ?? Drive()
      if !isSecure {
        drive.start(try LupineEngineTests.request(host: "h", port: 80))
        drive.settle()
        #expect(drive.received(0).hasPrefix("GET / "))
      }
      try answer()
      #expect(drive.outcomes.map(\.status) == [200])
    }

    /// The server answers, whatever it has read.
    func answer() throws {
      if let secure {
        try secure.server.send(Array(UnsentRequestTests.answer.utf8).span)
        secure.deliver(secure.takeOutput()[...])
      } else {
        drive.send(0, UnsentRequestTests.answer)
      }
      drive.settle()
    }

    func request(
      _ method: String, _ deadlines: Deadlines = Deadlines(), body: RequestBody = .none, target: String = "/"
    ) throws -> TransferRequest {
      if let secure { return try secure.transferRequest(method, deadlines, body: body, target: target) }
      let framing: RequestFraming = if case .none = body { .none } else { .chunked }
      let made = try LupineEngineTests.request(
        host: "h", port: 80, method: method, framing: framing, body: body, target: target)
      return TransferRequest(
        key: made.key, method: method, head: made.head, context: RequestContext(), body: body, deadlines: deadlines)
    }

    func end() {
      for server in drive.servers { server.close() }
      drive.settle()
      drive.end()
    }
  }

  /// Counts what it is told was sent.
  private final class Sent: TransferHandler {
    private(set) var bytes = 0

    func transfer(_ transfer: Transfer, didReceiveInformational head: ResponseHead) {}
    func transfer(_ transfer: Transfer, didReceive head: ResponseHead, framing: BodyFraming) {}
    func transfer(_ transfer: Transfer, didReceiveBody bytes: Span<UInt8>) {}
    func transfer(_ transfer: Transfer, didReceiveTrailers trailers: FieldSection) {}
    func transfer(_ transfer: Transfer, didSendBodyBytes count: Int) { bytes += count }
    func transfer(_ transfer: Transfer, didEndWith failure: TransferFailure?) {}
  }

  /// The server answers before it has read the request: the rest of that would stand before the next one.
  @Test(arguments: [false, true]) func anEarlyAnswer(isSecure: Bool) throws {
    let client = try Client(isSecure: isSecure)
    client.drive.start(try client.request("GET", target: Self.longTarget))
    client.drive.settle()
    #expect(client.drive.outcomes.count == 1)
    try client.answer()
    #expect(client.drive.outcomes.map(\.status) == [200, 200])
    #expect(client.drive.servers.count == 1 && client.drive.servers[0].isHungUp)
    client.end()
  }

  /// The time for sending a request is over when its last byte is still here.
  @Test(arguments: [false, true]) func theTimeForSending(isSecure: Bool) throws {
    let client = try Client(isSecure: isSecure)
    var deadlines = Deadlines()
    deadlines.send = 100_000_000
    let transfer = client.drive.start(try client.request("GET", deadlines, target: Self.longTarget))
    client.drive.settle()
    #expect(transfer.record.sendStart != nil && transfer.record.sendEnd == nil)
    client.drive.pass(milliseconds: 100)
    guard case .deadline(.send)? = client.drive.outcomes.last?.failure?.error else {
      Issue.record("\(client.drive.outcomes)")
      return
    }
    client.end()
  }

  /// When the server has taken it after all, it has been sent, and the connection may be used again.
  @Test func takenAfterAll() throws {
    let client = try Client(isSecure: false)
    let transfer = client.drive.start(try client.request("GET", target: Self.longTarget))
    client.drive.settle()
    #expect(transfer.record.sendEnd == nil)
    var taken = 0
    while taken <= Self.longTarget.utf8.count, case let count = client.drive.receive(0).count, count > 0 {
      taken += count
      client.drive.settle()
    }
    #expect(taken > Self.longTarget.utf8.count && transfer.record.sendEnd != nil)
    try client.answer()
    #expect(client.drive.outcomes.map(\.status) == [200, 200] && !client.drive.servers[0].isHungUp)
    client.end()
  }

  /// A head that waits here is what went wrong, whoever says so.
  @Test(arguments: [false, true]) func theServerHangsUp(isSecure: Bool) throws {
    let client = try Client(isSecure: isSecure)
    client.drive.start(try client.request("POST", target: Self.longTarget))
    client.drive.settle()
    client.drive.servers[0].close()
    client.drive.settle()
    client.drive.pass(milliseconds: 1000)
    #expect(client.drive.outcomes.last?.failure?.phase == .send, "\(client.drive.outcomes)")
    client.end()
  }

  /// Nothing goes out of a chunk that is longer than the body: what fits would be a complete request.
  @Test func aChunkThatIsTooLong() throws {
    let (length, count) = (BodyChannel.pieceSize, 4 * BodyChannel.pieceSize)
    let body = RequestBody.stream(
      StreamBody(length: Int64(length), isReplayable: false) { channel in
        channel.write([UInt8](repeating: 1, count: count)) { _ in }
        channel.finish()
      })
    let drive = try Drive()
    drive.start(try request(host: "h", port: 80, method: "PUT", framing: .length(Int64(length)), body: body))
    drive.settle()
    guard case .bodyLength(let expected, let actual)? = drive.outcomes.last?.failure?.error else {
      Issue.record("\(drive.outcomes)")
      return
    }
    #expect(expected == Int64(length) && actual == Int64(count))
    #expect(drive.received(0).hasSuffix("\r\n\r\n"))
    drive.end()
  }

  /// One chunk of a producer that is larger than what a turn may send: who has others to serve takes it in pieces.
  @Test(arguments: [false, true]) func aLargeChunk(isSecure: Bool) throws {
    let client = try Client(isSecure: isSecure)
    let body = RequestBody.stream(
      StreamBody(length: nil, isReplayable: false) { channel in
        channel.write([UInt8](repeating: 1, count: 16 << 20)) { _ in }
        channel.finish()
      })
    let sent = Sent()
    let transfer = Transfer(
      try client.request("PUT", body: body), handler: sent, createdAt: client.drive.engine.context.now)
    client.drive.engine.start(transfer, in: client.drive.pool)
    client.drive.settle()
    #expect(sent.bytes > 0 && sent.bytes <= 4 * BodyChannel.pieceSize, "\(sent.bytes)")
    client.end()
  }
}
