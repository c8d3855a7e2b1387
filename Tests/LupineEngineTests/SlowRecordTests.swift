import LupineEngine
import LupineTLS
import LupineTesting
import Testing

/// What arrives over TLS moves before it can be read: a record is read when it is complete.
@Suite(.timeLimit(.minutes(1))) struct SlowRecordTests {
  private static let second: Int64 = 1_000_000_000

  /// 16 KiB that take 40 s: nothing of the response can be read for so long, and something moves all the time.
  @Test func aRecordThatTakesLongerThanTheIdleLimitArrives() throws {
    let secure = try SecureDrive { $0.idle = 5 * Self.second }
    let body = PatternBody.bytes(16_000)
    try secure.server.send((Array("HTTP/1.1 200 OK\r\nContent-Length: 16000\r\n\r\n".utf8) + body).span)
    let record = secure.takeOutput()
    #expect(record.count > 16_000)
    let size = record.count / 10 + 1
    for start in stride(from: 0, to: record.count, by: size) {
      #expect(secure.drive.outcomes.isEmpty)
      secure.pass(4 * Self.second)
      secure.deliver(record[start..<min(record.count, start + size)])
      secure.drive.settle()
    }
    #expect(secure.drive.outcomes.first?.failure == nil)
    #expect(secure.drive.outcomes.first?.body == body)
    secure.drive.end()
  }

  /// The limit counts from the last byte that came.
  @Test func aRecordThatStopsRunsIntoTheIdleLimit() throws {
    let secure = try SecureDrive { $0.idle = 5 * Self.second }
    try secure.server.send([UInt8](repeating: 0, count: 16_000).span)
    let record = secure.takeOutput()
    secure.pass(4 * Self.second)
    secure.deliver(record[..<1000])
    secure.drive.settle()
    secure.pass(5 * Self.second - 1)
    #expect(secure.drive.outcomes.isEmpty)
    secure.pass(1)
    guard case .deadline? = secure.drive.outcomes.first?.failure?.error else {
      Issue.record("\(secure.drive.outcomes)")
      return
    }
    secure.drive.end()
  }

  /// What the server says of TLS after the handshake is nothing of its response.
  @Test func sessionTicketsAreNoFirstByte() throws {
    let secure = try SecureDrive { $0.firstByte = 5 * Self.second }
    let tickets = secure.takeOutput()
    #expect(!tickets.isEmpty)
    secure.pass(4 * Self.second)
    secure.deliver(tickets[...])
    secure.drive.settle()
    #expect(secure.drive.outcomes.isEmpty)
    secure.pass(Self.second)
    guard case .deadline(.firstByte)? = secure.drive.outcomes.first?.failure?.error else {
      Issue.record("\(secure.drive.outcomes)")
      return
    }
    secure.drive.end()
  }
}
